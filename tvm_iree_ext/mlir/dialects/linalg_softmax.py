"""``linalg.softmax`` as the dialect decomposes it: maximum, exponentials, sum, quotient."""

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Tensor, Value
from tvm_iree_ext.mlir.dialects.tensor_dialect import at_places
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import BROADCAST, REDUCTION
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith_floats import extreme

Combine = Callable[[Any, Any], Any]


def _without(at: list[Any], axis: int) -> list[Any]:
    return [*at[:axis], *at[axis + 1 :]]


def _reduced(scope: Scope, value: AnyTensor, axis: int, first: float, combine: Combine) -> Tensor:
    line = tuple(_without(list(value.shape), axis))
    kernel = PrimFuncBuilder(scope, "softmax_reduce", [value], [(line, value.element)], REDUCTION)
    start = tirx.const(first, value.element.held)

    def init(at: Any) -> None:
        place = [at[dim] for dim in sorted(at) if dim != axis]
        kernel.store(0, start, place)

    def step(at: Any) -> None:
        place = at_places(at)
        before = kernel.stored_element(0, _without(place, axis))
        found = combine(before, kernel.element(value, place))
        kernel.store(0, found, _without(place, axis))

    with kernel:
        kernel.block("softmax_reduce", value.shape, step, reduced=[axis], init=init)
    return kernel.results[0]


def _mapped(scope: Scope, value: AnyTensor, line: Tensor, axis: int, combine: Combine) -> Tensor:
    kernel = PrimFuncBuilder(
        scope, "softmax_map", [value, line], [(value.shape, value.element)], BROADCAST
    )

    def each(at: Any) -> None:
        place = at_places(at)
        one = kernel.element(line, _without(place, axis))
        kernel.store(0, combine(kernel.element(value, place), one), place)

    with kernel:
        kernel.block("softmax_map", value.shape, each)
    return kernel.results[0]


def softmax(scope: Scope, op: form.ParsedOperation) -> Value:
    """``exp(x - max) / sum(exp(x - max))`` along a dimension."""
    value, into = (scope.any_tensor(one) for one in op.operands)
    axis = int(op.attributes["dimension"])
    if not value.element.is_float or value.element != into.element:
        raise Unsupported(f"of {value.element.name} into {into.element.name}")
    value = as_shape(scope, value, into.shape)
    largest = _reduced(
        scope, value, axis, float("-inf"), lambda a, b: extreme(a, b, "max", keeps_nan=True)
    )
    powers = _mapped(scope, value, largest, axis, lambda x, most: tirx.exp(x - most))
    total = _reduced(scope, powers, axis, 0.0, lambda a, b: a + b)
    return _mapped(scope, powers, total, axis, lambda x, whole: x / whole)
