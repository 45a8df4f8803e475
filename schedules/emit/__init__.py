"""Building blocks for kernels written with TIR's IRBuilder.

Kernels whose algorithm differs from the canonical one (flash attention, sorts, scans) are emitted
as plain loops: Python runs when the kernel is built, so lists, helpers and unrolled tiles are
ordinary Python.  An expression is computed anew wherever it is used: one that is costly, or whose
operands change in between, is bound to a variable first (``I.Bind``), though not in long chains,
which TVM expands again while it simplifies.  All indices are int64; TVM narrows them where it can
prove that they fit.
"""

from tvm_iree_ext.schedules.emit.index_arithmetic import (
    ceil_div,
    divide,
    flat_index,
    larger,
    larger_float,
    larger_or_nan,
    product,
    row_major,
    smaller,
    total,
)
from tvm_iree_ext.schedules.emit.iteration_space import At, IterationSpace, OperandView, bound
from tvm_iree_ext.schedules.emit.scratch_memory import (
    LINE_BYTES,
    copy_row,
    copy_run,
    flat,
    flat_words,
    held_index,
    line_starts,
    part,
    prefetch,
    registers,
    scratch,
)
from tvm_iree_ext.schedules.emit.vector_loops import copied, in_vectors, serial, vector_loop
from tvm_iree_ext.schedules.emit.vector_transpose import (
    interleaved,
    load_transposed,
    move_transposed,
    store_transposed,
    transpose,
)
from tvm_iree_ext.tir.tir_expressions import Expr, Index, cast, i64, known, run, splat

__all__ = [
    "LINE_BYTES",
    "At",
    "Expr",
    "Index",
    "IterationSpace",
    "OperandView",
    "bound",
    "cast",
    "ceil_div",
    "copied",
    "copy_row",
    "copy_run",
    "divide",
    "flat",
    "flat_index",
    "flat_words",
    "held_index",
    "i64",
    "in_vectors",
    "interleaved",
    "known",
    "larger",
    "larger_float",
    "larger_or_nan",
    "line_starts",
    "load_transposed",
    "move_transposed",
    "part",
    "prefetch",
    "product",
    "registers",
    "row_major",
    "run",
    "scratch",
    "serial",
    "smaller",
    "splat",
    "store_transposed",
    "total",
    "transpose",
    "vector_loop",
]
