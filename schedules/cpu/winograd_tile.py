"""What the Winograd kernels share: products with a constant matrix, and vectors of channels."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known

from tvm_iree_ext.ops.winograd import Winograd

Row = Sequence[Fraction]


class TileTransform:
    """What transforms have in common; elements are read and written by flat position.

    ``source`` and ``result`` may be operands or scratch; what is stored is rounded to the type of
    ``result``.
    """

    def __init__(self, op: Winograd, source: Any, result: Any) -> None:
        self.op, self.source, self.result = op, source, result
        self.dtype = op.compute_dtype
        self.matrix = op.matrix
        self.tile_rows, self.tile_columns = len(op.matrix), len(op.matrix[0])

    def load(self, at: Expr, lanes: int) -> Expr:
        """Elements from a position on, in the compute type."""
        return emit.cast(self.source[emit.run(at, lanes)], self.dtype)

    def store(self, at: Expr, value: Expr, lanes: int) -> None:
        """Write elements from a position on, rounded to the result's type."""
        value = emit.cast(value, str(self.result.dtype))
        I.buffer_store(self.result, value, [emit.run(at, lanes)])

    def zero(self, lanes: int) -> Expr:
        """Zeros in the compute type."""
        return emit.splat(tirx.const(0.0, self.dtype), lanes)

    def product(self, vectors: Sequence[Expr]) -> list[Expr]:
        """The constant matrix times a column of vectors."""
        # Through registers: the compiler expands what is bound to variables, and loads are long.
        _, _, text = str(vectors[0].ty.dtype).partition("x")
        lanes = int(text or 1)
        column = emit.registers(len(vectors) * lanes, self.dtype)
        places = [emit.run(j * lanes, lanes) for j in range(len(vectors))]
        for place, vector in zip(places, vectors, strict=True):
            I.buffer_store(column, vector, [place])
        return multiply(self.matrix, [column[place] for place in places])


def over_channels(count: Index, lanes: int, body: Callable[[int, Index], None]) -> None:
    """``body(lanes, blocks)``: with vectors of channels where there are as many.

    Fewer lanes where there are fewer channels.  Block b is to take channels from
    :func:`first_channel` on: the last block overlaps the one before, and both write the same.
    """
    exact = known(count)
    if exact is not None:
        while lanes > exact:
            lanes //= 2
        body(lanes, emit.ceil_div(count, lanes))
        return
    with I.If(i64(count) >= lanes):
        with I.Then():
            body(lanes, emit.ceil_div(count, lanes))
        with I.Else():
            body(1, count)


def first_channel(block: Index, count: Index, lanes: int) -> Expr:
    """Where a block of channels begins."""
    exact = known(count)
    if lanes == 1 or (exact is not None and exact % lanes == 0):
        return i64(block) * lanes
    return i64(emit.smaller(i64(block) * lanes, i64(count) - lanes))


def tasks(count: Index, config: LoweringConfig) -> Any:
    """A loop whose steps are independent."""
    return (I.parallel if config.parallel else I.serial)(i64(0), i64(count))


def multiply(matrix: Sequence[Row], vectors: Sequence[Expr]) -> list[Expr]:
    """``sum_j matrix[p][j] * vectors[j]`` for each row p, with what rows share computed once.

    Where two columns differ in signs alone, rows are made of the sum and the difference of their
    vectors; where two rows do, of the sum and the difference of two partial sums.
    """
    columns = [tuple(row[j] for row in matrix) for j in range(len(vectors))]
    terms: list[tuple[tuple[Fraction, ...], Expr]] = []
    vectors = [I.Bind(vector) for vector in vectors]
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
        terms.append((both, I.Bind(vectors[j] + vectors[twin])))
        terms.append((only, I.Bind(vectors[j] - vectors[twin])))
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
            results[p] = I.Bind(_sum(row, values))
            continue
        same = [a == b for a, b in zip(row, rows[twin], strict=True)]
        even = _part(row, values, same, True)
        odd = _part(row, values, same, False)
        results[p], results[twin] = I.Bind(even + odd), I.Bind(even - odd)
    return [result for result in results if result is not None]


def _magnitudes(row: Row) -> tuple[Fraction, ...]:
    return tuple(map(abs, row))


def _part(row: Row, values: Sequence[Expr], same: Sequence[bool], wanted: bool) -> Expr:
    """The sum over the columns in which two rows agree, or do not."""
    pairs = zip(row, same, strict=True)
    chosen = [value if is_same == wanted else Fraction(0) for value, is_same in pairs]
    return I.Bind(_sum(chosen, values))


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
