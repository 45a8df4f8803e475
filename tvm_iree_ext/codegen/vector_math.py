"""Vector code for exp, exp2, log, log1p, tanh, sigmoid and erf on LLVM targets.

TVM lowers these to calls of the C library, one per element, even in a vectorized loop.  Here they
become some dozen vector instructions.  log and log1p are within 1 unit in the last place, erf
within 1.5, exp and exp2 within 1.1, sigmoid within 4.  exp and exp2 give subnormal numbers, but in
kernels that say they take exp2 of negative numbers only: there what is below 2^-125.5 (float64:
2^-1021.5) becomes zero.  NaN stays NaN.  tanh is in :mod:`.hyperbolic_tangent`.

    exp2(x)  = 2^n * 2^f,               n = round(x),            f = x - n
    exp(x)   = 2^n * e^r,               n = round(x / ln 2),     r = x - n * ln 2
    log1p(x) = n * ln 2 + log1p(m),     1 + x = 2^n * (1 + m),   m from -0.25 to 0.5
    erf(x)   = x + x p(x^2),            and 1 - e^q(x) from 0.925 on

Other functions are computed in float64: :mod:`.wide_math`.  Those of float64 have twice its digits
on the way: :mod:`.double_functions`.

Where AVX-512 has instructions for x - floor(x) and for y * 2^floor(x), exp2 of a vector of negative
numbers is these two and 2^f for f from 0 to 1.  Elsewhere the latter only scales: a number has the
same bits in a vector, in its tail and alone.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from tvm import ir, tirx
from tvm.target import codegen as llvm

from tvm_iree_ext.codegen import double_functions, wide_math
from tvm_iree_ext.codegen.float_formats import FORMATS, format_of, integer_of, scalar_of
from tvm_iree_ext.codegen.hyperbolic_tangent import tanh
from tvm_iree_ext.codegen.math_calls import Rarely, Share, replace_calls
from tvm_iree_ext.codegen.polynomials import constant, polynomial
from tvm_iree_ext.codegen.vector_functions import BY_LIBRARY, as_of_tvm, function_name
from tvm_iree_ext.targets.cpu import cpu_features
from tvm_iree_ext.tir.power_rests import is_power_rest, without_rest
from tvm_iree_ext.tir.rounded_bits import expanded, is_rounding

Expr: TypeAlias = ir.Expr


# 2^f on [-0.5, 0.5].
_EXP2 = {
    "float32": (  # minimax of the relative error (1.9e-9), by reweighted least squares
        1.0000000005541674,
        0.6931472057372656,
        0.24022646890628085,
        0.05550328776968321,
        0.009618488957769497,
        0.00133999312182604,
        0.00015345811829295224,
    ),
    "float64": tuple(math.log(2.0) ** k / math.factorial(k) for k in range(14)),  # Taylor: 4e-18
}
# e^r for abs(r) <= ln(2) / 2, from 2^f with f = r / ln 2.
_EXP = {
    dtype: tuple(c / math.log(2.0) ** k for k, c in enumerate(terms))
    for dtype, terms in _EXP2.items()
}

# 2^f on [0, 1], 1 at 0: minimax of the relative error (8.2e-8, and 8.6e-5), fitted likewise.
_FRACTION_EXP2 = (
    1.0,
    0.6931513118102456,
    0.240164450113137,
    0.05579991320760837,
    0.009017030216933454,
    0.0018671301078154155,
)
_COARSE_EXP2 = (1.0, 0.6951167878454518, 0.2276449877406419, 0.07706704399890223)

# log1p(m) = m + m^2 p(m), m from -0.25 to 0.5: minimax of the relative error (7.0e-10).
_LOG1P = (
    -0.49999998441473037,
    0.3333334219450305,
    -0.2500029024047147,
    0.19999623675162573,
    -0.16652291374101114,
    0.14272043255906355,
    -0.12750036999617148,
    0.11755416034191635,
    -0.09126817677070406,
    0.03731933425225965,
)
_LOG_FROM = 0.75  # the least 1 + m

# erf(x) = x + x p(x^2) up to 0.93: minimax of the relative error (4.6e-10).
_ERF = (
    0.1283791665801125,
    -0.37612633189393196,
    0.11283687197522023,
    -0.026858941854401786,
    0.005199907325585784,
    -0.0008130018670288514,
    8.316796347262327e-05,
)
# log(1 - erf(x)), x from 0.92 to 4: minimax of the relative error that it makes in erf (1.5e-9).
_LOG_ERFC = (
    -0.0001956755743711863,
    -1.127675626519229,
    -0.6371822470343695,
    -0.10393159710165176,
    0.022226920431879908,
    -0.0030432174129491475,
    0.0001959372391203531,
)
_ERF_FROM, _ERF_END = 0.925, 4.0  # from the end on 1 is the nearest number


_Lowering: TypeAlias = Callable[[Expr, Share], Expr]

_SCALED = "float32x16"
"""The vectors that :func:`_scaled_exp2` takes."""

_SCALING = {"float32x16": ("ps", "int16"), "float64x8": ("pd", "int8")}
"""The vectors of which AVX-512 scales each lane by a power of 2: by instruction and lanes' mask."""

