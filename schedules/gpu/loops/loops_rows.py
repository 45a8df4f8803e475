"""Functions that go row by row, on a GPU: one kernel, in which lanes share a row.

    for each pass:  elements of the lane: load, compute, accumulate, store
                    reduce what was accumulated over the lanes

A pass ends where reductions are needed by what follows.  A lane has the same elements in each pass:
what it read, or computed at a cost, it keeps in registers where they are few enough, and reads or
computes again where they are not.  Nothing but reductions goes from lane to lane.
"""

from math import prod

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import digits
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.loops.loops_lanes import (
    is_whole,
    widest_run,
)
from tvm_iree_ext.schedules.gpu.loops.loops_row_passes import RowLanes, RowPasses
from tvm_iree_ext.schedules.gpu.loops.loops_row_steps import RowLine, RowMemory, row_steps
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.schedules.shared.loops.loops_fusion import declare
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    linear_index,
    points,
)
from tvm_iree_ext.schedules.shared.loops.loops_rows import RowNests
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_MOST_OF_FEW = 1 << 16  # elements of a row, where rows do not fill the chip
_FEW = 4  # times fewer rows than cores leave a chip idle
_MOST_LANES = 512  # that share a row
_LANES_PER_CORE = 512  # that keep a chip busy
_ELEMENTS_PER_LANE = 16
_LANES_PER_WORKGROUP = 128


def has_row_kernel(rows: Index, elements: Index, target: Target) -> bool:
    """Whether reductions over rows are best one kernel, with a workgroup at most for a row."""
    count, length = known(rows), known(elements)
    is_few = count is not None and _FEW * count < gpu_chip(target).parts[0].cores
    if length is None:
        return not is_few
    return length > 1 and (length <= _MOST_OF_FEW or not is_few)


def emit_rows(function: tirx.PrimFunc, rows: RowNests, name: str, target: Target) -> tirx.PrimFunc:
    """The function by the symbol ``name``."""
    memory = RowMemory()
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        declare(function, name, memory)
        _Kernel(rows, memory, target).emit()
    return builder.get()


class _Kernel:
    """The kernel of a function's rows."""

    def __init__(self, rows: RowNests, memory: RowMemory, target: Target) -> None:
        self._rows, self._memory = rows, memory
        self._size, self._kind = subgroup_size(target), target.kind.name
        self._cores = gpu_chip(target).parts[0].cores
        row = i64(0) if rows.row is None else rows.row.var
        self._plan = row_steps(rows.at(row).nests)
        for step in self._plan:
            memory.shared.update(step.nest.cells)
            dtype = str(step.buffer.ty.dtype)
            memory.values[step.buffer] = tirx.Var("here", dtype)
        self._elements: Index = points(
            next(step.nest.axes for step in self._plan if step.nest.reduced)
        )
        self._run = self._widest_run()

    def _widest_run(self) -> int:
        """How many neighbours of a row a lane takes at once."""
        runs, lines = [], []
        for step in self._plan:
            if step.is_single:
                continue
            nest, line = step.nest, RowLine.of(step, self._memory)
            lines.append(line.axes[-1])
            stored = [
                (s.buffer, linear_index(s.buffer, list(s.indices)))
                for s in nest.stores
                if not nest.reduced and s.buffer in self._memory.flat
            ]
            read = [one for one in line.look.accesses if one.buffer not in self._memory.values]
            steps = Steps(tuple(one.position for one in read), nest.axes)
            if stored or 1 in steps.of(lines[-1]):
                runs.append(widest_run(stored, read, lines[-1], nest.axes))
        run = min(runs, default=1)
        while run > 1 and any(known_factor(line.extent) % run for line in lines):
            run //= 2
        return run

    def _layout(self) -> NestedLayout:
        """Layout of ``[rows, elements]``: lanes of a row, and rows of a workgroup."""
        length, count, size = known(self._elements), known(self._rows.count), self._size
        lanes, subgroups = size, _LANES_PER_WORKGROUP // size
        if length is not None:
            runs, lanes, subgroups = -(-length // self._run), 1, 1
            while lanes < size and lanes < runs:
                lanes *= 2
            wanted = 0 if count is None else self._cores * _LANES_PER_CORE // max(count, 1)
            most = _MOST_LANES if wanted < _MOST_LANES else 2 * _MOST_LANES
            while lanes * subgroups < min(runs, most) and (
                lanes * subgroups < wanted or length > lanes * subgroups * _ELEMENTS_PER_LANE
            ):
                subgroups *= 2
            subgroups = min(subgroups, -(-runs // lanes))
        apart = max(1, _LANES_PER_WORKGROUP // size // subgroups)
        while count is not None and apart > 1 and count * lanes < self._cores * size * apart:
            apart //= 2
        return NestedLayout(
            subgroup_tile=(apart, subgroups), batch_tile=(1, 1), outer_tile=(1, 1),
            thread_tile=(size // lanes, lanes), element_tile=(1, 1),
            subgroup_strides=(subgroups, 1), thread_strides=(lanes, 1),
        )  # fmt: skip

    def emit(self) -> None:
        """The kernel."""
        layout = self._layout()
        tile, sharing = layout.undistributed_shape
        subgroups = prod(layout.subgroup_tile)
        count = emit.ceil_div(self._rows.count, tile)
        with workgroups(count, subgroups, self._size, self._kind) as (number, workgroup):
            subgroup, lane = digits(layout, workgroup)
            row = wide(number) * tile + wide(subgroup[0] * layout.thread_tile[0] + lane[0])
            exists = None
            if not is_whole(self._rows.count, tile):
                row = I.Bind(row)
                exists = row < i64(self._rows.count)
                row = tirx.min(
                    row, i64(self._rows.count) - 1
                )  # all lanes take part in what is shared
            row = I.Bind(row)
            along = I.Bind(wide(subgroup[1] * layout.thread_tile[1] + lane[1]))
            steps = row_steps(self._rows.at(row).nests)
            across = RowLanes(workgroup, layout, along, sharing, exists)
            RowPasses(steps, self._memory, across, self._elements, self._run).emit()
