"""The same bits as elements of another type: ``tensor.bitcast``, and those of IREE's dialects.

Elements of fewer bits lie in those of more from the lowest bit on.  An i1 takes a byte, where it is
not packed: then it is a bit.
"""

from math import prod
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Element, Expr, Pair, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor, Value
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, moved, reshaped
from tvm_iree_ext.mlir.importing.emitted_values import as_shape, shape_of
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder, in_memory
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.mlir.scalars.arith_floats import from_pattern, pattern_of
from tvm_iree_ext.tir.tir_expressions import i64


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
        return reshaped(scope, bitcast(scope, split(scope, value), own), shape)
    if own.is_complex and not came.is_complex and came.bits == own.part.bits:
        parts = bitcast(scope, reshaped(scope, value, (*shape, 2)), own.part)
        return paired(scope, parts, own)
    stored, wanted = _stored_bits(op.operands[0]), _stored_bits(op.results[0])
    if came.is_complex != own.is_complex or (came.is_complex and came.bits != own.bits):
        raise Unsupported(f"of {came.name} to {own.name}")
    if stored != wanted:
        return _repacked(scope, value, stored, Tensor(shape, own, ()), wanted)
    return bitcast(scope, reshaped(scope, value, shape), own)


def _stored_bits(value: form.ParsedValue) -> int:
    """How many bits an element takes."""
    kind = kind_of(value)
    if kind.kind != "bool":
        return kind.bits
    return 1 if isinstance(value.type, form.ParsedTensorType) and value.type.packed else 8


def _repacked(scope: Scope, value: AnyTensor, stored: int, like: Tensor, wanted: int) -> Tensor:
    """Elements of ``stored`` bits as elements of ``wanted`` bits, as ``like`` says.

    Both must take as many bytes.  Extents that are not known go by way of bytes, of which a run
    checks that there are as many.
    """
    few, many = sorted((stored, wanted))
    if many % few:
        raise Unsupported(f"of elements of {stored} bits to ones of {wanted}")
    counts: list[Any] = [scope.simple(prod(shape)) for shape in (value.shape, like.shape)]
    sizes = [
        scope.simple((count * bits + 7) // 8)
        for count, bits in zip(counts, (stored, wanted), strict=True)
    ]
    if all(isinstance(size, int) for size in sizes):
        if sizes[0] != sizes[1]:
            raise Unsupported(
                f"of {counts[0]} elements of {stored} bits to {counts[1]} of {wanted}"
            )
        return _cut(scope, value, stored, like, wanted)
    if stored != 8:
        value = _cut(scope, value, stored, Tensor((sizes[0],), element("int8"), ()), 8)
    checked = as_shape(scope, reshaped(scope, value, (sizes[0],)), (sizes[1],))
    if wanted == 8:
        return bitcast(scope, reshaped(scope, checked, like.shape), like.element)
    return _cut(scope, checked, 8, like, wanted)


def _cut(scope: Scope, value: AnyTensor, stored: int, like: Tensor, wanted: int) -> Tensor:
    """The bits of all elements in a row, cut into others; what bits there are none for are 0."""
    few, many = sorted((stored, wanted))
    several, came, own = many // few, value.element, like.element
    total = scope.simple(prod(value.shape))
    flat = reshaped(scope, value, (total,))
    word = f"uint{max(many, 8)}"

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        place: Expr = i64(0)
        for index, one in zip(at, like.shape, strict=True):
            place = place * kernel.extent(one) + index

        def pattern(index: Expr) -> Expr:
            """An element's bits; of one past the end, none."""
            held = pattern_of(kernel.element(flat, [index]), came)
            inside = index < kernel.extent(total)
            nothing = tirx.const(0, str(held.ty.dtype))
            return tirx.Cast(word, tirx.if_then_else(inside, held, nothing))

        if stored > wanted:
            shift = tirx.Cast(word, tirx.floormod(place, i64(several)) * wanted)
            bits = pattern(tirx.floordiv(place, i64(several))) >> shift
            found = bits & tirx.const((1 << wanted) - 1, word)
        else:
            found = tirx.const(0, word)
            for number in range(several):
                bits = pattern(place * several + number)
                found = found | (bits << tirx.const(number * stored, word))
        narrow = tirx.Cast(f"uint{max(wanted, 8)}", found)
        return kernel.as_parts(from_pattern(narrow, own), own)

    return moved(scope, "bitcast", [flat], like.shape, own, part)


def split(scope: Scope, value: AnyTensor) -> Tensor:
    """The parts of complex numbers along a last axis."""

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        real, imag = kernel.copied(value, at[:-1])
        return [tirx.Select(tirx.EQ(at[-1], tirx.const(0, "int64")), real, imag)]

    shape = (*value.shape, 2)
    return moved(scope, "parts", [value], shape, value.element.part, part)


def paired(scope: Scope, parts: Tensor, own: Element) -> Tensor:
    """Complex numbers whose parts stand along the last axis."""

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        places = [[*at, tirx.const(one, "int64")] for one in (0, 1)]
        return kernel.as_parts(Pair(*(kernel.element(parts, one) for one in places)), own)

    return moved(scope, "joined", [parts], parts.shape[:-1], own, part)


BITCASTS = {
    "flow.tensor.bitcast": _reshaped_bitcast,
    "iree_tensor_ext.bitcast": _reshaped_bitcast,
    "tensor.bitcast": _bitcast,
}
