"""Operands of a scan while a kernel is emitted: one step of the region, the accumulator."""

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_iree_ext.ops.families.scan import Scan
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.shared.lines import FlatOperand, Lines, declare, rounded


@dataclass(frozen=True)
class ScanOperands:
    """The PrimFunc's parameters while it is built, as lines.

    Values are held in registers as :class:`FlatOperand` says.
    """

    op: Scan
    lines: Lines
    input: FlatOperand
    init: FlatOperand
    output: FlatOperand
    accumulator: FlatOperand

    @staticmethod
    def declare(op: Scan, **how: Any) -> "ScanOperands":
        """Name the PrimFunc under construction and add the parameters of ``op`` to it.

        ``how`` is that of :func:`~tvm_iree_ext.schedules.shared.lines.declare`.
        """
        flats, symbols, _ = declare(op, **how)
        return ScanOperands(
            op,
            Lines.of(op.type.shape, op.dimension, symbols),
            flats["input"],
            flats["accumulator_init"],
            flats["output"],
            flats["accumulator"],
        )

    @property
    def held(self) -> str:
        """The type of values in registers."""
        return self.input.held

    def combine(self, previous: Expr, element: Expr) -> Expr:
        """The region over held values, not rounded to the element type."""
        computed = self.op.compute_dtype
        result = self.op.region(emit.cast(previous, computed), emit.cast(element, computed))
        return emit.cast(result, self.held)

    def step(self, previous: Expr, element: Expr) -> Expr:
        """The next output, rounded as it is when it is stored."""
        dtype, value = self.op.type.dtype, self.combine(previous, element)
        return value if dtype in (self.held, "bool") else rounded(value, dtype)

    def finish(self, outer: Index, inner: Index, lanes: int = 1) -> None:
        """Write the accumulator of a line, or of a run of lines, whose output is written."""
        length, line = self.lines.length, self.lines.line(outer, inner)
        first = self.init.load(line, lanes)
        last = self.output.load(self.lines.at(outer, i64(length) - 1, inner), lanes)
        number = known(length)
        if number is None:
            value = tirx.Select(i64(length) > 1, last, first)
        else:
            value = last if number > 1 else first
        self.accumulator.store(line, value, lanes)
