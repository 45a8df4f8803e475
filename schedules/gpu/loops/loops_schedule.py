"""Plain loops of imported programs on a GPU: elementwise functions, copies, reductions.

Each nest that writes memory is a kernel of its own, or two.
"""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.schedules.gpu.loops.loops_map import emit_map
from tvm_iree_ext.schedules.gpu.loops.loops_parallel import emit_parallel
from tvm_iree_ext.schedules.gpu.loops.loops_reduction import emit_reduction
from tvm_iree_ext.schedules.gpu.loops.loops_rows import emit_rows
from tvm_iree_ext.schedules.shared.loops.loops_fusion import emit_nests
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, nests_of
from tvm_iree_ext.schedules.shared.loops.loops_point import NestMemory
from tvm_iree_ext.schedules.shared.loops.loops_rows import rows_of


def schedule_loops(function: tirx.PrimFunc, target: Target, name: str) -> tirx.PrimFunc:
    """The function scheduled for a GPU, by the symbol ``name``.

    Raises:
        ScheduleError: for one that is neither a sequence of nests nor one of parallel loops.
    """
    form = nests_of(function)
    if form is None:
        return emit_parallel(function, name, target)
    rows = rows_of(function, form)
    if rows is not None:
        return emit_rows(function, rows, name, target)

    def each(nest: LoopNest, memory: NestMemory) -> None:
        (emit_reduction if nest.reduced else emit_map)(nest, memory, target)

    return emit_nests(function, form, name, each)
