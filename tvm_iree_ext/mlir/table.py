"""The one table of operations: from an op's name to what imports it."""

from collections.abc import Callable
from typing import Any

from tvm_iree_ext.mlir.base.ir_values import SCALARS, HeldByLanes, Tensor, Value
from tvm_iree_ext.mlir.dialects.bitcasts import BITCASTS
from tvm_iree_ext.mlir.dialects.cf_assert import ASSERTS
from tvm_iree_ext.mlir.dialects.check_dialect import CHECKS
from tvm_iree_ext.mlir.dialects.func_dialect import CALLS
from tvm_iree_ext.mlir.dialects.iree_linalg_ext import LINALG_EXT
from tvm_iree_ext.mlir.dialects.iree_linalg_ext_affine import AFFINE
from tvm_iree_ext.mlir.dialects.iree_linalg_ext_im2col import IM2COL
from tvm_iree_ext.mlir.dialects.iree_linalg_ext_moves import MOVES
from tvm_iree_ext.mlir.dialects.iree_vector_ext import VECTOR_EXT
from tvm_iree_ext.mlir.dialects.linalg_arg_extremes import arg_extreme, note_counting
from tvm_iree_ext.mlir.dialects.linalg_contractions import contraction
from tvm_iree_ext.mlir.dialects.linalg_convolutions import CONVOLUTIONS
from tvm_iree_ext.mlir.dialects.linalg_generic import emit, loops_of
from tvm_iree_ext.mlir.dialects.linalg_named import LOOPS, NAMED
from tvm_iree_ext.mlir.dialects.memref_dialect import MEMREF
from tvm_iree_ext.mlir.dialects.scf_dialect import SCF
from tvm_iree_ext.mlir.dialects.simt_values import on_wholes
from tvm_iree_ext.mlir.dialects.tensor_dialect import TENSORS, at_places
from tvm_iree_ext.mlir.dialects.tensor_slices import SLICES
from tvm_iree_ext.mlir.dialects.util_globals import GLOBALS
from tvm_iree_ext.mlir.dialects.vector_contract import VECTOR
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.mlir.scalars.scalar_regions import SCALAR_OPS, Evaluator

Handler = Callable[[Scope, form.ParsedOperation], Any]


def loops(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """An op with a region: by the registry's contraction where it is one, else as plain loops."""
    found = loops_of(scope, op)
    known = contraction(scope, found) or arg_extreme(scope, found)
    if known is not None:
        return known
    results = emit(scope, found, op.name)
    note_counting(scope, found, results)
    return results


HANDLERS: dict[str, Handler] = {
    "linalg.generic": loops,
    **dict.fromkeys(LOOPS, loops),
    **NAMED,
    **CONVOLUTIONS,
    **TENSORS,
    **BITCASTS,
    **SLICES,
    **LINALG_EXT,
    **AFFINE,
    **IM2COL,
    **MOVES,
    **VECTOR,
    **VECTOR_EXT,
    **CALLS,
    **GLOBALS,
    **CHECKS,
    **ASSERTS,
    **SCF,
    **MEMREF,
}
ON_MEMREFS = {*MEMREF, *SCF, "func.call", "util.call", "util.optimization_barrier"}
"""Those that take memrefs as they are; others take what these hold."""


def supported() -> list[str]:
    """The names of all operations that are imported."""
    return sorted({*HANDLERS, *SCALAR_OPS})


def elementwise(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """A scalar operation on tensors: element by element."""
    values: list[Any] = [scope.value(value) for value in op.operands]
    if any(isinstance(one, HeldByLanes) for one in values):
        wholes = _elementwise(scope, op, on_wholes(values))
        return [HeldByLanes(one, value) for one, value in zip(wholes, op.results, strict=True)]
    return list(_elementwise(scope, op, values))


def _elementwise(scope: Scope, op: form.ParsedOperation, values: list[Any]) -> list[Tensor]:
    shapes = [one.shape for one in values if not isinstance(one, SCALARS)]
    shape = shapes[0]
    values = [one if isinstance(one, SCALARS) else as_shape(scope, one, shape) for one in values]
    outputs = [(shape, kind_of(value)) for value in op.results]
    kernel = PrimFuncBuilder(scope, op.name, values, outputs, ELEMENTWISE)

    def each(at: Any) -> None:
        place = at_places(at)
        held = [
            kernel.scalar(one) if isinstance(one, SCALARS) else kernel.element(one, place)
            for one in values
        ]
        found = Evaluator(kernel.context, scope.value).apply(op, held)
        for number, one in enumerate(found):
            kernel.store(number, one, place)

    with kernel:
        kernel.block(op.name.rpartition(".")[2], shape, each)
    return list(kernel.results)


def documented() -> str:
    """The table of the page on import: the operations of each dialect."""
    dialects: dict[str, list[str]] = {}
    for name in supported():
        dialect, _, op = name.partition(".")
        dialects.setdefault(dialect, []).append(op)
    rows = [f"| `{dialect}` | {', '.join(names)} |" for dialect, names in sorted(dialects.items())]
    return "\n".join(["| dialect | operations |", "| --- | --- |", *rows])
