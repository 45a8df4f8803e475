"""A NestedLayout as a schedule: splits, order, thread bindings, unrolled registers, vectors.

Each loop is cut as its dimension is cut, and the digits are put where the hardware counts them:

    before:  for i, j: block(i, j)
    after:   for workgroup of i, of j in blockIdx:               what the layout does not cover
                 for subgroup in threadIdx.y:                    subgroup digits, by their strides
                     for lane in threadIdx.x:                    thread digits, by their strides
                         for batch, outer, element of i, of j:   unrolled
                             for v in vectorized:                the last dimension's run
                                 if inside: block(...)

One workgroup has ``num_subgroups`` subgroups along y and the lanes of one along x, so that hardware
counts subgroups as we do.  Ids that the layout does not tell apart (a stride of 0, a gap between
strides, more subgroups or lanes than tiles) are replicas: digits of a loop on which nothing
depends.  They all do the same, or, where that would only be repeated stores, the first alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, Literal

from tvm import s_tir, sym, tirx

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import check_hardware, id_digits

Loop = Any  # s_tir.schedule.LoopRV
Replicas = Literal["first", "all"]

_GRID = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
MOST_PER_DIM = 65535  # workgroups along y and z, on every GPU here


@dataclass(frozen=True)
class LayoutLoops:
    """The loops over a block after :func:`distribute`, outermost first.

    Attributes:
        workgroups: over what the layout does not cover; bound to the grid, or serial.
        subgroup, lane: bound to ``threadIdx.y`` and ``threadIdx.x``; no subgroup where the block
            stands under the loop over subgroups already.
        parts: which of a subgroup's parts, where there are fewer subgroups than tiles.
        batch, outer, element: one per dimension, or None where the tile is 1.
        vector: the part of the last dimension's element tile that is one access.
    """

    workgroups: tuple[Loop, ...]
    subgroup: Loop | None
    lane: Loop
    parts: Loop | None
    batch: tuple[Loop | None, ...]
    outer: tuple[Loop | None, ...]
    element: tuple[Loop | None, ...]
    vector: Loop | None

    @property
    def registers(self) -> list[Loop]:
        """The loops over what one lane holds, but for the vector's."""
        loops = (self.parts, *self.batch, *self.outer, *self.element)
        return [loop for loop in loops if loop is not None]


