"""Functions of numbers that AMD's compiler has no code for, or none that keeps NaN.

LLVM has float32's exp, exp2 and logarithms as instructions; all else would be ROCm's device
libraries.  Of float64 there is nothing, and TVM's own tanh and erf take NaN for a number.  So these
are polynomials here, within 4 units in the last place (sinh and cosh: 8):

    erf(x)   = x P(x^2) up to 1, then 1 - exp(-x^2) G((x - 2) / (x + 2))
    log(x)   = n log 2 + 2 atanh((m - 1) / (m + 1)),  x = m 2^n with m around 1
    x^y      = LLVM's power of abs(x), with the sign that it has

sin, cos and tan are :mod:`.amd_angles`'.  float16 is computed in float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tvm import ir, tirx

from tvm_iree_ext.codegen import wide_math
from tvm_iree_ext.codegen.float_formats import FloatFormat, format_of, integer_of, scalar_of
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

_MOST_EXPONENT = 700.0  # of e, within the range of float64

Expr: TypeAlias = ir.Expr
Function: TypeAlias = Callable[[Expr, Share], Expr]


@dataclass(frozen=True)
class _Terms:
    """What a float format needs.

    Attributes:
        expm1: terms of (e^r - 1) / r for abs(r) <= log(2) / 2.
        atanh: terms of atanh(s) / s, in s^2, for abs(s) <= 0.172.
        erf: erf(x) / x for x^2 in [0, 1].
        erfc: erfc(x) e^(x^2) in (x - 2) / (x + 2), for x from 1 to ``erf_end``.
        erf_end: from where on 1 is the nearest number.
    """

    expm1: int
    atanh: int
    erf: tuple[float, ...]
    erfc: tuple[float, ...]
    erf_end: float


# The polynomials of erf interpolate at Chebyshev's points: within 2e-9 and 5e-8, 3e-17 and 5e-17.
_TERMS = {
    "float32": _Terms(
        expm1=8, atanh=5,
        erf=(
            1.1283791658483509, -0.37612626666720334, 0.11283594715160218, -0.026854212010626412,
            0.005189087423433974, -0.000801686428716587, 7.875875062685488e-05,
        ),
        erfc=(
            0.25539567631050575, -0.4271859897684867, 0.2416582015255602, -0.07896830612793473,
            0.0037323717589395444, 0.006811140131085635, -0.0008379754387023134,
        ),
        erf_end=4.0,
    ),
    "float64": _Terms(
        expm1=14, atanh=12,
        erf=(
            1.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
            0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736,
            -1.4925647567519332e-05, 1.6462045441468418e-06, -1.6364642158167616e-07,
            1.4792401209404813e-08, -1.216456005728345e-09, 8.709045129053106e-11,
            -4.230945824295338e-12,
        ),
        erfc=(
            0.25539567631050575, -0.4271858474139585, 0.24165819424246585, -0.07897858101570611,
            0.0037328924043978336, 0.006997461736971578, -0.00084714325299195,
            -0.0009819769411038642, 4.355558686575482e-05, 0.00017435947400205157,
            2.7527175557227246e-05, -2.7562209161129353e-05, -1.3998283772784976e-05,
            1.3058577122278017e-06, 4.011749647325067e-06, 1.272567661840228e-06,
            -1.1352571477273627e-06,
        ),
        erf_end=6.0,
    ),
}  # fmt: skip


def _form(x: Expr) -> tuple[FloatFormat, Callable[[float], Expr]]:
    """The format of a value's elements, and constants of its type."""
    dtype = str(x.ty.dtype)
    return format_of(x), lambda value: constant(value, dtype)


def _terms(x: Expr) -> _Terms:
    return _TERMS[scalar_of(x)]


def _exp(x: Expr, share: Share) -> Expr:
    """An instruction, where there is one."""
    return exp(x, share) if str(x.ty.dtype).startswith("float64") else tirx.exp(x)


def _expm1(x: Expr, share: Share) -> Expr:
    """``e^x - 1`` for x of which the exponential is a number."""
    form, const = _form(x)
    n = share(tirx.nearbyint(x * const(1.0 / math.log(2.0))))
    high, low = map(const, form.ln2)
    rest = share((x - n * high) - n * low)
    series = tuple(1.0 / math.factorial(term + 1) for term in range(_terms(x).expm1))
    kind = integer_of(x)
    whole = tirx.Cast(kind, n) + constant(form.bias, kind)
    power = share(tirx.reinterpret(str(x.ty.dtype), whole << constant(form.mantissa, kind)))
    return power * (rest * polynomial(rest, series)) + (power - const(1.0))


