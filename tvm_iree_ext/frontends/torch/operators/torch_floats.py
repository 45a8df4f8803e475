"""PyTorch's functions of the parts of floats, and of the larger of two, that IREE does not take."""

from collections.abc import Callable
from math import inf
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_bits import both, known_power, of_one_shape
from tvm_iree_ext.frontends.torch.base.torch_scalars import elementwise

aten = torch.ops.aten
_LOG2_E = 1.4426950408889634
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_FRACTION = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}


def in_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors, or numbers, that get their common floating type and their shape."""

    def of_floats(*operands: Any) -> Any:
        kind = torch.result_type(*operands) if len(operands) > 1 else operands[0].dtype
        if not kind.is_floating_point:
            kind = torch.get_default_dtype()
        tensors = [
            one.to(kind) if isinstance(one, torch.Tensor) else torch.full((), one, dtype=kind)
            for one in operands
        ]
        return function(*of_one_shape(*tensors))

    return of_floats


def _bits(x: Any) -> Any:
    return x.view(_BITS[x.itemsize])


@in_floats
def copysign(x: Any, sign: Any) -> Any:
    """The absolute value with another's sign."""
    return elementwise("math.copysign", x, sign)


def signbit(x: Any) -> Any:
    """Also that of zeros and NaN."""
    return _bits(x) < 0 if x.is_floating_point() else x < 0


@in_floats
def hypot(a: Any, b: Any) -> Any:
    """The larger times what the ratio of the two makes of it; of float32 by float64."""
    if a.dtype is not torch.float64:
        wide, other = a.double(), b.double()
        found = torch.sqrt(wide * wide + other * other).to(a.dtype)
        return torch.where(a.isinf() | b.isinf(), torch.full((), inf, dtype=a.dtype), found)
    a, b = a.abs(), b.abs()
    less, more = torch.where(a < b, a, b), torch.where(a < b, b, a)
    ratio = less / torch.where(more == 0, torch.ones((), dtype=a.dtype), more)
    found = more * torch.sqrt(1 + ratio * ratio)
    return torch.where(a.isinf() | b.isinf(), torch.full((), inf, dtype=a.dtype), found)


@in_floats
def logaddexp2(a: Any, b: Any) -> Any:
    """The larger, and what the other adds to it: the logarithm of 1 + 2^-n loses small ones."""
    gap = torch.where(a == b, torch.zeros_like(a), -(a - b).abs())  # infinities are equal, too
    return torch.where(a > b, a, b) + torch.log1p(torch.exp2(gap)) * _LOG2_E


@in_floats
def nextafter(x: Any, towards: Any) -> Any:
    """The next float, whose bits are those of the next integer."""
    if not x.dim():  # whose bits end IREE's compiler
        return nextafter(x.reshape(1), towards.reshape(1)).reshape(())
    bits = _bits(x)
    away = (towards > x) == (x > 0)
    least = copysign(torch.ones_like(bits).view(x.dtype), towards)
    moved = torch.where(away, bits + 1, bits - 1).view(x.dtype)
    moved = torch.where(x == 0, least, moved)
    moved = torch.where(x == towards, towards, moved)
    return torch.where(x.isnan() | towards.isnan(), x + towards, moved)


def frexp(x: Any) -> tuple[Any, Any]:
    """A fraction from 1/2 on below 1, and the exponent of 2; of zeros and infinities, 0."""
    fraction = _FRACTION[x.dtype]
    bias, most = (
        (2 ** (x.itemsize * 8 - 2 - fraction)) - 1,
        2 ** (x.itemsize * 8 - 1 - fraction) - 1,
    )
    shift = fraction + 2
    is_small = (_bits(x.abs()) >> fraction) == 0  # no leading one: scaled so that there is
    scaled = torch.where(is_small, x * 2.0**shift, x)  # zeros and the like are left as they are
    exponents = both(_bits(scaled) >> fraction, most)
    rest = _bits(scaled) - (exponents << fraction)
    kept = rest + ((bias - 1) << fraction)
    is_plain = (x != 0) & isfinite(x)
    exponent = exponents.to(torch.int32) - (bias - 1) - is_small.to(torch.int32) * shift
    zero = torch.zeros((), dtype=torch.int32)
    mantissa = kept.to(_BITS[x.itemsize]).view(x.dtype)
    return torch.where(is_plain, mantissa, x), torch.where(is_plain, exponent, zero)


