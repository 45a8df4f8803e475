"""Rows in memory: which digits of a tensor's positions number the rows, and which their elements.

The positions of ``x[4, 128, 768]`` have three digits.  Where rows of 768 are reduced, the first
two number the rows, ``row = 128 * i + j``, and the last numbers the elements.  Where images
``x[n, c, h, w]`` are reduced by channels, ``c`` numbers the rows, and ``n``, ``h``, ``w`` elements.
A nest that reads or writes such a tensor element by element goes along the same digits, by axes of
its own, which may have several digits or a part of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    LoopNest,
    linear_index,
    step,
    substitute,
)
from tvm_iree_ext.tir.tir_expressions import known

Count: TypeAlias = Any  # an int, or an expression where a call tells


class NotInRows(Exception):
    """Raised for what does not go row by row."""


@dataclass(frozen=True)
class Digit:
    """A digit: how many values it has, and how much one step of it is in what it numbers."""

    extent: Count
    is_row: bool
    weight: Count


@dataclass(frozen=True)
class Piece:
    """A digit that an axis of a nest has; ``stride`` is how much of the axis a step of it is."""

    digit: Digit
    stride: Count


Digits: TypeAlias = tuple[Digit, ...]  # the most significant first


def are_same(one: Count, other: Count) -> bool:
    """Whether two counts are known to be the same."""
    a, b = known(one), known(other)
    if a is not None or b is not None:
        return a == b
    return bool(tvm_ffi.structural_equal(one, other) or Analyzer().can_prove_equal(one, other))


def number_of(value: Any) -> Count:
    """The count as a number where it is known."""
    number = known(value)
    return value if number is None else number


def times(one: Count, other: Count) -> Count:
    """The product of two counts."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if known(one) == 1:
        return other
    return one if known(other) == 1 else one * other


def size_of(digits: Sequence[Digit]) -> Count:
    """How many values digits have together."""
    total: Count = 1
    for digit in digits:
        total = times(total, digit.extent)
    return total


@dataclass
class RowTensors:
    """The digits of tensors of a chain, and how many rows and elements there are."""

    rows: Count
    elements: Count
    digits: dict[Any, Digits] = field(default_factory=dict)
    written: set[Any] = field(default_factory=set)  # what the chain itself computes

    @staticmethod
    def of_reduction(nest: LoopNest) -> "RowTensors":
        """The rows of a reduction: what comes to a result is a row."""
        parts = (_numbered(nest.spatial, True), _numbered(nest.reduced, False))
        rows, elements = (size_of(list(part.values())) for part in parts)
        return RowTensors(rows, elements)

    def copy(self) -> "RowTensors":
        """The same, to be added to."""
        return RowTensors(self.rows, self.elements, dict(self.digits), set(self.written))


def _numbered(axes: Sequence[Axis], is_row: bool) -> dict[ir.Var, Digit]:
    weight: Count = 1
    found = {}
    for axis in reversed(axes):
        found[axis.var] = Digit(axis.count, is_row, weight)
        weight = times(weight, axis.count)
    return found


