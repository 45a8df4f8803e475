"""Regions as NumPy functions over arrays, for the references.

Of a region given as text the same text is evaluated; of one given as a Python callable, which knows
TIR expressions only, the traced expression.
"""

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes, scalar_text
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.regions import Region


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes integers as float64: NumPy's would take those of 8 bits as float16."""

    def call(number: Any) -> Any:
        array = np.asarray(number)
        return function(array.astype(np.float64) if array.dtype.kind in "biu" else number)

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "conj": np.conj,
    "imag": np.imag,
    "max": np.maximum,
    "min": np.minimum,
    "real": np.real,
    "select": np.where,
    "erf": _of_floats(np.vectorize(math.erf, otypes=[np.float64])),
    "exp": _of_floats(np.exp),
    "exp2": _of_floats(np.exp2),
    "log": _of_floats(np.log),
    "rsqrt": _of_floats(lambda x: 1.0 / np.sqrt(x)),
    "sigmoid": _of_floats(lambda x: 1.0 / (1.0 + np.exp(-x))),
    "sqrt": _of_floats(np.sqrt),
    "tanh": _of_floats(np.tanh),
}
"""The functions of :data:`tvm_iree_ext.ops.base.regions.TIR_FUNCTIONS`."""

_CALLS: dict[str, Callable[..., Any]] = {
    **FUNCTIONS,
    "ceil": np.ceil,
    "cos": np.cos,
    "fabs": np.abs,
    "floor": np.floor,
    "if_then_else": np.where,
    "isnan": np.isnan,
    "log2": np.log2,
    "pow": np.power,
    "sin": np.sin,
    "trunc": np.trunc,
}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Max": np.maximum,
    "Min": np.minimum,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}


def numpy_region(
    op: str, region: Region, operands: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The region as a function over arrays; ``operands`` have its numbers of a call, by name.

    Raises:
        OpError: when it is called, for a callable's expression that has a node not known here.
    """
    text, dims, scalars = region.source, region.dims, region.scalars

    @functools.cache
    def bodies() -> list[Callable[[Mapping[str, Any]], Any]]:
        return [_function(op, one) for one in region.numbers or (region.body,)]

    def call(*arguments: Any) -> Any:
        own = len(arguments) - len(dims)
        names = {f"arg{i}": argument for i, argument in enumerate(arguments[:own])}
        names |= {f"d{dim}": at for dim, at in zip(dims, arguments[own:], strict=True)}
        for one in scalars:
            number = as_number((operands or {})[one.name], one.dtype)
            names[one.name] = number
            if len(one.variables) > 1:
                parts = (number.real, number.imag)
                names |= {v.name: part for v, part in zip(one.variables, parts, strict=True)}
        if text is not None:
            return scalar_text.evaluate(text, names, FUNCTIONS)
        if region.numbers:
            names |= _parts(names)
        found = [body(names) for body in bodies()]
        return found[0] if len(found) == 1 else _complex_number(*found)

    return call


def as_number(value: Any, dtype: str) -> Any:
    """A number of a call as a region sees it, where NumPy has no arithmetic of its type."""
    if dtype not in dtypes.WORDS:
        return value
    number = np.asarray(value).astype(dtypes.numpy_dtype(dtype))
    return number.astype(dtypes.number_dtype(dtype))[()]


def _parts(names: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the complex numbers, by the names of their variables in regions."""
    numbers = {name: value for name, value in names.items() if np.iscomplexobj(value)}
    real = {f"{name}.real": np.real(value) for name, value in numbers.items()}
    return real | {f"{name}.imag": np.imag(value) for name, value in numbers.items()}


def _complex_number(real: Any, imag: Any) -> Any:
    """Not a sum, in which an infinite part would make the other one NaN."""
    parts = np.stack(np.broadcast_arrays(real, imag), axis=-1)
    return parts.view(np.result_type(parts, np.complex64))[..., 0]


def _function(op: str, node: Any) -> Callable[[Mapping[str, Any]], Any]:
    """A scalar TIR expression as a function of its variables' arrays, by name.

    References call it for each of a million elements, so its nodes are looked at once.
    """

    def visit(node: Any) -> Callable[[Mapping[str, Any]], Any]:
        kind = type(node).__name__
        if kind in _BINARY:
            return _called(_BINARY[kind], visit(node.a), visit(node.b))
        if kind == "Var":
            return operator.itemgetter(node.name)
        if kind == "FloatImm":
            return _constant(node.value)
        if kind == "IntImm":
            return _constant(np.asarray(node.value).astype(_dtype(node))[()])
        if kind == "Not":
            return _called(np.logical_not, visit(node.a))
        if kind == "Select":
            parts = node.condition, node.true_value, node.false_value
            return _called(np.where, *map(visit, parts))
        if kind == "Cast":
            return _called(functools.partial(_cast, _dtype(node)), visit(node.value))
        name = node.op.name.rpartition(".")[2] if kind == "Call" else kind
        if kind != "Call" or name not in _CALLS:
            raise OpError(f"{op}: the reference cannot compute {name} in {node}")
        return _called(_CALLS[name], *map(visit, node.args))

    return visit(node)


def _called(function: Callable[..., Any], *parts: Callable[..., Any]) -> Callable[..., Any]:
    if len(parts) == 2:  # most are of two
        first, second = parts
        return lambda names: function(first(names), second(names))
    return lambda names: function(*[part(names) for part in parts])


def _constant(value: Any) -> Callable[..., Any]:
    return lambda _: value


def _dtype(node: Any) -> np.dtype:
    return dtypes.numpy_dtype(str(node.ty.dtype))


def _cast(dtype: np.dtype, value: Any) -> Any:
    array = np.asarray(value)
    rounded = array.astype(dtype)
    narrow = array.dtype in (np.float16, np.float32)
    return rounded if narrow or rounded.dtype.kind in "biu" else rounded.astype(np.float64)
