"""Operands of arg_compare while a kernel is emitted: parameters, the comparator, the results."""

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64
from tvm_iree_ext.schedules.shared.lines import FlatOperand, Lines, declare

NONE = -1
"""The position that stands for the init."""


@dataclass(frozen=True)
class ArgCompareOperands:
    """The PrimFunc's parameters while it is built, as lines.

    Values are held in registers as :class:`FlatOperand` says, positions in ``position_dtype``.
    """

    op: ArgCompare
    lines: Lines
    flats: dict[str, FlatOperand]
    base: Expr | None

    @staticmethod
    def declare(op: ArgCompare, **how: Any) -> "ArgCompareOperands":
        """Name the PrimFunc under construction and add the parameters of ``op`` to it.

        ``how`` is that of :func:`~tvm_iree_ext.schedules.shared.lines.declare`.
        """
        flats, symbols, scalars = declare(op, **how)
        lines = Lines.of(op.type.shape, op.dimension, symbols)
        return ArgCompareOperands(op, lines, flats, scalars.get("index_base"))

    @property
    def input(self) -> FlatOperand:
        """The elements."""
        return self.flats["input_value"]

    @property
    def held(self) -> str:
        """The type of values in registers."""
        return self.input.held

    @property
    def position_dtype(self) -> str:
        """The type of positions."""
        return position_dtype(self.op)

    def wins(self, candidate: Expr, best: Expr) -> Expr:
        """The comparator over held values."""
        if self.op.comparison is not None and not self.op.nan_first:
            return _compare(self.op.comparison, candidate, best)
        computed = self.op.compute_dtype
        return self.op.region(emit.cast(candidate, computed), emit.cast(best, computed))

    def start(self, outer: Index, inner: Index, lanes: int = 1) -> Expr:
        """The init of a line, or of a run of lines."""
        return self.flats["init_value"].load(self.lines.line(outer, inner), lanes)

    def finish(self, outer: Index, inner: Index, value: Expr, position: Expr) -> None:
        """Write the results of one line."""
        line, index = self.lines.line(outer, inner), self.flats["index"]
        self.flats["value"].store(line, value)
        if self.op.explicit:
            # In bounds where there is none, too: both sides of a selection may be computed.
            inside = tirx.max(emit.cast(position, "int64"), i64(0))
            place = self.lines.at(outer, inside, inner)
            found = self.flats["input_index"].load(place)
        else:
            found = self.op.position_index(position, self.base)
        init = self.flats["init_index"].load(line)
        none = position < tirx.const(0, str(position.ty.dtype))
        index.store(line, tirx.Select(none, init, found))

    def beats(self, value: Expr, position: Expr, best: Expr, at: Expr) -> Expr:
        """Whether the loop would have ended with the first rather than the second.

        Of two that each are the best of some positions and the init, by a comparison of
        :data:`..ops.arg_compare.COMPARISONS`.
        """
        sign = self.op.comparison or ""
        zero = tirx.const(0, str(position.ty.dtype))
        nearer = position < at if len(sign) == 1 else position > at
        # Between a number and the init, or two numbers: of equal ones the init stays if strict.
        if self.op.nan_first:
            wins, loses = self.wins(value, best), self.wins(best, value)
            return (position >= zero) & (wins | (tirx.Not(loses) & nearer))
        return (position >= zero) & (_compare(sign[0], value, best) | ((value == best) & nearer))


def position_dtype(op: ArgCompare) -> str:
    """The type of positions: half as wide where the length is known to allow it."""
    length = op.type.shape[op.dimension]
    return "int32" if isinstance(length, int) and length < 2**31 else "int64"


def _compare(sign: str, a: Expr, b: Expr) -> Expr:
    """One of the comparisons of :data:`..ops.arg_compare.COMPARISONS`."""
    return {">": a > b, ">=": a >= b, "<": a < b, "<=": a <= b}[sign]
