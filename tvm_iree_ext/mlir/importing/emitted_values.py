"""Values emitted: scalars computed into memory, extents from data, tensors of a shape."""

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx

from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Applied,
    Empty,
    Number,
    Scalar,
    Shape,
    Splat,
    Symbol,
    Tensor,
    Value,
)
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.relax_types import tensor_type
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.tir.tir_expressions import i64

LARGEST_SCALAR = 64  # nodes of an expression; a larger one is computed once, into memory


def extent_of(scope: Scope, scalar: Scalar) -> Any:
    """An integer scalar as an extent: a number, or arithmetic on extents.

    One that is computed from data is a variable of its own from here on.
    """
    if isinstance(scalar, Number):
        return int(scalar.value)
    if isinstance(scalar, Symbol):
        return scope.simple(scalar.value)
    names = scope.function.from_data
    if id(scalar) not in names:
        variable = tirx.Var(f"data{len(names)}", "int64")
        names[id(scalar)] = scalar, variable
        wide = Splat((1,), element("index"), _as_index(scalar))
        (part,) = in_memory(scope, wide).parts
        shape = scope.function.builder.emit(relax.op.tensor_to_shape(part))
        scope.function.builder.match_cast(shape, relax.ShapeType([variable]))
    return names[id(scalar)][1]


def _as_index(scalar: Applied) -> Scalar:
    """A scalar as an index: sign-extended."""
    return (
        scalar if scalar.element.name == "index" else converted(scalar, "arith.index_cast", "index")
    )


def converted(scalar: Scalar, operation: str, kind: str) -> Applied:
    """What an operation of one operand and no attributes makes of a scalar."""
    source = form.ParsedValue(form.ParsedScalarType(scalar.element.name), "%from")
    result = form.ParsedValue(form.ParsedScalarType(kind), "%to")
    op = form.ParsedOperation(operation, [source], [result], {}, [], form.Location(0, 0))
    return Applied(element(kind), op, 0, (scalar,), getattr(scalar, "size", 1) + 1)


def shape_of(scope: Scope, kind: form.Type, sizes: Sequence[form.ParsedValue]) -> Shape:
    """A tensor type's shape, with these values for the extents that are not known."""
    if not isinstance(kind, form.ParsedTensorType):
        raise Unsupported(f"a result of the type {kind}")
    given = iter(sizes)
    return tuple(
        one if one is not None else extent_of(scope, scope.scalar(next(given)))
        for one in kind.shape
    )


def computed(scope: Scope, value: Scalar) -> Tensor:
    """A scalar as a tensor of rank 0."""
    return in_memory(scope, Splat((), value.element, value))


def applied(scope: Scope, op: form.ParsedOperation, operands: Sequence[Value]) -> list[Scalar]:
    """Scalars that an operation computes."""
    size = 8 + sum(one.size for one in operands if isinstance(one, Applied))
    kinds = [kind_of(value) for value in op.results]
    found = [Applied(kind, op, i, tuple(operands), size) for i, kind in enumerate(kinds)]
    if size <= LARGEST_SCALAR:
        return list(found)
    return [read_back(computed(scope, one)) for one in found]


def as_shape(scope: Scope, value: AnyTensor, shape: Shape) -> AnyTensor:
    """The same tensor with extents that are known to be equal, or are checked at run time."""
    shape = tuple(scope.simple(one) for one in shape)
    if len(shape) != len(value.shape):
        raise Unsupported(f"a tensor of rank {len(value.shape)} where rank {len(shape)} is due")
    if all(_identical(a, b) for a, b in zip(value.shape, shape, strict=True)):
        return value
    for a, b in zip(value.shape, shape, strict=True):
        a, b = scope.simple(a), scope.simple(b)
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise Unsupported(f"an extent of {a} where {b} is due")
    is_settled = [scope.function.settle(a, b) for a, b in zip(value.shape, shape, strict=True)]
    shape = tuple(scope.simple(one) for one in shape)
    match value:
        case Splat():
            return Splat(shape, value.element, value.scalar)
        case Empty():
            return Empty(shape, value.element)
    tensor = in_memory(scope, value)
    if all(is_settled):
        return Tensor(shape, tensor.element, tensor.parts)
    builder = scope.function.builder
    from_data = [variable for _, variable in scope.function.from_data.values()]
    # TVM drops a comparison with a variable alone, which it takes to be said by it.
    compared = tuple(
        tirx.Max(one, i64(0)) if any(variable.same_as(one) for variable in from_data) else one
        for one in shape
    )
    parts = tuple(
        builder.match_cast(part, tensor_type(compared, dtype))
        for part, dtype in zip(tensor.parts, tensor.element.storage, strict=True)
    )
    return Tensor(shape, tensor.element, parts)


def _identical(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else str(a) == str(b)


def read_back(tensor: Tensor) -> Applied:
    """The scalar that a tensor of rank 0 holds."""
    place = form.Location(0, 0)
    result = form.ParsedValue(form.ParsedScalarType(tensor.element.name), "%computed")
    op = form.ParsedOperation("tensor.extract", [], [result], {}, [], place)
    return Applied(tensor.element, op, 0, (tensor,))
