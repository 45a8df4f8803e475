"""The GPU kernels of sort: its operands as words, sorted by networks or by merges."""

from collections.abc import Sequence

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, known
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.schedules.gpu.ordering.sort_merge import emit_merges
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape, emit_network, named_words
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import (
    RegionOrder,
    SortOrder,
    compared,
    line_position,
)
from tvm_iree_ext.tir.tir_expressions import Expr


class SortOperands:
    """The operands of a sort as words, while a PrimFunc is emitted."""

    def __init__(self, op: Sort) -> None:
        self.op = op
        parameters = Parameters.declare(op)
        shape = [parameters.extent(extent) for extent in op.shape]
        self.length: Index = shape[op.dimension]
        self.kept = self.length
        self.inner = emit.product(shape[op.dimension + 1 :])
        self.beside = known(self.inner) != 1
        self.lines = emit.product([emit.product(shape[: op.dimension]), self.inner])
        self.order: SortOrder = RegionOrder(op.region, op.dtypes, compared(op.region))
        self.is_weak = op.order is not None
        self._buffers = list(parameters.buffers.values())

    def declare(self) -> None:
        """Flat views; called inside the root block."""
        flat = [named_words(buffer) for buffer in self._buffers]
        count = len(self.op.dtypes)
        self.inputs, self.results = flat[:count], flat[count:]

    def at(self, line: Expr, position: Expr) -> Expr:
        """Index of an element in an operand."""
        return line_position(line, position, self.length, self.inner)

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words that are compared, and the place."""
        at = I.Bind(self.at(line, position))
        words = [self.inputs[operand][at] for operand in self.order.operands]
        return words, tirx.Cast("int32", position)

    def move(self, line: Expr, to: Expr, place: Expr, words: Sequence[Expr]) -> None:
        """Write all operands' elements of a place."""
        known_words = dict(zip(self.order.operands, words, strict=True))
        target = I.Bind(self.at(line, to))
        source = I.Bind(self.at(line, wide(place)))
        for operand, (given, result) in enumerate(zip(self.inputs, self.results, strict=True)):
            word = known_words[operand] if operand in known_words else given[source]
            I.buffer_store(result, word, [target])


def sort_kernel(op: Sort, shape: SortShape, algorithm: str) -> tirx.PrimFunc:
    """The PrimFunc of ``op``: a ``network`` for lines that fit a tile, or a ``merge`` of tiles."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SortOperands(op)
        I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
        with I.sblock("root"):
            operands.declare()
            (emit_network if algorithm == "network" else emit_merges)(operands, shape)
    return builder.get()
