"""Nests that go row by row: each reduces rows, or computes all elements of a row, or one for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir

from tvm_iree_ext.programs.fusion.row_digits import (
    Digit,
    NestDigits,
    NotInRows,
    RowTensors,
    axes_in_memory,
    is_whole,
)
from tvm_iree_ext.schedules.shared.loops.loops_combiners import combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    LoopNest,
    linear_index,
    step,
)

Tensors = Mapping[ir.Var, Any]
"""The tensor that a buffer of a function holds, whatever its shape there."""


@dataclass(frozen=True)
class RowNest:
    """A nest and the digits of its axes; ``rows`` and ``elements`` are those, slowest first."""

    nest: LoopNest
    tensors: Tensors
    digits: NestDigits
    rows: tuple[Digit, ...]
    elements: tuple[Digit, ...]

    @property
    def is_reduction(self) -> bool:
        """Whether it reduces the elements."""
        return bool(self.nest.reduced)


def add_nests(
    known: RowTensors, nests: Sequence[LoopNest], tensors: Tensors, first: LoopNest | None = None
) -> list[RowNest]:
    """The nests of a call that continues a chain, whose tensors become known.

    ``first`` is the reduction that says what a row is.

    Raises:
        NotInRows: where a nest does not go row by row.
    """
    known.written |= {tensors[store.buffer] for nest in nests for store in nest.stores}
    pending = [(nest, NestDigits(nest)) for nest in nests]
    for nest, digits in pending:
        if nest is first:
            digits.take_reduction()
    made: dict[int, NestDigits] = {}
    while len(made) < len(nests):
        before = len(made)
        for place, (nest, digits) in enumerate(pending):
            if place not in made and _is_placed(nest, digits, tensors, known):
                made[place] = digits
                _spread(nest, digits, tensors, known)
        if len(made) == before:
            raise NotInRows("nothing says how it goes through rows")
    return [_checked(nest, digits, tensors, known) for nest, digits in pending]


def loads_in(nest: LoopNest) -> list[ir.TensorLoad]:
    """All that a nest reads but its cells, and what its results are at first."""
    found: list[ir.TensorLoad] = []
    for value in nest.values():
        tvm_ffi.structural_walk(value, (ir.TensorLoad, found.append))
    return [load for load in found if load.source not in nest.cells]


def _accesses(nest: LoopNest) -> list[tuple[ir.Var, Sequence[Any]]]:
    stores = [(store.buffer, list(store.indices)) for store in nest.stores]
    return stores + [(load.source, list(load.indices)) for load in loads_in(nest)]


def _is_placed(nest: LoopNest, digits: NestDigits, tensors: Tensors, known: RowTensors) -> bool:
    """Give a nest's axes the digits of what it reads and writes; False where nothing is known."""
    found = bool(digits.pieces)
    for buffer, indices in _accesses(nest):
        of = known.digits.get(tensors[buffer])
        if of is None:
            continue
        order = axes_in_memory(nest, buffer, indices)
        try:
            if order is None:
                raise NotInRows("an element is read elsewhere than it is written")
            digits.take(order, of)
        except NotInRows:
            if tensors[buffer] in known.written:
                raise
            continue
        found = True
    if found:
        digits.take_rest(known)
    return found


def _spread(nest: LoopNest, digits: NestDigits, tensors: Tensors, known: RowTensors) -> None:
    """Note the digits of what a nest reads and writes whole."""
    for buffer, indices in _accesses(nest):
        tensor = tensors[buffer]
        if tensor in known.digits:
            continue
        order = axes_in_memory(nest, buffer, indices)
        if order is None:
            continue
        of = digits.digits_of(order)
        if is_whole(of, known) is not None:
            known.digits[tensor] = of


def _checked(nest: LoopNest, digits: NestDigits, tensors: Tensors, known: RowTensors) -> RowNest:
    rows, elements = digits.part(True), digits.part(False)
    made = RowNest(nest, tensors, digits, tuple(rows), tuple(elements))
    whole = is_whole((*rows, *elements), known)
    if len(nest.stores) != 1 or whole is None:
        raise NotInRows("it has several results, or a part of a row")
    (store,) = nest.stores
    for load in loads_in(nest):
        tensor = tensors[load.source]
        if tensor in known.written and tensor not in known.digits:
            raise NotInRows("it reads what is no row")
    if tensors[store.buffer] not in known.digits:
        raise NotInRows("it does not write each element once")
    if nest.reduced:
        _check_reduction(nest, digits)
    elif whole:
        _check_lines(nest, digits)
    return made


def _check_reduction(nest: LoopNest, digits: NestDigits) -> None:
    (store,) = nest.stores
    kinds = {
        (axis.is_reduced, piece.digit.is_row)
        for axis in nest.axes
        for piece in digits.pieces[axis.var]
    }
    if kinds & {(True, True), (False, False)}:
        raise NotInRows("it reduces otherwise")
    if nest.cells or not nest.init or combiner_of(store.value, store.buffer) is None:
        raise NotInRows("its parts cannot be put together")
    _check_lines(nest, digits)


def _check_lines(nest: LoopNest, digits: NestDigits) -> None:
    """Neighbours of a row are neighbours, or one, in all that is read and written."""
    line = next(
        (
            axis
            for axis in nest.axes
            for piece in digits.pieces[axis.var]
            if not piece.digit.is_row and piece.digit.weight == 1 and piece.digit.extent != 1
        ),
        None,
    )
    if line is None:
        raise NotInRows("a row has one element")
    for buffer, indices in _accesses(nest):
        if step(linear_index(buffer, indices), line, nest.axes) not in (0, 1):
            raise NotInRows("neighbours of a row are not neighbours in memory")
