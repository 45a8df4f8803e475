"""Functions of regions where the chip's compiler has none, or none that keeps NaN.

AMD's compiler has exp, exp2 and log of float32.  TVM makes its tanh and erf of polynomials, for
which NaN is a number as any other; float64 has none at all, which ends the compiler.
"""

import math
from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm_iree_ext.schedules.gpu.attention_math import exp2_of_double, held

_LOG_TERMS = 12  # of the series of atanh at 0.172: 1e-18


def portable(value: Any, kind: str) -> Any:
    """The expression with such calls replaced, on a target of a kind."""
    if kind != "rocm":
        return value

    def replaced(call: Any) -> Any:
        name, dtype = str(call.op.name).removeprefix("tirx."), str(call.ty.dtype)
        if dtype == "float64" and name in _DOUBLE:
            return _DOUBLE[name](held(call.args[0]))
        if dtype == "float32" and name in _KEEP_NAN:
            x = held(call.args[0])
            return tirx.Select(tirx.isnan(x), x, held(ir.Call(call.op, [x], ret_ty=call.ty)))
        return call

    return tvm_ffi.structural_map(value, (ir.Call, replaced))


def missing(body: Any, dtype: str, kind: str) -> list[str]:
    """The functions of a region of a type that stay without code."""
    found: set[str] = set()
    tvm_ffi.structural_walk(body, (ir.Call, lambda call: found.add(str(call.op.name))))
    return ["erf"] if kind == "rocm" and dtype == "float64" and "tirx.erf" in found else []


def _number(value: float) -> Any:
    return tirx.const(value, "float64")


def _exp(x: Any) -> Any:
    return exp2_of_double(x * _number(math.log2(math.e)))


def _sigmoid(x: Any) -> Any:
    return _number(1.0) / (_number(1.0) + _exp(_number(0.0) - x))


def _tanh(x: Any) -> Any:
    return _number(1.0) - _number(2.0) / (_exp(x + x) + _number(1.0))


def _log(x: Any) -> Any:
    """``n * log 2 + 2 * atanh((m - 1) / (m + 1))`` for ``x = m * 2^n``, m around 1."""
    one, inf = _number(1.0), _number(math.inf)
    bits = held(tirx.reinterpret("int64", x))
    exponent = held((bits >> tirx.const(52, "int64")) - tirx.const(1023, "int64"))
    mantissa = held(
        tirx.reinterpret(
            "float64",
            (bits & tirx.const((1 << 52) - 1, "int64")) | tirx.const(1023 << 52, "int64"),
        )
    )
    large = mantissa > _number(math.sqrt(2.0))
    m = held(tirx.Select(large, mantissa * _number(0.5), mantissa))
    n = tirx.Cast("float64", exponent) + tirx.Select(large, one, _number(0.0))
    ratio = held((m - one) / (m + one))
    square = held(ratio * ratio)
    series = _number(1.0 / (2 * _LOG_TERMS + 1))
    for term in range(_LOG_TERMS - 1, -1, -1):
        series = series * square + _number(1.0 / (2 * term + 1))
    value = held(n * _number(math.log(2.0)) + _number(2.0) * ratio * series)
    value = tirx.Select(x < inf, value, x)  # infinity, and NaN
    value = tirx.Select(x == _number(0.0), _number(-math.inf), value)
    return tirx.Select(x < _number(0.0), _number(math.nan), value)


_DOUBLE: dict[str, Callable[[Any], Any]] = {
    "exp": _exp,
    "exp2": lambda x: exp2_of_double(x),
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "log": _log,
}
_KEEP_NAN = ("tanh", "erf")
