"""The loops of im2col on CPUs.

The innermost line is the one that the result's last axis is of: all K, for the most part.  A task
is a row: one place in the axes before the last ones that are of K, or else of the others.  Along
the innermost line, elements that lie next to each other in the input make a segment: kw * c of
them for NHWC, kw for NCHW.  A row is a list of segments, each copied as vectors:

    for batch, m (a task):
        find the window's corner
        for K dims but the last:
            for segments:  copy the part that belongs to the row and lies in the image

Where the last K dim begins and ends with a segment, no segment is cut.  What is certain when the
kernel is built is not tested: that positions lie within the sizes, and windows in the image.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.im2col.im2col import PAD_VALUE, Im2col, Im2colLine
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import fence, stream_run
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, i64, known, serial
from tvm_iree_ext.schedules.emit.padding_words import padding_word
from tvm_iree_ext.schedules.shared.im2col_windows import innermost_line, segment_dims

_UNROLLED_SEGMENTS = 16

# What a task stores non-temporally, at least: it waits at its end until all of that is written.
_STREAMED_BYTES = 1 << 18

_Place = dict[int, Index]  # by axis of the result, or by dim of the input


class Im2colKernel:
    """The function under construction."""

    def __init__(self, op: Im2col, lanes: int, parallel: bool, streaming: bool) -> None:
        self.op, self.lanes = op, lanes
        self.parallel, self.streaming = parallel, streaming
        self.parameters = Parameters.declare(op)
        self.source = emit.flat_words(self.parameters.buffers["input"])
        self.result = emit.flat_words(self.parameters.buffers["result"])
        self.word = str(self.source.dtype)
        passed = self.parameters.scalars.get(PAD_VALUE)
        self.padding = I.Bind(padding_word(op.padding, passed, op.input.dtype))
        self.extents = [self.parameters.extent(e) for e in op.input.shape]
        self.shape = [self.parameters.extent(e) for e in op.output.shape]
        self.space = IterationSpace(tuple(self.shape))
        inner = innermost_line(op)
        self.inner = op.lines[inner]
        self.inner_within = op.within[inner]
        self.cut = segment_dims(op)
        self.segment = emit.product([self._number(e) for e in self.inner.sizes[self.cut :]])
        self.rows = self._rows(inner)

    def _rows(self, inner: int) -> int:
        """How many axes are those of tasks: all before the last ones of K, or of the others."""
        seen = len(self.op.batch_pos)
        is_k: dict[int, bool] = {}
        for number, line in enumerate(self.op.lines):
            if number >= len(self.op.batch_pos):
                is_k |= dict.fromkeys(
                    line.axes, seen >= len(self.op.m_pos) + len(self.op.batch_pos)
                )
                seen += len(line.sizes)
            else:
                is_k |= dict.fromkeys(line.axes, False)
        last = len(self.shape) - 1
        first = last
        while first > 0 and is_k[first - 1] == is_k[last]:
            first -= 1
        return first if first > 0 else last

    def emit(self) -> None:
        """The whole function."""
        rows = tuple(range(self.rows))
        loop = I.parallel if self.parallel else I.serial
        count = self.space.count(rows)
        if not self.streaming:
            with loop(i64(0), i64(count)) as task:
                self._task(rows, task)
            return
        row = known(emit.product(self.shape[len(rows) :])) or 1
        several = max(_STREAMED_BYTES // (row * item_bytes(self.word)), 1)
        with loop(i64(0), i64(emit.ceil_div(count, several))) as part:
            first = I.Bind(part * several)
            with serial(emit.smaller(first + several, count), first) as task:
                self._task(rows, task)
            fence()

    def _task(self, rows: Sequence[int], task: Expr) -> None:
        """A row of the result."""
        spread = self.space.spread(task, rows)
        at: _Place = {axis: I.Bind(i64(spread[axis])) for axis in rows}
        base: _Place = dict.fromkeys(range(len(self.extents)), 0)
        tests = self._placed(at, base, done=set())
        start = emit.flat_index([*at.values(), *[0] * (len(self.shape) - len(rows))], self.shape)
        count = emit.product(self.shape[len(rows) :])
        self._if(tests, lambda: self._row(at, base), lambda: self._fill(start, count))

    def _row(self, at: _Place, base: _Place) -> None:
        """All that is left of the axes, for one place of those of tasks."""
        axes = tuple(range(self.rows, len(self.shape) - 1))
        done = set(at)
        with serial(self.space.count(axes)) as flat:
            spread = self.space.spread(flat, axes)
            here = at | {axis: i64(spread[axis]) for axis in axes}
            index = dict(base)
            tests = self._placed(here, index, done=done)
            where = emit.flat_index([*(here[axis] for axis in sorted(here)), 0], self.shape)
            length = self.shape[-1]
            self._if(
                tests,
                lambda: self._line(here, index, where),
                lambda: self._fill(where, length),
            )

    def _placed(self, at: _Place, index: _Place, done: set[int]) -> list[Expr]:
        """Add what axes that are not ``done`` say to an index; tests that the place is in there."""
        op = self.op
        tests: list[Expr] = []
        for axis in at.keys() - done:
            low, high = (side[axis] for side in op.output_pads)
            if low != 0:
                tests.append(i64(at[axis]) >= self._number(low))
            if high != 0:
                tests.append(at[axis] < i64(self.shape[axis]) - self._number(high))
        for line, within in zip(op.lines, op.within, strict=True):
            if line is self.inner or not set(line.axes) <= at.keys() or set(line.axes) <= done:
                continue
            flat = I.Bind(self._position(line, at))
            tests += self._coordinates(line, flat, len(line.sizes), index, within)
        later = {d for line in op.lines if not set(line.axes) <= at.keys() for d in line.dims}
        earlier = {d for line in op.lines if not set(line.axes) <= done for d in line.dims}
        for dim in sorted(earlier - later):
            tests += self._bounds(dim, index)
        return tests

    def _position(self, line: Im2colLine, at: _Place) -> Expr:
        """The position of a line at a place; of axes that are not there, at their first element."""
        flat: Expr = i64(0)
        for axis, offset, stride in zip(line.axes, line.offsets, line.strides, strict=True):
            place = i64(at.get(axis, self._low(axis)))
            flat = flat + (place - self._low(axis) + self._number(offset)) * i64(
                self._number(stride)
            )
        return flat

    def _low(self, axis: int) -> Index:
        return self._number(self.op.output_pads[0][axis])

    def _coordinates(
        self, line: Im2colLine, flat: Expr, count: int, index: _Place, within: bool
    ) -> list[Expr]:
        """Add the first ``count`` coordinates to an index; tests that they are within the sizes."""
        sizes = [self._number(size) for size in line.sizes[:count]]
        tests: list[Expr] = []
        at = _divisors(sizes).spread(flat, tuple(range(count)))
        for place, (dim, step) in enumerate(zip(line.dims[:count], line.steps, strict=False)):
            coordinate = I.Bind(i64(at[place]))
            index[dim] = index[dim] + coordinate * step
            if place == 0 and not within:
                tests = [flat >= 0, coordinate < i64(sizes[0])]
        return tests

    def _bounds(self, dim: int, index: _Place) -> list[Expr]:
        """Take the image's padding off an index; tests that it is in the image."""
        low = self._number(self.op.input_pads[0][dim])
        if known(low) != 0:
            index[dim] = I.Bind(i64(index[dim]) - low)
        if self.op.inside[dim]:
            return []
        return [i64(index[dim]) >= 0, i64(index[dim]) < i64(self.extents[dim])]

    def _line(self, at: _Place, index: _Place, where: Expr) -> None:
        """The last axis, at one place of all others."""
        axis = len(self.shape) - 1
        low, high = (self._number(side[axis]) for side in self.op.output_pads)
        count = self.shape[axis]
        start = self._position(self.inner, at)
        if known(low) == 0 and known(high) == 0:
            self._segments(index, start, count, where)
            return
        where = I.Bind(where)
        before = emit.smaller(emit.larger(low, 0), count)
        stop = emit.larger(before, emit.smaller(i64(count) - high, count))
        before, stop = (one if known(one) is not None else I.Bind(one) for one in (before, stop))
        self._fill(where, before)
        self._segments(index, start, stop - before, where + before)
        self._fill(where + stop, count - stop)

    def _segments(self, index: _Place, start: Expr, count: Index, where: Expr) -> None:
        """Copy ``count`` of the innermost line, from ``start`` on, to the result at ``where``."""
        length, number = known(self.segment), known(count)
        if length is not None and number is not None and self._begins_segments(number, length):
            segments = number // length
            base = tirx.floordiv(start, i64(length))
            unrolled = segments <= _UNROLLED_SEGMENTS and known(start) is not None
            with (I.unroll if unrolled else I.serial)(i64(0), i64(segments)) as s:
                self._copy(index, base + s, 0, length, where + s * length)
            return
        size = i64(emit.larger(self.segment, 1))
        start = I.Bind(start)
        stop = I.Bind(start + i64(count))
        with serial(
            I.Bind(tirx.floordiv(stop - 1, size) + 1), I.Bind(tirx.floordiv(start, size))
        ) as s:
            low = I.Bind(emit.larger(s * size, start))
            high = I.Bind(emit.smaller((s + 1) * size, stop))
            self._copy(index, s, low - s * size, high - low, where + (low - start))

    def _begins_segments(self, count: int, length: int) -> bool:
        """Whether ``count`` positions of a line, wherever they start, are whole segments."""
        line = self.inner
        terms: list[tuple[Extent, Extent]] = list(zip(line.offsets, line.strides, strict=True))
        for axis, stride in zip(line.axes, line.strides, strict=True):
            if axis != len(self.shape) - 1:
                terms += [(1, stride), (self.op.output_pads[0][axis], stride)]
        return count % length == 0 and all(_is_multiple(o, s, length) for o, s in terms)

    def _copy(self, before: _Place, segment: Expr, begin: Index, count: Index, where: Expr) -> None:
        """Copy ``count`` elements of a segment, from ``begin`` on."""
        line, cut = self.inner, self.cut
        index = dict(before)
        tests = self._coordinates(line, segment, cut, index, self.inner_within)
        if cut == 0 and not self.inner_within:
            tests = [tirx.EQ(segment, i64(0))]
        along = line.dims[cut] if cut < len(line.dims) else None
        for dim in dict.fromkeys(line.dims[:cut]):
            if dim != along:
                tests += self._bounds(dim, index)
        where = I.Bind(where)
        if along is None or self.op.inside[along]:
            self._if(
                tests,
                lambda: self._move(index, begin, count, where),
                lambda: self._fill(where, count),
            )
            return
        self._if(
            tests,
            lambda: self._clipped(along, index, begin, count, where),
            lambda: self._fill(where, count),
        )

    def _clipped(self, along: int, index: _Place, begin: Index, count: Index, where: Expr) -> None:
        """Copy what of a segment is in the image along a dim, and fill the rest."""
        self._bounds(along, index)  # its tests are those of the parts below
        unit = emit.product(self.extents[along + 1 :])
        first = I.Bind(-i64(index[along]) * unit)
        end = I.Bind(first + i64(self.extents[along]) * unit)
        stop = I.Bind(i64(begin) + count)

        def parts() -> None:
            low = I.Bind(emit.smaller(emit.larger(first, i64(begin)), stop))
            high = I.Bind(emit.larger(emit.smaller(end, stop), low))
            self._fill(where, low - begin)
            self._move(index, low, high - low, where + (low - begin))
            self._fill(where + (high - begin), stop - high)

        self._if(
            [first <= begin, stop <= end],
            lambda: self._move(index, begin, count, where),
            parts,
        )

    def _move(self, index: _Place, begin: Index, count: Index, where: Expr) -> None:
        places = [index[dim] for dim in range(len(self.extents))]
        source = I.Bind(emit.flat_index(places, self.extents) + i64(begin))
        where = I.Bind(where)
        if self.streaming:
            stream_run(self.result, where, self.source, source, count)
            return

        def piece(place: Index, lanes: int) -> None:
            value = self.source[emit.run(source + i64(place), lanes)]
            I.buffer_store(self.result, value, [emit.run(where + i64(place), lanes)])

        emit.in_vectors(count, self.lanes, piece)

    def _fill(self, where: Expr, count: Index) -> None:
        if known(count) == 0:
            return
        with serial(count) as place:
            I.buffer_store(self.result, self.padding, [where + place])

    @staticmethod
    def _if(tests: list[Expr], then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        if not tests:
            then()
            return
        with I.If(tirx.all(*tests)):
            with I.Then():
                then()
            with I.Else():
                otherwise()

    def _number(self, value: Extent) -> Any:
        """A number where it is one, or an expression."""
        return value if isinstance(value, int) else self.parameters.number(value)


def _is_multiple(offset: Extent, stride: Extent, unit: int) -> bool:
    """Whether offset * stride is one of ``unit``, for certain."""
    numbers = [n for n in (offset, stride) if isinstance(n, int)]
    return (0 in numbers) or (prod(numbers) % unit == 0 if numbers else False)


def _divisors(extents: Sequence[Index]) -> IterationSpace:
    """A space to divide by: where TVM reasons that an extent would be 0, it fails to compile."""
    return IterationSpace(tuple(emit.larger(extent, 1) for extent in extents))
