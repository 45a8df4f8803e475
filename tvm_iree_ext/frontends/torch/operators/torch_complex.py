"""PyTorch's operators of complex numbers that IREE's front end does not take.

Functions are operations of MLIR's dialect ``complex``, which the importer computes over the whole
range of both parts; those that it has not are made of others, complex64 by way of complex128.
"""

from collections.abc import Callable
from math import log
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_scalars import elementwise

aten = torch.ops.aten


def absolute(x: Any) -> Any:
    """The larger part times what the ratio of the two makes of it: no square overflows."""
    if not x.is_complex():
        return torch.abs(x)
    a, b = x.real.abs(), x.imag.abs()
    less, more = torch.where(a < b, a, b), torch.where(a < b, b, a)
    ratio = less / torch.where(more == 0, torch.ones((), dtype=more.dtype), more)
    found = more * torch.sqrt(1 + ratio * ratio)
    return torch.where(a.isinf() | b.isinf(), torch.full((), torch.inf, dtype=a.dtype), found)


def angle(x: Any) -> Any:
    """By the quadrant of the parts; of real numbers 0 or pi, and NaN of NaN."""
    if x.is_complex():
        return torch.atan2(x.imag, x.real)
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    half = torch.where(x < 0, torch.full((), torch.pi, dtype=x.dtype), torch.zeros_like(x))
    return torch.where(x.isnan(), x, half)


def conjugate(x: Any) -> Any:
    """A real number as it is."""
    return torch.complex(x.real, -x.imag) if x.is_complex() else x


def complex_of(x: Any, kind: torch.dtype) -> Any:
    """A tensor in a complex type; IREE's front end converts from none and to none."""
    part = kind.to_real()
    if x.is_complex():
        return x if x.dtype is kind else torch.complex(x.real.to(part), x.imag.to(part))
    if x.dtype is torch.bool:
        x = x.to(torch.int32)  # IREE's front end takes the one bit of True for -1
    real = x.to(part)
    return torch.complex(real, torch.zeros_like(real))


def _turned(x: Any) -> Any:
    """``i x``, without the products that make NaN of an infinity."""
    return torch.complex(-x.imag, x.real)


def _turned_back(x: Any) -> Any:
    """``-i x``."""
    return torch.complex(x.imag, -x.real)


def _by(operation: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return elementwise(f"complex.{operation}", x)

    return function


_exp, _log, _sqrt, _sin, _cos = map(_by, ("exp", "log", "sqrt", "sin", "cos"))


def _scaled(x: Any, factor: float) -> Any:
    return torch.complex(x.real * factor, x.imag * factor)


def _quotient(x: Any, y: Any) -> Any:
    return elementwise("complex.div", x, y)


def _one_plus(x: Any, sign: int = 1) -> Any:
    """``1 + x`` or ``1 - x``, with the imaginary part's own sign where it is 0."""
    return torch.complex(1 + x.real, x.imag) if sign > 0 else torch.complex(1 - x.real, -x.imag)


def _one(x: Any) -> Any:
    return torch.complex(torch.ones_like(x.real), torch.zeros_like(x.real))


def _reciprocal(x: Any) -> Any:
    return _quotient(_one(x), x)


def _in_double(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of complex64 by its formula in complex128, rounded once."""

    def rounded(x: Any) -> Any:
        return complex_of(function(complex_of(x, torch.complex128)), x.dtype)

    return rounded


def _asin(x: Any) -> Any:
    """Kahan's: each part by the roots of ``1 - x`` and ``1 + x``."""
    below, above = _sqrt(_one_plus(x, -1)), _sqrt(_one_plus(x))
    real = torch.atan2(x.real, below.real * above.real - below.imag * above.imag)
    return torch.complex(real, torch.asinh(below.real * above.imag - below.imag * above.real))


def _acos(x: Any) -> Any:
    below, above = _sqrt(_one_plus(x, -1)), _sqrt(_one_plus(x))
    imaginary = torch.asinh(above.real * below.imag - above.imag * below.real)
    return torch.complex(2 * torch.atan2(below.real, above.real), imaginary)


def _acosh(x: Any) -> Any:
    before, above = _sqrt(torch.complex(x.real - 1, x.imag)), _sqrt(_one_plus(x))
    real = torch.asinh(before.real * above.real + before.imag * above.imag)
    return torch.complex(real, 2 * torch.atan2(before.imag, above.real))


def _atanh(x: Any) -> Any:
    """By the logarithm of the moduli's quotient, and by the angle between the two."""
    a, b = x.real, x.imag
    away, square = 1 - a, b * b
    real = torch.log1p(4 * a.abs() / ((1 - a.abs()) ** 2 + square)) / 4
    angle = torch.atan2(2 * b, away * (1 + a) - square) / 2
    return torch.complex(elementwise("math.copysign", real, a), angle)


def _sigmoid(x: Any) -> Any:
    return _reciprocal(_one_plus(_exp(torch.complex(-x.real, -x.imag))))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{name: _by(name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt")},
    **{name: _by(name) for name in ("sin", "cos", "tan", "tanh")},
    "sgn": _by("sign"),
    "exp2": lambda x: _exp(_scaled(x, log(2))),
    "log2": lambda x: _scaled(_log(x), 1 / log(2)),
    "log10": lambda x: _scaled(_log(x), 1 / log(10)),
    "sinh": lambda x: _turned_back(_sin(_turned(x))),
    "cosh": lambda x: _cos(_turned(x)),
    "asin": _in_double(_asin),
    "acos": _in_double(_acos),
    "acosh": _in_double(_acosh),
    "asinh": _in_double(lambda x: _turned(_asin(_turned_back(x)))),
    "atanh": _in_double(_atanh),
    "atan": _in_double(lambda x: _turned_back(_atanh(_turned(x)))),
    "sigmoid": _in_double(_sigmoid),
    "reciprocal": _reciprocal,
}


def _of_either(name: str) -> Callable[[Any], Any]:
    operator, function = getattr(aten, name).default, FUNCTIONS[name]
    return lambda x: function(x) if x.is_complex() else operator(x)


COMPLEX: dict[Any, Callable[..., Any]] = {
    aten.abs.default: absolute,
    aten.angle.default: angle,
    aten.conj.default: conjugate,
    aten._conj.default: conjugate,
    aten.conj_physical.default: conjugate,
    aten._conj_physical.default: conjugate,
    **{getattr(aten, name).default: _of_either(name) for name in FUNCTIONS},
}
