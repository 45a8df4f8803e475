"""Operations of each element by itself."""

from collections.abc import Callable, Sequence

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS, numpy_dtype
from tvm_iree_ext.base.tolerance import of_function, rounding
from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp
from tvm_iree_ext.random_programs.drawing.values import (
    GREATEST,
    BoundedArray,
    Unsuited,
    apart,
    exactly,
    rounded,
)

Array = np.ndarray
_MONOTONE: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    # with the least and largest operand
    "exp": (np.exp, -8.0, 5.0),
    "expm1": (np.expm1, -8.0, 5.0),
    "log": (np.log, 0.02, 1e4),
    "log1p": (np.log1p, -0.9, 1e4),
    "sqrt": (np.sqrt, 0.02, 1e4),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.02, 1e4),
    "tanh": (np.tanh, -1e3, 1e3),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), -50.0, 50.0),
}
_WAVES: dict[str, Callable[[Array], Array]] = {"sin": np.sin, "cos": np.cos}
_STEPS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "sign": np.sign,
}


def _draw_unary(draft: Draft) -> Drawn:
    number = draft.pick()
    dtype = draft.type(number).dtype
    if dtype == "bool":
        return [number], {"function": "not"}
    names = ["neg", "abs"]
    if dtype in FLOATS:
        names = [*names, *_MONOTONE, *_WAVES, *_STEPS]
    else:
        names = ["abs", "not", "sign"] if dtype == "int8" else ["neg", "not"]
    if dtype == "int32":
        names = ["neg", "abs", "not", "sign"]
    return [number], {"function": draft.one_of(names)}


