"""The CPU rule for im2col, and its loops.

A task is a row of the result: one batch point and one M.  Along K, elements that lie next to each
other in the input make a segment: kw * c of them for NHWC, kw for NCHW.  A row is a list of
segments, each copied as vectors:

    for batch, m (a task):
        find the window's corner
        for K dims but the last:
            for segments:  copy the part that belongs to the row

Where the last K dim begins and ends with a segment, no segment is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent, Shape
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.im2col import Im2col
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import fence, stream_run, streams
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, i64, known, serial
from tvm_iree_ext.schedules.shared.im2col_windows import segment_dims
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

_UNROLLED_SEGMENTS = 16

# What a task stores non-temporally, at least: it waits at its end until all of that is written.
_STREAMED_BYTES = 1 << 18


@dataclass(frozen=True)
class Im2colConfig(RuleConfig):
    """The vectors of a segment, and whether they are stored non-temporally."""

    lanes: int = number("vector_lanes", power_of_two=True)
    parallel: bool = flag("parallel")
    streaming: bool = flag("streaming")


class CpuIm2col(CpuRule):
    """Im2col on an LLVM CPU target: rows of segments that are contiguous in the input."""

    name = "cpu.im2col"
    lowers = Im2col
    typed = Im2colConfig
    algorithms = ("segments",)

    def usual(self, op: Im2col, target: Target) -> Im2colConfig:
        """Vectors as wide as the target's."""
        return Im2colConfig(
            "segments",
            lanes=cpu_features(target).lanes(item_bytes(op.input.dtype) * 8),
            parallel=self.is_large(op),
            streaming=streams(op, target, _longest_run(op)),
        )

    def emit(self, op: Im2col, config: Im2colConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _Loops(op, config).emit()


class _Loops:
    """The function under construction."""

    def __init__(self, op: Im2col, config: Im2colConfig) -> None:
        self.op, self.config = op, config
        self.parameters = Parameters.declare(op)
        self.source = emit.flat_words(self.parameters.buffers["input"])
        self.result = emit.flat_words(self.parameters.buffers["result"])
        self.word = str(self.source.dtype)
        self.extents = [self.parameters.extent(e) for e in op.input.shape]
        self.shape = [self.parameters.extent(e) for e in op.output.shape]
        self.windows = op.windows(self.extents)
        self.window = op.window(self.extents)
        self.cut = segment_dims(op)
        self.segment = emit.product(self.window[self.cut :])
        self.is_inside = _stays_inside(op)

    def emit(self) -> None:
        """The whole function."""
        op = self.op
        rows = tuple(range(op.batch_rank + len(op.m_offset)))
        space = IterationSpace(tuple(self.shape))
        loop = I.parallel if self.config.parallel else I.serial
        count = space.count(rows)
        if not self.config.streaming:
            with loop(i64(0), i64(count)) as task:
                self._task(space, rows, task)
            return
        row = known(emit.product(self.shape[len(rows) :])) or 1
        several = max(_STREAMED_BYTES // (row * item_bytes(self.word)), 1)
        with loop(i64(0), i64(emit.ceil_div(count, several))) as part:
            first = I.Bind(part * several)
            with serial(emit.smaller(first + several, count), first) as task:
                self._task(space, rows, task)
            fence()

    def _task(self, space: IterationSpace, rows: Sequence[int], task: Expr) -> None:
        """A row of the result."""
        op = self.op
        at = space.spread(task, rows)
        place = [I.Bind(i64(at[axis])) for axis in rows]
        m = I.Bind(self._linear(place[op.batch_rank :], op.m_offset, op.m_strides))
        corner = self._corner(place, m)
        if self.is_inside:
            self._row(place, corner)
            return
        fits = tirx.And(m >= 0, m < i64(emit.product(self.windows)))
        with I.If(fits):
            with I.Then():
                self._row(place, corner)
            with I.Else():
                count = emit.product(self.shape[len(place) :])
                start = emit.flat_index([*place, *[0] * len(op.k_offset)], self.shape)
                self._zeros(start, count)

    def _number(self, value: Extent) -> Index:
        return self.parameters.scalars[value] if isinstance(value, str) else value

    def _linear(self, at: Sequence[Index], offsets: Shape, strides: Shape) -> Expr:
        total: Expr = i64(0)
        for position, offset, stride in zip(at, offsets, strides, strict=True):
            total = total + (i64(position) + self._number(offset)) * i64(self._number(stride))
        return total

    def _corner(self, place: Sequence[Expr], m: Expr) -> list[Index]:
        """The input's index of a window's first element."""
        op = self.op
        index: list[Index] = [0] * len(self.extents)
        for position, dim in zip(place, op.batch_pos, strict=False):
            index[dim] = position
        at = _divisors(self.windows).spread(m, tuple(range(len(self.windows))))
        for i, dim in enumerate(op.m_pos):
            index[dim] = I.Bind(i64(at[i]) * op.strides[i])
        return index

    def _row(self, place: Sequence[Expr], corner: Sequence[Index]) -> None:
        """All K of one row."""
        op = self.op
        outer = len(op.k_offset) - 1
        extents = self.shape[len(place) :]
        loops = IterationSpace(tuple(extents[:-1]))
        axes = tuple(range(outer))
        with serial(loops.count(axes)) as flat:
            at = loops.spread(flat, axes)
            ks: list[Index] = [at[axis] for axis in axes]
            start = self._linear([*ks, 0], op.k_offset, op.k_strides)
            where = emit.flat_index([*place, *ks, 0], self.shape)
            self._segments(corner, start, extents[-1], where)

    def _segments(self, corner: Sequence[Index], start: Expr, count: Index, where: Expr) -> None:
        """Copy K from ``start`` on, ``count`` of them, to the result at ``where``."""
        length = known(self.segment)
        number = known(count)
        if length is not None and number is not None and self._begins_segments(number, length):
            segments = number // length
            base = tirx.floordiv(start, i64(length))
            unrolled = segments <= _UNROLLED_SEGMENTS and known(start) is not None
            with (I.unroll if unrolled else I.serial)(i64(0), i64(segments)) as s:
                self._copy(corner, base + s, 0, length, where + s * length)
            return
        size = i64(emit.larger(self.segment, 1))
        start = I.Bind(start)
        stop = I.Bind(start + i64(count))
        with serial(
            I.Bind(tirx.floordiv(stop - 1, size) + 1), I.Bind(tirx.floordiv(start, size))
        ) as s:
            low = I.Bind(emit.larger(s * size, start))
            high = I.Bind(emit.smaller((s + 1) * size, stop))
            self._copy(corner, s, low - s * size, high - low, where + (low - start))

    def _k_terms(self) -> list[tuple[Extent, Extent]]:
        """Terms of a row's first K: offsets with strides, and strides of the outer dims."""
        op = self.op
        terms = list(zip(op.k_offset, op.k_strides, strict=True))
        return [*terms, *((1, stride) for stride in op.k_strides[:-1])]

    def _begins_segments(self, count: int, length: int) -> bool:
        """Whether ``count`` positions of K, wherever they start, are whole segments."""
        terms = self._k_terms()
        return count % length == 0 and all(self._is_multiple(o, s, length) for o, s in terms)

    @staticmethod
    def _is_multiple(offset: Extent, stride: Extent, unit: int) -> bool:
        """Whether offset * stride is one of ``unit``, for certain."""
        numbers = [n for n in (offset, stride) if isinstance(n, int)]
        return (0 in numbers) or (prod(numbers) % unit == 0 if numbers else False)

    def _copy(
        self, corner: Sequence[Index], segment: Expr, begin: Index, count: Index, where: Expr
    ) -> None:
        """Copy ``count`` elements of a segment, from ``begin`` on."""
        op, dims = self.op, self.op.window_dims
        dilation = dict(zip(op.m_pos, op.dilations, strict=True))
        outer = tuple(range(self.cut))
        at = _divisors(self.window).spread(segment, outer)
        index = list(corner)
        for place in outer:
            index[dims[place]] = i64(index[dims[place]]) + i64(at[place]) * dilation.get(
                dims[place], 1
            )
        source = I.Bind(emit.flat_index(index, self.extents) + i64(begin))
        where = I.Bind(where)

        def copy() -> None:
            if self.config.streaming:
                stream_run(self.result, where, self.source, source, count)
                return

            def piece(place: Index, lanes: int) -> None:
                value = self.source[emit.run(source + i64(place), lanes)]
                I.buffer_store(self.result, value, [emit.run(where + i64(place), lanes)])

            emit.in_vectors(count, self.config.lanes, piece)

        if self.is_inside:
            copy()
            return
        segments = i64(emit.product(self.window[: self.cut]))
        with I.If(tirx.And(segment >= 0, segment < segments)):
            with I.Then():
                copy()
            with I.Else():
                self._zeros(where, count)

    def _zeros(self, where: Expr, count: Index) -> None:
        with serial(count) as place:
            I.buffer_store(self.result, tirx.const(0, self.word), [where + place])


def _longest_run(op: Im2col) -> int | None:
    """How many elements of a row lie next to each other in the input, where that is known."""
    extents = [*op.window(op.input.shape)[segment_dims(op) :], op.output.shape[-1]]
    if not all(isinstance(extent, int) for extent in extents):
        return None
    return min(prod(extents[:-1]), extents[-1])


def _divisors(extents: Sequence[Index]) -> IterationSpace:
    """A space to divide by: where TVM reasons that an extent would be 0, it fails to compile."""
    return IterationSpace(tuple(emit.larger(extent, 1) for extent in extents))


def _stays_inside(op: Im2col) -> bool:
    """Whether no position of the result lies outside the input, for certain."""

    def largest(offsets: Shape, strides: Shape, extents: Shape) -> int | None:
        every: tuple[Any, ...] = (*offsets, *strides, *extents)
        if not all(isinstance(n, int) for n in every):
            return None
        terms = zip(offsets, strides, extents, strict=True)
        return sum((o + e - 1) * s for o, s, e in terms)  # type: ignore[operator, misc]

    batches, ms = op.batch_rank, len(op.m_offset)
    m = largest(op.m_offset, op.m_strides, op.output.shape[batches : batches + ms])
    k = largest(op.k_offset, op.k_strides, op.output.shape[batches + ms :])
    if m is None or k is None or not all(isinstance(e, int) for e in op.input.shape):
        return op.covers_all
    return m < prod(op.windows(op.input.shape)) and k < prod(op.window(op.input.shape))