@in_floats
def fmax(a: Any, b: Any) -> Any:
    """The larger, and the one that is a number where the other is none."""
    return torch.where((a >= b) | b.isnan(), a, b)


@in_floats
def fmin(a: Any, b: Any) -> Any:
    """Likewise."""
    return torch.where((a <= b) | b.isnan(), a, b)


def _either(function: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def of_any(a: Any, b: Any) -> Any:
        is_float = torch.result_type(a, b).is_floating_point
        return function(a, b) if is_float else plain(a, b)

    return of_any


def equal(a: Any, b: Any) -> Any:
    """IREE's front end takes what is compared with itself for equal: NaN is not."""
    if not torch.result_type(a, b).is_floating_point:
        return torch.eq(a, b)
    return torch.logical_not(torch.ne(a, b))


def difference(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Likewise the difference of what is itself for 0: of infinities and NaN it is NaN."""
    return torch.add(a, torch.neg(b), alpha=alpha)


def isfinite(x: Any) -> Any:
    """Of integers, always."""
    if x.is_complex():
        return isfinite(x.real) & isfinite(x.imag)
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return torch.abs(x) < inf


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Equal, or as near as the two bounds allow."""
    close = equal(a, b)
    if equal_nan and a.is_floating_point():
        close = close | (a.isnan() & b.isnan())
    if rtol == 0 and atol == 0:
        return close
    kind = b.dtype if b.is_floating_point() else torch.get_default_dtype()
    if a.dtype is torch.bool:
        a, b = torch.where(a, 1, 0), torch.where(b, 1, 0)
    away = (torch.add(a, torch.neg(b)) if a.is_floating_point() else a - b).abs().to(kind)
    return close | (isfinite(away) & (away <= atol + (rtol * b.to(kind)).abs()))


_POWERS: dict[float, Callable[[Any], Any]] = {
    0.5: torch.sqrt,
    -0.5: torch.rsqrt,
    -1.0: torch.reciprocal,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -2.0: lambda x: torch.reciprocal(x * x),
}


def power(x: Any, exponent: Any) -> Any:
    """Roots, squares and cubes are such, also of infinities and zeros; others of whole numbers are
    products."""
    kind = torch.result_type(x, exponent)
    if (
        isinstance(exponent, int)
        and exponent >= 0
        and not (kind.is_floating_point or kind.is_complex)
    ):
        return known_power(x.to(kind), exponent)
    if x.is_floating_point() and isinstance(exponent, int | float) and exponent in _POWERS:
        return _POWERS[exponent](x)
    return torch.pow(x, exponent)


def polar(length: Any, angle: Any) -> Any:
    """The complex number of a length and an angle."""
    return torch.complex(length * torch.cos(angle), length * torch.sin(angle))


FLOATS: dict[Any, Callable[..., Any]] = {
    aten.copysign.Scalar: copysign,
    aten.copysign.Tensor: copysign,
    aten.fmax.default: _either(fmax, torch.maximum),
    aten.fmin.default: _either(fmin, torch.minimum),
    aten.eq.Tensor: equal,
    aten.sub.Tensor: difference,
    aten.isfinite.default: isfinite,
    aten.isclose.default: isclose,
    aten.pow.Tensor_Scalar: power,
    aten.frexp.Tensor: frexp,
    aten.hypot.default: hypot,
    aten.logaddexp2.default: logaddexp2,
    aten.nextafter.default: nextafter,
    aten.polar.default: polar,
    aten.signbit.default: signbit,
}
