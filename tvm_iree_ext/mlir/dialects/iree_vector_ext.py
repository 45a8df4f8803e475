"""Operations of ``iree_vector_ext`` as the registry's ops; a vector is a tensor here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Empty, Number, Splat, Value
from tvm_iree_ext.mlir.dialects.iree_linalg_ext import arg_compare, map_text
from tvm_iree_ext.mlir.dialects.iree_linalg_ext_moves import padding_number, per_part
from tvm_iree_ext.mlir.dialects.lane_layouts import lay_out
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, element_type_of, type_of
from tvm_iree_ext.mlir.dialects.simt_values import to_simd, to_simt
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of, tensor_kind
from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.ops.base.op import Op


def _arg_compare(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    return arg_compare(scope, op, vector_ext.arg_compare)


def _to_layout(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    value = scope.any_tensor(op.operands[0])
    layout, mma_kind = op.attributes["layout"], op.attributes.get("mma_kind")
    if not isinstance(layout, form.Opaque):
        raise Unsupported("a layout that cannot be read")
    kind = tensor_kind(op.results[0])
    made = vector_ext.to_layout(
        element_type_of(scope, value),
        layout.text,
        # A strategy, or in older text nothing but the name: whatever it is, it is there.
        shared_memory_conversion=op.attributes.get("shared_memory_conversion", False) is not False,
        mma_kind=mma_kind.text if isinstance(mma_kind, form.Opaque) else mma_kind,
        operand_kind="vector" if kind.vector else "tensor",
    )
    if isinstance(value, Splat | Empty):
        results: list[Value] = [replace(value)]  # a value of its own, which has the layout
    else:
        results = call_op(scope, made, {"input": value}, [value])
    lay_out(scope, results[0], made, value)
    return results


def _transfer(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    gathers = op.name.endswith("gather")
    base: Any = None
    if gathers:
        (base,), offsets, indices, (padding,), masks = op.groups()
    else:
        (base,), (vector,), offsets, indices, masks = op.groups()
    source = scope.any_tensor(base)
    operands: dict[str, Value] = {"base": source}
    starts: list[Any] = []
    for axis, one in enumerate(offsets):
        start = scope.scalar(one)
        starts.append(int(start.value) if isinstance(start, Number) else "operand")
        operands[f"offset{axis}"] = start
    kinds: list[Any] = []
    for number, one in enumerate(indices):
        found = scope.value(one)
        operands[f"index{number}"] = found
        scalar = isinstance(one.type, form.ParsedScalarType)
        kinds.append(TensorType((), "int64") if scalar else type_of(scope, scope.any_tensor(one)))
    given: dict[str, Any] = {
        "indexing_maps": [map_text(one, zero=True) for one in op.attributes["indexing_maps"]],
        "offsets": starts,
    }
    if masks:
        operands["mask"] = scope.value(masks[0])
        given["mask"] = type_of(scope, scope.any_tensor(masks[0]))
    if not gathers:
        operands["vector"] = scope.any_tensor(vector)
        return per_part(
            scope,
            operands,
            source,
            lambda types: vector_ext.transfer_scatter(
                types["vector"], types["base"], *kinds, **given
            ),
        )
    found = scope.scalar(padding)
    shape = tuple(extent or 0 for extent in tensor_kind(op.results[0]).shape)
    if not isinstance(found, Number):
        given["padding"], operands["padding"] = "operand", found
    number = 0

    def make(types: Mapping[str, TensorType]) -> Op:
        nonlocal number
        if isinstance(found, Number):
            given["padding"] = padding_number(found, number)
        number += 1
        result = TensorType(shape, types["base"].dtype)
        return vector_ext.transfer_gather(types["base"], *kinds, result=result, **given)

    like: AnyTensor = Splat(shape, kind_of(op.results[0]), found)
    return per_part(scope, operands, like, make)


VECTOR_EXT = {
    "iree_vector_ext.arg_compare": _arg_compare,
    "iree_vector_ext.to_layout": _to_layout,
    "iree_vector_ext.to_simd": to_simd,
    "iree_vector_ext.to_simt": to_simt,
    "iree_vector_ext.transfer_gather": _transfer,
    "iree_vector_ext.transfer_scatter": _transfer,
}
