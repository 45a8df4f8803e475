"""How far a result may be from what is expected."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """``abs(got - want) <= absolute + relative * abs(want)``; both 0 means exact."""

    absolute: float
    relative: float


EXACT = Tolerance(0.0, 0.0)

# For results of which a bound of the error is known: see random_programs.values.
SLACK = 4.0
"""A result may be this often its bound away: compilers add in any order, and fuse roundings."""

_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_SMALLEST_NORMAL = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14}


def digits(dtype: str) -> int:
    """How many binary digits a float of this type has: whole numbers up to their power are."""
    return _DIGITS[dtype]


def rounding(dtype: str) -> tuple[float, float]:
    """Error that one rounding adds: relative, and absolute where numbers are subnormal."""
    return 2.0 ** (1 - _DIGITS[dtype]), _SMALLEST_NORMAL.get(dtype, 2.0**-126)


def of_function(dtype: str) -> float:
    """How many roundings the result of exp, tanh and the like is from the right one."""
    return 16.0 if dtype in ("float64", "float32") else 2.0