_DOWNWARDS = 1
"""The instructions' number for rounding to the next integer below."""


def _scaled_in_two_steps(value: Expr, total: Expr) -> Expr:
    """``value * 2^n``, rounded once, of a sum with 1.5 * 2^mantissa whose lowest bits are ``n``."""
    dtype = str(value.ty.dtype)
    form, integer = format_of(value), integer_of(value)
    start = int(np.array(1.5 * 2.0**form.mantissa, scalar_of(value)).view(f"int{form.bits}"))
    # n is from -bias - mantissa to bias + 1: each half of it is an exponent of its own.
    n = tirx.reinterpret(integer, total) - constant(start, integer)
    first = n >> constant(1, integer)
    for part in (first, n - first):
        power = (part + constant(form.bias, integer)) << constant(form.mantissa, integer)
        value = value * tirx.reinterpret(dtype, power)
    return value


def _scaled_by_instruction(value: Expr, n: Expr) -> Expr:
    """``value * 2^n``, rounded once, by AVX-512's instruction."""
    dtype = str(value.ty.dtype)
    suffix, mask = _SCALING[dtype]
    return tirx.call_llvm_pure_intrin(
        dtype,
        f"llvm.x86.avx512.mask.scalef.{suffix}.512",
        *(value, n, constant(0.0, dtype), tirx.const(-1, mask), tirx.const(4, "int32")),
    )


def _power(
    exponent: Expr,
    rest: Callable[[Expr], Expr],
    coefficients: tuple[float, ...],
    share: Share,
    *,
    has_scaling: bool = False,
) -> Expr:
    """``2^n * p(rest(n))`` for n = round(exponent); subnormal numbers are rounded once."""
    dtype = str(exponent.ty.dtype)
    form = format_of(exponent)
    magic = constant(1.5 * 2.0**form.mantissa, dtype)
    total = share(exponent + magic)
    n = share(total - magic)
    value = polynomial(share(rest(n)), coefficients)
    if has_scaling and dtype in _SCALING:
        value = _scaled_by_instruction(value, n)
    else:
        value = _scaled_in_two_steps(share(value), total)
    # Of what is rounded to the bound the result may be finite; if not, scaling overflows.
    too_large = exponent > constant(form.bias + 1.0, dtype)
    value = tirx.Select(too_large, constant(math.inf, dtype), value)
    too_small = exponent < constant(-form.bias - form.mantissa, dtype)
    return tirx.Select(too_small, constant(0.0, dtype), value)


def _power_of_normal(
    exponent: Expr,
    rest: Callable[[Expr], Expr],
    coefficients: tuple[float, ...],
    share: Share,
) -> Expr:
    """The same of what is no larger than the format; what is below the normal numbers is zero."""
    dtype = str(exponent.ty.dtype)
    form, integer = format_of(exponent), integer_of(exponent)
    # Adding this leaves n + bias - 1 in the lowest bits; shifted up they are the float 2^(n-1).
    # The missing factor 2 is in the polynomial: so n may reach the largest exponent.
    magic = constant(1.5 * 2.0**form.mantissa + form.bias - 1, dtype)
    total = share(exponent + magic)
    power = tirx.reinterpret(integer, total) << constant(form.mantissa, integer)
    value = polynomial(share(rest(total - magic)), tuple(2.0 * c for c in coefficients))
    value = value * tirx.reinterpret(dtype, power)
    too_small = exponent < constant(1.5 - form.bias, dtype)
    return tirx.Select(too_small, constant(0.0, dtype), value)


def exp2(x: Expr, share: Share, *, has_scaling: bool = False) -> Expr:
    """2^x, within 1.1 units in the last place."""
    return _power(x, lambda n: x - n, _EXP2[scalar_of(x)], share, has_scaling=has_scaling)


def exp2_of_negative(x: Expr, share: Share) -> Expr:
    """2^x for what is negative, zero or NaN: without the compare and select of an overflow."""
    return _power_of_normal(x, lambda n: x - n, _EXP2[scalar_of(x)], share)


