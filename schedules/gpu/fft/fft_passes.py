"""Whole transforms on a GPU: one pass over memory for lines that fit shared memory, else several.

A longer one of length n = a b is a pass over the a elements that lie b apart, and transforms of the
b that are then left of each p, at frequencies between the whole ones:

    X[p + a q] = sum_s w(s (q + p / a) / b) sum_r w(r p / a) x[r b + s],   w(t) = exp(-2 pi i t)

Between passes the order is [outer, s, p, inner]: what neighbouring lines read are neighbours, and
so is what they write, but for the first pass of rows, where neighbours are of one line.

One with a large prime is a convolution with a chirp c[j] = exp(-pi i j^2 / n) (Bluestein):

    X[k] = c[k] sum_j x[j] c[j] conj(c[k - j])

by transforms whose length is a power of two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.emit.launches import for_each, global_memory
from tvm_iree_ext.schedules.gpu.fft.fft_pass import Turns
from tvm_iree_ext.schedules.gpu.fft.fft_roots_table import RootsTable
from tvm_iree_ext.schedules.gpu.fft.fft_shape import TransformShape
from tvm_iree_ext.schedules.shared.fft.fft_codelets import Point, radices
from tvm_iree_ext.schedules.shared.fft.fft_operands import TransformOperands
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.tir.tir_expressions import Expr


def transform_kernel(op: FftTransform, shape: TransformShape) -> tirx.PrimFunc:
    """The PrimFunc of ``op``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = TransformOperands(op)
        I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
        with I.sblock("root"):
            _Transform(operands, shape).emit()
    return builder.get()


Load = Callable[[Expr, Expr], Callable[[Expr], Point]]
"""By the outer and the inner index, the elements along the axis."""
Store = Callable[[Expr, Expr], Callable[[Expr, Point], None]]


@dataclass(frozen=True)
class _Job:
    """Transforms along the middle one of three dims.

    Attributes:
        outer, length, inner: extents.
        roots: of all stages.
        load: from the caller, by indices of the whole transform.
        store: to the caller.
    """

    outer: Index
    length: int
    inner: Index
    roots: RootsTable | None
    load: Load
    store: Store


