"""Memory of which each workgroup, or each lane, has a part for itself: shared and local memory.

It begins as noise, and knows which of its bytes were written, and which of those by ordinary stores
that no fence of the asynchronous proxy came after (PTX ISA, *Async proxy*).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BOUNDS, INSTRUCTION, UNINITIALISED
from tvm_iree_ext.emulator.memory import in_turns
from tvm_iree_ext.emulator.ptx.machine.lanes import Lanes

Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The new element of an old one and an operand."""


class PrivateMemory:
    """Memory of which each owner, a workgroup or a lane, has as many bytes; it begins as noise."""

    def __init__(self, name: str, owners: int, size: int, noise: np.random.Generator) -> None:
        self.name, self.size = name, size
        self.stride = -(-size // 128) * 128 + 128
        whole = owners * self.stride
        self.bytes = np.frombuffer(bytearray(noise.bytes(whole)), np.uint8)
        self.written = np.zeros(whole, np.uint8)
        self._unfenced: np.ndarray | None = None

    def follow_proxies(self) -> None:
        """From now on know which bytes no fence came after."""
        self._unfenced = np.zeros(len(self.bytes), np.uint8)

    def fence(self, owners: np.ndarray) -> None:
        """What was stored is there for asynchronous operations, too."""
        if self._unfenced is not None:
            self._unfenced.reshape(-1, self.stride)[owners] = 0

    def put(self, places: np.ndarray, values: np.ndarray) -> None:
        """An asynchronous operation writes elements at places of ``bytes``."""
        at = places // values.dtype.itemsize
        self.bytes.view(values.dtype)[at] = values
        known = self.written.view(f"u{values.dtype.itemsize}")
        known[at] = np.iinfo(known.dtype).max
        if self._unfenced is not None:
            self._unfenced.view(known.dtype)[at] = 0

    def take(self, places: np.ndarray, kind: Any, lanes: Lanes) -> np.ndarray:
        """An asynchronous operation reads elements at places of ``bytes``."""
        size = np.dtype(kind).itemsize
        at = places // size
        known = self.written.view(f"u{size}")
        if (known[at] != np.iinfo(known.dtype).max).any():
            lanes.found(UNINITIALISED, "shared memory that nobody wrote")
        elif self._unfenced is not None and self._unfenced.view(known.dtype)[at].any():
            message = "what ordinary stores wrote, without fence.proxy.async between"
            lanes.found(INSTRUCTION, message)
        return self.bytes.view(kind)[at]

    def places(
        self, owners: np.ndarray, offsets: np.ndarray, size: int, lanes: Lanes
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Where in ``bytes`` the lanes' bytes lie, and which lanes' are inside; None: all."""
        mask = lanes.mask
        at = offsets.astype(np.int64)
        wrong = (at < 0) | (at + size > self.size)
        if wrong.any():
            wrong = wrong & lanes.active
            if wrong.any():
                message = f"{size} bytes outside of the {self.size} of {self.name} memory"
                lanes.found(BOUNDS, message, wrong, offsets)
            mask = lanes.active & ~wrong
            mask = mask & (at >= 0) & (at + size <= self.size)
            at = np.where(mask, at, 0)
        return owners * self.stride + at, mask

    def load(
        self, owners: np.ndarray, offsets: np.ndarray, kind: Any, count: int, lanes: Lanes
    ) -> np.ndarray:
        """``count`` elements from each offset on."""
        kind = np.dtype(kind)
        places, mask = self.places(owners, offsets, kind.itemsize * count, lanes)
        first = places // kind.itemsize
        words, known = self.bytes.view(kind), self.written.view(f"u{kind.itemsize}")
        most = np.iinfo(known.dtype).max
        found = np.empty((count, *lanes.shape), kind)
        for number in range(count):
            at = first + number
            found[number] = words[at]
            unknown = known[at] != most
            if unknown.any():
                self._unknown(unknown if mask is None else unknown & mask, offsets, lanes)
        return found

    def _unknown(self, wrong: np.ndarray, offsets: np.ndarray, lanes: Lanes) -> None:
        if self.name == "shared":
            lanes.found(UNINITIALISED, "shared memory that nobody wrote", wrong, offsets)

    def store(
        self, owners: np.ndarray, offsets: np.ndarray, values: np.ndarray, lanes: Lanes
    ) -> None:
        """The inverse of :meth:`load`."""
        size = values.dtype.itemsize
        places, mask = self.places(owners, offsets, size * len(values), lanes)
        first = places // size
        words, known = self.bytes.view(values.dtype), self.written.view(f"u{size}")
        most = np.iinfo(known.dtype).max
        for number, value in enumerate(values):
            at = first + number
            if mask is not None:
                at, value = at[mask], value[mask]
            words[at], known[at] = value, most
            if self._unfenced is not None:
                self._unfenced.view(known.dtype)[at] = most

    def update(
        self,
        owners: np.ndarray,
        offsets: np.ndarray,
        change: Change,
        operands: np.ndarray,
        lanes: Lanes,
    ) -> np.ndarray:
        """Atomically replace elements; what was there before."""
        kind = operands.dtype
        places, mask = self.places(owners, offsets, kind.itemsize, lanes)
        active = np.ones(lanes.shape, bool) if mask is None else mask
        known = self.written.view(f"u{kind.itemsize}")
        unknown = known[places // kind.itemsize] != np.iinfo(known.dtype).max
        self._unknown(unknown & active, offsets, lanes)
        found = np.zeros(lanes.shape, kind)
        found[active] = in_turns(self.bytes, places[active], change, operands[..., active])
        return found