def _scaled_exp2(coefficients: tuple[float, ...]) -> _Lowering:
    """2^x of 16 float32 by AVX-512's instructions, with 2^f for f from 0 to 1."""

    def lower(x: Expr, share: Share) -> Expr:
        def call(name: str, *arguments: Expr) -> Expr:
            name = f"llvm.x86.avx512.mask.{name}.ps.512"
            unused, all_lanes = constant(0.0, _SCALED), tirx.const(-1, "int16")
            usual_rounding = tirx.const(4, "int32")
            return tirx.call_llvm_pure_intrin(
                _SCALED, name, *arguments, unused, all_lanes, usual_rounding
            )

        fraction = share(call("reduce", x, tirx.const(_DOWNWARDS, "int32")))
        value = call("scalef", polynomial(fraction, coefficients), x)
        # LLVM puts this into the instruction, which takes 200 cycles for what is not normal.
        too_small = x < constant(1.5 - FORMATS["float32"].bias, _SCALED)
        return tirx.Select(too_small, constant(0.0, _SCALED), value)

    return lower


def _exp_by(power: Callable[..., Expr], x: Expr, share: Share, **how: bool) -> Expr:
    """e^x by a power of 2 and its rest."""
    dtype = str(x.ty.dtype)
    high, low = (constant(part, dtype) for part in format_of(x).ln2)
    exponent = share(x * constant(1.0 / math.log(2.0), dtype))

    def remainder(n: Expr) -> Expr:
        n = share(n)
        return (x - n * high) - n * low

    return power(exponent, remainder, _EXP[scalar_of(x)], share, **how)


def exp(x: Expr, share: Share, *, has_scaling: bool = False) -> Expr:
    """e^x, within 1.1 units in the last place."""
    return _exp_by(_power, x, share, has_scaling=has_scaling)


def log1p(x: Expr, share: Share) -> Expr:
    """log(1 + x), within 1 unit in the last place."""
    dtype = str(x.ty.dtype)
    integer = integer_of(x)
    one = constant(1.0, dtype)
    scale = share(_exponent(share(x + one)))
    # Both exact: 2^-n x, by its exponent, and 1 - 2^-n, up to n = 24, where x is nearly all.
    scaled = tirx.reinterpret(dtype, tirx.reinterpret(integer, x) - scale)
    bits = share(tirx.reinterpret(integer, one) - scale)
    none = constant(0, integer)
    power = tirx.reinterpret(dtype, tirx.Select(bits > none, bits, none))
    value = _log_of(share(scaled - (one - power)), scale, share)
    return _where_defined(value, x, constant(-1.0, dtype))


def log(x: Expr, share: Share) -> Expr:
    """The natural logarithm, within 1 unit in the last place."""
    dtype = str(x.ty.dtype)
    integer = integer_of(x)
    # A number without an exponent of its own gets one.
    small = share(x < constant(2.0**-126, dtype))
    normal = share(tirx.Select(small, x * constant(2.0**23, dtype), x))
    scale = share(_exponent(normal))
    scaled = tirx.reinterpret(dtype, tirx.reinterpret(integer, normal) - scale)
    more = tirx.Select(small, constant(23 << 23, integer), constant(0, integer))
    value = _log_of(share(scaled - constant(1.0, dtype)), scale - more, share)
    return _where_defined(value, x, constant(0.0, dtype))


def _exponent(x: Expr) -> Expr:
    """n of a float32 ``x = 2^n * y``, y from 0.75 to 1.5, in the place of an exponent."""
    integer = integer_of(x)
    first = int(np.float32(_LOG_FROM).view(np.int32))
    bits = tirx.reinterpret(integer, x) - constant(first, integer)
    return bits & constant(-1 << FORMATS["float32"].mantissa, integer)


def _log_of(m: Expr, scale: Expr, share: Share) -> Expr:
    """``log1p(m) + n ln 2``; by what is subtracted, zero keeps its sign."""
    dtype = str(m.ty.dtype)
    # ln 2 in two parts above 0, and n times the first one is exact.
    high, low = (constant(part, dtype) for part in FORMATS["float64"].ln2)
    zero, unit = constant(0, str(scale.ty.dtype)), constant(2.0**-23, dtype)
    less = share(tirx.Cast(dtype, zero - scale) * unit)
    value = m + (m * m) * polynomial(m, _LOG1P)
    return (value - less * low) - less * high


def _where_defined(value: Expr, x: Expr, pole: Expr) -> Expr:
    """A logarithm: infinite at the pole and for infinity, and nothing below."""
    dtype = str(x.ty.dtype)
    infinity = constant(math.inf, dtype)
    at_end = tirx.Select(tirx.EQ(x, pole), -infinity, constant(math.nan, dtype))
    return tirx.Select(x > pole, tirx.Select(x < infinity, value, infinity), at_end)


