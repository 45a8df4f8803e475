"""Plain loops of imported programs on the CPU: elementwise functions, copies, reductions.

Axes of a nest that are contiguous in every buffer become one; the last runs in vectors, the first
are shared among the threads where there is enough to do.
"""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.schedules.cpu.loops.loops_map import emit_map
from tvm_iree_ext.schedules.cpu.loops.loops_reduction import emit_reduction
from tvm_iree_ext.schedules.cpu.loops.loops_rows import emit_rows
from tvm_iree_ext.schedules.shared.loops.loops_alignment import with_own_alignment
from tvm_iree_ext.schedules.shared.loops.loops_fusion import emit_nests
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, nests_of
from tvm_iree_ext.schedules.shared.loops.loops_point import NestMemory
from tvm_iree_ext.schedules.shared.loops.loops_rows import rows_of
from tvm_iree_ext.targets.cpu import cpu_features


def schedule_loops(function: tirx.PrimFunc, target: Target, name: str) -> tirx.PrimFunc:
    """The function scheduled for a CPU, by the symbol ``name``.

    One that is no sequence of nests is left as it is.
    """
    form = nests_of(function)
    if form is None:
        return with_own_alignment(function).with_attr("global_symbol", name)
    features = cpu_features(target)
    rows = rows_of(function, form)
    if rows is not None:
        return emit_rows(function, rows, name, features)

    def each(nest: LoopNest, memory: NestMemory) -> None:
        (emit_reduction if nest.reduced else emit_map)(nest, memory, features)

    return emit_nests(function, form, name, each)
