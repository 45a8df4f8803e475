"""Whole transforms on a GPU: one pass over memory for lines that fit shared memory, else several.

A longer one of length n = a b is a pass over the a elements that lie b apart, twiddle factors, and
the transform of the b that are then left of each:

    X[p + a q] = sum_s w(s q / b) w(s p / n) sum_r w(r p / a) x[r b + s],   w(t) = exp(-2 pi i t)

One with a large prime is a convolution with a chirp c[j] = exp(-pi i j^2 / n) (Bluestein):

    X[k] = c[k] sum_j x[j] c[j] conj(c[k - j])

by transforms whose length is a power of two.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, for_each, global_memory
from tvm_iree_ext.schedules.gpu.fft.fft_pass import Load, Pass, Roots, Store
from tvm_iree_ext.schedules.shared.fft.fft_codelets import Point, radices
from tvm_iree_ext.schedules.shared.fft.fft_operands import TransformOperands
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class TransformShape:
    """Numbers of a kernel.

    Attributes:
        workgroup: its lanes.
        elements: of shared memory, for all lines of a workgroup.
        radix: the largest power of two that a lane transforms in registers.
    """

    workgroup: WorkgroupShape
    elements: int
    radix: int


def transform_kernel(op: FftTransform, shape: TransformShape) -> tirx.PrimFunc:
    """The PrimFunc of ``op``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = TransformOperands(op)
        I.func_attr({OWN_BARRIERS: True})
        with I.sblock("root"):
            _Transform(operands, shape).emit()
    return builder.get()


def factors(length: int, most: int, radix: int) -> list[int]:
    """The lengths of passes, each at most ``most``: as few as can be, and about as long."""
    found = radices(length, radix)
    assert found is not None, length
    primes = [2] * sum(one.bit_length() - 1 for one in found if one % 2 == 0)
    primes += [one for one in found if one % 2]
    passes = 1
    while True:
        lengths = [1] * passes
        for prime in sorted(primes, reverse=True):
            lengths[lengths.index(min(lengths))] *= prime
        if max(lengths) <= most:
            return lengths
        passes += 1


