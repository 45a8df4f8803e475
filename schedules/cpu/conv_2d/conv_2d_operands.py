"""Operands of a convolution by flat position, and the parts of an image that tasks compute.

Rows of the result, those of all images one after another, are lines.  A task takes a block of
lines, and of these all columns or a piece:

    for groups, blocks of lines, pieces of columns, parts of the filters (a task): ...

so that tasks are large enough whether images are large or many.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.products.register_tiles import EXACT_DEPTH
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, held_index, i64, known, serial
from tvm_iree_ext.tir import number_words


class ConvLoops(ABC):
    """A kernel under construction."""

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        self.op, self.config = op, config
        parameters = Parameters.declare(op)
        flat = {name: emit.flat(buffer) for name, buffer in parameters.buffers.items()}
        self.source, self.filter, self.result = (flat[n] for n in ("input", "filter", "result"))
        self.others = {
            name: (flat[name], [parameters.extent(extent) for extent in kind.shape])
            for name, kind in op.others.items()
        }
        self.lanes = config.lanes
        n, rows, columns = (parameters.extent(extent) for extent in op.image[:3])
        self.batch, self.rows, self.columns = n, rows, columns
        self.out_rows, self.out_columns = map(held_index, op.output_size(rows, columns))
        self.depth = op.depth
        self.group_channels, self.group_filters = op.group_channels, op.group_filters

    @abstractmethod
    def emit(self) -> None:
        """The whole function."""

    def over_filter(self, count: int) -> Any:
        """A loop over independent parts of the filter."""
        elements = self.depth * self.op.filters
        parallel = self.config.parallel and outweighs_launch("cpu.conv_2d filter", elements)
        return (I.parallel if parallel else I.serial)(i64(0), i64(count))

    def over_tasks(
        self,
        groups: Index,
        high: Index,
        wide: Index,
        parts: int,
        body: Callable[["ConvBlock"], None],
    ) -> None:
        """``body`` for the blocks of a grid.

        The grid is ``high`` lines, those of all images, of ``wide`` columns: pixels or tiles.  A
        block has at most the config's ``columns`` of these, and lines so that there are its
        ``pixels`` in all.
        """
        most, pixels = self.config.columns, self.config.pixels
        width = emit.smaller(wide, most)
        lines = emit.smaller(high, _divided(pixels, width))
        lines = held_index(lines)
        space = IterationSpace((groups, _ceil_div(high, lines), emit.ceil_div(wide, most), parts))
        axes = (0, 1, 2, 3)
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(space.count(axes))) as task:
            at = space.spread(task, axes)
            first = i64(held_index(at[1] * i64(lines)))
            column = i64(held_index(i64(at[2]) * most))
            body(
                ConvBlock(
                    group=held_index(at[0]),
                    first=first,
                    lines=emit.part(lines, high, first),
                    column=column,
                    columns=emit.part(width, wide, column),
                    part=at[3],
                )
            )

    def line(self, line: Expr, high: Index | None = None) -> tuple[Expr, Expr]:
        """The image and the row of a line, with ``high`` rows an image, by default the result's."""
        if known(self.batch) == 1:
            return i64(0), line
        n, y = emit.divide(line, self.out_rows if high is None else high)
        return I.Bind(n), I.Bind(y)

    def pixel(self, n: Index, y: Index, x: Index, channel: Index) -> Expr:
        """The position of an element of the image."""
        channels = self.op.image[3]
        if self.op.channels_last:
            shape = (self.batch, self.rows, self.columns, channels)
            return emit.flat_index([n, y, x, channel], shape)
        return emit.flat_index([n, channel, y, x], (self.batch, channels, self.rows, self.columns))

    def load(self, buffer: Any, at: Expr, lanes: int, dtype: str) -> Expr:
        """Elements from a position on."""
        return self.numbers(buffer[emit.run(at, lanes)], dtype)

    def numbers(self, value: Expr, dtype: str) -> Expr:
        """Elements of the image or the filter, which may be words, in the type of products."""
        value = number_words.decoded(value, self.op.nibbles) if self.op.nibbles else value
        return emit.cast(value, dtype)

    def store(self, n: Index, y: Index, x: Index, f: Index, value: Expr, lanes: int) -> None:
        """Sums to the result, through the epilogue; vectors go along the last axis."""
        op = self.op
        at = op.in_layout((n, y, x, f))
        shape = op.in_layout((self.batch, self.out_rows, self.out_columns, op.filters))
        place = emit.flat_index(at, shape)
        value = emit.cast(value, op.compute_dtype)
        if op.epilogue is None:
            value = emit.cast(value, op.result_dtype)
            I.buffer_store(self.result, value, [emit.run(place, lanes)])
            return
        sums = emit.registers(lanes, op.compute_dtype)
        I.buffer_store(sums, value, [emit.run(0, lanes)])
        place = I.Bind(place)
        with emit.vector_loop(lanes) if lanes > 1 else serial(1) as lane:
            here = [*at[:-1], i64(at[-1]) + lane]
            seen = [str(one.ty.dtype) for one in op.epilogue.parameters[1:]]
            rest = [self.other(name, here, d) for name, d in zip(op.others, seen, strict=True)]
            value = emit.cast(op.epilogue(sums[lane], *rest), op.result_dtype)
            I.buffer_store(self.result, value, [place + lane])

    def other(self, name: str, at: Sequence[Index], dtype: str) -> Expr:
        """An element of an operand, as the epilogue takes it."""
        buffer, shape = self.others[name]
        axes = self.op.maps[name].axes
        place = emit.flat_index([at[axis[0]] if axis else 0 for axis in axes], shape)
        if str(buffer.dtype) == "bool":
            return emit.cast(buffer[place], "int8") != tirx.const(0, "int8")
        return emit.cast(buffer[place], dtype)


