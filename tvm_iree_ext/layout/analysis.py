"""Memory traffic of reading or writing a vector through a layout.

Every lane moves its registers in vector accesses of equal width; one access by all lanes of a
subgroup is one instruction.  :func:`bank_conflicts` counts passes over shared-memory banks,
:func:`coalescing` counts aligned segments of global memory.

Banks are 4 bytes wide, so B banks serve 4*B bytes a pass, and an access of w bytes a lane is served
in groups of 4*B/w consecutive lanes.  (NVIDIA; some AMD 128-bit reads group lanes differently, and
for those this is an estimate.)
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.layout.nested import Ints, NestedLayout

BANK_BYTES = 4
WIDEST_ACCESS_BYTES = 16  # of one lane, on every GPU here


@dataclass(frozen=True)
class Swizzle:
    """An xor permutation of columns: column j of row i is stored at ``j ^ (i // per_phase % N)``.

    A row is ``row_elements`` of the row-major vector, which may be several of the vector's own
    rows; it has N columns of ``access_elements``.
    """

    row_elements: int
    access_elements: int
    per_phase: int = 1


@dataclass(frozen=True)
class Placement:
    """Placement of a vector in memory: row-major, its last dimension padded, or swizzled.

    Attributes:
        shape: of the vector.
        element_bytes: of an element.
        pad_bytes: after each row, that is after each extent of the last dimension.
        swizzle: of its columns.
        block_rows: rows after which there is more padding; 0 for none.
        block_pad_bytes: how much, beside that of the rows.
    """

    shape: Ints
    element_bytes: int
    pad_bytes: int = 0
    swizzle: Swizzle | None = None
    block_rows: int = 0
    block_pad_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """From the first element to the last."""
        rows = prod(self.shape[:-1])
        blocks = (rows - 1) // self.block_rows if self.block_rows else 0
        padding = (rows - 1) * self.pad_bytes + blocks * self.block_pad_bytes
        return prod(self.shape) * self.element_bytes + padding

    def addresses(self, coordinate: np.ndarray) -> np.ndarray:
        """Byte addresses of coordinates ``[..., rank]``.

        Raises:
            LayoutError: when the rows of the swizzle do not divide into its columns.
        """
        index = np.zeros(coordinate.shape[:-1], int)
        for dim, extent in enumerate(self.shape):
            index = index * extent + coordinate[..., dim]
        rows = index // self.shape[-1] if self.shape else index
        if self.swizzle is not None:
            index = _swizzled(index, self.swizzle, prod(self.shape))
        blocks = rows // self.block_rows * self.block_pad_bytes if self.block_rows else 0
        return index * self.element_bytes + rows * self.pad_bytes + blocks


@dataclass(frozen=True)
class MemoryAccess:
    """The cost of moving everything one subgroup holds, over its costliest subgroup.

    ``worst`` and ``total`` count passes over the banks, or segments of global memory: the most in
    one group of lanes (one instruction), and all together.  ``ideal`` is ``total`` at its best.
    """

    access_bytes: int  # of one lane in one instruction
    instructions: int  # of one subgroup
    worst: int
    total: int
    ideal: int


def bank_conflicts(
    layout: NestedLayout,
    placement: Placement,
    num_subgroups: int,
    subgroup_size: int,
    *,
    banks: int = 32,
    access_bytes: int | None = None,
) -> MemoryAccess:
    """Shared-memory passes; ``worst`` is 1 without conflicts, k for a k-way conflict.

    Lanes that read the same 4-byte word of a bank are served together.

    Args:
        access_bytes: what one lane moves at once; by default the widest its registers allow.

    Raises:
        LayoutError: when layout, placement, hardware and access do not fit each other.

    >>> column = NestedLayout((1, 1), (1, 1), (1, 1), (32, 1), (1, 8), (0, 0), (1, 0))
    >>> for pad_bytes in (112, 128, 144):         # 32 rows of 16 bytes, and the padding
    ...     rows = Placement((32, 8), element_bytes=2, pad_bytes=pad_bytes)
    ...     print(bank_conflicts(column, rows, num_subgroups=1, subgroup_size=32).worst)
    8
    1
    2
    """
    accesses, width = _accesses(layout, placement, num_subgroups, subgroup_size, access_bytes)
    passes = bank_passes(accesses, width, banks)  # [subgroups, instructions, groups]
    return _cost(passes, width, ideal=passes[0].size)


def bank_passes(first: np.ndarray, width: int, banks: int = 32) -> np.ndarray:
    """Passes over the banks for each group of lanes that are served together.

    Args:
        first: first bytes ``[..., lanes]`` of accesses; below 0 for lanes that take no part.
        width: bytes of a lane.
        banks: of shared memory.

    Raises:
        LayoutError: when lanes do not divide into groups.

    >>> bank_passes(np.arange(64) * 8, width=4)
    array([2, 2])
    """
    count = first.shape[-1]
    lanes = min(count, max(1, BANK_BYTES * banks // width))
    if count % lanes:
        raise LayoutError(f"bank_conflicts: {count} lanes do not divide into groups of {lanes}")
    words = (first[..., None] + np.arange(0, max(width, BANK_BYTES), BANK_BYTES)) // BANK_BYTES
    words = np.where(first[..., None] < 0, -1, words)
    words = words.reshape(first.size // lanes, -1)
    words.sort(axis=-1)
    served = np.diff(words, axis=-1, prepend=-1) != 0
    bank = words % banks + banks * np.arange(len(words))[:, None]
    counts = np.bincount(bank[served], minlength=banks * len(words)).reshape(len(words), banks)
    return counts.max(axis=-1).reshape(*first.shape[:-1], -1)


def coalescing(
    layout: NestedLayout,
    placement: Placement,
    num_subgroups: int,
    subgroup_size: int,
    *,
    segment_bytes: int = 32,
    access_bytes: int | None = None,
) -> MemoryAccess:
    """Aligned segments of global memory touched by each instruction of a subgroup.

    Args:
        segment_bytes: 32 is a sector of NVIDIA's caches; AMD's lines are 64 or 128 bytes.
        access_bytes: what one lane moves at once; by default the widest its registers allow.

    Raises:
        LayoutError: when layout, placement, hardware and access do not fit each other.

    >>> row = NestedLayout((1,), (1,), (1,), (32,), (1,), (0,), (1,))
    >>> coalescing(row, Placement((32,), element_bytes=4), 1, 32).worst
    4
    """
    accesses, width = _accesses(layout, placement, num_subgroups, subgroup_size, access_bytes)
    inside = np.arange(0, width, min(width, segment_bytes))
    segments = (accesses[..., None] + inside).reshape(*accesses.shape[:2], -1) // segment_bytes
    touched = _distinct(segments, np.ones_like(segments, bool))
    bytes_moved = _distinct(accesses, np.ones_like(accesses, bool)) * width
    ideal = -(-bytes_moved // segment_bytes)
    return _cost(touched, width, ideal=int(ideal[touched.sum(axis=1).argmax()].sum()))


def _cost(counts: np.ndarray, width: int, ideal: int) -> MemoryAccess:
    """From counts ``[subgroups, instructions, ...]``."""
    totals = counts.reshape(len(counts), -1).sum(axis=1)
    return MemoryAccess(width, counts.shape[1], int(counts.max()), int(totals.max()), ideal)


def _accesses(
    layout: NestedLayout,
    placement: Placement,
    num_subgroups: int,
    subgroup_size: int,
    access_bytes: int | None,
) -> tuple[np.ndarray, int]:
    """First bytes ``[subgroups, instructions, lanes]`` of the accesses, and their width."""
    if placement.shape != layout.undistributed_shape:
        raise LayoutError(
            f"placement has shape {list(placement.shape)};"
            f" the layout takes {list(layout.undistributed_shape)}"
        )
    held = coordinates(layout, num_subgroups, subgroup_size)
    addresses = placement.addresses(held).reshape(num_subgroups, subgroup_size, -1)
    step = placement.element_bytes
    widths = [step << power for power in range(8) if step << power <= WIDEST_ACCESS_BYTES]
    legal = [width for width in widths if _vectorises(addresses, step, width)] or [step]
    width = legal[-1] if access_bytes is None else access_bytes
    if width not in legal:
        raise LayoutError(
            f"access_bytes is {access_bytes}; the registers of this layout allow"
            f" {', '.join(map(str, legal))}"
        )
    return addresses[:, :, :: width // step].swapaxes(1, 2), width


def _vectorises(addresses: np.ndarray, step: int, width: int) -> bool:
    """Whether runs of ``width`` bytes of registers are contiguous and aligned, in every lane."""
    if addresses.shape[-1] % (width // step):
        return False
    runs = addresses.reshape(-1, width // step)
    return bool(
        ((runs - runs[:, :1] == np.arange(0, width, step)) & (runs[:, :1] % width == 0)).all()
    )


def _distinct(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """How many different values >= 0 are counted, along the last axis."""
    ordered = np.sort(np.where(counted, values, -1), axis=-1)
    new = np.diff(ordered, axis=-1, prepend=-1) != 0
    return (new & (ordered >= 0)).sum(axis=-1)


def _swizzled(index: np.ndarray, swizzle: Swizzle, size: int) -> np.ndarray:
    row_elements, access = swizzle.row_elements, swizzle.access_elements
    columns = row_elements // access
    if row_elements % access or size % row_elements or columns & (columns - 1):
        raise LayoutError(
            f"swizzle: {size} elements, rows of {row_elements}, accesses of {access}: each must"
            " divide the one before, into a power of two of accesses a row"
        )
    row, column = index // row_elements, index % row_elements // access
    column ^= row // swizzle.per_phase % columns
    return row * row_elements + column * access + index % access