def distribute(
    sch: s_tir.Schedule,
    block: Any,
    layout: NestedLayout,
    num_subgroups: int | None,
    subgroup_size: int,
    *,
    loops: Sequence[Loop] | None = None,
    replicas: Replicas = "first",
    grid: bool = True,
    vector: int = 1,
    unroll: bool = True,
) -> LayoutLoops:
    """Spread the iteration space of ``block`` over a workgroup as ``layout`` says.

    An extent that is no multiple of the layout's is covered with a predicate, of several workgroups
    or of one.

    Args:
        sch: the schedule.
        block: a block whose loops are all its own.
        layout: what one workgroup covers; one dimension for each loop.
        num_subgroups: of a workgroup; more or fewer than the layout's, as
            :mod:`~tvm_iree_ext.layout.ownership` says.  None where the block stands under the loop
            over subgroups already, and the layout is that of one.
        subgroup_size: lanes of a subgroup.
        loops: those that the layout speaks of, by default all over the block.
        replicas: ``"all"`` where each lane's own registers are written.
        grid: whether the loops over workgroups are bound to ``blockIdx``; else they stay.
        vector: the most elements of the last dimension that may be one access.
        unroll: whether the loops over registers are unrolled.

    Raises:
        LayoutError: when the layout does not fit the hardware or the loops.
    """
    check_hardware(layout, num_subgroups or 1, subgroup_size)
    loops = list(sch.get_loops(block) if loops is None else loops)
    if len(loops) != layout.rank:
        raise LayoutError(f"distribute: {len(loops)} loops for a layout of rank {layout.rank}")
    digits = [_Digits(sch, loop, layout, dim, vector) for dim, loop in enumerate(loops)]
    unit = _UnitLoops(sch, block)
    subgroups = _ids(
        unit, layout.subgroup_tile, layout.subgroup_strides, num_subgroups or 1,
        [each.subgroup for each in digits], replicas,
    )  # fmt: skip
    lanes = _ids(
        unit, layout.thread_tile, layout.thread_strides, subgroup_size,
        [each.thread for each in digits], replicas,
    )  # fmt: skip
    workgroups = [each.workgroup for each in digits if each.workgroup is not None]
    batch, outer, element = (
        tuple(getattr(each, level) for each in digits) for level in ("batch", "outer", "element")
    )
    runs = [each.vector for each in digits if each.vector is not None]
    registers = [loop for loop in (*batch, *outer, *element) if loop is not None]
    sch.reorder(*workgroups, *subgroups, *lanes, *registers, *runs)
    subgroup, parts = sch.fuse(*subgroups), None
    lane = sch.fuse(*lanes)
    if num_subgroups is None:
        subgroup, parts = None, subgroup if prod(layout.subgroup_tile) > 1 else None
    elif (tiles := prod(layout.subgroup_tile)) > num_subgroups:
        parts, subgroup = sch.split(subgroup, [tiles // num_subgroups, num_subgroups])
    if parts is not None:
        sch.reorder(*[loop for loop in (subgroup, lane, parts) if loop is not None])
    if subgroup is not None:
        sch.bind(subgroup, "threadIdx.y")
    sch.bind(lane, "threadIdx.x")
    found = LayoutLoops(
        tuple(bind_grid(sch, workgroups) if grid else workgroups),
        subgroup, lane, parts, batch, outer, element, runs[0] if runs else None,
    )  # fmt: skip
    if unroll:
        for loop in found.registers:
            sch.unroll(loop)
    if found.vector is not None:
        sch.vectorize(found.vector)
    return found


def bind_grid(sch: s_tir.Schedule, loops: Sequence[Loop]) -> list[Loop]:
    """Bind loops to the grid, the last to x; as one loop where they are too many or too long."""
    extents = [sch.get(loop).extent for loop in loops]
    slow = extents[:-1]
    fits = all(isinstance(e, tirx.IntImm) and int(e) <= MOST_PER_DIM for e in slow)
    if loops and (len(loops) > len(_GRID) or not fits):
        loops = [sch.fuse(*loops)]
    for loop, axis in zip(reversed(loops), _GRID, strict=False):
        sch.bind(loop, axis)
    return list(loops)


def vector_elements(dtype_bits: int, *rows: Any) -> int:
    """The most elements of one access, for rows of memory that are so many elements apart.

    A power of two, whole bytes, at most 16 of them; every row length must be a multiple of it.

    >>> vector_elements(16, 4096, 72), vector_elements(32, 6)
    (8, 2)
    """
    most = 8 * WIDEST_ACCESS_BYTES // dtype_bits
    for row in rows:
        most = gcd(most, known_factor(row))
    return most & -most


def power_of_two(size: int) -> int:
    """The smallest that is not below ``size``."""
    return 1 << max(0, size - 1).bit_length()


def known_factor(extent: Any) -> int:
    """A number that divides an extent whatever its symbols are: the extent, if it has none."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, tirx.IntImm):
        return int(extent)
    found = sym.Analyzer().modular_set(extent)
    return gcd(int(found.coeff), int(found.base))


class _Digits:
    """The loops that one dimension's loop is cut into."""

    def __init__(
        self, sch: s_tir.Schedule, loop: Loop, layout: NestedLayout, dim: int, vector: int
    ) -> None:
        subgroup, batch, outer, thread, element = (tiles[dim] for tiles in layout.tiles)
        extent = sch.get(loop).extent
        run = gcd(vector, element, known_factor(extent)) if dim == layout.rank - 1 else 1
        self.vector: Loop | None = None
        if run > 1:
            loop, self.vector = sch.split(loop, [None, run])
        tiles = {
            "subgroup": subgroup, "batch": batch, "outer": outer, "thread": thread,
            "element": element // run,
        }  # fmt: skip
        cut = {level: tile for level, tile in tiles.items() if tile > 1}
        self.workgroup: Loop | None
        self.workgroup, *faster = sch.split(loop, [None, *cut.values()]) if cut else [loop]
        found = dict(zip(cut, faster, strict=True))
        self.subgroup, self.batch, self.outer, self.thread, self.element = map(found.get, tiles)


class _UnitLoops:
    """Loops on which nothing depends."""

    def __init__(self, sch: s_tir.Schedule, block: Any) -> None:
        self.sch, self.block = sch, block

    def make(self, extent: int, replicas: Replicas) -> list[Loop]:
        """Loops of ``extent`` iterations in all: the first alone does something, or all do."""
        unit = self.sch.add_unit_loop(self.block)
        return self.sch.split(unit, [1, extent], disable_predication=replicas == "all")


def _ids(
    unit: _UnitLoops,
    tiles: Ints,
    strides: Ints,
    count: int,
    loops: Sequence[Loop | None],
    replicas: Replicas,
) -> list[Loop]:
    """The loops of one level's digits, slowest first: together they count the hardware ids."""
    found: list[Loop] = []
    for extent, dim in id_digits(tiles, strides, count):
        found += unit.make(extent, replicas) if dim is None else [loops[dim]]
    return found or unit.make(1, "all")
