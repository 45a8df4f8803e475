"""Calls of functions that a module declares, and whose names say ops of ours.

    func.func private @tvm_iree_ext.fft_transform.forward.axis0.length7.0(tensor<7xcomplex<f32>>)
      -> tensor<7xcomplex<f32>>

is the op's kind, axis and length, and a number, by which functions of other types differ.

    func.func private @tvm_iree_ext.grouped_matmul.0(
      tensor<6x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<6x5xf32>

takes rows, a matrix for each group, and the rows before which groups end.  Front ends leave such
calls as they are, where they take no operation of ours.
"""

import re
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, Empty, Tensor, Value
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, factor_type_of, type_of
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of

_TRANSFORM = re.compile(r"tvm_iree_ext\.fft_transform\.(\w+)\.axis(\d+)\.length(\d+)\.\d+")
_GROUPED = re.compile(r"tvm_iree_ext\.grouped_matmul\.\d+")
_PARTS = "real", "imag"


def declared_op(scope: Scope, op: form.ParsedOperation) -> list[Value] | None:
    """The results of a call, where its function's name says an op; else None.

    Raises:
        Unsupported: for tensors that are not of the op's shapes and types.
        OpError: for an axis or a length that is not that of the operand.
    """
    callee = str(op.attributes["callee"])
    if _GROUPED.fullmatch(callee):
        return _grouped_matmul(scope, op)
    found = _TRANSFORM.fullmatch(callee)
    return None if found is None else [_transform(scope, op, found)]


def _grouped_matmul(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    if len(op.operands) != 3 or len(op.results) != 1:
        raise Unsupported("takes three tensors, and gives one")
    lhs, rhs, offsets = (in_memory(scope, scope.any_tensor(one)) for one in op.operands)
    due = kind_of(op.results[0])
    made = ops.grouped_matmul(
        factor_type_of(scope, lhs),
        factor_type_of(scope, rhs),
        type_of(scope, offsets),
        result_dtype=due.storage[0],
    )
    operands: dict[str, Value] = {"lhs": lhs, "rhs": rhs, "offsets": offsets}
    return call_op(scope, made, operands, [Empty((lhs.shape[0], rhs.shape[2]), due)])


def _transform(scope: Scope, op: form.ParsedOperation, found: re.Match[str]) -> Value:
    kind: Any = found[1]
    axis, length = int(found[2]), int(found[3])
    if len(op.operands) != 1 or len(op.results) != 1:
        raise Unsupported("takes one tensor, and gives one")
    given = in_memory(scope, scope.any_tensor(op.operands[0]))
    numbers = given.element.part if given.element.is_complex else given.element
    parts = [Tensor(given.shape, numbers, (one,)) for one in given.parts]
    made = ops.fft_transform(
        *(type_of(scope, one) for one in parts), kind=kind, axis=axis, length=length
    )
    own, due = kind_of(op.results[0]), made.signature
    if (len(due.arguments), len(due.results)) != (len(parts), len(own.storage)) or (
        own.storage[0] != made.dtype
    ):
        raise Unsupported(f"{kind} of {given.element.name} gives no {own.name}")
    shape = (*given.shape[:axis], made.result_length, *given.shape[axis + 1 :])
    operands: dict[str, Value] = dict(zip(_PARTS, parts, strict=False))
    results = call_op(scope, made, operands, [Empty(shape, numbers) for _ in own.storage])
    tensors = [in_memory(scope, one) for one in results if isinstance(one, TENSORS)]
    return Tensor(shape, own, tuple(part for one in tensors for part in one.parts))
