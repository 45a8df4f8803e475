"""Products of a constant matrix and a column, as Winograd's transforms are made of."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr

Row = Sequence[Fraction]
Keep: TypeAlias = Callable[[Expr], Expr]


def multiply(matrix: Sequence[Row], vectors: Sequence[Expr], keep: Keep = I.Bind) -> list[Expr]:
    """``sum_j matrix[p][j] * vectors[j]`` for each row p, with what rows share computed once.

    Where two columns differ in signs alone, rows are made of the sum and the difference of their
    vectors; where two rows do, of the sum and the difference of two partial sums.  ``keep`` makes
    sure that a value which is used again is computed once.
    """
    columns = [tuple(row[j] for row in matrix) for j in range(len(vectors))]
    terms: list[tuple[tuple[Fraction, ...], Expr]] = []
    vectors = [keep(vector) for vector in vectors]
    free = [j for j, column in enumerate(columns) if any(column)]
    while free:
        j = free.pop(0)
        twin = next((k for k in free if _magnitudes(columns[j]) == _magnitudes(columns[k])), None)
        if twin is None or columns[j] == columns[twin]:
            terms.append((columns[j], vectors[j]))
            continue
        free.remove(twin)
        same = [a == b for a, b in zip(columns[j], columns[twin], strict=True)]
        pairs = list(zip(columns[j], same, strict=True))
        both = tuple(value if is_same else Fraction(0) for value, is_same in pairs)
        only = tuple(Fraction(0) if is_same else value for value, is_same in pairs)
        terms.append((both, keep(vectors[j] + vectors[twin])))
        terms.append((only, keep(vectors[j] - vectors[twin])))
    rows = [tuple(column[p] for column, _ in terms) for p in range(len(matrix))]
    values = [value for _, value in terms]
    results: list[Expr | None] = [None] * len(rows)
    for p, row in enumerate(rows):
        if results[p] is not None:
            continue
        twin = next(
            (
                q
                for q in range(p + 1, len(rows))
                if rows[q] != row and _magnitudes(rows[q]) == _magnitudes(row)
            ),
            None,
        )
        if twin is None:
            results[p] = keep(_sum(row, values))
            continue
        same = [a == b for a, b in zip(row, rows[twin], strict=True)]
        even = _part(row, values, same, True, keep)
        odd = _part(row, values, same, False, keep)
        results[p], results[twin] = keep(even + odd), keep(even - odd)
    return [result for result in results if result is not None]


def _magnitudes(row: Row) -> tuple[Fraction, ...]:
    return tuple(map(abs, row))


def _part(row: Row, values: Sequence[Expr], same: Sequence[bool], wanted: bool, keep: Keep) -> Expr:
    """The sum over the columns in which two rows agree, or do not."""
    pairs = zip(row, same, strict=True)
    chosen = [value if is_same == wanted else Fraction(0) for value, is_same in pairs]
    return keep(_sum(chosen, values))


def _sum(row: Row, values: Sequence[Expr]) -> Expr:
    """``sum_j row[j] * values[j]``, beginning with a term that needs no product."""
    terms = [(factor, value) for factor, value in zip(row, values, strict=True) if factor]
    terms.sort(key=lambda term: term[0] != 1)
    total: Expr | None = None
    for factor, value in terms:
        if total is None:
            total = value if factor == 1 else value * _constant(factor, value)
        elif abs(factor) == 1:
            total = total + value if factor == 1 else total - value
        else:
            total = total + value * _constant(factor, value)
    assert total is not None
    return total


def _constant(factor: Fraction, like: Expr) -> Expr:
    dtype, _, lanes = str(like.ty.dtype).partition("x")
    return emit.splat(tirx.const(float(factor), dtype), int(lanes or 1))
