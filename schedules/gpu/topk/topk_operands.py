"""The candidates of top-k as one line: the inits first, then the inputs, each a value and an index.

A NaN among the inputs is no candidate.  One among the inits goes before all, where inits may come
in any order; where they may not, a line with one is not in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.comparators import is_nan
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.ordering.sort_network import named_words
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import (
    NO_PLACE,
    SortOrder,
    line_position,
    seen,
    word_type,
)
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class CandidateOrder(SortOrder):
    """By value, then by index; ties without indices are settled by the place.

    Attributes:
        op: whose candidates these are.
        dtypes: of value and index.
        operands: 0, and 1 where there are indices.
    """

    op: Topk
    dtypes: Sequence[str]
    operands: Sequence[int]

    def after(self, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
        """Whether ``right`` goes before ``left``."""
        value, other = (seen(words[0], self.dtypes[0]) for words in (left, right))
        forward = self.op.ranks(other, value)
        first = forward
        if len(self.operands) > 1:
            # Bits, not conditions: in C each of these would branch.
            same = tirx.Not(tirx.bitwise_or(forward, self.op.ranks(value, other)))
            index, smaller = (self._index(words[1]) for words in (left, right))
            first = tirx.bitwise_or(forward, tirx.bitwise_and(same, smaller < index))
        if not str(value.ty.dtype).startswith("float"):
            return first
        number = tirx.Not(is_nan(value))
        ahead = tirx.bitwise_and(is_nan(other), number)
        return tirx.bitwise_or(ahead, tirx.bitwise_and(first, number))

    def _index(self, word: Expr) -> Expr:
        dtype = self.dtypes[1]
        return word if dtype.startswith("uint") else tirx.reinterpret(dtype, word)


class TopkOperands:
    """The operands of a top-k as words, while a PrimFunc is emitted."""

    is_weak = True

    def __init__(self, op: Topk) -> None:
        self.op = op
        parameters = Parameters.declare(op)
        shapes = {
            o.name: [parameters.extent(extent) for extent in o.shape] for o in op.signature.operands
        }
        axis, shape = op.dimension, shapes["values"]
        self.candidates: Index = shape[axis]
        self.kept: Index = shapes["output_values"][axis]
        self.length = emit.total([self.kept, self.candidates])
        self.inner = emit.product(shape[axis + 1 :])
        self.beside = known(self.inner) != 1
        self.lines = emit.product([emit.product(shape[:axis]), self.inner])
        self.dtype, self.index_dtype = op.types["values"].dtype, op.index_dtype
        operands = (0, 1) if op.has_output_indices else (0,)
        self.order: SortOrder = CandidateOrder(op, (self.dtype, self.index_dtype), operands)
        self._buffers = parameters.buffers

    def declare(self) -> None:
        """Flat views; called inside the root block."""
        self.flat = {name: named_words(buffer) for name, buffer in self._buffers.items()}

    def init(self, line: Expr, k: Expr) -> list[Expr]:
        """The words of an init."""
        at = I.Bind(line_position(line, k, self.kept, self.inner))
        words = [self.flat["output_values_init"][at]]
        if self.op.has_output_indices:
            words.append(self.flat["output_indices_init"][at])
        return words

    def input(self, line: Expr, n: Expr) -> list[Expr]:
        """The words of an input."""
        at = I.Bind(line_position(line, n, self.candidates, self.inner))
        words = [self.flat["values"][at]]
        if self.op.has_indices:
            words.append(self.flat[self.op.input_indices][at])
        elif self.op.has_output_indices:
            words.append(tirx.Cast(word_type(self.index_dtype), n))
        return words

    def load(self, line: Expr, position: Expr) -> tuple[list[Expr], Expr]:
        """The words of a candidate, and its place."""
        cells = [emit.registers(1, dtype) for dtype in self.order.word_types]
        place = emit.registers(1, "int32")
        kept = i64(self.kept)
        I.buffer_store(place, tirx.Cast("int32", position), [0])
        with I.If(position < kept):
            with I.Then():
                for cell, word in zip(cells, self.init(line, position), strict=True):
                    I.buffer_store(cell, word, [0])
            with I.Else():
                for cell, word in zip(cells, self.input(line, position - kept), strict=True):
                    I.buffer_store(cell, word, [0])
                value = seen(cells[0][0], self.dtype)
                if str(value.ty.dtype).startswith("float"):
                    with I.If(is_nan(value)), I.Then():
                        I.buffer_store(place, tirx.const(NO_PLACE, "int32"), [0])
        return [cell[0] for cell in cells], place[0]

    def move(self, line: Expr, to: Expr, place: Expr, words: Sequence[Expr]) -> None:
        """Write a result."""
        at = I.Bind(line_position(line, to, self.kept, self.inner))
        names = ("output_values", "output_indices")
        for name, word in zip(names, words, strict=False):
            I.buffer_store(self.flat[name], word, [at])
