"""The same bits as elements of another type: ``tensor.bitcast``, ``iree_tensor_ext.bitcast``."""

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Element, Expr, Pair
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor, Value
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, moved, reshaped
from tvm_iree_ext.mlir.importing.emitted_values import shape_of
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder, in_memory
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.mlir.scalars.arith_floats import from_pattern, pattern_of


def bitcast(scope: Scope, value: AnyTensor, own: Element) -> Tensor:
    """The same bits as a tensor of another element type of as many."""
    if own.storage == value.element.storage:
        tensor = in_memory(scope, value)
        return Tensor(tensor.shape, own, tensor.parts)

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        pattern = pattern_of(kernel.element(value, at), value.element)
        return kernel.as_parts(from_pattern(pattern, own), own)

    return moved(scope, "tensor.bitcast", [value], value.shape, own, part, ELEMENTWISE)


def _bitcast(scope: Scope, op: form.ParsedOperation) -> Value:
    return bitcast(scope, scope.any_tensor(op.operands[0]), kind_of(op.results[0]))


def _reshaped_bitcast(scope: Scope, op: form.ParsedOperation) -> Value:
    """The elements may be other in number: a complex one is two, its real part first."""
    value, own = scope.any_tensor(op.operands[0]), kind_of(op.results[0])
    kind, came = op.results[0].type, value.element
    count = sum(extent is None for extent in getattr(kind, "shape", ()))
    shape = shape_of(scope, kind, op.operands[len(op.operands) - count :])
    if came.is_complex and not own.is_complex and own.bits == came.part.bits:
        return reshaped(scope, bitcast(scope, _split(scope, value), own), shape)
    if own.is_complex and not came.is_complex and came.bits == own.part.bits:
        parts = bitcast(scope, reshaped(scope, value, (*shape, 2)), own.part)
        return _joined(scope, parts, own)
    if came.is_complex != own.is_complex or came.bits != own.bits:
        raise Unsupported(f"of {came.name} to {own.name}; types of as many bits are supported")
    return bitcast(scope, reshaped(scope, value, shape), own)


def _split(scope: Scope, value: AnyTensor) -> Tensor:
    """The parts of complex numbers along a last axis."""

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        real, imag = kernel.copied(value, at[:-1])
        return [tirx.Select(tirx.EQ(at[-1], tirx.const(0, "int64")), real, imag)]

    shape = (*value.shape, 2)
    return moved(scope, "parts", [value], shape, value.element.part, part)


def _joined(scope: Scope, parts: Tensor, own: Element) -> Tensor:
    """Complex numbers whose parts stand along the last axis."""

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        places = [[*at, tirx.const(one, "int64")] for one in (0, 1)]
        return kernel.as_parts(Pair(*(kernel.element(parts, one) for one in places)), own)

    return moved(scope, "joined", [parts], parts.shape[:-1], own, part)


BITCASTS = {
    "iree_tensor_ext.bitcast": _reshaped_bitcast,
    "tensor.bitcast": _bitcast,
}
