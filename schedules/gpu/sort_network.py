"""Short lines, sorted in shared memory: several lines a workgroup, one kernel."""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.attention_tiles import wide
from tvm_iree_ext.schedules.gpu.sort_tile import Order, SortTile, compared, line_position

from tvm_iree_ext.intrin.barriers import OWN_BARRIERS
from tvm_iree_ext.ops.expressions import Expr
from tvm_iree_ext.ops.parameters import Parameters
from tvm_iree_ext.ops.sort import Sort


@dataclass(frozen=True)
class SortShape:
    """A workgroup's lanes and tile.

    Attributes:
        subgroups, size: of a workgroup, and lanes of each.
        elements: of a tile, a power of two.
        length: of a line in the tile, a power of two.
    """

    subgroups: int
    size: int
    elements: int
    length: int

    @property
    def lanes(self) -> int:
        """Of a workgroup."""
        return self.subgroups * self.size


class SortOperands:
    """The operands of a sort as words, while a PrimFunc is emitted."""

    def __init__(self, op: Sort) -> None:
        self.op = op
        parameters = Parameters.declare(op)
        shape = [parameters.extent(extent) for extent in op.shape]
        self.length: Index = shape[op.dimension]
        self.inner = emit.product(shape[op.dimension + 1 :])
        self.lines = emit.product([emit.product(shape[: op.dimension]), self.inner])
        self.order = Order(op.region, op.dtypes, compared(op.region))
        self._buffers = list(parameters.buffers.values())

    def declare(self) -> None:
        """Flat views; called inside the root block."""
        flat = []
        for buffer in self._buffers:
            flat.append(emit.flat_words(buffer))
            IRBuilder.name(str(buffer.name), flat[-1])
        count = len(self.op.dtypes)
        self.inputs, self.results = flat[:count], flat[count:]

    def at(self, line: Index, position: Index) -> Expr:
        """The flat position of an element."""
        return line_position(line, position, self.length, self.inner)

    def load(self, at: Expr) -> list[Expr]:
        """The words that are compared."""
        return [self.inputs[operand][at] for operand in self.order.operands]

    def move(self, line: Expr, to: Expr, place: Expr, words: dict[int, Expr]) -> None:
        """Write all operands' elements of a place; ``words`` are those at hand."""
        target = I.Bind(self.at(line, to))
        source = I.Bind(self.at(line, wide(place)))
        for operand, (given, result) in enumerate(zip(self.inputs, self.results, strict=True)):
            word = words[operand] if operand in words else given[source]
            I.buffer_store(result, word, [target])


def network_kernel(op: Sort, shape: SortShape) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, whose lines fit a tile."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SortOperands(op)
        I.func_attr({OWN_BARRIERS: True})
        with I.sblock("root"):
            operands.declare()
            _emit(operands, shape)
    return builder.get()


def _emit(operands: SortOperands, shape: SortShape) -> None:
    each = shape.elements // shape.length
    with workgroup(emit.ceil_div(operands.lines, each), shape) as (number, lane):
        tile = SortTile(
            operands.order,
            shape.elements,
            shape.length,
            lane,
            shape.lanes,
            side_by_side=known(operands.inner) != 1,
        )
        first = I.Bind(wide(number) * each)
        with tile.each() as (line, position, at):
            whole = I.Bind(first + wide(line))
            inside = tirx.And(whole < i64(operands.lines), wide(position) < i64(operands.length))
            with I.If(inside):
                with I.Then():
                    source = I.Bind(operands.at(whole, wide(position)))
                    tile.put(at, operands.load(source), position)
                with I.Else():
                    tile.put_none(at)
        tile.sort()
        with tile.each() as (line, position, at):
            whole = I.Bind(first + wide(line))
            inside = tirx.And(whole < i64(operands.lines), wide(position) < i64(operands.length))
            with I.If(inside), I.Then():
                words = dict(zip(operands.order.operands, (m[at] for m in tile.words), strict=True))
                operands.move(whole, wide(position), tile.places[at], words)


class workgroup:
    """A kernel of ``count`` workgroups: ``(number, lane)``, lanes counted through subgroups."""

    def __init__(self, count: Any, shape: SortShape) -> None:
        self._launches = [
            I.launch_thread("blockIdx.x", i64(count)),
            I.launch_thread("threadIdx.y", shape.subgroups),
            I.launch_thread("threadIdx.x", shape.size),
        ]
        self._size = shape.size

    def __enter__(self) -> tuple[Expr, Expr]:
        number, subgroup, lane = (launch.__enter__() for launch in self._launches)
        return number, I.Bind(subgroup * self._size + lane)

    def __exit__(self, *error: Any) -> None:
        for launch in reversed(self._launches):
            launch.__exit__(*error)
