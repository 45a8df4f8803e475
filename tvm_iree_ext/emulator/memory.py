"""The global memory of an emulated GPU: allocations far from one another, accessed by lanes.

    memory = GlobalMemory(seed=0)
    address = memory.allocate(1024)              # begins as noise
    memory.write(address, data)                  # the host's copies
    data = memory.read(address, 1024)
    memory.free(address)

Lanes access it all at once.  ``addresses`` is an array of any shape of ``uint64``, ``mask`` (or
None, for all) says which lanes take part, ``site`` is the instruction:

    values = memory.load(addresses, np.uint32, 4, mask, site)    # [4, *addresses.shape]
    memory.store(addresses, values, mask, site)                  # its inverse
    old = memory.update(addresses, np.add, operand, mask, site)  # atomic: lane after lane

An element is ``uint8``, ``uint16``, ``uint32`` or ``uint64``; several lie behind one another.  Of
the lanes of a store that meet at an address, the last in the array's order wins.  What is outside
of every allocation is a finding; such a load gives noise, and such a store goes nowhere.  Alignment
is the instruction's matter: see :meth:`GlobalMemory.misaligned`.

Each allocation has :data:`WINDOW` bytes of addresses for itself, which are not given again, so that
a wrong address is in nobody's memory, and an old one in nobody's either.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.findings import BOUNDS, MISALIGNED, READ_ONLY, Faults, Site

_WINDOW_BITS = 34
WINDOW = 1 << _WINDOW_BITS
"""Bytes of addresses from one allocation to the next; an allocation is smaller."""

_FIRST_WINDOW = 1 << 12  # 2^46: addresses have bits above those of 32, as on the machine
_LAST_WINDOW = 1 << 13  # 2^47: a user's addresses end there on both vendors' GPUs
_BASE = 0x100  # in a window: as aligned as both drivers' allocations are said to be, and no more
_PAD = 64  # bytes behind the contents, for whole words at the end


class GlobalMemory:
    """Allocations of an emulated GPU, and what is found wrong with accesses to them."""

    def __init__(self, seed: int = 0) -> None:
        self.findings = Faults()
        self._rng = np.random.default_rng(seed)
        self._contents: dict[int, np.ndarray] = {}  # by window, with _PAD bytes more
        self._sizes: dict[int, int] = {}
        self._freed: dict[int, int] = {}
        self._read_only: list[int] = []  # windows
        self._next = _FIRST_WINDOW

    def allocate(self, size: int) -> int:
        """The address of new memory, which holds noise.

        Raises:
            MemoryError: for more than a window, or when there have been too many allocations.
        """
        if size > WINDOW - 2 * _BASE or self._next >= _LAST_WINDOW:
            raise MemoryError(f"{size} bytes, after {self._next - _FIRST_WINDOW} allocations")
        window, self._next = self._next, self._next + 1
        whole = -(-size // 16) * 16 + _PAD
        self._contents[window] = np.frombuffer(bytearray(self._rng.bytes(whole)), np.uint8)
        self._sizes[window] = size
        return (window << _WINDOW_BITS) + _BASE

    def free(self, address: int) -> None:
        """Give memory back; KeyError for an address that :meth:`allocate` did not give."""
        window = (address - _BASE) >> _WINDOW_BITS
        if (window << _WINDOW_BITS) + _BASE != address:
            raise KeyError(address)
        del self._contents[window]
        self._read_only = [one for one in self._read_only if one != window]
        self._freed[window] = self._sizes.pop(window)

    def protect(self, address: int) -> None:
        """What is stored to the allocation of an address from now on is a finding."""
        self._read_only.append(address >> _WINDOW_BITS)

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        """Copy from the host; ValueError where it is not inside of one allocation."""
        source = np.frombuffer(data, np.uint8)
        self._span(address, source.size)[:] = source

    def read(self, address: int, size: int) -> bytes:
        """Copy to the host; ValueError where it is not inside of one allocation."""
        return self._span(address, size).tobytes()

    def room(self, address: int) -> int:
        """Bytes from an address to the end of its allocation; 0 where it is in none."""
        window, offset = divmod(address, WINDOW)
        size = self._sizes.get(window, 0)
        return max(0, size - (offset - _BASE)) if offset >= _BASE else 0

    def _span(self, address: int, size: int) -> np.ndarray:
        if self.room(address) < size:
            raise ValueError(f"{size} bytes at {address:#x}: {self._described(address)}")
        window, offset = divmod(address, WINDOW)
        start = offset - _BASE
        return self._contents[window][start : start + size]

    def load(
        self,
        addresses: np.ndarray,
        element: Any,
        count: int,
        mask: np.ndarray | None,
        site: Site,
        *,
        inside: int = 0,
    ) -> np.ndarray:
        """``count`` elements from each address on; noise for lanes that take no part.

        With ``inside`` so many of its bytes must be of the allocation; up to 16 in all may be read
        behind it, which are noise.
        """
        kind = np.dtype(element)
        found = self._noise(kind, (count, *addresses.shape))
        size = inside or kind.itemsize * count
        for lanes, contents, offsets in self._groups(addresses, size, mask, site):
            values = _gather(contents, offsets, kind, count)
            if lanes is None:
                return values.reshape(found.shape)
            found[:, lanes] = values
        return found

    def store(
        self, addresses: np.ndarray, values: np.ndarray, mask: np.ndarray | None, site: Site
    ) -> None:
        """Write elements to each address and behind it; ``values`` is [count, *addresses.shape]."""
        count, size = len(values), values.dtype.itemsize * len(values)
        self._check_writable(addresses, mask, site)
        for lanes, contents, offsets in self._groups(addresses, size, mask, site):
            chosen = values.reshape(count, -1) if lanes is None else values[:, lanes]
            _scatter(contents, offsets, chosen)

    def update(
        self,
        addresses: np.ndarray,
        change: Callable[[np.ndarray, np.ndarray], np.ndarray],
        operands: np.ndarray,
        mask: np.ndarray | None,
        site: Site,
    ) -> np.ndarray:
        """Atomically replace an element by ``change(old, operand)``; what was there before.

        ``operands`` is of the element's type, [*addresses.shape] or with more axes in front, which
        are the change's (such as value and comparand).  Lanes that meet come one after another.
        """
        kind = operands.dtype
        found = self._noise(kind, addresses.shape)
        self._check_writable(addresses, mask, site)
        flat = operands.reshape(*operands.shape[: operands.ndim - addresses.ndim], -1)
        for lanes, contents, offsets in self._groups(addresses, kind.itemsize, mask, site):
            chosen = flat if lanes is None else operands[..., lanes]
            old = in_turns(contents, offsets, change, chosen)
            if lanes is None:
                return old.reshape(found.shape)
            found[lanes] = old
        return found

    def misaligned(
        self, addresses: np.ndarray, alignment: int, mask: np.ndarray | None, site: Site
    ) -> None:
        """A finding for addresses that are no multiple of ``alignment``, a power of two."""
        wrong = (addresses & np.uint64(alignment - 1)) != 0
        if mask is not None:
            wrong = wrong & mask
        self.findings.add_lanes(
            MISALIGNED, f"no multiple of {alignment} bytes", site, wrong, addresses
        )

    def _check_writable(self, addresses: np.ndarray, mask: np.ndarray | None, site: Site) -> None:
        if not self._read_only:
            return
        wrong = np.isin(addresses >> np.uint64(_WINDOW_BITS), self._read_only)
        if mask is not None:
            wrong &= mask
        if wrong.any():
            message = f"written {self._described(int(addresses[wrong][0]))}"
            self.findings.add_lanes(READ_ONLY, message, site, wrong, addresses)

    def _noise(self, kind: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Bits that are no plausible value, and are the same wherever they come from."""
        return np.full(shape, 0xA5A5A5A5A5A5A5A5 >> (64 - 8 * kind.itemsize), kind)

    def _groups(
        self, addresses: np.ndarray, size: int, mask: np.ndarray | None, site: Site
    ) -> list[tuple[np.ndarray | None, np.ndarray, np.ndarray]]:
        """Lanes by allocation: a mask (None: all lanes), its contents, flat offsets there."""
        if mask is not None and mask.all():
            mask = None
        chosen = addresses.reshape(-1) if mask is None else addresses[mask]
        if not chosen.size:
            return []
        windows = chosen >> np.uint64(_WINDOW_BITS)
        first = int(windows[0])
        if (windows == windows[0]).all():
            offsets = (chosen & np.uint64(WINDOW - 1)).astype(np.int64) - _BASE
            if offsets.min() >= 0 and offsets.max() + size <= self._sizes.get(first, -1):
                return [(mask, self._contents[first], offsets)]
        everyone = np.ones(addresses.shape, bool) if mask is None else mask
        return self._sorted(addresses, size, everyone, site)

    def _sorted(
        self, addresses: np.ndarray, size: int, mask: np.ndarray, site: Site
    ) -> list[tuple[np.ndarray | None, np.ndarray, np.ndarray]]:
        """:meth:`_groups` for lanes of several allocations, or outside of all."""
        windows = addresses >> np.uint64(_WINDOW_BITS)
        offsets = (addresses & np.uint64(WINDOW - 1)).astype(np.int64) - _BASE
        groups: list[tuple[np.ndarray | None, np.ndarray, np.ndarray]] = []
        for one in np.unique(windows[mask]):
            window = int(one)
            own = mask & (windows == one)
            inside = own & (offsets >= 0) & (offsets + size <= self._sizes.get(window, -1))
            outside = own & ~inside
            if outside.any():
                address = int(addresses[outside][0])
                message = f"{size} bytes {self._described(address)}"
                self.findings.add_lanes(BOUNDS, message, site, outside, addresses)
            if inside.any():
                groups.append((inside, self._contents[window], offsets[inside]))
        return groups

    def _described(self, address: int) -> str:
        """What is at an address, for a message."""
        window, offset = divmod(address, WINDOW)
        number, start = window - _FIRST_WINDOW, offset - _BASE
        if (size := self._sizes.get(window)) is not None:
            return f"at byte {start} of allocation {number}, which has {size}"
        if (size := self._freed.get(window)) is not None:
            return f"at byte {start} of allocation {number}, which was freed"
        return "where nothing was allocated"


