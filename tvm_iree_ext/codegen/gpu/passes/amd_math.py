"""Functions of numbers that AMD's compiler has no code for, or none that keeps NaN.

LLVM has float32's exp, exp2 and logarithms as instructions; all else would be ROCm's device
libraries.  Of float64 there is nothing: its functions are the CPU's (:mod:`..double_functions`).
TVM's own tanh and erf take NaN for a number.  Those of float32 are polynomials here, within 4 units
in the last place (sinh and cosh: 8):

    erf(x)   = x P(x^2) up to 1, then 1 - exp(-x^2) G((x - 2) / (x + 2))
    x^y      = LLVM's power of abs(x), with the sign that it has

sin, cos and tan are :mod:`.amd_angles`'.  float16 is computed in float32.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

from tvm import ir, tirx

from tvm_iree_ext.codegen import double_functions, wide_math
from tvm_iree_ext.codegen.float_formats import FloatFormat, format_of, integer_of
from tvm_iree_ext.codegen.gpu.passes import amd_angles
from tvm_iree_ext.codegen.hyperbolic_tangent import tanh
from tvm_iree_ext.codegen.math_calls import Share, replace_calls
from tvm_iree_ext.codegen.polynomials import constant, polynomial
from tvm_iree_ext.codegen.vector_math import (
    EXP2_OF_NEGATIVE,
    exp,
    exp2,
    exp2_of_negative,
    sigmoid,
)

Expr: TypeAlias = ir.Expr


# The polynomials of float32's erf interpolate at Chebyshev's points: within 2e-9 and 5e-8.
_ERF = (  # erf(x) / x for x^2 in [0, 1]
    *(1.1283791658483509, -0.37612626666720334, 0.11283594715160218, -0.026854212010626412),
    *(0.005189087423433974, -0.000801686428716587, 7.875875062685488e-05),
)
_ERFC = (  # erfc(x) e^(x^2) in (x - 2) / (x + 2), for x from 1 on
    *(0.25539567631050575, -0.4271859897684867, 0.2416582015255602, -0.07896830612793473),
    *(0.0037323717589395444, 0.006811140131085635, -0.0008379754387023134),
)
_ERF_END = 4.0
"""From where on 1 is the nearest float32."""

_EXPM1_TERMS = 8


def _form(x: Expr) -> tuple[FloatFormat, Callable[[float], Expr]]:
    """The format of a value's elements, and constants of its type."""
    dtype = str(x.ty.dtype)
    return format_of(x), lambda value: constant(value, dtype)


def _expm1(x: Expr, share: Share) -> Expr:
    """``e^x - 1`` for x of which the exponential is a number."""
    form, const = _form(x)
    n = share(tirx.nearbyint(x * const(1.0 / math.log(2.0))))
    high, low = map(const, form.ln2)
    rest = share((x - n * high) - n * low)
    series = tuple(1.0 / math.factorial(term + 1) for term in range(_EXPM1_TERMS))
    kind = integer_of(x)
    whole = tirx.Cast(kind, n) + constant(form.bias, kind)
    power = share(tirx.reinterpret(str(x.ty.dtype), whole << constant(form.mantissa, kind)))
    return power * (rest * polynomial(rest, series)) + (power - const(1.0))


def _odd(x: Expr, of_positive: Expr) -> Expr:
    """The value for x of an odd function whose value for abs(x) is given; NaN for NaN."""
    _, const = _form(x)
    value = tirx.Select(x < const(0.0), const(0.0) - of_positive, of_positive)
    return tirx.Select(tirx.isnan(x), x, value)


