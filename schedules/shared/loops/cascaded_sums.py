"""Sums of sums, so that rounding errors grow with the logarithm of how many terms there are.

A sum of n terms, one after the other, is off by up to n roundings, and by sqrt(n) of them where
signs are random.  Here 64 terms make a sum, 64 such sums a sum of theirs, and so on: as many
roundings as 64 times the number of levels (Higham, Accuracy and Stability of Numerical Algorithms,
section 4.2).  It costs an addition more for each 64.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tvm import ir, tirx

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.loops.loops_combiners import combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import Axis, LoopNest, loads_of, points

TERMS = 64
"""Terms that are added one after the other."""

_LEVELS = 3  # where a call tells how many terms there are
_FLOATS = ("float16", "bfloat16", "float32", "float64")

At = Mapping[ir.Var, Expr]
Tile = TypeVar("Tile")


@dataclass(frozen=True)
class PartialSums(Generic[Tile]):
    """What partial sums stand in: ``fresh`` makes sums of nothing, ``join`` adds the second's."""

    fresh: Callable[[], Tile]
    join: Callable[[Tile, Tile], None]


def rounded_sums(nest: LoopNest) -> bool:
    """Whether all that a nest computes are sums of floating-point numbers, of their own each."""
    summed = {store.buffer for store in nest.stores}
    if nest.cells:
        return False
    for store in nest.stores:
        combiner = combiner_of(store.value, store.buffer)
        if (
            combiner is None
            or not isinstance(store.value, tirx.Add)
            or str(store.buffer.ty.dtype) not in _FLOATS
            or summed & {*loads_of(combiner.element)}
        ):
            return False
    return True


def sum_of_nothing(dtype: str) -> Expr:
    """The number that changes no sum: -0, since 0 + -0 is 0."""
    return tirx.const(-0.0, dtype)


def over(
    axes: Sequence[Axis],
    at: At,
    tile: Tile,
    partials: PartialSums[Tile] | None,
    body: Callable[[At, Tile], None],
) -> None:
    """``body(at, tile)`` for all values of ``axes``; without ``partials`` all into one tile."""
    if not axes:
        body(at, tile)
        return
    axis, inner = axes[0], axes[1:]
    within = known(points(inner))
    has_own_sum = partials is not None and (within is None or 2 * within > TERMS)

    def step(place: Expr, tile: Tile) -> None:
        here = {**at, axis.var: place}
        if partials is None or not has_own_sum:
            over(inner, here, tile, None, body)
            return
        lower = partials.fresh()
        over(inner, here, lower, partials, body)
        partials.join(tile, lower)

    terms = TERMS if within is None or has_own_sum else TERMS // max(within, 1)
    in_runs(axis.count, terms, tile, partials, step)


def in_runs(
    count: Index,
    terms: int,
    tile: Tile,
    partials: PartialSums[Tile] | None,
    step: Callable[[Expr, Tile], None],
) -> None:
    """``step(place, tile)`` for ``count`` places: runs of ``terms``, which are runs of 64, ..."""
    if partials is None:
        with serial(count) as place:
            step(place, tile)
        return
    _in_runs(i64(0), count, run_lengths(known(count), terms), tile, partials, step)


def run_lengths(count: int | None, terms: int = TERMS) -> list[int]:
    """How many places runs have, the longest first; none where all are one run."""
    if count is None:
        return [terms * TERMS**level for level in reversed(range(_LEVELS - 1))]
    lengths: list[int] = []
    while count > 2 * terms:
        lengths.insert(0, terms)
        terms *= TERMS
    return lengths


def _in_runs(
    start: Expr,
    count: Index,
    lengths: Sequence[int],
    tile: Tile,
    partials: PartialSums[Tile],
    step: Callable[[Expr, Tile], Any],
) -> None:
    if not lengths:
        with serial(count) as place:
            step(start + place, tile)
        return
    length, exact = lengths[0], known(count)
    with serial(emit.ceil_div(count, length)) as number:
        first = number * length
        lower = partials.fresh()
        many: Index = length
        if exact is None or exact % length:
            many = emit.held_index(emit.smaller(length, i64(count) - first))
        _in_runs(start + first, many, lengths[1:], lower, partials, step)
        partials.join(tile, lower)
