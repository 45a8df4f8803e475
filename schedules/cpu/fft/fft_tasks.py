"""Whole transforms: which rows a task takes, and how real signals become complex ones."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.compiler_barriers import CompilerBarriers
from tvm_iree_ext.schedules.cpu.fft.fft_bluestein import BluesteinTransform
from tvm_iree_ext.schedules.cpu.fft.fft_config import FftTransformConfig
from tvm_iree_ext.schedules.cpu.fft.fft_lanes import TransformVectors, run_loads, run_stores
from tvm_iree_ext.schedules.cpu.fft.fft_plan import has_few_registers
from tvm_iree_ext.schedules.cpu.fft.fft_real import packed_spectrum, spectrum_of_real
from tvm_iree_ext.schedules.cpu.fft.fft_row import FftRow
from tvm_iree_ext.schedules.cpu.fft.fft_side_by_side import SideBySide
from tvm_iree_ext.schedules.cpu.fft.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, i64, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point
from tvm_iree_ext.schedules.shared.fft.fft_operands import TransformOperands
from tvm_iree_ext.targets.cpu import CpuFeatures


def transform_kernel(
    op: FftTransform, config: FftTransformConfig, features: CpuFeatures
) -> tirx.PrimFunc:
    """The PrimFunc of ``op`` in the form ``config.algorithm``: row, lanes or bluestein."""
    radix = config.radix
    in_butterflies = not (has_few_registers(radix) or features.adds_apart)
    barriers = CompilerBarriers.of(features, config.lanes, op.compute_dtype)
    near_bytes = features.first_cache_bytes * 3 // 4
    vectors = TransformVectors(
        config.lanes, op.compute_dtype, radix, in_butterflies, barriers, near_bytes
    )
    with IRBuilder() as builder, I.prim_func():
        operands = TransformOperands(op)
        with I.sblock("root"), barriers.declared() if barriers else nullcontext():
            {"row": _emit_rows, "lanes": _emit_lanes, "bluestein": _emit_bluestein}[
                config.algorithm
            ](operands, config, vectors)
    return builder.get()


def complex_length(op: FftTransform) -> int:
    """The length of the complex transform that does the work."""
    packed = op.kind in ("real_to_complex", "complex_to_real") and op.length % 2 == 0
    return op.length // 2 if packed else op.length


def _emit_lanes(
    operands: TransformOperands, config: FftTransformConfig, vectors: TransformVectors
) -> None:
    SideBySide(operands, config, vectors).emit()


def _emit_bluestein(
    operands: TransformOperands, config: FftTransformConfig, vectors: TransformVectors
) -> None:
    """A row at a time, element by element at both ends."""
    op = operands.op
    transform = BluesteinTransform(op.length, vectors)
    loop = I.parallel if config.parallel else I.serial
    with loop(i64(0), i64(operands.points)) as point:
        source = I.Bind(operands.start(point, operands.extent))
        target = I.Bind(operands.start(point, op.result_length))
        step = i64(operands.inner)

        def load(j: Expr) -> Point:
            if op.kind == "complex_to_real":
                return operands.full_spectrum(source, step, j)
            return operands.load(0, source + j * step), operands.load(1, source + j * step)

        transform.emit_elements(
            load,
            lambda k, value: operands.store_point(target + k * step, value, 1),
            op.result_length,
        )


def _emit_rows(
    operands: TransformOperands, config: FftTransformConfig, vectors: TransformVectors
) -> None:
    _Rows(operands, config, vectors).emit()


class _Rows:
    """Contiguous rows whose length splits in two factors."""

    def __init__(
        self, operands: TransformOperands, config: FftTransformConfig, vectors: TransformVectors
    ) -> None:
        op = operands.op
        self.operands, self.op, self.config = operands, op, config
        self.lanes, self.dtype = vectors.lanes, vectors.dtype
        self.near_bytes = vectors.near_bytes
        self.count = complex_length(op)
        columns = config.columns
        # Other kinds put both parts together, or have results in scratch memory first.
        store_part = self.store_part if op.kind in ("forward", "inverse") else None
        self.transform = FftRow(self.count, columns, vectors, store_part)
        self.packed = self.count != op.length
        if self.packed:
            count = self.count + 1
            self.twiddles = Table(count, op.length, lambda k: k, self.dtype, self.lanes)

    def emit(self) -> None:
        """Some rows a task, or, where there are few, the parts of each row."""
        split = self.config.splits > 1
        loop = I.parallel if self.config.parallel and not split else I.serial
        parts: Callable[[int], Any] = serial
        if self.config.parallel and split:
            parts = _parallel
        rows, points = self.config.rows, self.operands.points
        with loop(i64(0), i64(emit.ceil_div(points, rows))) as task:
            left = i64(points) - task * rows
            with serial(emit.smaller(rows, left)) as within:
                row = I.Bind(task * rows + within)
                self.source = I.Bind(row * self.operands.extent)
                self.target = I.Bind(row * self.op.result_length)
                between = self.transform.between()
                load, store, finish = self.ends()
                inputs, results = self.fetch_inputs, self.fetch_results
                self.transform.emit_steps(
                    load,
                    store,
                    between,
                    parts,
                    inputs if self.is_fetched else None,
                    results if self.is_fetched else None,
                )
                finish()

    @property
    def is_fetched(self) -> bool:
        """Whether next inputs and lines of results are fetched ahead: what the cache can hold.

        A store across two lines waits for both, and those of NumPy's arrays are such.
        """
        longest = max(self.operands.extent, self.op.result_length)
        return (
            self.config.splits == 1 and 2 * longest * item_bytes(self.op.dtype) <= self.near_bytes
        )

    def fetch_inputs(self, vector: Expr) -> None:
        """Have a vector of the next row fetched."""
        for buffer in self.operands.inputs:
            if buffer is not None:
                at = self.source + self.operands.extent + vector * self.lanes
                emit.prefetch(buffer, *self.operands.flat(at), nearest=True)

    def fetch_results(self, part: int, vector: Expr) -> None:
        """Have a vector of this row's results fetched."""
        buffer = self.operands.results[part]
        if buffer is not None:
            at = self.target + vector * self.lanes
            emit.prefetch(buffer, *self.operands.flat(at), write=True)

    def ends(self) -> tuple[Any, Any, Callable[[], None]]:
        """How runs of the complex row are loaded and stored, and what is left to do then."""
        if self.op.kind == "real_to_complex":
            result = emit.scratch([2, self.count + 1], self.dtype)
            load = self.load_packed if self.packed else self.load_run
            finish = self.unpack if self.packed else self.copy_half
            return load, run_stores(result, self.lanes), lambda: finish(result)
        if self.op.kind == "complex_to_real":
            spectrum = emit.scratch([2, self.count], self.dtype)
            (self.pack if self.packed else self.mirror)(spectrum)
            store = self.store_packed if self.packed else self.store_run
            return run_loads(spectrum, self.lanes), store, lambda: None
        return self.load_run, self.store_run, lambda: None

    def load_run(self, at: Expr) -> Point:
        """A run of the input; 0 for imaginary parts that are not there."""
        place = emit.run(self.source + at, self.lanes)
        zero = emit.splat(tirx.const(0.0, self.dtype), self.lanes)
        parts = [
            zero if self.operands.inputs[part] is None else self.operands.load(part, place)
            for part in range(2)
        ]
        return parts[0], parts[1]

    def store_run(self, at: Expr, value: Point) -> None:
        """A run of the result."""
        place, columns = emit.run(self.target + at, self.lanes), self.transform.n1
        if columns < self.lanes:
            self.operands.store_first(place, value, self.lanes, columns)
        else:
            self.operands.store_point(place, value, self.lanes)

    def store_part(self, part: int, at: Expr, vector: Expr) -> None:
        """A run of one part of the result."""
        self.operands.store(part, emit.run(self.target + at, self.lanes), vector, self.lanes)

    def load_packed(self, at: Expr) -> Point:
        """Pairs of a real row as complex numbers."""
        lanes = self.lanes
        pair = [
            I.Bind(self.operands.load(0, emit.run(self.source + at * 2 + side, lanes)))
            for side in (0, lanes)
        ]
        even, odd = list(range(0, 2 * lanes, 2)), list(range(1, 2 * lanes, 2))
        return tirx.Shuffle(pair, even), tirx.Shuffle(pair, odd)

    def store_packed(self, at: Expr, value: Point) -> None:
        """Complex numbers, imaginary part first, as pairs of a real row."""
        lanes = self.lanes
        pair = [I.Bind(value[1]), I.Bind(value[0])]
        order = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
        for side in (0, lanes):
            place = emit.run(self.target + at * 2 + side, lanes)
            self.operands.store(1, place, tirx.Shuffle(pair, order[side : side + lanes]), lanes)

    def reverse(self, value: Expr) -> Expr:
        """The lanes in the opposite order."""
        return tirx.Shuffle([I.Bind(value)], list(range(self.lanes))[::-1])

    def runs(self, count: int) -> Any:
        """A loop over runs that cover 0 .. count - 1, and the first of a run."""
        return serial(-(-count // self.lanes))

    def first(self, run: Expr, count: int) -> Expr:
        """The first place of a run; the last run starts early."""
        return I.Bind(i64(emit.smaller(run * self.lanes, count - self.lanes)))

    def unpack(self, result: Any) -> None:
        """The spectrum of the real row from that of the packed one."""
        count = self.count
        for part in range(2):
            I.buffer_store(result, result[part, i64(0)], [i64(part), i64(count)])
        with self.runs(count + 1) as run:
            k = self.first(run, count + 1)
            registers = CodeletRegisters(self.lanes, self.dtype)
            read = run_loads(result, self.lanes)
            z = registers.point(read(k))
            back = read(i64(count - self.lanes + 1) - k)
            mirrored = registers.point((self.reverse(back[0]), self.reverse(back[1])))
            w = self.twiddles.vector(k, self.lanes)
            self.store_run(k, spectrum_of_real(registers, z, mirrored, w))

    def pack(self, spectrum: Any) -> None:
        """The spectrum of the packed row, imaginary part first, from that of the real one."""
        count, operands = self.count, self.operands
        with self.runs(count) as run:
            k = self.first(run, count)
            registers = CodeletRegisters(self.lanes, self.dtype)
            ahead = emit.run(self.source + k, self.lanes)
            back = emit.run(self.source + (count - self.lanes + 1) - k, self.lanes)
            x = registers.point((operands.load(1, ahead), operands.load(0, ahead)))
            mirrored = registers.point(
                (self.reverse(operands.load(1, back)), self.reverse(operands.load(0, back)))
            )
            w = self.twiddles.vector(k, self.lanes)
            real, imag = packed_spectrum(registers, x, mirrored, w)
            run_stores(spectrum, self.lanes)(k, (imag, real))
        first, last = (operands.load(1, self.source + k) for k in (0, count))
        I.buffer_store(spectrum, first - last, [i64(0), i64(0)])
        I.buffer_store(spectrum, first + last, [i64(1), i64(0)])

    def mirror(self, spectrum: Any) -> None:
        """The whole spectrum of a real row of odd length, imaginary part first."""
        with serial(self.count) as j:
            value = self.operands.full_spectrum(self.source, 1, j)
            for part in range(2):
                I.buffer_store(spectrum, value[part], [i64(part), j])

    def copy_half(self, result: Any) -> None:
        """The first half of a spectrum."""
        with serial(self.op.result_length) as k:
            value = (result[0, k], result[1, k])
            self.operands.store_point(self.target + k, value, 1)


def _parallel(count: int) -> Any:
    return I.parallel(i64(0), i64(count))