def axes_in_memory(nest: LoopNest, tensor: ir.Var, indices: Sequence[Any]) -> list[Axis] | None:
    """The axes by which all of a tensor is gone through, each element once, the slowest first."""
    position = linear_index(tensor, list(indices))
    zeros = {axis.var: tirx.const(0, "int64") for axis in nest.axes}
    if known(Analyzer().simplify(substitute(position, zeros))) != 0:
        return None
    steps = {axis.var: step(position, axis, nest.axes) for axis in nest.axes}
    if any(one is None for one in steps.values()):
        return None
    left = [axis for axis in nest.axes if steps[axis.var] != 0]
    order: list[Axis] = []
    stride: Count = 1
    while left:
        axis = next((one for one in left if are_same(steps[one.var], stride)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        stride = times(stride, axis.count)
    whole: Count = 1
    for extent in tensor.ty.shape:
        whole = times(whole, number_of(extent))
    return order if are_same(stride, whole) else None


class NestDigits:
    """The digits that the axes of a nest have, as they become known."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.pieces: dict[ir.Var, tuple[Piece, ...]] = {}

    def take_reduction(self) -> None:
        """The nest reduces the elements of a row to one."""
        for axes, is_row in ((self.nest.spatial, True), (self.nest.reduced, False)):
            for var, digit in _numbered(axes, is_row).items():
                self.pieces[var] = (Piece(digit, 1),)

    def take(self, order: Sequence[Axis], digits: Digits) -> None:
        """The axes ``order`` go through a tensor of such digits.

        Raises:
            NotInRows: where they cannot have them, or have others.
        """
        for axis, pieces in zip(order, _matched(order, digits), strict=True):
            before = self.pieces.setdefault(axis.var, pieces)
            if not _are_same_pieces(before, pieces):
                raise NotInRows("an axis goes along rows in two ways")

    def take_rest(self, tensors: RowTensors) -> None:
        """What is not known yet goes through a row, in the order of the nest's axes."""
        left = [axis for axis in self.nest.axes if axis.var not in self.pieces]
        numbered = _numbered(left, False)
        if left and not are_same(size_of(list(numbered.values())), tensors.elements):
            raise NotInRows("it has elements of its own")
        for var, digit in numbered.items():
            self.pieces[var] = (Piece(digit, 1),)

    def digits_of(self, order: Sequence[Axis]) -> Digits:
        """The digits of a tensor that some axes go through."""
        return tuple(piece.digit for axis in order for piece in self.pieces[axis.var])

    @property
    def all_digits(self) -> list[Digit]:
        """Those of all axes."""
        return [piece.digit for pieces in self.pieces.values() for piece in pieces]

    def part(self, is_row: bool) -> list[Digit]:
        """The digits of the rows, or of their elements, the most significant first.

        Raises:
            NotInRows: where they do not follow one another.
        """
        left = [digit for digit in self.all_digits if digit.is_row == is_row]
        order: list[Digit] = []
        weight: Count = 1
        while left:
            digit = next((one for one in left if are_same(one.weight, weight)), None)
            if digit is None:
                raise NotInRows("it goes through a part of a row, or of the rows")
            left.remove(digit)
            order.insert(0, digit)
            weight = times(weight, digit.extent)
        return order


def is_whole(digits: Digits, tensors: RowTensors) -> bool | None:
    """Whether a tensor has all elements of all rows; False: one for each row; None: neither."""
    rows = size_of([d for d in digits if d.is_row])
    elements = [d for d in digits if not d.is_row]
    if not are_same(rows, tensors.rows):
        return None
    if not elements:
        return False
    return True if are_same(size_of(elements), tensors.elements) else None


def _matched(order: Sequence[Axis], digits: Digits) -> list[tuple[Piece, ...]]:
    """The digits of each axis, the last axis and the last digit being the fastest."""
    found: list[tuple[Piece, ...]] = []
    left = list(digits)
    for axis in reversed(order):
        count, stride = axis.count, 1
        pieces: list[Piece] = []
        while known(count) != 1:
            if not left:
                raise NotInRows("it goes through more than there is")
            digit = left.pop()
            taken, count, rest = _split(count, digit)
            pieces.insert(0, Piece(taken, stride))
            stride = times(stride, taken.extent)
            left += rest
        found.insert(0, tuple(pieces))
    if left:
        raise NotInRows("it goes through less than there is")
    return found


def _split(count: Count, digit: Digit) -> tuple[Digit, Count, list[Digit]]:
    """What an axis of so many values takes of a digit, and what is left of both."""
    if are_same(count, digit.extent):
        return digit, 1, []
    whole = known(digit.extent)
    if isinstance(count, int) and whole is not None:
        if count % whole == 0:
            return digit, count // whole, []
        if whole % count == 0:
            rest = Digit(whole // count, digit.is_row, times(digit.weight, count))
            return Digit(count, digit.is_row, digit.weight), 1, [rest]
    raise NotInRows("an axis has a part of a row and a part of another")


def _are_same_pieces(one: Sequence[Piece], other: Sequence[Piece]) -> bool:
    a, b = _joined(one), _joined(other)
    return len(a) == len(b) and all(
        p.digit.is_row == q.digit.is_row
        and are_same(p.digit.extent, q.digit.extent)
        and are_same(p.digit.weight, q.digit.weight)
        for p, q in zip(a, b, strict=True)
    )


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, neighbours that are one digit put together."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        digit = piece.digit
        if (
            last is not None
            and last.digit.is_row == digit.is_row
            and are_same(last.digit.weight, times(digit.weight, digit.extent))
        ):
            extent = times(last.digit.extent, digit.extent)
            found[-1] = Piece(Digit(extent, digit.is_row, digit.weight), piece.stride)
        else:
            found.append(piece)
    return found
