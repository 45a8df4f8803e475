"""Kernels of top-k.

network   lines that fit shared memory, inits and all: sorted there, and the first are written
filter    of longer ones each part lists what beats the K-th so far, see :mod:`.topk_filter`
merge     K too large for that, or known at call time: the whole line is sorted

In the dialect's first form this is what its loops select where the comparison is plain and the
inits are in order.  Whether they are is looked at, line by line; the others go through the loops.
"""

from dataclasses import dataclass

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.ops.base.comparators import is_nan
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import for_each
from tvm_iree_ext.schedules.gpu.ordering.sort_merge import emit_merges
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape, emit_network
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import NO_PLACE, line_position, seen
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import SortTileConfig
from tvm_iree_ext.schedules.gpu.topk.topk_filter import emit_filter
from tvm_iree_ext.schedules.gpu.topk.topk_operands import TopkOperands
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class TopkTileConfig(SortTileConfig):
    """The same for top-k; ``splits`` are the parts of a line, each of another workgroup."""

    splits: int = number("splits", most=1 << 16, forms=("filter",))


def topk_kernel(op: Topk, config: TopkTileConfig, shape: SortShape, kind: str) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in one of the forms, for a kind of target."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = TopkOperands(op)
        I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
        with I.sblock("root"):
            operands.declare()
            selects = op.keeps_pairs or op.order is not None
            if selects:
                if config.algorithm == "network":
                    emit_network(operands, shape)
                elif config.algorithm == "filter":
                    emit_filter(operands, shape, kind, config.splits)
                else:
                    emit_merges(operands, shape)
            if not op.keeps_pairs:
                _Loops(operands, shape, selects).emit()
    return builder.get()


class _Loops:
    """The dialect's loops, a lane for each line: for lines whose inits are not in order, or all."""

    def __init__(self, operands: TopkOperands, shape: SortShape, selects: bool) -> None:
        self.operands, self.shape, self.selects = operands, shape, selects
        self.op, self.order = operands.op, operands.order

    def emit(self) -> None:
        """One kernel."""
        with for_each(self.operands.lines, self.shape) as line:
            if not self.selects:
                self._follow(line)
                return
            broken = emit.registers(1, "bool")
            I.buffer_store(broken, tirx.const(False, "bool"), [0])
            with emit.serial(self.operands.kept) as k:
                here = [held(word) for word in self.operands.init(line, k)]
                following = I.Bind(emit.i64(emit.smaller(k + 1, self.operands.kept - 1)))
                after = [held(word) for word in self.operands.init(line, following)]
                value = seen(here[0], self.operands.dtype)
                wrong = tirx.Or(self.order.after(here, after), is_nan(value))
                with I.If(wrong), I.Then():
                    I.buffer_store(broken, tirx.const(True, "bool"), [0])
            with I.If(broken[0]), I.Then():
                self._follow(line)

    def _follow(self, line: Expr) -> None:
        operands = self.operands
        with emit.serial(operands.kept) as k:
            words = [held(word) for word in operands.init(line, k)]
            operands.move(line, k, tirx.const(NO_PLACE, "int32"), words)
        with emit.serial(operands.candidates) as n:
            carried = [emit.registers(1, dtype) for dtype in self.order.word_types]
            for cell, word in zip(carried, operands.input(line, n), strict=True):
                I.buffer_store(cell, word, [0])
            with emit.serial(operands.kept) as k:
                self._offer(line, k, carried)

    def _offer(self, line: Expr, k: Expr, carried: list[Expr]) -> None:
        """The carried candidate to one output; what loses is carried on."""
        operands = self.operands
        at = I.Bind(line_position(line, k, operands.kept, operands.inner))
        slots = [operands.flat["output_values"], operands.flat["output_indices"]]
        new = [held(cell[0]) for cell in carried]
        old = [held(slot[at]) for slot in slots]
        value, other = (seen(one[0], operands.dtype) for one in (new, old))
        index, standing = (self._index(one[1]) for one in (new, old))
        forward, reverse = self.op.ranks(value, other), self.op.ranks(other, value)
        same = tirx.Select(forward, reverse, tirx.Not(reverse))
        moved = tirx.Or(forward, tirx.And(same, index < standing))
        for place, condition in enumerate((held_bool(forward), held_bool(moved))):
            kept, gone = (
                tirx.Select(condition, new[place], old[place]),
                tirx.Select(condition, old[place], new[place]),
            )
            I.buffer_store(slots[place], kept, [at])
            I.buffer_store(carried[place], gone, [0])

    def _index(self, word: Expr) -> Expr:
        dtype = self.operands.index_dtype
        return word if dtype.startswith("uint") else tirx.reinterpret(dtype, word)


def held_bool(condition: Expr) -> Expr:
    """A condition, computed once here."""
    return held(tirx.Cast("int8", condition)) != tirx.const(0, "int8")
