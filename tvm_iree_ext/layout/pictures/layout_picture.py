"""Contents of a picture of a layout: runs of coordinates, and the lanes that hold them.

:mod:`.picture_text` and :mod:`.picture_svg` draw it.  The
last two dimensions are rows and columns, the leading ones are sliced.  One cell is one element
tile: neighbours that one lane holds in a row.  A dimension with too many cells is cut short: first
where batch and outer tiles repeat the same lanes, then inside the thread tile, then at subgroups.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, product
from math import prod

import numpy as np

from tvm_iree_ext.layout.distribute import coordinates, simt_shape, to_simd
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.ownership import (
    first_lanes,
    first_subgroups,
    replica_groups,
    replication,
    representative_lanes,
    representative_subgroups,
)

MAX_SLICES = 6
MAX_HELD_RUNS = 8


@dataclass(frozen=True)
class CoordinateRun:
    """Coordinates ``start .. stop - 1`` of one dimension: one element tile, or a gap."""

    start: int
    stop: int
    local: str = ""  # the local indices in the lane's part, as text
    gap: str = ""  # what was left out here; empty for a cell

    @property
    def label(self) -> str:
        """``0..3``, or ``5``."""
        return range_text(self.start, self.stop)


@dataclass(frozen=True)
class Slice:
    """One picture of rows and columns, at fixed runs of the leading dimensions."""

    title: str  # "[0..3, :, :]", empty for rank 2 and less
    at: Ints  # the first coordinate in each leading dimension
    gap: str = ""  # set instead of a picture where slices were left out


@dataclass(frozen=True)
class Cell:
    """Owner of one element tile, and its registers."""

    subgroup: int
    lane: int
    registers: np.ndarray  # [rows, columns] of the cell


class Picture:
    """A layout on given hardware, cut to at most ``max_rows`` by ``max_columns`` cells a slice.

    Raises:
        LayoutError: when the layout does not fit the hardware.
    """

    def __init__(
        self,
        layout: NestedLayout,
        num_subgroups: int,
        subgroup_size: int,
        max_rows: int,
        max_columns: int,
    ) -> None:
        self.layout, self.num_subgroups, self.subgroup_size = layout, num_subgroups, subgroup_size
        self.subgroup_replicas, self.lane_replicas = replication(
            layout, num_subgroups, subgroup_size
        )
        flat = CoordinateRun(0, 1)
        self.rows = axis_runs(layout, layout.rank - 2, max_rows) if layout.rank > 1 else [flat]
        self.columns = axis_runs(layout, layout.rank - 1, max_columns) if layout.rank else [flat]

    @property
    def slices(self) -> Iterator[Slice]:
        """The slices along the leading dimensions, the first few of them."""
        leading = range(max(0, self.layout.rank - 2))
        if not leading:
            yield Slice("", ())
            return
        axes = [
            axis_runs(self.layout, dim, self.layout.undistributed_shape[dim]) for dim in leading
        ]
        for runs in islice(product(*axes), MAX_SLICES):
            labels = ", ".join(run.label for run in runs)
            yield Slice(f"[{labels}, :, :]", tuple(run.start for run in runs))
        more = prod(map(len, axes)) - MAX_SLICES
        if more > 0:
            yield Slice("", (), gap=_count(more, "more slice"))

    def cell(self, at: Ints, row: CoordinateRun, column: CoordinateRun) -> Cell:
        """The cell where ``row`` and ``column`` meet, in the slice at ``at``."""
        drawn = (row, column)[2 - min(2, self.layout.rank) :]
        first = (*at, *(run.start for run in drawn))
        leading = self._registers[at] if at else self._registers
        registers = leading[tuple(slice(run.start, run.stop) for run in drawn)]
        registers = registers.reshape(row.stop - row.start, -1)
        return Cell(int(self._subgroups[first]), int(self._lanes[first]), registers)

    @property
    def title(self) -> str:
        """Shape and hardware in words."""
        shape = "x".join(map(str, self.layout.undistributed_shape)) or "scalar"
        return (
            f"{shape} over {_count(self.num_subgroups, 'subgroup')}"
            f" of {_count(self.subgroup_size, 'lane')}"
        )

    @property
    def registers_per_lane(self) -> int:
        """Elements that each lane holds, of all its parts."""
        shape = simt_shape(self.layout, self.num_subgroups, self.subgroup_size)
        return prod(shape[2:])

    @property
    def holding(self) -> str:
        """Describe what each lane holds, and how often each element is held."""
        local = "x".join(map(str, self.layout.distributed_unpacked_shape)) or "1"
        tiles = prod(self.layout.subgroup_tile)
        parts = max(1, tiles // self.num_subgroups)
        held = f"{parts} parts of {local}" if parts > 1 else local
        owners = self.subgroup_replicas * self.lane_replicas
        return f"each lane holds {held}; each element has {_count(owners, 'owner')}"

    @property
    def subgroup_groups(self) -> list[list[int]]:
        """Subgroups that hold the same, the smallest of each first."""
        representatives = representative_subgroups(self.layout, self.num_subgroups)
        return replica_groups(representatives)[np.unique(representatives)].tolist()

    @property
    def lane_note(self) -> str:
        """Name the lanes that a lane's number stands for; empty without replicas among lanes."""
        if self.lane_replicas == 1:
            return ""
        lanes = replica_groups(representative_lanes(self.layout, self.subgroup_size))[0].tolist()
        listed = lanes if len(lanes) <= 6 else [*lanes[:3], "...", lanes[-1]]
        return f"a number stands for {self.lane_replicas} lanes: 0 for {listed_text(listed)}"

    @property
    def held_by_first_lane(self) -> list[str]:
        """Lane 0 of subgroup 0: its registers, and the coordinates in them."""
        held = coordinates(self.layout, self.num_subgroups, self.subgroup_size)[0, 0]
        held = held.reshape(prod(held.shape[:-1]), self.layout.rank)
        step = np.zeros(self.layout.rank, int)
        step[-1:] = 1
        cuts = np.flatnonzero((np.diff(held, axis=0) != step).any(axis=1)) + 1
        lines = []
        for start, stop in pairwise([0, *cuts.tolist(), len(held)]):
            *leading, last = [str(x) for x in held[start]] or [""]
            if self.layout.rank:
                last = range_text(int(held[start][-1]), int(held[stop - 1][-1]) + 1)
            lines.append(f"{range_text(start, stop)}: ({', '.join([*leading, last])})")
        if len(lines) > MAX_HELD_RUNS:
            lines = [*lines[: MAX_HELD_RUNS - 2], "...", lines[-1]]
        return lines

    @cached_property
    def _subgroups(self) -> np.ndarray:
        return first_subgroups(self.layout, self.num_subgroups)

    @cached_property
    def _lanes(self) -> np.ndarray:
        return first_lanes(self.layout)

    @cached_property
    def _registers(self) -> np.ndarray:
        shape = simt_shape(self.layout, self.num_subgroups, self.subgroup_size)
        numbers = np.arange(prod(shape[2:])).reshape(shape[2:])
        return to_simd(
            np.broadcast_to(numbers, shape), self.layout, self.num_subgroups, self.subgroup_size
        )