def _unary(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    name = attributes["function"]
    if not value.is_float:
        return _whole_unary(name, value)
    data, error, dtype = value.data, value.error, value.dtype
    if name == "neg":
        return BoundedArray(dtype, -data, error)
    if name == "abs":
        return BoundedArray(dtype, np.abs(data), error)
    if name in _STEPS:
        shift = 0.5 if name == "round" else 0.0
        steps = data if name == "sign" else data - np.round(data - shift) - shift
        apart(steps, error)
        return BoundedArray(dtype, _STEPS[name](data), np.zeros(data.shape))
    if name in _WAVES:
        if np.any(np.abs(data) > 100):
            raise Unsuited("a wave far out")
        found = _WAVES[name](data)
        near_zero = of_function(dtype) * rounding(dtype)[0]
        return rounded(dtype, found, error + near_zero, of_function(dtype))
    function, least, largest = _MONOTONE[name]
    if np.any(data - error < least) or np.any(data + error > largest):
        raise Unsuited(f"{name} out of its range")
    found = function(data)
    either = np.maximum(
        np.abs(function(data + error) - found), np.abs(found - function(data - error))
    )
    return rounded(dtype, found, np.where(error > 0, either, 0.0), of_function(dtype))


def _whole_unary(name: str, value: BoundedArray) -> BoundedArray:
    data = value.data
    if name == "not":
        return exactly(~data, value.dtype)
    if value.dtype == "bool":
        raise Unsuited("arithmetic of bools")
    with np.errstate(over="ignore"):
        functions = {"neg": np.negative, "abs": np.abs, "sign": np.sign}
        return exactly(functions[name](data), value.dtype)


def _draw_binary(draft: Draft) -> Drawn:
    first = draft.pick()
    type = draft.type(first)
    second = draft.like(type)
    if draft.chance(0.5):
        first, second = second, first
    if type.dtype == "bool":
        names = ["and", "or", "xor"]
    elif type.is_float:
        names = ["add", "add", "sub", "sub", "mul", "mul", "max", "min", "div"]
    else:
        names = ["add", "sub", "mul", "max", "min", "div", "rem", "and", "or", "xor"]
    return [first, second], {"function": draft.one_of(names)}


def _binary(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    a, b = values
    if a.type != b.type:
        raise Unsuited("operands of several types")
    name = attributes["function"]
    if not a.is_float:
        return _whole_binary(name, a, b)
    x, y, dtype = a.data, b.data, a.dtype
    match name:
        case "add":
            return rounded(dtype, x + y, a.error + b.error)
        case "sub":
            return rounded(dtype, x - y, a.error + b.error)
        case "mul":
            error = np.abs(x) * b.error + np.abs(y) * a.error + a.error * b.error
            return rounded(dtype, x * y, error)
        case "max" | "min":
            function = np.maximum if name == "max" else np.minimum
            return BoundedArray(dtype, function(x, y), np.maximum(a.error, b.error))
        case "div":
            if np.any(np.abs(y) - b.error < 0.02):
                raise Unsuited("a division by next to nothing")
            error = (np.abs(x) * b.error + np.abs(y) * a.error) / (
                np.abs(y) * (np.abs(y) - b.error)
            )
            return rounded(dtype, x / y, error, 2.0)
    raise Unsuited(f"{name} of floats")


def _whole_binary(name: str, a: BoundedArray, b: BoundedArray) -> BoundedArray:
    x, y = a.data, b.data
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    if a.dtype != "bool":
        functions |= {"add": np.add, "sub": np.subtract, "mul": np.multiply}
        functions |= {"max": np.maximum, "min": np.minimum, "div": _quotient, "rem": np.fmod}
    if name not in functions:
        raise Unsuited("arithmetic of bools")
    if name in ("div", "rem") and (np.any(y == 0) or (a.dtype != "uint8" and np.any(y == -1))):
        raise Unsuited("a division by 0, or one that may overflow")
    with np.errstate(over="ignore"):
        return exactly(functions[name](x, y), a.dtype)


def _quotient(x: Array, y: Array) -> Array:
    """Towards zero."""
    wide = np.sign(x.astype("int64")) * np.sign(y.astype("int64"))
    return (wide * (np.abs(x.astype("int64")) // np.abs(y.astype("int64")))).astype(x.dtype)


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _draw_compare(draft: Draft) -> Drawn:
    first = draft.pick(lambda t: t.dtype != "bool")
    second = draft.like(draft.type(first))
    return [first, second], {"direction": draft.one_of(list(_COMPARISONS))}


def _compare(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    a, b = values
    if a.type != b.type:
        raise Unsuited("a comparison of several types")
    if a.is_float:
        apart(a.data - b.data, a.error + b.error)
    return exactly(_COMPARISONS[attributes["direction"]](a.data, b.data), "bool")


def _draw_clamp(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.dtype != "bool")
    low, high = draft.one_of([(-2, 3), (0, 5), (-1, 1)])
    low = max(low, 0) if draft.type(number).dtype == "uint8" else low
    return [number], {"low": low, "high": high}


def _clamp(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    data = np.clip(value.data, attributes["low"], attributes["high"])
    return BoundedArray(value.dtype, data, value.error)


def _draw_convert(draft: Draft) -> Drawn:
    number = draft.pick()
    others = ["float32", "int32", "bool", "int8", "uint8", draft.type(draft.pick()).dtype]
    return [number], {"dtype": draft.one_of(others)}


def _convert(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    return converted(value, attributes["dtype"])


def converted(value: BoundedArray, dtype: str) -> BoundedArray:
    """The value in another element type: towards zero, wrapping, or whether it is not 0."""
    if dtype == "bool":
        apart(value.data, value.error)
        return exactly(value.data != 0, "bool")
    if dtype in FLOATS:
        if value.data.size and np.max(np.abs(value.data.astype("float64"))) > GREATEST[dtype]:
            raise Unsuited("too large")
        return rounded(dtype, value.data.astype("float64"), value.error)
    if not value.is_float:
        return exactly(value.data.astype(numpy_dtype(dtype)), dtype)
    whole, limits = np.trunc(value.data), np.iinfo(numpy_dtype(dtype))
    apart(value.data - np.round(value.data), value.error)
    if np.any(whole < limits.min) or np.any(whole > limits.max):
        raise Unsuited("beyond the integer")
    return exactly(whole, dtype)


OPS = (
    WebOp("unary", _draw_unary, _unary, 4.0),
    WebOp("binary", _draw_binary, _binary, 7.0),
    WebOp("compare", _draw_compare, _compare, 1.0),
    WebOp("clamp", _draw_clamp, _clamp, 1.0),
    WebOp("convert", _draw_convert, _convert, 1.5),
)
