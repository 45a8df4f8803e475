"""The shared memory (LDS) of each workgroup: what is declared, and what was written.

An access outside of what the descriptor declares, an atomic one that is not aligned, and a read of
bytes that nobody wrote are findings.  Others may have any alignment: Linux sets the chips up so
(SH_MEM_CONFIG.ALIGNMENT_MODE), and LLVM makes use of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.amd.wave_state import Array, Waves
from tvm_iree_ext.emulator.findings import BOUNDS, MISALIGNED, UNINITIALISED
from tvm_iree_ext.emulator.memory import in_turns


class WorkgroupMemory:
    """Accesses of some waves to their workgroups' memory; addresses are [wave, lane]."""

    def __init__(self, waves: Waves) -> None:
        self._waves = waves
        self._stride = waves.lds.shape[1]
        self._contents = waves.lds.reshape(-1)

    def load(self, addresses: Array, element: Any, count: int, lanes: Array) -> Array:
        """[count, wave, lane] elements; noise for what is outside, and for other lanes."""
        kind = np.dtype(element)
        inside = self._inside(addresses, kind.itemsize * count, lanes)
        safe = np.where(inside, addresses, 0)
        self._written(safe, kind.itemsize * count, inside)
        places = self._places(safe)
        found = np.empty((count, *addresses.shape), kind)
        for number in range(count):
            found[number] = self._gathered(places + number * kind.itemsize, kind)
        return found

    def store(self, addresses: Array, values: Array, lanes: Array) -> None:
        """Write [count, wave, lane] elements."""
        kind, count = values.dtype, len(values)
        inside = self._inside(addresses, kind.itemsize * count, lanes)
        places = self._places(addresses)[inside]
        group = np.broadcast_to(self._waves.group[:, None], addresses.shape)[inside]
        own = addresses[inside]
        for number in range(count):
            at = places + number * kind.itemsize
            if not (at & (kind.itemsize - 1)).any():
                whole = self._contents[: self._contents.size // kind.itemsize * kind.itemsize]
                whole.view(kind)[at // kind.itemsize] = values[number][inside]
            else:
                bytes_ = np.ascontiguousarray(values[number][inside]).view(np.uint8)
                for byte in range(kind.itemsize):
                    self._contents[at + byte] = bytes_[byte :: kind.itemsize]
        for byte in range(kind.itemsize * count):
            self._waves.lds_written[group, own + byte] = True

    def update(
        self,
        addresses: Array,
        change: Callable[[Array, Array], Array],
        operands: Array,
        lanes: Array,
    ) -> Array:
        """Atomically change elements; what was there, and noise for other lanes."""
        kind = operands.dtype
        inside = self._inside(addresses, kind.itemsize, lanes)
        self._written(np.where(inside, addresses, 0), kind.itemsize, inside)
        inside = inside & (addresses % kind.itemsize == 0)
        found = np.full(addresses.shape, 0xA5A5A5A5, kind)
        if inside.any():
            whole = self._contents[: self._contents.size // kind.itemsize * kind.itemsize]
            places = self._places(addresses)[inside]
            found[inside] = in_turns(whole, places, change, operands[..., inside])
        return found

    def aligned(self, addresses: Array, alignment: int, lanes: Array) -> None:
        """A finding for addresses that are no multiple of an alignment."""
        wrong = lanes & ((addresses & (alignment - 1)) != 0)
        message = f"shared memory, no multiple of {alignment} bytes"
        self._waves.faults.add_lanes(MISALIGNED, message, self._waves.site(), wrong, addresses)

    def _places(self, addresses: Array) -> Array:
        return addresses + (self._waves.group * self._stride)[:, None]

    def _gathered(self, places: Array, kind: np.dtype) -> Array:
        size = kind.itemsize
        if not (places & (size - 1)).any():
            whole = self._contents[: self._contents.size // size * size]
            return whole.view(kind)[places // size]
        bytes_ = self._contents[places[..., None] + np.arange(size)]
        return np.ascontiguousarray(bytes_).view(kind)[..., 0]

    def _inside(self, addresses: Array, size: int, lanes: Array) -> Array:
        """The lanes whose access is within what the kernel declares; others are findings."""
        waves = self._waves
        fits = (addresses >= 0) & (addresses + size <= waves.lds_bytes)
        outside = lanes & ~fits
        if outside.any():
            message = f"{size} bytes of shared memory, of which {waves.lds_bytes} are declared"
            waves.faults.add_lanes(BOUNDS, message, waves.site(), outside, addresses)
        return lanes & fits

    def _written(self, addresses: Array, size: int, lanes: Array) -> None:
        """A finding for bytes that nobody wrote."""
        waves = self._waves
        if waves.lds_bytes < size:
            return
        group = waves.group[:, None]
        known = waves.lds_written[group, addresses]
        for byte in (size - 1,) if size <= 4 else range(3, size, 4):
            known = known & waves.lds_written[group, addresses + byte]
        unknown = lanes & ~known
        if unknown.any():
            message = "shared memory that nobody wrote is read"
            waves.faults.add_lanes(UNINITIALISED, message, waves.site(), unknown, addresses)