def _sinh(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    size = share(tirx.abs(x))
    bounded = share(tirx.Select(size < const(30.0), size, const(30.0)))
    t = share(_expm1(bounded, share))
    near = const(0.5) * (t + t / (t + const(1.0)))
    return _odd(x, share(tirx.Select(size < const(30.0), near, _half_power(size, share))))


def _cosh(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    size = share(tirx.abs(x))
    power = share(tirx.exp(size))
    near = const(0.5) * (power + const(1.0) / power)
    return tirx.Select(size < const(30.0), near, _half_power(size, share))


def _half_power(x: Expr, share: Share) -> Expr:
    """``e^x / 2``, also where ``e^x`` is no longer a number."""
    _, const = _form(x)
    root = share(tirx.exp(share(const(0.5) * x)))
    return (const(0.5) * root) * root


def _erf(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    one, end = const(1.0), const(_ERF_END)
    size = share(tirx.abs(x))
    square = share(size * size)
    near = size * polynomial(square, _ERF)
    bounded = share(tirx.Select(size < end, size, end))
    place = share((bounded - const(2.0)) / (bounded + const(2.0)))
    power = tirx.exp(share(const(0.0) - bounded * bounded))
    far = tirx.Select(size < end, one - power * polynomial(place, _ERFC), one)
    return _odd(x, share(tirx.Select(size < one, near, far)))


def _log1p(x: Expr, share: Share) -> Expr:
    """``log(u) x / (u - 1)`` with u = 1 + x as it is rounded: the errors of both cancel."""
    _, const = _form(x)
    one = const(1.0)
    u = share(one + x)
    value = share(tirx.log(u))
    value = tirx.Select(u == one, x, value * (x / (u - one)))
    return tirx.Select(x == const(math.inf), x, value)


def _pow(x: Expr, y: Expr, share: Share) -> Expr:
    """LLVM's own, ``2^(y log2 x)`` by instructions, which has no power of a negative number.

    Its relative error is about ``abs(y log2 x)`` units in the last place.  More would take bindings
    in a row, for each of which TVM's analyzer takes twice as long.
    """
    _, const = _form(x)
    is_whole = tirx.floor(y) == y
    half = share(y * const(0.5))
    is_odd = tirx.And(is_whole, tirx.floor(half) != half)
    is_minus = tirx.reinterpret(integer_of(x), x) < constant(0, integer_of(x))
    power = share(tirx.pow(share(tirx.abs(x)), y))
    signed = tirx.Select(tirx.And(is_minus, is_odd), const(-1.0) * power, power)
    has_none = tirx.And(x < const(0.0), x > const(-math.inf))
    return tirx.Select(tirx.And(has_none, tirx.Not(is_whole)), const(math.nan), signed)


def _fma(x: Expr, y: Expr, z: Expr, share: Share) -> Expr:
    return tirx.call_llvm_pure_intrin(str(x.ty.dtype), "llvm.fma", x, y, z)


_OF_BOTH: dict[str, Callable[..., Expr]] = {
    EXP2_OF_NEGATIVE: exp2_of_negative,
    "copysign": wide_math.copysign,
    "tanh": tanh,
}
_LOWERINGS: dict[str, dict[str, Callable[..., Expr]]] = {
    "float32": {
        **_OF_BOTH,
        "acos": wide_math.acos,
        "acosh": wide_math.acosh,
        "asin": wide_math.asin,
        "asinh": wide_math.asinh,
        "atan": wide_math.atan,
        "atan2": wide_math.atan2,
        "atanhf": wide_math.atanh,
        "cbrtf": wide_math.cbrt,
        "cos": amd_angles.cos,
        "cosh": _cosh,
        "erf": _erf,
        "erfcf": wide_math.erfc,
        "expm1f": wide_math.expm1,
        "fmaf": _fma,
        "log1p": _log1p,
        "pow": _pow,
        "sin": amd_angles.sin,
        "sinh": _sinh,
        "tan": amd_angles.tan,
    },
    "float64": {
        **_OF_BOTH,
        **{
            operator.rpartition(".")[2]: function
            for operator, function in double_functions.LOWERINGS.items()
        },
        "exp": exp,
        "exp2": exp2,
        "fma": _fma,
        "sigmoid": sigmoid,
    },
}
"""By type and name, functions of their arguments and a Share; float16 takes float32's."""


def _arguments(call: ir.Call) -> tuple[str, list[Expr]]:
    """The name of the function that is called, and its arguments."""
    name, arguments = str(getattr(call.op, "name", "")).partition(".")[2], list(call.args)
    return (arguments[0].value, arguments[1:]) if name == "call_pure_extern" else (name, arguments)


def _function(call: ir.Call) -> Callable[..., Expr] | None:
    """What computes a call here; None for one that is none of ours."""
    scalar = str(getattr(call.ty, "dtype", "")).partition("x")[0].replace("float16", "float32")
    return _LOWERINGS.get(scalar, {}).get(_arguments(call)[0])


def _lower(call: ir.Call, share: Share) -> Expr | None:
    function = _function(call)
    if function is None:
        return None
    dtype, arguments = str(call.ty.dtype), _arguments(call)[1]
    if not dtype.startswith("float16"):
        return function(*arguments, share)
    wide = dtype.replace("float16", "float32")
    arguments = [share(tirx.Cast(wide, one)) for one in arguments]
    return tirx.Cast(dtype, function(*arguments, share))


@tirx.transform.prim_func_pass(opt_level=0)
def lower_amd_math(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that replaces the calls, for ROCm's targets.

    After the last simplification, which takes (x + c) - c for x, and before TVM's own lowering.
    """
    return replace_calls(func, _lower, lambda call: _function(call) is not None)
