"""Copies by all lanes of a workgroup between global and shared memory: who moves what to where.

The layout of a copy is derived: each lane moves runs of 16 bytes where rows allow, neighbouring
lanes neighbouring runs, subgroups the rows after those.  Where shared memory is read later, and how
wide, decides how the tile lies there: :func:`choose_placement` counts the passes over the banks for
plain rows, padded rows and xor-swizzled rows, and takes the fewest.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from tvm_iree_ext.base.errors import LayoutError, ScheduleError
from tvm_iree_ext.layout.analysis import (
    BANK_BYTES,
    WIDEST_ACCESS_BYTES,
    Placement,
    Swizzle,
    bank_conflicts,
)
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements

_PADS = (0, 4, 8, 16, 32, 64, 128)
_PHASES = (1, 2, 4)
# Of padded rows, for a copy that writes several far from each other: the least that addresses take
# comes first, wide columns that many rows have alike.
_FAR_PHASES = (16, 8)
_FAR_COLUMN_BYTES = (64, 32, WIDEST_ACCESS_BYTES, 8)
_HALVINGS = 3  # of an access's width
_SECTOR_BYTES = 32  # what caches fetch at least
_SEGMENT_BYTES = 64  # what a row of lanes reads at least where they lie across rows, too


def copy_layout(
    shape: Sequence[int],
    dtype_bits: int,
    num_subgroups: int,
    subgroup_size: int,
    *,
    run: int | None = None,
) -> NestedLayout:
    """The layout of a workgroup's copy of a row-major tile.

    It covers the tile in the fewest accesses of a lane; where extents are no multiples of powers of
    two it is larger than the tile, and what is outside is left out by a predicate.

    Args:
        shape: of the tile, the contiguous dimension last.
        dtype_bits: of an element.
        num_subgroups: of the workgroup.
        subgroup_size: lanes of a subgroup.
        run: elements of one access; by default as many as 16 bytes and the rows allow.

    >>> layout = copy_layout((128, 64), 16, num_subgroups=4, subgroup_size=64)
    >>> layout.thread_tile, layout.element_tile, layout.subgroup_tile, layout.batch_tile
    ((8, 8), (1, 8), (4, 1), (4, 1))
    """
    if not shape or min(shape) < 1:
        raise LayoutError(f"copy_layout: the tile's shape is {list(shape)}; extents start at 1")
    run = run or vector_elements(dtype_bits, shape[-1])
    units = (*shape[:-1], -(-shape[-1] // run))
    best = min(
        _spreads(units, num_subgroups, subgroup_size),
        key=lambda spread: (
            prod(spread.steps) * _waste(spread.lanes[-1] * run, shape[-1], dtype_bits),
            *spread.subgroups[::-1],
            *_negative(spread.lanes),
        ),
    )
    rank = len(shape)
    ones = (1,) * rank
    return NestedLayout(
        best.subgroups, best.steps, ones, best.lanes, (*ones[:-1], run),
        _strides(best.subgroups), _strides(best.lanes),
    )  # fmt: skip


def transposing_layout(
    shape: Sequence[int], dtype_bits: int, num_subgroups: int, subgroup_size: int, *, run: int
) -> NestedLayout:
    """The layout of a copy that makes the first dimension of a tile the contiguous one.

    Each lane moves a block: it reads runs of the last dimension, and writes runs of the first.
    Enough lanes lie along the last dimension to read whole segments of memory; the others, and the
    fastest to change, along the first, so that what neighbours write lies side by side.

    Args:
        shape: of the tile, ``[rows, columns]``, as it lies in global memory.
        dtype_bits: of an element.
        num_subgroups: of the workgroup.
        subgroup_size: lanes of a subgroup.
        run: elements of a row that are read at once, or fewer where lanes would be idle.

    >>> layout = transposing_layout((64, 128), 16, 4, 64, run=8)
    >>> layout.element_tile, layout.thread_tile, layout.thread_strides
    ((4, 8), (16, 4), (1, 16))
    """
    rows, columns = shape
    down, run = _block(shape, dtype_bits, num_subgroups * subgroup_size, run)
    across = max(1, _SEGMENT_BYTES * 8 // (run * dtype_bits))
    across = min(across, 1 << (-(-columns // run) - 1).bit_length())
    most = 1 << max(0, -(-rows // down) - 1).bit_length()
    lanes_down = min(max(1, subgroup_size // across), most)
    lanes = (lanes_down, subgroup_size // lanes_down)
    units = (-(-rows // (down * lanes[0])), -(-columns // (run * lanes[1])))
    along = min(num_subgroups, 1 << max(0, units[1] - 1).bit_length())
    subgroups = (num_subgroups // along, along)
    if prod(subgroups) != num_subgroups:
        subgroups = (1, num_subgroups)
    steps = tuple(-(-unit // count) for unit, count in zip(units, subgroups, strict=True))
    return NestedLayout(
        subgroups, steps, (1, 1), lanes, (down, run),
        _strides(subgroups), (1 if lanes[0] > 1 else 0, lanes[0] if lanes[1] > 1 else 0),
    )  # fmt: skip


def _block(shape: Sequence[int], dtype_bits: int, lanes: int, run: int) -> tuple[int, int]:
    """Rows and columns of a lane's block: the most of which there is one for each lane.

    It has words at least, for lanes to permute; half of the widest access along the rows at most.
    """
    down = vector_elements(2 * dtype_bits, shape[0])
    least = min(down, max(1, 32 // dtype_bits))
    while down * run * lanes > prod(shape) and (down > least or run > least):
        if down > least:
            down //= 2
        else:
            run //= 2
    return down, run


@dataclass(frozen=True)
class _Spread:
    lanes: Ints
    subgroups: Ints
    steps: Ints


def _spreads(units: Ints, num_subgroups: int, subgroup_size: int) -> Iterator[_Spread]:
    """Every way to give ids to dimensions, in factors that divide them."""
    rank = len(units)
    for lanes in _factorings(subgroup_size, rank):
        for subgroups in _factorings(num_subgroups, rank):
            steps = (
                -(-unit // (lane * group))
                for unit, lane, group in zip(units, lanes, subgroups, strict=True)
            )
            yield _Spread(lanes, subgroups, tuple(steps))


def _factorings(count: int, rank: int) -> list[Ints]:
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    return [tile for tile in product(divisors, repeat=rank) if prod(tile) == count]


def _waste(together: int, row: int, dtype_bits: int) -> int:
    """How often a sector of global memory is fetched by lanes that share so much of a row."""
    sector = min(8 * _SECTOR_BYTES, row * dtype_bits)
    return max(1, -(-sector // (together * dtype_bits)))


def _negative(lanes: Ints) -> Ints:
    """Sorts the most lanes of the last dimension first."""
    return tuple(-count for count in reversed(lanes))


def _strides(tile: Ints) -> Ints:
    return tuple(prod(tile[dim + 1 :]) if count > 1 else 0 for dim, count in enumerate(tile))


@dataclass(frozen=True)
class TileAccess:
    """An access to a tile in shared memory, by all lanes.

    Attributes:
        layout: of the tile.
        num_subgroups: which share it.
        subgroup_size: lanes of each; fewer, where the instruction serves its lanes in turns.
        access_bytes: of a lane at once; by default the widest that registers and rows allow.
        times: how often, for each time that the tile is written.
        narrower: whether ``access_bytes`` may be halved, where that costs fewer passes.
    """

    layout: NestedLayout
    num_subgroups: int
    subgroup_size: int
    access_bytes: int | None = None
    times: int = 1
    narrower: bool = False

    def cost(self, placement: Placement, banks: int) -> "AccessCost":
        """Cost of all that a subgroup moves.

        Raises:
            LayoutError: where the placement breaks the access.
        """
        widths: list[int | None] = [self.access_bytes]
        if self.narrower and self.access_bytes is not None:
            widths = [self.access_bytes >> power for power in range(_HALVINGS)]
        found, refused = [], None
        for width in widths:
            try:
                cost = bank_conflicts(
                    self.layout, placement, self.num_subgroups, self.subgroup_size,
                    banks=banks, access_bytes=width,
                )  # fmt: skip
            except LayoutError as error:
                refused = error
                continue
            passes, count = cost.total * self.times, cost.instructions * self.times
            excess = (cost.total - cost.ideal) * self.times
            found.append(AccessCost(passes, count, excess, cost.access_bytes))
            if not excess:
                break
        if refused is not None and not found:
            raise refused
        return min(found, key=lambda one: (one.passes, one.instructions))


@dataclass(frozen=True)
class AccessCost:
    """Passes over the banks, instructions, passes beyond the ideal, and bytes of a lane at once."""

    passes: int
    instructions: int
    excess: int
    access_bytes: int


@dataclass(frozen=True)
class ChosenPlacement:
    """A tile's placement in shared memory, with what all accesses of a subgroup cost.

    ``excess`` are passes beyond the fewest, and ``widths`` the bytes of a lane in each access.
    """

    placement: Placement
    bytes: int
    passes: int
    instructions: int
    excess: int
    widths: Ints


def choose_placement(
    shape: Ints,
    element_bytes: int,
    accesses: Sequence[TileAccess],
    *,
    banks: int = 32,
    limit_bytes: int | None = None,
    alignment_bytes: int = BANK_BYTES,
    swizzles: bool = True,
    block_rows: int = 0,
) -> ChosenPlacement:
    """The placement with the fewest passes over the banks, then instructions, the plainest of them.

    Args:
        shape: of the tile.
        element_bytes: of an element.
        accesses: all that is done with it.
        banks: of shared memory.
        limit_bytes: what the tile may take.
        alignment_bytes: of every row: 16 for asynchronous copies and ``ldmatrix``.
        swizzles: whether rows may be permuted.
        block_rows: rows after which there may be more padding, of a tile of two dimensions; 0 for
            none.

    Raises:
        ScheduleError: when nothing fits, saying what the smallest would take.

    >>> column = NestedLayout((1, 1), (1, 8), (1, 1), (32, 1), (1, 8), (0, 0), (1, 0))
    >>> chosen = choose_placement((32, 64), 2, [TileAccess(column, 1, 32)], swizzles=False)
    >>> chosen.placement.pad_bytes, chosen.bytes, chosen.passes
    (16, 4592, 32)
    """
    best: tuple[tuple[int, int, bool, int], ChosenPlacement] | None = None
    attempts = [_placements(shape, element_bytes, alignment_bytes, swizzles, False)]
    if swizzles:
        attempts.append(_placements(shape, element_bytes, alignment_bytes, swizzles, True))
    if block_rows and shape[-2] % block_rows == 0:
        attempts.append(_blocks(shape, element_bytes, alignment_bytes, banks, block_rows))
    if swizzles:
        attempts.append(_joined(shape, element_bytes, alignment_bytes, banks))
    for attempt in attempts:
        for placement in attempt:
            found = _costed(placement, tuple(accesses), banks)
            if found is None or (limit_bytes is not None and found.bytes > limit_bytes):
                continue
            # Permuting costs instructions for addresses, which a constant pitch has not.
            permuted = found.placement.swizzle is not None
            rank = (found.passes, found.instructions, permuted, found.bytes)
            if best is None or rank < best[0]:
                best = rank, found
        if best is not None and not best[1].excess:
            break
    if best is None:
        raise ScheduleError(
            f"shared memory: a tile of shape {list(shape)} takes {prod(shape) * element_bytes}"
            f" bytes; its limit is {limit_bytes}, with rows aligned to {alignment_bytes}"
        )
    return best[1]


@functools.lru_cache(maxsize=4096)
def _costed(
    placement: Placement, accesses: tuple[TileAccess, ...], banks: int
) -> ChosenPlacement | None:
    """None for rows that an access does not fit."""
    try:
        costs = [access.cost(placement, banks) for access in accesses]
    except LayoutError:
        return None
    return ChosenPlacement(
        placement,
        placement.size_bytes,
        sum(cost.passes for cost in costs),
        sum(cost.instructions for cost in costs),
        sum(cost.excess for cost in costs),
        tuple(cost.access_bytes for cost in costs),
    )


def _placements(
    shape: Ints, element_bytes: int, alignment_bytes: int, swizzles: bool, both: bool
) -> Iterator[Placement]:
    """Plain and padded rows and permuted ones; or ``both``, padded and permuted."""
    row = shape[-1] * element_bytes
    pads = {0, *(-row % alignment_bytes + step for step in _PADS)}
    fitting = [
        pad
        for pad in sorted(pads)
        if pad % element_bytes == 0 and (row + pad) % alignment_bytes == 0
    ]
    if not both:
        yield from (Placement(shape, element_bytes, pad) for pad in fitting)
    if not swizzles or row % alignment_bytes:
        return
    columns: Ints = (WIDEST_ACCESS_BYTES, 8)
    phases: Ints = _PHASES
    if both:
        columns, phases = _FAR_COLUMN_BYTES, _FAR_PHASES
    for pad in fitting[1:] if both else (0,):
        for column_bytes, phase in product(columns, phases):
            column = column_bytes // element_bytes
            if column and alignment_bytes <= column_bytes and shape[-1] % column == 0:
                yield Placement(shape, element_bytes, pad, Swizzle(shape[-1], column, phase))


def _blocks(
    shape: Ints, element_bytes: int, alignment_bytes: int, banks: int, block_rows: int
) -> Iterator[Placement]:
    """Padded rows, with more padding after each few."""
    for plain in _placements(shape, element_bytes, alignment_bytes, False, False):
        pad = BANK_BYTES * banks // 2
        while pad >= alignment_bytes and pad % element_bytes == 0:
            yield replace(plain, block_rows=block_rows, block_pad_bytes=pad)
            pad //= 2


def _joined(
    shape: Ints, element_bytes: int, alignment_bytes: int, banks: int
) -> Iterator[Placement]:
    """Rows joined to ones on all banks, and permuted: so neighbours change places, too."""
    elements = BANK_BYTES * banks // element_bytes
    if len(shape) < 2 or elements % shape[-1] or shape[-2] % (elements // shape[-1]):
        return
    for column_bytes in (WIDEST_ACCESS_BYTES, 8):
        column = column_bytes // element_bytes
        if alignment_bytes <= column_bytes and shape[-1] % column == 0:
            yield Placement(shape, element_bytes, swizzle=Swizzle(elements, column))