class _Transform:
    def __init__(self, operands: TransformOperands, shape: TransformShape) -> None:
        self.operands, self.shape, self.op = operands, shape, operands.op
        self.dtype = operands.op.compute_dtype
        self.scratches = 0

    def emit(self) -> None:
        length = self.op.length
        stages = radices(length, self.shape.radix)
        if stages is None:
            self._bluestein(length)
            return
        roots = Roots(length, self.dtype, self.shape.workgroup) if len(stages) > 1 else None
        beside = known(self.operands.inner) != 1
        self._transform(self.operands.points, length, roots, self._load, self._store, beside)

    def _load(self, line: Expr, at: Expr) -> Point:
        operands, step = self.operands, i64(self.operands.inner)
        start = I.Bind(operands.start(line, operands.extent))
        if self.op.kind == "complex_to_real":
            return operands.full_spectrum(start, step, at)
        place = I.Bind(start + at * step)
        return operands.load(0, place), operands.load(1, place)

    def _store(self, line: Expr, at: Expr, value: Point) -> None:
        operands, length = self.operands, self.op.result_length

        def write() -> None:
            start = operands.start(line, length)
            operands.store_point(I.Bind(start + at * i64(operands.inner)), value, 1)

        if length == self.op.length:
            write()
            return
        with I.If(at < length), I.Then():
            write()

    def _transform(
        self, lines: Index, length: int, roots: Roots | None, load: Load, store: Store, beside: bool
    ) -> None:
        """Transform all lines, in passes."""
        first, *rest = factors(length, self.shape.elements, self.shape.radix)
        if not rest:
            self._pass(lines, length, roots, load, store, beside)
            return
        assert roots is not None
        others = prod(rest)
        scratch = self._scratch(emit.product([lines, length]))

        def take(line: Expr, at: Expr) -> Point:
            whole, s = emit.divide(line, others)
            return load(I.Bind(whole), I.Bind(at * others + s))

        def leave(line: Expr, at: Expr, value: Point) -> None:
            whole, s = emit.divide(line, others)
            twiddled = _product(value, roots.at(I.Bind(at * s), length))
            place = I.Bind((whole * first + at) * others + s)
            for memory, part in zip(scratch, twiddled, strict=True):
                I.buffer_store(memory, part, [place])

        def again(line: Expr, at: Expr) -> Point:
            place = I.Bind(line * others + at)
            return scratch[0][place], scratch[1][place]

        def put(line: Expr, at: Expr, value: Point) -> None:
            whole, p = emit.divide(line, first)
            store(I.Bind(whole), I.Bind(p + at * first), value)

        self._pass(emit.product([lines, others]), first, roots, take, leave, beside=True)
        # Its lines are neighbours where they are written, which is worth more than where they lie.
        self._transform(emit.product([lines, first]), others, roots, again, put, beside=True)

    def _pass(
        self, lines: Index, length: int, roots: Roots | None, load: Load, store: Store, beside: bool
    ) -> None:
        found = radices(length, self.shape.radix) or []
        room = max(1, self.shape.elements // length)
        count = known(lines)
        most = room if count is None else min(room, count)
        together = 1 << (max(most, 1).bit_length() - 1)
        made = Pass(length, found or [1], together, self.shape.workgroup, beside, self.dtype)
        made.emit(lines, roots, load, store)

    def _scratch(self, count: Index) -> list[Any]:
        self.scratches += 1
        names = (f"{part}_between_{self.scratches}" for part in ("real", "imag"))
        return [global_memory(name, i64(count), self.dtype) for name in names]

    # Large primes.

    def _bluestein(self, length: int) -> None:
        padded = 1 << (2 * length - 2).bit_length()
        roots = Roots(padded, self.dtype, self.shape.workgroup)
        chirp, spectrum = self._scratch(length), self._scratch(padded)
        with for_each(length, self.shape.workgroup) as j:
            root = unit_roots(I.Bind(emit.divide(j * j, 2 * length)[1]), 2 * length, self.dtype, 1)
            for part, value in zip(chirp, root, strict=True):
                I.buffer_store(part, value, [j])
        zero = tirx.const(0.0, self.dtype)

        def at_chirp(k: Expr, *, conjugate: bool) -> Point:
            real, imag = held(chirp[0][k]), held(chirp[1][k])
            return real, zero - imag if conjugate else imag

        def mirrored(_line: Expr, at: Expr) -> Point:
            """The conjugate chirp at j and at padded - j, else 0."""
            j = I.Bind(tirx.min(at, i64(padded) - at))
            value = at_chirp(I.Bind(tirx.min(j, i64(length - 1))), conjugate=True)
            return _where(j < length, value, zero)

        def keep(_line: Expr, at: Expr, value: Point) -> None:
            for memory, part in zip(spectrum, value, strict=True):
                I.buffer_store(memory, part, [at])

        self._transform(1, padded, roots, mirrored, keep, beside=False)
        lines = self.operands.points
        product = self._scratch(emit.product([lines, padded]))

        def chirped(line: Expr, at: Expr) -> Point:
            j = I.Bind(tirx.min(at, i64(length - 1)))
            value = self._load(line, j)
            value = (held(value[0]), held(value[1]))
            return _where(at < length, _product(value, at_chirp(j, conjugate=False)), zero)

        def filtered(line: Expr, at: Expr, value: Point) -> None:
            multiplied = _product(value, (held(spectrum[0][at]), held(spectrum[1][at])))
            place = I.Bind(line * padded + at)
            # Parts exchanged: the transform back is a forward one of that.
            for memory, part in zip(product, (multiplied[1], multiplied[0]), strict=True):
                I.buffer_store(memory, part, [place])

        def back(line: Expr, at: Expr) -> Point:
            place = I.Bind(line * padded + at)
            return product[0][place], product[1][place]

        scale = tirx.const(1.0 / padded, self.dtype)

        def result(line: Expr, at: Expr, value: Point) -> None:
            with I.If(at < length), I.Then():
                swapped = (held(value[1] * scale), held(value[0] * scale))
                k = I.Bind(tirx.min(at, i64(length - 1)))
                self._store(line, at, _product(swapped, at_chirp(k, conjugate=False)))

        self._transform(lines, padded, roots, chirped, filtered, beside=False)
        self._transform(lines, padded, roots, back, result, beside=False)


def _product(a: Point, w: Point) -> Point:
    x, y = held(a[0]), held(a[1])
    return held(x * w[0] - y * w[1]), held(x * w[1] + y * w[0])


def _where(condition: Any, value: Point, zero: Expr) -> Point:
    return (
        held(tirx.Select(condition, value[0], zero)),
        held(tirx.Select(condition, value[1], zero)),
    )