@dataclass(frozen=True)
class ConvBlock:
    """The block of a task: lines and columns from the first ones on, a part of a group."""

    group: Index
    first: Expr
    lines: Index
    column: Expr
    columns: Index
    part: Index

    @property
    def count(self) -> Index:
        """Pixels, or tiles."""
        return emit.product([self.lines, self.columns])


@dataclass(frozen=True)
class Reach:
    """The columns of a task whose windows, or parts of such, lie in the image.

    The ones from ``enters`` on, up to ``leaves``; there are others only where ``has_edges``.
    """

    enters: Index
    leaves: Expr
    has_edges: bool

    @staticmethod
    def of(op: Conv2d, image: Index, block: ConvBlock, taps: int, offset: Index = 0) -> "Reach":
        """For ``taps`` taps side by side, which begin ``offset`` columns into the window."""
        (left, right), step = op.padding[1], op.strides[1]
        column, columns = block.column, block.columns
        if (left, right) == (0, 0):
            return Reach(0, i64(columns), False)
        start = left - i64(offset)
        spread = (taps - 1) * op.dilations[1] + 1
        enters = tirx.floordiv(start + (step - 1), i64(step)) - column
        leaves = tirx.floordiv(i64(image) + start - spread, i64(step)) + 1 - column
        enters = i64(held_index(tirx.max(tirx.min(enters, i64(columns)), i64(0))))
        leaves = i64(held_index(tirx.max(tirx.min(leaves, i64(columns)), enters)))
        return Reach(enters, leaves, True)


def product_dtype(op: Conv2d) -> str:
    """The type of products: integers as float32, whose sums over a block are exact."""
    exact = op.is_whole and op.kernel[0] * op.kernel[1] <= EXACT_DEPTH
    return "float32" if exact else op.compute_dtype


def _divided(a: int, b: Index) -> Index:
    """``a / b``, rounded down, from 1."""
    exact = known(b)
    return max(a // exact, 1) if exact else tirx.max(tirx.truncdiv(i64(a), i64(b)), i64(1))


def _ceil_div(a: Index, b: Index) -> Index:
    exact = known(b)
    return emit.ceil_div(a, exact) if exact else tirx.truncdiv(i64(a) + b - 1, i64(b))
