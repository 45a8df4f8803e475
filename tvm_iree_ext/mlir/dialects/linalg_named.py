"""Named operations of ``linalg`` that have no loops of their own: fills, copies, transposes."""

from typing import Any

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Splat, Value
from tvm_iree_ext.mlir.dialects.linalg_generic import generic, identity_map
from tvm_iree_ext.mlir.dialects.linalg_softmax import softmax
from tvm_iree_ext.mlir.dialects.tensor_dialect import moved
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.relax_types import BROADCAST
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import tensor_kind


def _fill(scope: Scope, op: form.ParsedOperation) -> Value:
    value, target = op.operands
    into = scope.any_tensor(target)
    scalar = scope.scalar(value)
    if scalar.element != into.element:
        raise Unsupported(f"fills {into.element.name} with {scalar.element.name}")
    return Splat(into.shape, into.element, scalar)


def _transpose(scope: Scope, op: form.ParsedOperation) -> Value:
    order = [int(axis) for axis in op.attributes["permutation"]]
    return _at_axes(scope, op, [order.index(axis) for axis in range(len(order))])


def _broadcast(scope: Scope, op: form.ParsedOperation) -> Value:
    added = {int(axis) for axis in op.attributes["dimensions"]}
    rank = len(scope.any_tensor(op.operands[1]).shape)
    return _at_axes(scope, op, [axis for axis in range(rank) if axis not in added], BROADCAST)


def _at_axes(scope: Scope, op: form.ParsedOperation, axes: list[int], *kind: int) -> Value:
    """The first operand, whose dims are these axes of the result."""
    value, into = (scope.any_tensor(one) for one in op.operands)
    value = as_shape(scope, value, tuple(into.shape[axis] for axis in axes))
    if isinstance(value, Splat):
        return Splat(into.shape, value.element, value.scalar)
    return moved(
        scope,
        op.name,
        [value],
        into.shape,
        into.element,
        lambda kernel, at: kernel.copied(value, [at[axis] for axis in axes]),
        *kind,
    )


def _copy(scope: Scope, op: form.ParsedOperation) -> Any:
    value, into = (scope.any_tensor(one) for one in op.operands)
    if value.element == into.element:
        return as_shape(scope, value, into.shape)
    return generic(scope, op)


_CONVOLUTIONS = """
    conv_1d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d conv_2d_nchw_fchw conv_2d_nchw_fchw_q
    conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_ngchw_gfchw_q conv_2d_nhwc_fhwc
    conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf conv_2d_nhwc_hwcf_q conv_2d_nhwgc_gfhwc
    conv_2d_nhwgc_gfhwc_q conv_3d conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf conv_3d_ndhwc_dhwcf_q
    depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc depthwise_conv_1d_nwc_wcm
    depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwc depthwise_conv_2d_nhwc_hwc_q
    depthwise_conv_2d_nhwc_hwcm depthwise_conv_2d_nhwc_hwcm_q depthwise_conv_3d_ncdhw_cdhw
    depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ndhwc_dhwcm
"""
_POOLING = """
    pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum pooling_ndhwc_max
    pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned pooling_nhwc_min
    pooling_nhwc_min_unsigned pooling_nhwc_sum pooling_nwc_max pooling_nwc_max_unsigned
    pooling_nwc_min pooling_nwc_min_unsigned pooling_nwc_sum
"""
_CONTRACTIONS = """
    batch_matmul batch_matvec batch_mmt4d batch_reduce_matmul batch_vecmat contract dot matmul
    matvec mmt4d quantized_batch_matmul quantized_matmul scaled_contract vecmat
"""


def _with_maps(
    op: form.ParsedOperation, maps: tuple[form.ParsedAffineMap, ...]
) -> form.ParsedOperation:
    attributes = {**op.attributes, "indexing_maps": maps}
    return form.ParsedOperation(
        op.name, op.operands, op.results, attributes, op.regions, op.location, op.segments
    )


def _map(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    (kind,) = {len(tensor_kind(value).shape) for value in op.operands}
    maps = tuple(identity_map(kind) for _ in op.operands)
    block = op.block()
    if len(block.arguments) == len(op.operands) - 1:  # the init is no argument of older IR
        target = form.ParsedValue(form.ParsedScalarType(tensor_kind(op.results[0]).dtype), "%out")
        block = form.ParsedBlock([*block.arguments, target], block.operations)
    counts = (len(op.operands) - 1, 1)
    whole = form.ParsedOperation(
        op.name, op.operands, op.results, {"indexing_maps": maps}, [[block]], op.location, counts
    )
    return generic(scope, whole)


def _reduce(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    inputs = op.operands[: len(op.operands) // 2]
    rank = len(tensor_kind(inputs[0]).shape)
    reduced = {int(axis) for axis in op.attributes["dimensions"]}
    full = identity_map(rank)
    left = tuple(result for axis, result in enumerate(full.results) if axis not in reduced)
    out = form.ParsedAffineMap(rank, 0, left)
    maps = (full,) * len(inputs) + (out,) * len(inputs)
    whole = _with_maps(op, maps)
    whole.segments = (len(inputs), len(inputs))
    return generic(scope, whole)


LOOPS = ["linalg.elementwise"] + [
    f"linalg.{name}" for name in f"{_CONVOLUTIONS} {_POOLING} {_CONTRACTIONS}".split()
]
"""The named ops that are loops by their indexing maps and their region."""

NAMED = {
    "linalg.broadcast": _broadcast,
    "linalg.copy": _copy,
    "linalg.fill": _fill,
    "linalg.map": _map,
    "linalg.reduce": _reduce,
    "linalg.softmax": softmax,
    "linalg.transpose": _transpose,
}