class _Transform:
    def __init__(self, operands: TransformOperands, shape: TransformShape) -> None:
        self.operands, self.shape, self.op = operands, shape, operands.op
        self.dtype = operands.op.compute_dtype
        self.scratches = 0
        self._tables: dict[tuple[int, ...], RootsTable] = {}

    def emit(self) -> None:
        if radices(self.op.length, self.shape.radix) is None:
            self._bluestein(self.op.length)
            return
        operands = self.operands
        self._transform(operands.outer, self.op.length, operands.inner, self._load, self._store)

    def _load(self, outer: Expr, inner: Expr) -> Callable[[Expr], Point]:
        operands, step = self.operands, i64(self.operands.inner)
        start = I.Bind(outer * (step * operands.extent) + inner)

        def element(at: Expr) -> Point:
            if self.op.kind == "complex_to_real":
                return operands.full_spectrum(start, step, at)
            place = I.Bind(start + at * step)
            return operands.load(0, place), operands.load(1, place)

        return element

    def _store(self, outer: Expr, inner: Expr) -> Callable[[Expr, Point], None]:
        operands, length = self.operands, self.op.result_length
        step = i64(operands.inner)
        start = I.Bind(outer * (step * length) + inner)

        def write(at: Expr, value: Point) -> None:
            with where(None if length == self.op.length else at < length):
                operands.store_point(I.Bind(start + at * step), value, 1)

        return write

    def _transform(self, outer: Index, length: int, inner: Index, load: Load, store: Store) -> None:
        """Transform along the middle dim, in passes."""
        lengths = self.shape.passes(length, inner)
        of_rows = len(lengths) > 1 and known(inner) == 1
        stages = [
            radix
            for number, one in enumerate(lengths)
            for radix in self.shape.radices(one, transposes=of_rows and number == 0)
        ]
        job = _Job(outer, length, inner, self._roots(stages), load, store)
        if len(lengths) == 1:
            self._whole_pass(job)
            return
        done, between = 1, None
        for number, one in enumerate(lengths):
            last = number == len(lengths) - 1
            target = None if last else self._scratch(emit.product([outer, length, inner]))
            self._part_pass(job, done, one, between, target)
            done, between = done * one, target

    def _whole_pass(self, job: _Job) -> None:
        """All of the transforms."""
        inner, beside = job.inner, known(job.inner) != 1

        def split(line: Expr) -> tuple[Expr, Expr]:
            if not beside:
                return line, i64(0)
            outer, rest = emit.divide(line, inner)
            return I.Bind(outer), I.Bind(rest)

        count = emit.product([job.outer, inner])
        made = self.shape.made_pass(job.length, count, load_beside=beside, store_beside=beside)
        made.emit(
            count,
            None if job.roots is None else Turns(job.roots, 1, lambda line: i64(0)),
            lambda line: job.load(*split(line)),
            lambda line: job.store(*split(line)),
        )

    def _part_pass(
        self, job: _Job, done: int, length: int, source: list[Any] | None, target: list[Any] | None
    ) -> None:
        """The next factor of the length.

        Before it, transforms of length ``done`` are: their results lie between the elements that
        are left, and the inner dim.  A line takes elements ``rest`` apart, for each of ``rest``.
        """
        rest = job.length // (done * length)
        below = emit.product([done, job.inner])  # results of earlier passes, inner
        across = emit.product([rest, below])
        count = emit.product([job.outer, across])

        def split(line: Expr) -> tuple[Expr, Expr]:
            outer, at = emit.divide(line, across)
            return I.Bind(outer), I.Bind(at)

        def load(line: Expr) -> Callable[[Expr], Point]:
            outer, at = split(line)
            if source is None:
                s, inner = emit.divide(at, job.inner)
                element = job.load(outer, I.Bind(inner))
                return lambda r: element(I.Bind(r * rest + s))
            start = I.Bind(outer * (i64(across) * length) + at)

            def between(r: Expr) -> Point:
                place = I.Bind(start + r * across)
                return source[0][place], source[1][place]

            return between

        def store(line: Expr) -> Callable[[Expr, Point], None]:
            outer, at = split(line)
            if target is None:
                p, inner = emit.divide(at, job.inner)
                write = job.store(outer, I.Bind(inner))
                return lambda q, value: write(I.Bind(p + q * done), value)
            s, low = emit.divide(at, below)
            start = I.Bind((outer * rest + s) * (i64(below) * length) + low)

            def between(p: Expr, value: Point) -> None:
                place = I.Bind(start + p * below)
                for memory, part in zip(target, value, strict=True):
                    I.buffer_store(memory, part, [place])

            return between

        def result(line: Expr) -> Expr:
            return emit.divide(emit.divide(line, below)[1], job.inner)[0]

        assert job.roots is not None
        # Of the first pass of rows, results of one line are neighbours, and elements of several.
        beside = done > 1 or known(job.inner) != 1
        made = self.shape.made_pass(length, count, load_beside=True, store_beside=beside)
        made.emit(count, Turns(job.roots, done, result), load, store)

    def _roots(self, stages: list[int]) -> RootsTable | None:
        key = tuple(one for one in stages if one > 1)
        if len(key) < 2:
            return None
        if key not in self._tables:
            name = f"roots_{len(self._tables)}"
            self._tables[key] = RootsTable(name, key, self.dtype, self.shape.small)
        return self._tables[key]

    def _scratch(self, count: Index) -> list[Any]:
        self.scratches += 1
        names = (f"{part}_between_{self.scratches}" for part in ("real", "imag"))
        return [global_memory(name, i64(count), self.dtype) for name in names]

    # Large primes.

    def _bluestein(self, length: int) -> None:
        padded = 1 << (2 * length - 2).bit_length()
        chirp, spectrum = self._scratch(length), self._scratch(padded)
        with for_each(length, self.shape.small) as j:
            root = unit_roots(I.Bind(emit.divide(j * j, 2 * length)[1]), 2 * length, self.dtype, 1)
            for part, value in zip(chirp, root, strict=True):
                I.buffer_store(part, value, [j])
        zero = tirx.const(0.0, self.dtype)

        def at_chirp(k: Expr, *, conjugate: bool) -> Point:
            real, imag = held(chirp[0][k]), held(chirp[1][k])
            return real, zero - imag if conjugate else imag

        def mirrored(at: Expr) -> Point:
            """The conjugate chirp at j and at padded - j, else 0."""
            j = I.Bind(tirx.min(at, i64(padded) - at))
            value = at_chirp(I.Bind(tirx.min(j, i64(length - 1))), conjugate=True)
            return _where(j < length, value, zero)

        def keep(at: Expr, value: Point) -> None:
            for memory, part in zip(spectrum, value, strict=True):
                I.buffer_store(memory, part, [at])

        self._transform(1, padded, 1, lambda *_: mirrored, lambda *_: keep)
        outer, inner = self.operands.outer, self.operands.inner
        product = self._scratch(emit.product([outer, padded, inner]))

        def chirped(*line: Expr) -> Callable[[Expr], Point]:
            element = self._load(*line)

            def times_chirp(at: Expr) -> Point:
                j = I.Bind(tirx.min(at, i64(length - 1)))
                value = element(j)
                value = (held(value[0]), held(value[1]))
                return _where(at < length, _product(value, at_chirp(j, conjugate=False)), zero)

            return times_chirp

        def filtered(outer: Expr, low: Expr) -> Callable[[Expr, Point], None]:
            start = I.Bind(outer * (i64(inner) * padded) + low)

            def write(at: Expr, value: Point) -> None:
                multiplied = _product(value, (held(spectrum[0][at]), held(spectrum[1][at])))
                place = I.Bind(start + at * i64(inner))
                # Parts exchanged: the transform back is a forward one of that.
                for memory, part in zip(product, (multiplied[1], multiplied[0]), strict=True):
                    I.buffer_store(memory, part, [place])

            return write

        def back(outer: Expr, low: Expr) -> Callable[[Expr], Point]:
            start = I.Bind(outer * (i64(inner) * padded) + low)

            def element(at: Expr) -> Point:
                place = I.Bind(start + at * i64(inner))
                return product[0][place], product[1][place]

            return element

        scale = tirx.const(1.0 / padded, self.dtype)

        def result(*line: Expr) -> Callable[[Expr, Point], None]:
            store = self._store(*line)

            def write(at: Expr, value: Point) -> None:
                with I.If(at < length), I.Then():
                    swapped = (held(value[1] * scale), held(value[0] * scale))
                    k = I.Bind(tirx.min(at, i64(length - 1)))
                    store(at, _product(swapped, at_chirp(k, conjugate=False)))

            return write

        self._transform(outer, padded, inner, chirped, filtered)
        self._transform(outer, padded, inner, back, result)


def _product(a: Point, w: Point) -> Point:
    x, y = held(a[0]), held(a[1])
    return held(x * w[0] - y * w[1]), held(x * w[1] + y * w[0])


def _where(condition: Any, value: Point, zero: Expr) -> Point:
    return (
        held(tirx.Select(condition, value[0], zero)),
        held(tirx.Select(condition, value[1], zero)),
    )
