"""Sums of products among ``linalg``'s loops: the registry's contraction."""

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.ir_values import TENSORS, AnyTensor, Value, is_zero, plain
from tvm_iree_ext.mlir.dialects.iree_linalg_ext import map_text
from tvm_iree_ext.mlir.dialects.linalg_generic import Loops, dims_of, is_projection
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, type_of
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

_WIDEN = ("arith.extf", "arith.extsi", "arith.sitofp")
_SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def is_sum_of_products(block: form.ParsedBlock) -> bool:
    """Whether a region yields its last argument plus the product of the two others, converted.

    All conversions are to wider types, or of signed integers, to floats that may not hold all of
    them: those of bytes alone are certain to be exact.
    """
    if len(block.arguments) != 3 or any(op.name == "linalg.index" for op in block.operations):
        return False
    made = {id(op.results[0]): op for op in block.operations[:-1] if op.results}
    (yielded,) = block.operations[-1].operands or (None,)
    total = made.get(id(yielded))
    if total is None or total.name not in _SUMS:
        return False
    left, right, sums = block.arguments
    parts = [value for value in total.operands if value is not sums]
    if len(parts) != 1 or (product := made.get(id(parts[0]))) is None:
        return False
    if product.name != _SUMS[total.name]:
        return False

    def source(value: form.ParsedValue) -> form.ParsedValue:
        while (op := made.get(id(value))) is not None and op.name in _WIDEN:
            (value,) = op.operands
        return value

    factors = [source(value) for value in product.operands]
    return factors in ([left, right], [right, left])


def types_fit(factors: Sequence[AnyTensor], result: AnyTensor) -> bool:
    """Whether the registry's ops multiply what the factors hold, and sum to the result's type."""
    kinds = [one.element for one in factors]
    floats = ("float16", "bfloat16", "float32", "float64")
    if any(kind.name in floats for kind in kinds):
        return result.element.name in floats and all(k.name in (*floats, "int8") for k in kinds)
    return all(kind.name == "int8" for kind in kinds) and result.element.name == "int32"


def contraction(scope: Scope, loops: Loops) -> list[Value] | None:
    """The result by the registry's contraction; None for loops that are none."""
    maps = [*loops.input_maps, *loops.output_maps]
    if len(loops.inputs) != 2 or len(loops.outputs) != 1 or not is_sum_of_products(loops.block):
        return None
    if not all(isinstance(one, TENSORS) for one in loops.inputs) or not loops.reduced:
        return None
    if not all(is_projection(one) for one in maps):
        return None
    homes = [dims_of(one) for one in maps]
    if any(sum(dim in home for home in homes) < 2 for dim in range(len(loops.extents))):
        return None
    if any(isinstance(plain(one), int) and int(plain(one)) == 0 for one in loops.extents):
        return None
    lhs, rhs = loops.inputs
    (out,) = loops.outputs
    if not types_fit((lhs, rhs), out):
        return None
    given: dict[str, Any] = {} if is_zero(out) else {"init": type_of(scope, out)}
    try:
        made = ops.contraction(
            type_of(scope, lhs),
            type_of(scope, rhs),
            indexing_maps=[map_text(one) for one in maps],
            result_dtype=out.element.storage[0],
            **given,
        )
    except OpError:  # one of the shapes that it does not take: plain loops do
        return None
    operands: dict[str, Value] = {"lhs": lhs, "rhs": rhs, "init": out}
    return call_op(scope, made, operands, [out])
