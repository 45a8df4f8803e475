"""The canonical TensorIR of top-k, in both of the dialect's forms: its loops, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm_iree_ext.ops.base.comparators import as_seen, as_stored, is_nan, region_dtype
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

At: TypeAlias = "Sequence[ir.Expr]"


@emits_canonical
def canonical_topk(op: Topk, parameters: Parameters) -> None:
    """The dialect's loops, for each position of the other dims."""
    _TopkFunction(op, parameters).emit()


class _TopkFunction:
    """The PrimFunc under construction: blocks ``start``, ``insert`` and ``order``.

    All of an insertion is one block, its carry inside, and so is the order of a line.
    """

    def __init__(self, op: Topk, parameters: Parameters) -> None:
        self.op = op
        self.buffers = parameters.buffers
        extents = [
            [i64(parameters.extent(extent)) for extent in op.types[name].shape]
            for name in ("values", "output_values")
        ]
        self.inputs, self.outputs = extents

    def emit(self) -> None:
        """All blocks."""
        with I.sblock("root"):
            self.best = self.buffers["output_values"]
            if self.op.has_output_indices:
                self.where = self.buffers["output_indices"]
            else:
                self.where = I.sblock_alloc_buffer(self.outputs, self.op.index_dtype)
            self.start()
            self.each_line("insert", self.insert_all)
            # Inits in any order may have left the outputs out of order.
            if self.op.keeps_pairs and self.op.in_order:
                self.each_line("order", self.order)

    def along(self, line: At, place: ir.Expr) -> list[ir.Expr]:
        """An index, from a line's and the place in it."""
        axis = self.op.dimension
        return [*line[:axis], place, *line[axis:]]

    def start(self) -> None:
        """The outputs start as the inits; without indices these go before all inputs."""
        for name, target in (("output_values", self.best), ("output_indices", self.where)):
            with I.grid(*self.outputs) as loops, I.sblock(f"start_{name}"):
                listed = list(loops) if len(self.outputs) > 1 else [loops]
                at = [I.axis.spatial(e, v) for e, v in zip(self.outputs, listed, strict=True)]
                init = self.buffers.get(f"{name}_init")
                axis = self.op.dimension
                value = at[axis] - self.outputs[axis] if init is None else init[tuple(at)]
                I.buffer_store(target, value, at)

    def each_line(self, name: str, body: Callable[[At], None]) -> None:
        """A block for each line; a loop even for one, as a block without one confuses schedules."""
        others = [e for dim, e in enumerate(self.inputs) if dim != self.op.dimension]
        with I.grid(*(others or [tirx.const(1, "int64")])) as loops, I.sblock(name):
            listed = list(loops) if len(others) > 1 else [loops]
            line = [I.axis.spatial(e, v) for e, v in zip(others, listed, strict=False)]
            if not others:
                I.axis.spatial(tirx.const(1, "int64"), listed[0])
            body(line)

    def pair(self) -> tuple[Any, Any]:
        """A value, as comparators see it, and its index; TVM cannot bind a bool or a bf16."""
        dtypes = region_dtype(str(self.best.dtype)), str(self.where.dtype)
        value, index = (I.sblock_alloc_buffer([1], dtype, scope="local") for dtype in dtypes)
        return value, index

    def fetch(self, pair: tuple[Any, Any], at: At) -> None:
        """Read an output element."""
        I.buffer_store(pair[0], as_seen(self.best[tuple(at)]), [0])
        I.buffer_store(pair[1], self.where[tuple(at)], [0])

    def put(self, at: At, value: ir.Expr, index: ir.Expr) -> None:
        """Write an output element."""
        I.buffer_store(self.best, as_stored(value, str(self.best.dtype)), list(at))
        I.buffer_store(self.where, index, list(at))

    def insert_all(self, line: At) -> None:
        """Offer each input to each output in turn."""
        axis = self.op.dimension
        carry, held = self.pair(), self.pair()
        with I.serial(self.inputs[axis]) as n:
            at = tuple(self.along(line, n))
            number = tirx.Cast(self.op.index_dtype, n)
            if self.op.has_indices:
                number = self.buffers[self.op.input_indices][at]
            I.buffer_store(carry[0], as_seen(self.buffers["values"][at]), [0])
            I.buffer_store(carry[1], number, [0])
            with I.serial(self.outputs[axis]) as k:
                place = self.along(line, k)
                self.fetch(held, place)
                wins, moves = self.first(carry, held)
                # Selections, not branches: of branches LLVM makes masked moves that lose indices.
                self.put(
                    place,
                    tirx.Select(wins, carry[0][0], held[0][0]),
                    tirx.Select(moves, carry[1][0], held[1][0]),
                )
                for part, condition in ((0, wins), (1, moves)):
                    left = tirx.Select(condition, held[part][0], carry[part][0])
                    I.buffer_store(carry[part], left, [0])

    def first(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[ir.Expr, ir.Expr]:
        """Whether the value of one goes before another's, and whether its index does."""
        forward = I.Bind(self.op.ranks(one[0][0], other[0][0]))
        reverse = I.Bind(self.op.ranks(other[0][0], one[0][0]))
        same = tirx.Select(forward, reverse, tirx.Not(reverse))  # TVM cannot compare bools
        tie = tirx.And(same, one[1][0] < other[1][0])
        if not self.op.keeps_pairs:
            return forward, I.Bind(tirx.Or(forward, tie))
        comparable = tirx.Not(tirx.Or(is_nan(one[0][0]), is_nan(other[0][0])))
        moves = I.Bind(tirx.Or(forward, tirx.And(tie, comparable)))
        return moves, moves

    def order(self, line: At) -> None:
        """Exchange neighbours that are out of order, as often as there are outputs."""
        count = self.outputs[self.op.dimension]
        left, right = self.pair(), self.pair()
        with I.serial(count), I.serial(count - 1) as k:
            low, high = self.along(line, k), self.along(line, k + 1)
            self.fetch(left, low)
            self.fetch(right, high)
            swap, _ = self.first(right, left)
            self.put(
                low, *(tirx.Select(swap, r[0], m[0]) for m, r in zip(left, right, strict=True))
            )
            self.put(
                high, *(tirx.Select(swap, m[0], r[0]) for m, r in zip(left, right, strict=True))
            )
