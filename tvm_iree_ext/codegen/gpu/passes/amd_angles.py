"""sin, cos and tan of float32, for AMD's chips.

Their instructions take turns instead of radians, rounded to float32, so that an angle of 1000 would
be off by 6e-5.  Here ``x = n pi/2 + r`` in float64, and polynomials of r, at most pi/4 away from 0:

    n mod 4     0         1         2         3
    sin x       sin r     cos r    -sin r    -cos r
    cos x       cos r    -sin r    -cos r     sin r

Within 2 units in the last place up to 2^28 (tan: 4); beyond, a number from -1 to 1.
"""

import math
from typing import Any

from tvm import tirx

from tvm_iree_ext.codegen.math_calls import Share
from tvm_iree_ext.codegen.polynomials import constant, polynomial

_QUARTER = (1.5707963267341256, 6.0771005065061922e-11)
"""pi/2 as a sum; the first has few enough digits to be multiplied exactly."""
_SIN = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
_COS = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)


def sin(x: Any, share: Share) -> Any:
    """The sine."""
    part, sine, cosine = _parts(x, share)
    return _of_quarters(part, (sine, cosine, _negative(sine), _negative(cosine)))


def cos(x: Any, share: Share) -> Any:
    """The cosine."""
    part, sine, cosine = _parts(x, share)
    return _of_quarters(part, (cosine, _negative(sine), _negative(cosine), sine))


def tan(x: Any, share: Share) -> Any:
    """The tangent."""
    part, sine, cosine = _parts(x, share)
    return share(_of_quarters(part, (sine, cosine, sine, cosine))) / share(
        _of_quarters(part, (cosine, _negative(sine), cosine, _negative(sine)))
    )


def _parts(x: Any, share: Share) -> tuple[Any, Any, Any]:
    """``n mod 4``, ``sin r`` and ``cos r``."""
    dtype = str(x.ty.dtype)
    wide_type = dtype.replace("float32", "float64")

    def wide(value: float) -> Any:
        return constant(value, wide_type)

    angle = share(tirx.Cast(wide_type, x))
    n = share(tirx.nearbyint(angle * wide(2.0 / math.pi)))
    rest = share((angle - n * wide(_QUARTER[0])) - n * wide(_QUARTER[1]))
    for sign, end in ((1, wide(0.8)), (-1, wide(-0.8))):  # keeps NaN, bounds what is no rest
        beyond = rest > end if sign > 0 else rest < end
        rest = share(tirx.Select(beyond, end, rest))
    part = share(n - wide(4.0) * tirx.floor(n * wide(0.25)))
    r = share(tirx.Cast(dtype, rest))
    square = share(r * r)
    one, half = constant(1.0, dtype), constant(0.5, dtype)
    sine = share(r + r * (square * polynomial(square, _SIN)))
    cosine = share((one - half * square) + square * (square * polynomial(square, _COS)))
    return part, sine, cosine


def _of_quarters(part: Any, values: tuple[Any, Any, Any, Any]) -> Any:
    def before(end: float, value: Any, other: Any) -> Any:
        return tirx.Select(part < constant(end, str(part.ty.dtype)), value, other)

    return before(2.0, before(1.0, *values[:2]), before(3.0, *values[2:]))


def _negative(value: Any) -> Any:
    return constant(0.0, str(value.ty.dtype)) - value