def _gather(contents: np.ndarray, offsets: np.ndarray, kind: np.dtype, count: int) -> np.ndarray:
    """[count, lanes] elements of bytes, from each offset on."""
    size = kind.itemsize
    if not (offsets & (size - 1)).any():
        words, places = contents.view(kind), offsets >> (size.bit_length() - 1)
        if count == 1:
            return words[places][None]
        return words[places[None] + np.arange(count)[:, None]]
    places = offsets[None, :, None] + (np.arange(count)[:, None, None] * size + np.arange(size))
    return np.ascontiguousarray(contents[places]).view(kind)[..., 0]


def _scatter(contents: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> None:
    """The inverse of :func:`_gather`."""
    kind, count = values.dtype, len(values)
    size = kind.itemsize
    if not (offsets & (size - 1)).any():
        words, places = contents.view(kind), offsets >> (size.bit_length() - 1)
        for place in range(count):
            words[places + place] = values[place]
        return
    bytes_ = np.ascontiguousarray(values).view(np.uint8).reshape(count, -1, size)
    for place in range(count):
        for byte in range(size):
            contents[offsets + (place * size + byte)] = bytes_[place, :, byte]


def in_turns(
    contents: np.ndarray,
    offsets: np.ndarray,
    change: Callable[[np.ndarray, np.ndarray], np.ndarray],
    operands: np.ndarray,
) -> np.ndarray:
    """Change elements of bytes at offsets, one lane after another where they meet; the old ones.

    ``operands`` is [..., lanes] of the element's type; offsets must be multiples of its size.
    """
    kind = operands.dtype
    words, places = contents.view(kind), offsets // kind.itemsize
    old = np.empty(places.size, kind)
    waiting = np.arange(places.size)
    while waiting.size:
        _, first = np.unique(places[waiting], return_index=True)
        turn = waiting[first]
        old[turn] = words[places[turn]]
        words[places[turn]] = change(old[turn], operands[..., turn])
        waiting = np.delete(waiting, first)
    return old
