"""Bluestein's FFT: a row of any length as a convolution of a length that has small factors."""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft.fft_lanes import TransformVectors, run_loads, run_stores
from tvm_iree_ext.schedules.cpu.fft.fft_plan import columns_of
from tvm_iree_ext.schedules.cpu.fft.fft_row import FftRow
from tvm_iree_ext.schedules.cpu.fft.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point


def _convolution_length(least: int, vectors: TransformVectors) -> int:
    """The next length from ``least`` on that splits, a power of two or little more."""
    candidates = [odd << bits for odd in (1, 3, 5) for bits in range(3, least.bit_length() + 9)]
    return min(c for c in candidates if c >= least and columns_of(c, vectors.lanes, vectors.radix))


class BluesteinTransform:
    """The transform of a row of any length n, as a convolution of a length that has small factors.

    With c[j] = exp(-i pi j^2 / n), X[k] = c[k] * sum_j (x[j] c[j]) conj(c[k - j]).  The transform
    of conj(c) is made once for a call, for all rows.
    """

    def __init__(self, length: int, vectors: TransformVectors) -> None:
        lanes, dtype = vectors.lanes, vectors.dtype
        self.length, self.lanes, self.dtype = length, lanes, dtype
        size = _convolution_length(2 * length - 1, vectors)
        self.size = size
        columns = columns_of(size, lanes, vectors.radix)[0]
        self.inner = FftRow(size, columns, vectors)

        def square(position: Any) -> Any:
            return position * position

        self.chirp = Table(length, 2 * length, square, dtype, lanes)
        self.filter = emit.scratch([2, size], dtype)
        self.emit_filter()

    def emit_filter(self) -> None:
        """The transform of conj(c), periodic, over ``size``: what undoes the inner transforms."""
        around = emit.scratch([2, self.size], self.dtype)
        zero, scale = tirx.const(0.0, self.dtype), tirx.const(1.0 / self.size, self.dtype)
        with serial(self.size) as j:
            for part in range(2):
                I.buffer_store(around, zero, [i64(part), j])
        with serial(self.length) as j:
            back = tirx.Select(j == 0, i64(0), i64(self.size) - j)
            for place in (j, back):
                I.buffer_store(around, self.chirp.real[j] * scale, [i64(0), place])
                I.buffer_store(around, (zero - self.chirp.imag[j]) * scale, [i64(1), place])
        self.inner.emit(run_loads(around, self.lanes), run_stores(self.filter, self.lanes))

    def emit_elements(
        self,
        load: Callable[[Expr], Point],
        store: Callable[[Expr, Point], None],
        results: int,
    ) -> None:
        """A row, of which ``results`` are stored; ``load`` and ``store`` take single elements."""
        work = emit.scratch([2, self.size], self.dtype)
        with serial(self.length) as j:
            registers = CodeletRegisters(1, self.dtype)
            point = registers.point(load(j))
            value = registers.multiply(point, self.chirp.splat(j, 1))
            for part in range(2):
                I.buffer_store(work, value[part], [i64(part), j])
        with serial(self.size, self.length) as j:
            for part in range(2):
                I.buffer_store(work, tirx.const(0.0, self.dtype), [i64(part), j])
        spectrum = emit.scratch([2, self.size], self.dtype)
        self.inner.emit(run_loads(work, self.lanes), run_stores(spectrum, self.lanes))

        def product(at: Expr) -> Point:
            """Real and imaginary parts in each other's place: then forward is inverse."""
            registers = CodeletRegisters(self.lanes, self.dtype)
            point = registers.point(run_loads(spectrum, self.lanes)(at))
            real, imag = registers.multiply(point, run_loads(self.filter, self.lanes)(at))
            return imag, real

        self.inner.emit(product, lambda at, v: run_stores(work, self.lanes)(at, (v[1], v[0])))
        with serial(results) as k:
            registers = CodeletRegisters(1, self.dtype)
            point = registers.point((work[0, k], work[1, k]))
            store(k, registers.multiply(point, self.chirp.splat(k, 1)))