def axis_runs(layout: NestedLayout, dim: int, limit: int) -> list[CoordinateRun]:
    """The cells of one dimension in order, with gaps where there would be more than ``limit``."""
    parts, batch, outer, threads, extent = (tile[dim] for tile in layout.tiles)
    groups = batch * outer  # of thread tiles, each with the same lanes
    cut = parts * groups * threads > limit
    cost = threads + (groups > 1)
    shown_threads = max(3, limit // parts - 2) if cut and parts * cost > limit else threads
    shown_parts = max(3, limit // (shown_threads + 2)) if cut else parts
    runs = []
    for part in _shown(parts, shown_parts):
        size = groups * threads * extent
        if isinstance(part, range):
            runs.append(
                CoordinateRun(part[0] * size, part[-1] * size + size, gap="subgroups go on")
            )
            continue
        for group in [0] if cut else range(groups):
            start = part * size + group * threads * extent
            local = range_text(group * extent, (group + 1) * extent)
            for thread in _shown(threads, shown_threads):
                if isinstance(thread, range):
                    first, last = start + thread[0] * extent, start + (thread[-1] + 1) * extent
                    runs.append(CoordinateRun(first, last, local, gap="lanes go on"))
                else:
                    at = start + thread * extent
                    runs.append(CoordinateRun(at, at + extent, local))
        if cut and groups > 1:
            local = range_text(extent, groups * extent)
            repeats = f"the same lanes, {_count(groups - 1, 'more time')}"
            runs.append(
                CoordinateRun(part * size + threads * extent, part * size + size, local, repeats)
            )
    return runs


def _shown(count: int, limit: int) -> list[int | range]:
    """``0 .. count - 1``, or the first ones, a range that is left out, and the last one."""
    if count <= limit:
        return list(range(count))
    return [*range(limit - 1), range(limit - 1, count - 1), count - 1]


def range_text(start: int, stop: int) -> str:
    """``0..3``, or ``5`` for one number."""
    return f"{start}..{stop - 1}" if stop - start > 1 else str(start)


def listed_text(values: list) -> str:
    """``0, 2``."""
    return ", ".join(map(str, values))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"
