"""A product in registers: the innermost loop of all that multiplies matrices."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, registers, run, serial, splat

# Vector registers up to which a turn of the loop has two steps.
_REGISTERS = 32

# What LLVM loads at once of vectors of AVX-512 that are side by side: of the next step no more than
# fills four.
_LOADED, _LOADED_BYTES = 4, 64

MultiplyAdd: TypeAlias = Callable[[Expr, Expr, Expr], Expr]
"""``sums + x * y``, of vectors."""


@dataclass(frozen=True)
class Either:
    """One of two ways to do something, by a condition that is known when the kernel runs."""

    condition: Expr
    yes: "Callable[..., Any] | Either"
    no: "Callable[..., Any] | Either"

    @staticmethod
    def each(way: "Callable[..., Any] | Either", use: Callable[[Callable[..., Any]], None]) -> None:
        """``use`` the way, or each of two where its condition holds."""
        if not isinstance(way, Either):
            use(way)
            return
        with I.If(way.condition):
            with I.Then():
                Either.each(way.yes, use)
            with I.Else():
                Either.each(way.no, use)

    @staticmethod
    def placed(
        way: "Callable[..., Any] | Either",
        place: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> "Callable[..., Any] | Either":
        """The same, with each way as ``place`` makes it."""
        if not isinstance(way, Either):
            return place(way)
        return Either(way.condition, Either.placed(way.yes, place), Either.placed(way.no, place))


def multiply_tile(
    *,
    rows: int,
    vectors: int,
    lanes: int,
    depth: Index | Sequence[Index],
    dtype: str,
    x: Callable[[Any, int], Expr],
    y: Callable[[int, Any], Expr],
    start: Callable[[int, int], Expr],
    finish: Callable[[int, int, Expr], None] | Either,
    add: MultiplyAdd | None = None,
    beside: Callable[[Any], None] | None = None,
) -> None:
    """The register-tiled product: ``tile[i, j] = start(i, j) + sum_k splat(y(i, k)) * x(k, j)``.

    ``y`` may also give whole vectors.
    Where ``depth`` has several extents it is as many loops, and ``k`` the tuple of their variables.
    The tile of ``rows`` x ``vectors`` accumulators stays in registers over all of ``depth``; each
    step loads ``vectors`` vectors and ``rows`` scalars for rows * vectors multiply-adds, which
    ``add`` makes where they are not of numbers.  ``beside(k)`` goes on beside each step.
    """
    tile = registers(rows * vectors * lanes, dtype)

    def at(i: int, j: int) -> Expr:
        return run((i * vectors + j) * lanes, lanes)

    places = [(i, j) for i in range(rows) for j in range(vectors)]

    def end(finish: Callable[[int, int, Expr], None]) -> None:
        for i, j in places:
            finish(i, j, tile[at(i, j)])

    for i, j in places:
        I.buffer_store(tile, start(i, j), [at(i, j)])

    def step(k: Any) -> None:
        if beside is not None:
            beside(k)
        columns = [x(k, j) for j in range(vectors)]
        factors = [y(i, k) for i in range(rows)]
        factors = [y_i if "x" in str(y_i.ty.dtype) else splat(y_i, lanes) for y_i in factors]
        for i, j in places:
            total, x_j, y_i = tile[at(i, j)], columns[j], factors[i]
            I.buffer_store(tile, add(total, x_j, y_i) if add else total + x_j * y_i, [at(i, j)])

    apart = vectors == _LOADED and lanes * item_bytes(dtype) == _LOADED_BYTES
    each = in_pairs if apart or has_room_for_pairs(rows, vectors) else one_by_one
    with ExitStack() as loops:
        if isinstance(depth, Sequence):
            outer = tuple(loops.enter_context(serial(extent)) for extent in depth[:-1])
            each(depth[-1], lambda k: step((*outer, k)))
        else:
            each(depth, step)
    Either.each(finish, end)


def has_room_for_pairs(rows: int, vectors: int) -> bool:
    """Whether registers hold what two steps load, beside the sums."""
    return (rows + 2) * vectors + 1 <= _REGISTERS


def one_by_one(length: Index, step: Callable[[Expr], None]) -> None:
    """``step(k)`` for all k of a length."""
    with serial(length) as k:
        step(k)


def in_pairs(length: Index, step: Callable[[Expr], None]) -> None:
    """``step(k)`` for all k of a length, two for each turn of the loop.

    What a turn costs beside its steps was 6 % of a product's time; of two steps it is half, and
    more of them gained no more.
    """
    exact = known(length)
    pairs = i64(exact // 2) if exact is not None else tirx.truncdiv(i64(length), i64(2))
    with serial(pairs) as pair:
        step(pair * 2)
        step(pair * 2 + 1)
    if exact is None:
        with serial(length, pairs * 2) as k:
            step(k)
    elif exact % 2:
        step(i64(exact - 1))