def erf(x: Expr, share: Share) -> Expr:
    """The error function, within 1.5 units in the last place."""
    dtype = str(x.ty.dtype)
    one, zero = constant(1.0, dtype), constant(0.0, dtype)
    near = x + x * polynomial(share(x * x), _ERF)
    size = share(tirx.Select(x < zero, -x, x))
    end = constant(_ERF_END, dtype)
    log_erfc = polynomial(share(tirx.Select(size < end, size, end)), _LOG_ERFC)
    far = share(one - _exp_by(_power_of_normal, share(log_erfc), share))
    signed = tirx.Select(x < zero, -far, far)
    return tirx.Select(size > constant(_ERF_FROM, dtype), signed, near)


def sigmoid(x: Expr, share: Share) -> Expr:
    """``1 / (1 + e^-x)``, within 4 units in the last place."""
    one = constant(1.0, str(x.ty.dtype))
    return one / (one + exp(share(constant(0.0, str(x.ty.dtype)) - x), share))


NEGATIVE_EXP2 = "tvm_iree_ext.negative_exp2"
"""Attribute of a PrimFunc that takes exp2 of negative numbers, zero, -inf and NaN only.

Each exp2 is then :func:`exp2_of_negative`, or by the instructions that there are for vectors.
"""

COARSE = "coarse"
"""Accuracy for weights that are rounded to 8 bits, for which 13 are enough."""

EXP2_OF_NEGATIVE = "tvm_iree_ext_exp2_of_negative"
"""A pure extern function of that, for kernels of AMD's GPUs: these lose a PrimFunc's attributes."""

_LOWERINGS: dict[str, tuple[_Lowering, tuple[str, ...]]] = {
    "tirx.exp": (exp, ("float32", "float64")),
    "tirx.exp2": (exp2, ("float32", "float64")),
    "tirx.log": (log, ("float32",)),
    "tirx.log1p": (log1p, ("float32",)),
    "tirx.erf": (erf, ("float32",)),
    "tirx.sigmoid": (sigmoid, ("float32", "float64")),
    "tirx.tanh": (tanh, ("float32", "float64")),
}


_ANGLES = {"tirx.cos": "llvm.cos", "tirx.sin": "llvm.sin", "tirx.tan": "llvm.tan"}
"""LLVM's intrinsics of float64 that become calls of the C library, one for each lane.

TVM's own tangent is a quotient, which loses up to 17 units.
"""


@tirx.transform.prim_func_pass(opt_level=0)
def lower_vector_math(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """A pass that replaces the calls.

    It runs last: TVM's simplifier takes (x + c) - c for x, which is not so for rounded floats.
    """
    attributes = dict(func.attrs or {})
    weights, target = attributes.get(NEGATIVE_EXP2), attributes.get("target")
    scaled = _scaled_exp2(_COARSE_EXP2 if str(weights) == COARSE else _FRACTION_EXP2)
    has_scaling = target is not None and bool(llvm.llvm_cpu_has_features("avx512dq", target))

    has_fma = target is not None and cpu_features(target).has_fma
    by_library = BY_LIBRARY in attributes

    def lower(call: ir.Call, share: Share) -> Expr | Rarely | None:
        dtype, name = str(call.ty.dtype), function_name(call)
        if is_rounding(call):
            return expanded(call.args[0], share)
        if name in wide_math.LOWERINGS and dtype.partition("x")[0] == "float32":
            return wide_math.LOWERINGS[name](*call.args, share)
        if by_library and is_power_rest(call):
            return without_rest(call)
        if name in double_functions.LOWERINGS and dtype.partition("x")[0] == "float64":
            library = [_ANGLES[name]] if name in _ANGLES else []
            if by_library:
                return tirx.call_llvm_pure_intrin(dtype, *library, *call.args) if library else None
            return double_functions.LOWERINGS[name](*call.args, share, has_fma, *library)
        function, scalars = _LOWERINGS.get(name, (None, ()))
        if function is None or dtype.partition("x")[0] not in scalars:
            return as_of_tvm(call)
        if function is exp2 and weights:
            function = scaled if has_scaling and dtype == _SCALED else exp2_of_negative
        if function in (exp, exp2):
            return function(call.args[0], share, has_scaling=has_scaling)
        return function(call.args[0], share)

    def is_ours(call: ir.Call) -> bool:
        name = function_name(call)
        tables = (wide_math.LOWERINGS, double_functions.LOWERINGS, _LOWERINGS)
        is_replaced = any(name in table for table in tables)
        return is_rounding(call) or is_replaced or as_of_tvm(call) is not None

    return replace_calls(func, lower, is_ours)
