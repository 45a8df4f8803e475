"""Memory as lanes see it: global, shared, of a lane, and of parameters; and generic addresses.

Source: PTX ISA 9.0, *State Spaces*, *Addresses as Operands*.  Generic addresses lie in windows: the
spaces' own for shared, local and parameter memory, and those of allocations for global memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BOUNDS, MISALIGNED
from tvm_iree_ext.emulator.memory import GlobalMemory
from tvm_iree_ext.emulator.ptx.machine.address_windows import (
    GLOBAL_WINDOW,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
)
from tvm_iree_ext.emulator.ptx.machine.lanes import WARP, Lanes
from tvm_iree_ext.emulator.ptx.machine.private_memory import Change, PrivateMemory


class MemorySpaces:
    """All memory that the warps of a strand reach."""

    def __init__(
        self,
        everywhere: GlobalMemory,
        shared: PrivateMemory,
        local: PrivateMemory,
        parameters: bytes,
    ) -> None:
        self.everywhere, self.shared, self.local = everywhere, shared, local
        padded = parameters + bytes(-len(parameters) % 16 + 16)
        self.parameters = np.frombuffer(bytearray(padded), np.uint8)
        self._parameter_bytes = len(parameters)

    def load(
        self, space: str, addresses: np.ndarray, kind: Any, count: int, lanes: Lanes
    ) -> np.ndarray:
        """``count`` elements from each lane's address on, [count, warps, 32]."""
        kind = np.dtype(kind)
        self.check_alignment(addresses, kind.itemsize * count, lanes)
        if space == "":
            return self._generic(
                addresses, lanes, (count, *lanes.shape), kind,
                lambda space, at, part: self.load(space, at, kind, count, part),
            )  # fmt: skip
        if space == "global":
            # Of loads that are neighbours ``NVRTC`` makes a vector, with a last element that is no
            # array's: it is in the same 16 bytes, and nobody looks at it.
            return self.everywhere.load(
                addresses, kind, count, lanes.mask, lanes.site, inside=kind.itemsize
            )
        if space == "param":
            return self._load_parameters(addresses, kind, count)
        memory, owners, offsets = self._private(space, addresses, lanes)
        return memory.load(owners, offsets, kind, count, lanes)

    def _load_parameters(self, addresses: np.ndarray, kind: np.dtype, count: int) -> np.ndarray:
        at = (addresses - np.uint64(PARAMETER_WINDOW)).astype(np.int64)
        at = np.clip(at, 0, len(self.parameters) - kind.itemsize * count) // kind.itemsize
        words = self.parameters.view(kind)
        return np.stack([words[at + number] for number in range(count)])

    def store(self, space: str, addresses: np.ndarray, values: np.ndarray, lanes: Lanes) -> None:
        """The inverse of :meth:`load`."""
        self.check_alignment(addresses, values.dtype.itemsize * len(values), lanes)
        if space == "":
            self._generic(
                addresses, lanes, None, None,
                lambda space, at, part: self.store(space, at, values, part),
            )  # fmt: skip
        elif space == "global":
            self.everywhere.store(addresses, values, lanes.mask, lanes.site)
        elif space == "param":
            lanes.found(BOUNDS, "a store into the parameters")
        else:
            memory, owners, offsets = self._private(space, addresses, lanes)
            memory.store(owners, offsets, values, lanes)

    def update(
        self, space: str, addresses: np.ndarray, change: Change, operands: np.ndarray, lanes: Lanes
    ) -> np.ndarray:
        """Atomically replace an element at each lane's address; what was there before."""
        self.check_alignment(addresses, operands.dtype.itemsize, lanes)
        if space == "":
            return self._generic(
                addresses, lanes, lanes.shape, operands.dtype,
                lambda space, at, part: self.update(space, at, change, operands, part),
            )  # fmt: skip
        if space == "global":
            return self.everywhere.update(addresses, change, operands, lanes.mask, lanes.site)
        memory, owners, offsets = self._private(space, addresses, lanes)
        return memory.update(owners, offsets, change, operands, lanes)

    def check_alignment(self, addresses: np.ndarray, size: int, lanes: Lanes) -> None:
        """An access is aligned to its size (PTX ISA, *Addresses as Operands*)."""
        wrong = (addresses & np.uint64(size - 1)) != 0
        if wrong.any():
            lanes.found(MISALIGNED, f"no multiple of {size} bytes", wrong, addresses)

    def _private(
        self, space: str, addresses: np.ndarray, lanes: Lanes
    ) -> tuple[PrivateMemory, np.ndarray, np.ndarray]:
        """A space's memory, each lane's owner there, and the offsets."""
        if space == "shared":
            return self.shared, lanes.groups[:, None], addresses
        rows = np.arange(lanes.count) if lanes.rows is None else lanes.rows
        owners = rows[:, None] * WARP + np.arange(WARP)
        return self.local, owners, addresses - np.uint64(LOCAL_WINDOW)

    def _generic(
        self,
        addresses: np.ndarray,
        lanes: Lanes,
        shape: tuple[int, ...] | None,
        kind: Any,
        access: Callable[[str, np.ndarray, Lanes], Any],
    ) -> Any:
        """An access by generic addresses, space by space."""
        windows = (
            ("shared", SHARED_WINDOW, LOCAL_WINDOW),
            ("local", LOCAL_WINDOW, PARAMETER_WINDOW),
            ("param", PARAMETER_WINDOW, GLOBAL_WINDOW),
        )
        rest = lanes.active
        found = None if shape is None else np.zeros(shape, kind)
        for space, first, end in windows:
            chosen = rest & (addresses >= first) & (addresses < end)
            if not chosen.any():
                continue
            rest = rest & ~chosen
            at = addresses - np.uint64(first if space == "shared" else 0)
            got = access(space, at, lanes.part(chosen))
            if found is not None:
                found[..., chosen] = got[..., chosen]
        if rest.any():
            got = access("global", addresses, lanes.part(rest))
            if found is not None:
                found[..., rest] = got[..., rest]
        return found
