"""Roots of unity, computed by a kernel: a few instructions for each."""

import math

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, i64

Pair = tuple[Expr, Expr]

# sin(pi x) / x and cos(pi x) for abs(x) <= 1/4, as Taylor series in x^2: below an ulp of each type.
_TERMS = {"float32": 6, "float64": 10}


def unit_roots(power: Expr, order: int | Expr, dtype: str, lanes: int) -> Pair:
    """The real and imaginary part of exp(-2 pi i power / order), 0 <= power < order.

    The eighth of the turn is found in integers, so nothing is lost near the axes, and the axes
    themselves are exact.
    """

    def whole(value: int | Expr) -> Expr:
        return emit.splat(i64(value), lanes)

    # In memory, not in variables: TVM would expand what is used twice again and again.
    place = [emit.run(0, lanes)]

    def keep(value: Expr, kind: str) -> Expr:
        buffer = emit.registers(lanes, kind)
        I.buffer_store(buffer, value, place)
        return buffer[place[0]]

    def const(value: float) -> Expr:
        return emit.splat(tirx.const(value, dtype), lanes)

    zero = const(0.0)
    double = keep(power * whole(2), "int64")
    upper = double >= whole(order)
    # Within half a turn: its distance from 0 in halves, then mirrored into the first quarter.
    within = keep(double - tirx.Select(upper, whole(order), whole(0)), "int64")
    mirrored = keep(within * whole(2), "int64") > whole(order)
    quarter = keep(tirx.Select(mirrored, whole(order) - within, within), "int64")
    swapped = quarter * whole(4) > whole(order)
    eighth = tirx.Select(swapped, whole(order) - quarter * whole(2), quarter * whole(2))
    divisor = emit.splat(tirx.Cast(dtype, i64(order)), lanes) * const(2.0)
    x = keep(emit.cast(eighth, dtype) / divisor, dtype)
    x2 = keep(x * x, dtype)

    def series(first: int) -> Expr:
        powers = [2 * k + first for k in range(_TERMS[dtype])]
        values = [(-1) ** (p // 2) * math.pi**p / math.factorial(p) for p in powers]
        result = const(values[-1])
        for value in reversed(values[:-1]):
            result = result * x2 + const(value)
        return result

    sine, cosine = keep(series(1) * x, dtype), keep(series(0), dtype)
    real = keep(tirx.Select(swapped, sine, cosine), dtype)
    imag = keep(tirx.Select(swapped, cosine, sine), dtype)
    real = keep(tirx.Select(mirrored, zero - real, real), dtype)
    return tirx.Select(upper, zero - real, real), tirx.Select(upper, imag, zero - imag)
