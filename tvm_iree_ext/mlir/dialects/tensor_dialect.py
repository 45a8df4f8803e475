"""Operations of ``tensor``: views, slices, padding, concatenation, elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from tvm_iree_ext.mlir.base.elements import Expr, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Constant,
    Empty,
    Number,
    Scalar,
    Shape,
    Splat,
    Symbol,
    Tensor,
    Value,
    extent,
    plain,
)
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.importing.emitted_values import applied, as_shape, extent_of, shape_of
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder, in_memory
from tvm_iree_ext.mlir.importing.relax_types import INJECTIVE, OPAQUE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import on_index, tensor_kind

_DYNAMIC = -(2**63)  # in a list of static offsets: the next operand is meant
INDEX = element("index")
Place = list[Expr]


def at_places(at: Mapping[int, Any]) -> Place:
    """The variables of a block, by dim."""
    return [at[dim] for dim in sorted(at)]


def moved(
    scope: Scope,
    name: str,
    reads: Sequence[Value],
    shape: Shape,
    kind: Any,
    part: Callable[[PrimFuncBuilder, Place], list[Expr]],
    pattern: int = INJECTIVE,
) -> Tensor:
    """A tensor whose elements are stored parts of others, unchanged."""
    kernel = PrimFuncBuilder(scope, name, reads, [(shape, kind)], pattern)
    with kernel:
        kernel.block(
            name.rpartition(".")[2],
            shape,
            lambda at: kernel.put(0, part(kernel, at_places(at)), at_places(at)),
        )
    return kernel.results[0]


def guarded(
    kernel: PrimFuncBuilder, condition: Expr, value: AnyTensor, at: Place, otherwise: list[Expr]
) -> list[Expr]:
    """The stored parts of an element that is there where a condition holds."""
    return [
        tirx.if_then_else(condition, one, other)
        for one, other in zip(kernel.copied(value, at), otherwise, strict=True)
    ]


def mixed(scope: Scope, static: Sequence[int], dynamic: Sequence[form.ParsedValue]) -> list[Scalar]:
    """A list of offsets or sizes: numbers, and operands for the rest.

    Raises:
        Unsupported: where the text has MLIR's mark of what is dynamic as a number.
    """
    if sum(int(one) == _DYNAMIC for one in static) != len(dynamic):
        raise Unsupported(f"the number {_DYNAMIC}")
    given = iter(dynamic)
    return [
        scope.scalar(next(given)) if int(one) == _DYNAMIC else Number(INDEX, int(one))
        for one in static
    ]


def as_extent(scope: Scope, value: Scalar, what: str) -> Any:
    """An integer scalar as an extent."""
    if not value.element.is_integer:
        raise Unsupported(f"{what} that is no integer")
    return extent_of(scope, value)


def _empty(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = tensor_kind(op.results[0])
    return Empty(shape_of(scope, kind, op.operands), element(kind.dtype))


def _splat(scope: Scope, op: form.ParsedOperation) -> Value:
    scalar, *sizes = op.operands
    kind = tensor_kind(op.results[0])
    return Splat(shape_of(scope, kind, sizes), element(kind.dtype), scope.scalar(scalar))


def reshaped(scope: Scope, value: AnyTensor, shape: Shape) -> AnyTensor:
    """The same elements, row-major, in another shape."""
    match value:
        case Splat():
            return Splat(shape, value.element, value.scalar)
        case Empty():
            return Empty(shape, value.element)
        case Constant() if all(isinstance(one, int) for one in shape):
            return Constant(value.array.reshape(shape), value.element, value.foldable)
    if 0 in [one for one in shape if isinstance(one, int)]:
        return Empty(shape, value.element)  # to Relax, an extent of 0 is that of the old shape
    tensor = in_memory(scope, value)
    if all(str(a) == str(b) for a, b in zip(tensor.shape, shape, strict=False)) and len(
        tensor.shape
    ) == len(shape):
        return tensor
    target = relax.ShapeExpr([extent(one) for one in shape])
    parts = [scope.function.builder.emit(relax.op.reshape(one, target)) for one in tensor.parts]
    made = Tensor(shape, tensor.element, tuple(parts))
    scope.function.views[id(made)] = made, value
    return made


def _groups(op: form.ParsedOperation, rank: int) -> list[list[int]]:
    """The axes that are one on the other side; which MLIR does not check to be all, in order."""
    groups = [[int(axis) for axis in group] for group in op.attributes["reassociation"]]
    axes = [axis for group in groups for axis in group]
    if axes != list(range(rank)) and groups:  # one element in no axes has no groups
        raise Unsupported(f"a reassociation that is not of the axes 0 to {rank - 1} in order")
    return groups


def _collapse(scope: Scope, op: form.ParsedOperation) -> Value:
    value = scope.any_tensor(op.operands[0])
    shape: list[Any] = []
    for group in _groups(op, len(value.shape)):
        product: Any = 1
        for axis in group:
            product = product * value.shape[axis]
        shape.append(scope.simple(product))
    return reshaped(scope, value, tuple(shape))


def _expand(scope: Scope, op: form.ParsedOperation) -> Value:
    value = scope.any_tensor(op.operands[0])
    sizes = mixed(scope, op.attributes["static_output_shape"], op.operands[1:])
    shape = [as_extent(scope, one, "an extent") for one in sizes]
    cast = []
    for group, own in zip(_groups(op, len(shape)), value.shape, strict=True):
        product: Any = 1
        for axis in group:
            product = product * shape[axis]
        product = scope.simple(product)
        cast.append(own if scope.same(product, own) else product)
    return reshaped(scope, as_shape(scope, value, tuple(cast)), tuple(shape))


def _reshape(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = tensor_kind(op.results[0])
    value, shape = (scope.any_tensor(one) for one in op.operands)
    _, sizes = scope.function.elements.get(id(shape), (shape, (None,) * len(kind.shape)))
    extents: list[Any] = []
    for one, size in zip(kind.shape, sizes, strict=True):
        if one is None and size is None:
            raise Unsupported("a shape that is computed; tensor.from_elements of it is supported")
        extents.append(as_extent(scope, size, "a shape") if one is None and size else one)
    return reshaped(scope, value, tuple(extents))


def _pad(scope: Scope, op: form.ParsedOperation) -> Value:
    (source,), low_values, high_values = op.groups()
    value = scope.any_tensor(source)
    low = mixed(scope, op.attributes["static_low"], low_values)
    high = mixed(scope, op.attributes["static_high"], high_values)
    shape = []
    for own, before, after in zip(value.shape, low, high, strict=True):
        ends = [as_extent(scope, one, "padding") for one in (before, after)]
        shape.append(scope.simple(own + ends[0] + ends[1]))
        if isinstance(shape[-1], int) and shape[-1] < 0:
            raise Unsupported(f"padding by {ends[0]} and {ends[1]} of the extent {own}")
    block = op.block()
    captured = [scope.value(one) for one in outside([block])]
    zero = tirx.const(0, "int64")

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        place, condition = [], None
        for axis, (index, before) in enumerate(zip(at, low, strict=True)):
            own = on_index(kernel.context, "sub", index, kernel.scalar(before))
            place.append(own)
            is_kept = isinstance(before, Number) and before.value == 0
            if is_kept and scope.same(shape[axis], value.shape[axis]):
                continue
            inside = tirx.And(zero <= own, own < kernel.extent(value.shape[axis]))
            condition = inside if condition is None else tirx.And(condition, inside)
        if condition is None:
            return kernel.copied(value, place)
        (held,) = kernel.evaluate(block, at, scope=scope)
        return guarded(kernel, condition, value, place, kernel.as_parts(held, value.element))

    found = moved(scope, op.name, [value, *captured, *low], tuple(shape), value.element, part)
    if pads := _zeros(scope, block, low, high):
        scope.function.padded[id(found)] = found, value, pads
    return found


def _zeros(
    scope: Scope, block: form.ParsedBlock, low: Any, high: Any
) -> list[tuple[int, int]] | None:
    """How many zeros stand before and behind each axis, if they are zeros of a known number."""
    (padding,) = block.operations[-1].operands
    if len(block.operations) > 1 or any(padding is one for one in block.arguments):
        return None
    number = scope.number(padding)
    if isinstance(number, complex) or number is None or float(number) != 0.0:
        return None
    pairs = list(zip(low, high, strict=True))
    if not all(isinstance(one, Number) for pair in pairs for one in pair):
        return None
    numbers = [(int(a.value), int(b.value)) for a, b in pairs]
    return numbers if all(one >= 0 for pair in numbers for one in pair) else None


def _concat(scope: Scope, op: form.ParsedOperation) -> Value:
    axis = int(op.attributes["dim"])
    values = [scope.any_tensor(one) for one in op.operands]
    first = values[0]
    total: Any = 0
    starts = []
    for number, value in enumerate(values):
        shape = (*first.shape[:axis], value.shape[axis], *first.shape[axis + 1 :])
        values[number] = as_shape(scope, value, shape)
        starts.append(total)
        total = scope.simple(total + value.shape[axis])
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    symbols = [Symbol(INDEX, one) for one in starts if not isinstance(one, int)]

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        found = None
        for start, value in reversed(list(zip(starts, values, strict=True))):
            own = at[axis] - kernel.extent(start)
            place = [*at[:axis], own, *at[axis + 1 :]]
            if found is None:
                found = (
                    kernel.clamped(value, place) if len(values) > 1 else kernel.copied(value, place)
                )
                continue
            inside = own < kernel.extent(value.shape[axis])
            found = guarded(kernel, inside, value, place, found)
        assert found is not None
        return found

    return moved(scope, op.name, [*values, *symbols], shape, first.element, part)


def _generate(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = tensor_kind(op.results[0])
    shape = shape_of(scope, kind, op.operands)
    own = element(kind.dtype)
    block = op.block()
    captured = [scope.value(one) for one in outside([block])]

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        (held,) = kernel.evaluate(block, at, scope=scope)
        return kernel.as_parts(held, own)

    return moved(scope, op.name, captured, shape, own, part)


def _from_elements(scope: Scope, op: form.ParsedOperation) -> Value:
    found = _of_elements(scope, op)
    scalars = tuple(scope.scalar(one) for one in op.operands)
    scope.function.elements[id(found)] = found, scalars
    return found


def _of_elements(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = tensor_kind(op.results[0])
    own = element(kind.dtype)
    shape = tuple(extent or 0 for extent in kind.shape)  # all are numbers here
    scalars: list[Any] = [scope.scalar(one) for one in op.operands]
    if len(scalars) == 1:
        return Splat(shape, own, scalars[0])
    if all(isinstance(one, Number) for one in scalars):
        array = np.array([one.value for one in scalars], own.numpy)
        return Constant(array.reshape(shape), own)
    if len(scalars) > 4096:
        raise Unsupported(f"{len(scalars)} elements; up to 4096 are supported")
    kernel = PrimFuncBuilder(scope, op.name, scalars, [(shape, own)], OPAQUE)

    def each(at: Any) -> None:
        for number, one in enumerate(scalars):
            place = [tirx.const(int(i), "int64") for i in np.unravel_index(number, shape)]
            kernel.store(0, kernel.scalar(one), place)

    with kernel:
        kernel.block("from_elements", [1], each)
    return kernel.results[0]


def _tied(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = op.results[0].type
    return as_shape(scope, scope.any_tensor(op.operands[0]), shape_of(scope, kind, op.operands[1:]))


def _flow_reshape(scope: Scope, op: form.ParsedOperation) -> Value:
    own = tensor_kind(op.results[0])
    count = sum(extent is None for extent in own.shape)
    sizes = op.operands[len(op.operands) - count :]
    return reshaped(scope, scope.any_tensor(op.operands[0]), shape_of(scope, own, sizes))


def _insert(scope: Scope, op: form.ParsedOperation) -> Value:
    scalar, target, *indices = op.operands
    one, into = scope.scalar(scalar), scope.any_tensor(target)
    places = [scope.scalar(index) for index in indices]

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        new = kernel.as_parts(kernel.scalar(one), into.element)
        condition = tirx.const(True, "bool")
        for index, place in zip(at, places, strict=True):
            condition = tirx.And(condition, tirx.EQ(index, kernel.scalar(place)))
        old = kernel.copied(into, at)
        return [tirx.Select(condition, a, b) for a, b in zip(new, old, strict=True)]

    return moved(scope, op.name, [one, into, *places], into.shape, into.element, part)


def _cast(scope: Scope, op: form.ParsedOperation) -> Value:
    value = scope.any_tensor(op.operands[0])
    kind = tensor_kind(op.results[0])
    shape = tuple(
        own if wanted is None else wanted
        for own, wanted in zip(value.shape, kind.shape, strict=True)
    )
    return as_shape(scope, value, shape)


def _dim(scope: Scope, op: form.ParsedOperation) -> Value:
    value = scope.any_tensor(op.operands[0])
    axis = scope.number(op.operands[1])
    if axis is None or not 0 <= int(axis) < len(value.shape):
        raise Unsupported("the extent of an axis that is no constant, or is not there")
    one = plain(value.shape[int(axis)])
    return Number(INDEX, one) if isinstance(one, int) else Symbol(INDEX, one)


def _rank(scope: Scope, op: form.ParsedOperation) -> Value:
    return Number(INDEX, len(scope.any_tensor(op.operands[0]).shape))


def _extract(scope: Scope, op: form.ParsedOperation) -> Value:
    value = scope.any_tensor(op.operands[0])
    indices: list[Any] = [scope.scalar(one) for one in op.operands[1:]]
    if isinstance(value, Splat):
        return value.scalar
    if (
        isinstance(value, Constant)
        and value.foldable
        and all(isinstance(one, Number) for one in indices)
    ):
        place = tuple(int(one.value) for one in indices)
        if all(0 <= i < n for i, n in zip(place, value.shape, strict=True)):
            return Number(value.element, value.array[place])
    (found,) = applied(scope, op, [value, *indices])
    return found


TENSORS = {
    "flow.tensor.reshape": _flow_reshape,
    "flow.tensor.tie_shape": _tied,
    "tensor.cast": _cast,
    "tensor.collapse_shape": _collapse,
    "tensor.concat": _concat,
    "tensor.dim": _dim,
    "tensor.empty": _empty,
    "tensor.expand_shape": _expand,
    "tensor.extract": _extract,
    "tensor.from_elements": _from_elements,
    "tensor.generate": _generate,
    "tensor.insert": _insert,
    "tensor.pad": _pad,
    "tensor.rank": _rank,
    "tensor.reshape": _reshape,
    "tensor.splat": _splat,
}