def _any_expm1(x: Expr, share: Share) -> Expr:
    """``e^x - 1`` for any x, of float64."""
    _, const = _form(x)
    size = share(tirx.abs(x))
    bounded = share(tirx.Select(size < const(_MOST_EXPONENT), x, const(0.0)))
    near = share(_expm1(bounded, share))
    value = tirx.Select(size < const(_MOST_EXPONENT), near, exp(x, share) - const(1.0))
    return tirx.Select(x == const(0.0), x, value)


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
    power = share(_exp(size, share))
    near = const(0.5) * (power + const(1.0) / power)
    return tirx.Select(size < const(30.0), near, _half_power(size, share))


def _half_power(x: Expr, share: Share) -> Expr:
    """``e^x / 2``, also where ``e^x`` is no longer a number."""
    _, const = _form(x)
    root = share(_exp(share(const(0.5) * x), share))
    return (const(0.5) * root) * root


def _erf(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    one, end = const(1.0), const(_terms(x).erf_end)
    size = share(tirx.abs(x))
    square = share(size * size)
    near = size * polynomial(square, _terms(x).erf)
    bounded = share(tirx.Select(size < end, size, end))
    place = share((bounded - const(2.0)) / (bounded + const(2.0)))
    power = _exp(share(const(0.0) - bounded * bounded), share)
    far = tirx.Select(size < end, one - power * polynomial(place, _terms(x).erfc), one)
    return _odd(x, share(tirx.Select(size < one, near, far)))


def _erfc(x: Expr, share: Share) -> Expr:
    """The complement of erf: beyond 1 its absolute error is small, not its relative error."""
    return _form(x)[1](1.0) - _erf(x, share)


def _atanh(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    above, below = _log1p(x, share), _log1p(share(const(0.0) - x), share)
    value = share((above - below) * const(0.5))
    return tirx.Select(x == const(0.0), x, value)


def _parts(x: Expr, share: Share) -> tuple[Expr, Expr]:
    """``n`` and ``log m``, where ``x = m 2^n`` with m from sqrt(1/2) to sqrt(2), for x > 0."""
    form, const = _form(x)
    kind = integer_of(x)
    tiny = x < const(2.0 ** (1 - form.bias))
    scaled = tirx.Select(tiny, x * const(2.0 ** (form.mantissa + 1)), x)
    bits = share(tirx.reinterpret(kind, scaled))
    exponent = tirx.Cast(str(x.ty.dtype), bits >> constant(form.mantissa, kind))
    ones = constant(form.bias << form.mantissa, kind)
    fraction = share(
        tirx.reinterpret(str(x.ty.dtype), (bits & constant((1 << form.mantissa) - 1, kind)) | ones)
    )
    large = share(tirx.Select(fraction > const(math.sqrt(2.0)), const(1.0), const(0.0)))
    m = share(tirx.Select(large > const(0.5), fraction * const(0.5), fraction))
    below = tirx.Select(tiny, const(form.bias + form.mantissa + 1.0), const(float(form.bias)))
    ratio = share((m - const(1.0)) / (m + const(1.0)))
    series = tuple(2.0 / (2 * term + 1) for term in range(_terms(x).atanh))
    return share((exponent - below) + large), share(
        ratio * polynomial(share(ratio * ratio), series)
    )


def _at_ends(x: Expr, value: Expr) -> Expr:
    """A logarithm with what it is of zero, infinity, negative numbers and NaN."""
    _, const = _form(x)
    value = tirx.Select(x < const(math.inf), value, x)
    value = tirx.Select(x == const(0.0), const(-math.inf), value)
    return tirx.Select(x < const(0.0), const(math.nan), value)


def _log(x: Expr, share: Share) -> Expr:
    form, const = _form(x)
    n, rest = _parts(x, share)
    high, low = map(const, form.ln2)
    return _at_ends(x, n * high + (n * low + rest))


def _log2(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    n, rest = _parts(x, share)
    return _at_ends(x, n + rest * const(math.log2(math.e)))


def _log10(x: Expr, share: Share) -> Expr:
    _, const = _form(x)
    return share(_log(x, share)) * const(math.log10(math.e))


def _log1p(x: Expr, share: Share) -> Expr:
    """``log(u) x / (u - 1)`` with u = 1 + x as it is rounded: the errors of both cancel."""
    _, const = _form(x)
    one = const(1.0)
    u = share(one + x)
    value = share(_log(u, share) if str(x.ty.dtype).startswith("float64") else tirx.log(u))
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


def _copysign(x: Expr, y: Expr, share: Share) -> Expr:
    kind = integer_of(x)
    sign = constant(-(1 << (_form(x)[0].bits - 1)), kind)
    size = tirx.reinterpret(kind, x) & tirx.bitwise_xor(sign, constant(-1, kind))
    return tirx.reinterpret(str(x.ty.dtype), size | (tirx.reinterpret(kind, y) & sign))


def _fma(x: Expr, y: Expr, z: Expr, share: Share) -> Expr:
    return tirx.call_llvm_pure_intrin(str(x.ty.dtype), "llvm.fma", x, y, z)


_BOTH = ("float32", "float64")
_LOWERINGS: dict[str, tuple[tuple[str, ...], Callable[..., Expr]]] = {
    "exp": (("float64",), exp),
    "exp2": (("float64",), exp2),
    EXP2_OF_NEGATIVE: (_BOTH, exp2_of_negative),
    "log": (("float64",), _log),
    "log2": (("float64",), _log2),
    "log10": (("float64",), _log10),
    "log1p": (_BOTH, _log1p),
    "sigmoid": (("float64",), sigmoid),
    "tanh": (_BOTH, tanh),
    "sinh": (_BOTH, _sinh),
    "cosh": (_BOTH, _cosh),
    "erf": (_BOTH, _erf),
    "sin": (("float32",), amd_angles.sin),
    "cos": (("float32",), amd_angles.cos),
    "tan": (("float32",), amd_angles.tan),
    "pow": (("float32",), _pow),
    "copysign": (_BOTH, _copysign),
    "fma": (_BOTH, _fma),
    "fmaf": (_BOTH, _fma),
    # Of float64 there is none yet: LLVM names the function that is missing.
    "acos": (("float32",), wide_math.acos),
    "acosh": (("float32",), wide_math.acosh),
    "asin": (("float32",), wide_math.asin),
    "asinh": (("float32",), wide_math.asinh),
    "atan": (("float32",), wide_math.atan),
    "atan2": (("float32",), wide_math.atan2),
    "atanh": (("float64",), _atanh),
    "atanhf": (("float32",), wide_math.atanh),
    "cbrtf": (("float32",), wide_math.cbrt),
    "erfc": (("float64",), _erfc),
    "erfcf": (("float32",), wide_math.erfc),
    "expm1": (("float64",), _any_expm1),
    "expm1f": (("float32",), wide_math.expm1),
}


def _arguments(call: ir.Call) -> tuple[str, list[Expr]]:
    """The name of the function that is called, and its arguments."""
    name, arguments = str(getattr(call.op, "name", "")).partition(".")[2], list(call.args)
    return (arguments[0].value, arguments[1:]) if name == "call_pure_extern" else (name, arguments)


def _is_ours(call: ir.Call) -> bool:
    return _arguments(call)[0] in _LOWERINGS


def _lower(call: ir.Call, share: Share) -> Expr | None:
    name, arguments = _arguments(call)
    if name not in _LOWERINGS:
        return None
    dtypes, function = _LOWERINGS[name]
    scalar, by, lanes = str(call.ty.dtype).partition("x")
    if scalar not in dtypes and (scalar != "float16" or "float32" not in dtypes):
        return None
    if scalar == "float16":
        arguments = [share(tirx.Cast(f"float32{by}{lanes}", one)) for one in arguments]
        return tirx.Cast(str(call.ty.dtype), function(*arguments, share))
    return function(*arguments, share)


@tirx.transform.prim_func_pass(opt_level=0)
def lower_amd_math(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that replaces the calls, for ROCm's targets.

    After the last simplification, which takes (x + c) - c for x, and before TVM's own lowering.
    """
    return replace_calls(func, _lower, _is_ours)
