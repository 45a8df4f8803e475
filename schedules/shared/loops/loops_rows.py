"""Functions that go row by row: what each nest does for one row, and the buffers of one row.

Every nest goes through the rows by its first loop, and through the elements of a row by the others,
in one order.  What it reads of what the function writes is of the same row: the same element, or
what the row has one of.  So rows are independent, and a lane that has certain elements of one needs
nothing of another lane's but what reductions give.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.schedules.emit import Expr, i64
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    Axis,
    FunctionNests,
    LoopNest,
    substitute,
)

ROWS = "tvm_iree_ext.rows"
"""The attribute of such a function: 1, or 0 where it has a single row, and no loop for it."""


@dataclass(frozen=True)
class RowNests:
    """The nests of a function that goes row by row; ``row`` is None where it has one."""

    row: Axis | None
    form: FunctionNests

    @property
    def axes(self) -> list[Axis]:
        """The loop over the rows, if there is one."""
        return [] if self.row is None else [self.row]

    @property
    def count(self) -> "int | Expr":
        """How many rows there are."""
        return 1 if self.row is None else self.row.count

    def at(self, row: Expr) -> FunctionNests:
        """What is done for a row: the nests without their first loop, and buffers for it alone."""
        own = {buffer: _of_row(buffer) for buffer in self.form.buffers}

        def load(node: ir.TensorLoad) -> Any:
            if node.source not in own:
                return node
            return tirx.BufferLoad(own[node.source], _within(node.indices))

        def store(node: tirx.BufferStore) -> Any:
            if node.buffer not in own:
                return node
            return tirx.BufferStore(own[node.buffer], node.value, _within(node.indices))

        def nest_at(nest: LoopNest) -> LoopNest:
            axes = nest.axes
            at: dict[ir.Var, Expr] = {}
            if self.row is not None:
                at, axes = {axes[0].var: row}, axes[1:]

            def placed(node: Any) -> Any:
                rules = [(ir.TensorLoad, load), (tirx.BufferStore, store)]
                return tvm_ffi.structural_map(substitute(node, at), rules)

            return dataclasses.replace(
                nest,
                axes=axes,
                stores=tuple(map(placed, nest.stores)),
                init=tuple(map(placed, nest.init)),
                cells={cell: placed(value) for cell, value in nest.cells.items()},
            )

        nests = tuple(nest_at(nest) for nest in self.form.nests)
        return FunctionNests(nests, tuple(own.values()))


def rows_of(function: tirx.PrimFunc, form: FunctionNests) -> RowNests | None:
    """The rows of a function; None for one that is not said to go by rows."""
    attributes = function.attrs or {}
    if ROWS not in attributes or not form.nests:
        return None
    return RowNests(form.nests[0].axes[0] if int(attributes[ROWS]) else None, form)


def _of_row(buffer: ir.Var) -> ir.Var:
    shape = list(buffer.ty.shape)[1:] or [i64(1)]
    return tirx.decl_buffer(shape, str(buffer.ty.dtype), buffer.name)


def _within(indices: Any) -> list[Any]:
    return list(indices)[1:] or [i64(0)]
