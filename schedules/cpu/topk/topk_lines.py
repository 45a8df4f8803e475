"""Operands of CPU top-k as lines along the dim, with their inits and results.

Where the inits of a line of the dialect's first form are not in order, and where nothing is known
of the comparator, all forms follow the dialect's own loops.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import alignment_bytes, item_bytes
from tvm_iree_ext.ops.base.comparators import region_dtype
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import as_seen, stored
from tvm_iree_ext.schedules.cpu.topk.topk_config import TopkConfig
from tvm_iree_ext.schedules.cpu.topk.topk_slots import Pair, Slots, lowest
from tvm_iree_ext.schedules.emit import Expr, Index, i64, product, serial


class TopkLines:
    """The PrimFunc's parameters while it is built, flat, and what is done with a line of them."""

    def __init__(self, op: Topk, config: TopkConfig) -> None:
        self.op, self.config = op, config
        self.dtype = op.types["values"].dtype
        self.seen_dtype = region_dtype(self.dtype)
        self.index_dtype = op.index_dtype
        self.lanes = config.lanes
        # Else the dialect's own loops are to be followed.
        self.is_selective = op.keeps_pairs or op.order is not None
        declared = Parameters.declare(op)
        self.parameters = declared.buffers
        shapes = {
            o.name: [declared.extent(extent) for extent in o.shape] for o in op.signature.operands
        }
        self.sizes = {name: product(shape) for name, shape in shapes.items()}
        axis = op.dimension
        self.candidates = shapes["values"][axis]
        self.k = shapes["output_values"][axis]
        self.outer = product(shapes["values"][:axis])
        self.inner = product(shapes["values"][axis + 1 :])

    def declare(self) -> None:
        """Flat views of the parameters; called inside the root block."""
        self.flat = {
            name: I.decl_buffer(
                [i64(self.sizes[name])],
                stored(str(buffer.dtype)),
                data=buffer.data,
                align=alignment_bytes(str(buffer.dtype)),
            )
            for name, buffer in self.parameters.items()
        }

    def number(self, i: Index) -> Expr:
        """The index of a candidate that brings none."""
        number = i64(i)
        bits = 8 * item_bytes(self.index_dtype)
        if bits < 32:  # it wraps, and TVM converts no range beyond a type's
            word = tirx.Cast(f"uint{bits}", number & i64((1 << bits) - 1))
            return (
                word if self.index_dtype == f"uint{bits}" else tirx.reinterpret(f"int{bits}", word)
            )
        if self.index_dtype.startswith("u"):
            number = tirx.max(number, i64(0))  # for TVM, which cannot convert a range below 0
        return tirx.Cast(self.index_dtype, number)

    def slot_memory(self, count: Index) -> tuple[Any, Any]:
        """Scratch for values and indices of slots."""
        return emit.scratch([count], self.seen_dtype), emit.scratch([count], self.index_dtype)

    def slots(self, values: Any, indices: Any, base: Expr) -> Slots:
        """Slots in some memory."""
        heap = self.config.algorithm == "heap"
        return Slots(values, indices, base, self.k, heap, self.op)

    def inits(self, base: Expr, stride: Index) -> Callable[[Index], Pair]:
        """The inits of a line as pairs."""

        def pair(k: Index) -> Pair:
            place = base + i64(k) * i64(stride)
            value = as_seen(self.flat["output_values_init"][place], self.dtype)
            if not self.op.has_output_indices:
                return value, i64(k) - i64(self.k)  # before all inputs
            return value, self.flat["output_indices_init"][place]

        return pair

    def check_order(self, slots: Slots, base: Expr, stride: Index) -> Any:
        """A register that tells whether the inits of a line are in order."""
        result = emit.registers(1, "int32")
        if self.is_selective and not self.op.keeps_pairs:
            slots.is_ordered(self.inits(base, stride), result)
        else:
            I.buffer_store(result, tirx.const(int(self.is_selective), "int32"), [0])
        return result

    def choose(
        self, is_ordered: Any, select: Callable[[], None], follow: Callable[[], None]
    ) -> None:
        """Select where the inits are in order, else follow the dialect's loops."""
        if not self.is_selective:
            follow()
            return
        if self.op.keeps_pairs:
            select()
            return
        with I.If(is_ordered[0] == 1):
            with I.Then():
                select()
            with I.Else():
                follow()

    def insert_all(
        self,
        slots: Slots,
        base: Expr,
        stride: Index,
        candidate: Callable[..., Expr],
        index: Callable[[Index], Expr],
    ) -> None:
        """The dialect's loops, from the inits on."""
        with serial(self.k) as k:
            slots.put(k, self.inits(base, stride)(k))
        with serial(self.candidates) as i:
            slots.insert((as_seen(candidate(i), self.dtype), index(i)))

    def index(self, inputs_at: Expr, i: Index) -> Expr:
        """The index of a candidate of a line that lies in one piece."""
        if self.op.has_indices:
            return self.flat[self.op.input_indices][inputs_at + i]
        return self.number(i)

    def follow(self, inputs_at: Expr, outputs_at: Expr) -> None:
        """The dialect's loops over a line that lies in one piece."""
        slots = self.slots(*self.slot_memory(self.k), i64(0))

        def candidate(i: Index, lanes: int = 1) -> Expr:
            return self.flat["values"][inputs_at + i]

        def index(i: Index) -> Expr:
            return self.index(inputs_at, i)

        self.insert_all(slots, outputs_at, 1, candidate, index)
        with serial(self.k) as k:
            value, where = slots.pair(k)
            self.put(outputs_at + k, self.as_stored(value), where)

    def best_of_block(self, candidate: Callable[..., Expr], first: Expr) -> Expr:
        """The best of the ``vectors`` vectors from a candidate on; a NaN is none."""
        assert self.op.order is not None
        vectors, lanes = self.config.vectors, self.lanes
        best = emit.registers(lanes, self.seen_dtype)
        worst = lowest(self.seen_dtype, self.op.order.sign)
        I.buffer_store(best, emit.splat(worst, lanes), [emit.run(0, lanes)])
        for vector in range(vectors):
            values = as_seen(candidate(first + vector * lanes, lanes), self.dtype)
            self.keep_better(best, values, lanes)
        width = lanes
        while width > 1:
            width //= 2
            self.keep_better(best, best[emit.run(width, width)], width)
        return best[0]

    def loses(self, value: Expr, threshold: Expr) -> Expr:
        """Whether a value cannot get in, whatever its index: it is worse, or NaN."""
        assert self.op.order is not None
        reached = value >= threshold if self.op.order.descending else value <= threshold
        return tirx.Not(reached)

    def keep_better(self, best: Any, values: Expr, lanes: int) -> None:
        """In each lane keep the better one; a NaN is none."""
        assert self.op.order is not None
        values = I.Bind(values)
        kept = I.Bind(best[emit.run(0, lanes)])
        wins = values > kept if self.op.order.descending else values < kept
        I.buffer_store(best, tirx.Select(wins, values, kept), [emit.run(0, lanes)])

    def hand_out(self, slots: Slots, is_ordered: Any, base: Expr, stride: Index) -> None:
        """Write the results of a line."""

        def put(k: Index, pair: Pair) -> None:
            self.put(base + i64(k) * i64(stride), self.as_stored(pair[0]), pair[1])

        def follow() -> None:
            with serial(self.k) as k:
                put(k, slots.pair(k))

        self.choose(is_ordered, lambda: slots.finish(put), follow)

    def put(self, place: Expr, value: Expr, index: Expr) -> None:
        """Write one result; the value as it lies in memory."""
        I.buffer_store(self.flat["output_values"], value, [place])
        if self.op.has_output_indices:
            I.buffer_store(self.flat["output_indices"], index, [place])

    def as_stored(self, value: Expr) -> Expr:
        """A value as it lies in memory."""
        if stored(self.dtype) == self.dtype:
            return value
        if self.dtype == "bool":
            return tirx.Cast("uint8", value)
        if (
            self.dtype == "bfloat16"
        ):  # exact: it is the upper half; TVM cannot convert and reinterpret
            upper = tirx.reinterpret("uint32", value) >> tirx.const(16, "uint32")
            return tirx.Cast("uint16", upper)
        return tirx.reinterpret("uint16", tirx.Cast(self.dtype, value))
