"""Arithmetic on indices, done at build time where the numbers are known; maxima of floats."""

from collections.abc import Sequence
from math import prod

from tvm import tirx

from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known


def flat_index(index: Sequence[Index], shape: Sequence[Index]) -> Expr:
    """The row-major position of an index."""
    flat: Expr = i64(0)
    for at, extent in zip(index, shape, strict=True):
        flat = flat * i64(extent) + i64(at)
    return flat


def ceil_div(a: Index, b: Index) -> Index:
    """``a / b``, rounded up; neither is negative."""
    number, divisor = known(a), known(b)
    if divisor is None:
        # Rounding down would cost a comparison of signs.
        return tirx.truncdiv(i64(a) + (b - 1), b)
    if number is None:
        return tirx.floordiv(a + (divisor - 1), i64(divisor))
    return -(-number // divisor)


def divide(a: Index, b: Index) -> tuple[Expr, Expr]:
    """Quotient and remainder of indices, which are never negative."""
    a, b = i64(a), i64(b)
    if known(b) is None:
        # Rounding down would cost a comparison of signs.
        return tirx.truncdiv(a, b), tirx.truncmod(a, b)
    return tirx.floordiv(a, b), tirx.floormod(a, b)


def smaller(a: Index, b: Index) -> Index:
    """The smaller of two, at build time where both are known."""
    x, y = known(a), known(b)
    return min(x, y) if x is not None and y is not None else tirx.min(i64(a), i64(b))


def larger(a: Index, b: Index) -> Index:
    """The larger of two, at build time where both are known."""
    x, y = known(a), known(b)
    return max(x, y) if x is not None and y is not None else tirx.max(i64(a), i64(b))


def larger_float(a: Expr, b: Expr) -> Expr:
    """The larger of two floats; ``a`` where either is NaN: one compare and select."""
    return tirx.Select(b > a, b, a)


def larger_or_nan(a: Expr, b: Expr) -> Expr:
    """The larger of two floats; NaN where either is."""
    # Not ``b != b``: TVM takes that for false.
    return tirx.Select(b > a, b, tirx.Select(tirx.isnan(b), b, a))


def total(values: Sequence[Index]) -> Index:
    """The sum, as a number where all are known."""
    result: Index = sum(v for v in values if isinstance(v, int))
    for value in values:
        if not isinstance(value, int):
            result = value if known(result) == 0 else value + i64(result)
    return result


def row_major(shape: Sequence[Index]) -> list[Index]:
    """How far a step along each axis moves in memory."""
    return [product(shape[axis + 1 :]) for axis in range(len(shape))]


def product(extents: Sequence[Index]) -> Index:
    """The product, as a number where all are known."""
    result: Index = prod(e for e in extents if isinstance(e, int))
    for extent in extents:
        if not isinstance(extent, int):
            result = extent * i64(result)
    return result
