"""Rows side by side, one in each lane: for rows that are short, or not contiguous.

Where the axis is not the innermost, neighbouring rows often are neighbours in memory, and a vector
is read and written as it is.  Otherwise the rows of a task are brought into lanes first, by
transposes in registers where rows are contiguous, and element by element where nothing is.

Brought into lanes, the rows fill much of the first cache, so passes leave their results in place.
The lines that results go to are fetched during the passes, and the next rows while results are
stored: all of these are far apart, and nothing foresees them.
"""

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft.fft_config import FftTransformConfig
from tvm_iree_ext.schedules.cpu.fft.fft_lanes import LanesMemory, LanesTransform, TransformVectors
from tvm_iree_ext.schedules.cpu.fft.fft_real import packed_spectrum, spectrum_of_real
from tvm_iree_ext.schedules.cpu.fft.fft_tables import Table
from tvm_iree_ext.schedules.emit import Expr, i64, known, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import CodeletRegisters, Point
from tvm_iree_ext.schedules.shared.fft.fft_operands import TransformOperands


class SideBySide:
    """The kernel under construction."""

    def __init__(
        self, operands: TransformOperands, config: FftTransformConfig, vectors: TransformVectors
    ) -> None:
        op = operands.op
        self.operands, self.op, self.config = operands, op, config
        self.lanes, self.dtype = vectors.lanes, vectors.dtype
        self.real = op.kind in ("real_to_complex", "complex_to_real")
        self.packed = self.real and op.length % 2 == 0
        self.count = op.length // 2 if self.packed else op.length
        inner = known(operands.inner)
        self.in_place = inner is not None and inner >= self.lanes
        ahead = self.fetch_results if operands.contiguous else None
        self.transform = LanesTransform(self.count, vectors, ahead)
        if not (self.real or self.in_place):
            self.transform.emit_places()
        if self.packed:
            self.twiddles = Table(self.count + 1, op.length, lambda k: k, self.dtype, self.lanes)

    def emit(self) -> None:
        """A task for as many rows as the config says, in groups of a row a lane."""
        operands, lanes = self.operands, self.lanes
        if self.in_place:
            inner = known(operands.inner) or 1
            total = emit.product([operands.outer, -(-inner // lanes)])
        else:
            total = emit.ceil_div(operands.points, lanes)
        together = max(1, self.config.rows // lanes)
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(emit.ceil_div(total, together))) as task:
            left = i64(total) - task * together
            with serial(emit.smaller(together, left)) as within:
                self.emit_group(I.Bind(task * together + within))

    def emit_group(self, group: Expr) -> None:
        """A row in each lane."""
        operands, lanes = self.operands, self.lanes
        if self.in_place:
            inner = known(operands.inner) or 1
            outer, across = emit.divide(group, -(-inner // lanes))
            first = emit.smaller(across * lanes, inner - lanes)
            place = I.Bind(outer)
            self.source = I.Bind(place * (operands.extent * inner) + i64(first))
            self.target = I.Bind(place * (self.op.result_length * inner) + i64(first))
            self.emit_task()
            return
        self.sources, self.targets = (
            self.starts(group * lanes, extent)
            for extent in (operands.extent, self.op.result_length)
        )
        self.staged = emit.scratch([2, operands.extent * lanes], self.dtype)
        if self.real:
            self.results = emit.scratch([2, self.op.result_length * lanes], self.dtype)
        self.gather()
        self.emit_task()
        self.scatter()

    @property
    def follow_each_other(self) -> bool:
        """Whether the rows of a group are one run of memory."""
        count = known(self.operands.points)
        return self.operands.contiguous and count is not None and count >= self.lanes

    def starts(self, first: Expr, extent: int) -> list[Expr]:
        """Starts of the rows of a group; some of the last group's are those before, or the last.

        A constant apart where that is possible: then addresses of all need one register.
        """
        operands, lanes = self.operands, self.lanes
        if self.follow_each_other:
            begin = emit.smaller(first, (known(operands.points) or 0) - lanes)
            base = I.Bind(i64(begin) * i64(extent))
            return [base + lane * extent for lane in range(lanes)]
        last = i64(operands.points) - 1
        rows = [i64(emit.smaller(first + lane, last)) for lane in range(lanes)]
        return [I.Bind(operands.start(row, extent)) for row in rows]

    def gather(self) -> None:
        """The rows of the task, into lanes."""
        for part in range(2):
            if self.operands.inputs[part] is None:
                continue
            if self.is_short(self.operands.extent):
                self.gather_short(part)
                continue

            def block(j: Expr, part: int = part) -> None:
                runs = [
                    self.operands.load(part, emit.run(source + j, self.lanes))
                    for source in self.sources
                ]
                for offset, vector in enumerate(emit.transpose(runs)):
                    place = emit.run((j + offset) * self.lanes, self.lanes)
                    I.buffer_store(self.staged, vector, [i64(part), place])

            def element(j: Expr, part: int = part) -> None:
                for lane, source in enumerate(self.sources):
                    value = self.operands.load(part, source + j * i64(self.operands.inner))
                    I.buffer_store(self.staged, value, [i64(part), j * self.lanes + lane])

            self.along(self.operands.extent, block, element)

    def scatter(self) -> None:
        """The results, out of the lanes."""
        parts = [part for part in range(2) if self.operands.results[part] is not None]
        if self.is_short(self.op.result_length):
            for part in parts:
                self.scatter_short(part)
            return

        def block(k: Expr) -> None:
            places = [I.Bind(self.result_place(k + offset)) for offset in range(self.lanes)]
            self.fetch_inputs(k)
            for part in parts:
                # A store across two lines waits for both: those of the next block, in time.
                for target in self.targets:
                    ahead = self.operands.flat(target + (k + 2 * self.lanes - 1))
                    emit.prefetch(self.operands.results[part], *ahead, write=True)
                vectors = [self.results[part, emit.run(place, self.lanes)] for place in places]
                for target, vector in zip(self.targets, emit.transpose(vectors), strict=True):
                    place = emit.run(target + k, self.lanes)
                    self.operands.store(part, place, vector, self.lanes)

        def element(k: Expr) -> None:
            place = self.result_place(k)
            for part in parts:
                for lane, target in enumerate(self.targets):
                    value = self.results[part, place + lane]
                    at = target + k * i64(self.operands.inner)
                    self.operands.store(part, at, value, 1)

        self.along(self.op.result_length, block, element)

    def is_short(self, count: int) -> bool:
        """Whether rows have less than a vector, and are read and written as one run."""
        return self.follow_each_other and count < self.lanes

    def gather_short(self, part: int) -> None:
        """Short rows: read as a run, each then with what follows it, which is left behind."""
        lanes, count = self.lanes, self.operands.extent
        run = emit.scratch([(count + 1) * lanes], self.dtype)
        for vector in range(count):
            value = self.operands.load(part, emit.run(self.sources[0] + vector * lanes, lanes))
            I.buffer_store(run, value, [emit.run(vector * lanes, lanes)])
        rows = [run[emit.run(lane * count, lanes)] for lane in range(lanes)]
        for j, value in enumerate(emit.transpose(rows)[:count]):
            I.buffer_store(self.staged, value, [i64(part), emit.run(j * lanes, lanes)])

    def scatter_short(self, part: int) -> None:
        """Short rows: each put over the end of the one before, then written as a run."""
        lanes, count = self.lanes, self.op.result_length
        places = [self.result_place(i64(k)) for k in range(count)]
        columns = [self.results[part, emit.run(place, lanes)] for place in places]
        columns += columns[:1] * (lanes - count)
        run = emit.scratch([(count + 1) * lanes], self.dtype)
        for lane, row in enumerate(emit.transpose(columns)):
            I.buffer_store(run, row, [emit.run(lane * count, lanes)])
        for vector in range(count):
            value = run[emit.run(vector * lanes, lanes)]
            at = emit.run(self.targets[0] + vector * lanes, lanes)
            self.operands.store(part, at, value, lanes)

    def fetch_results(self, first: Expr, count: int) -> None:
        """Have lines of this group's results fetched, evenly beside the codelets."""
        size = self.lanes * self.op.result_length
        points = self.transform.count * self.count
        at = I.Bind(self.targets[0] + tirx.truncdiv(first * size, i64(points)))
        self.fetch(self.operands.results, at, -(-count * size // points))

    def fetch_inputs(self, k: Expr) -> None:
        """Have lines of the next group's inputs fetched, evenly beside the blocks of results."""
        size, length = self.lanes * self.operands.extent, self.op.result_length
        at = I.Bind(self.sources[0] + size + tirx.truncdiv(k * size, i64(length)))
        self.fetch(self.operands.inputs, at, -(-self.lanes * size // length))

    def fetch(self, buffers: list[Any], first: Expr, count: int) -> None:
        """Have so many elements of each buffer fetched, from a flat place on."""
        for buffer in buffers:
            if buffer is not None:
                for place in range(0, count, emit.LINE_BYTES // item_bytes(self.op.dtype)):
                    emit.prefetch(buffer, *self.operands.flat(first + place), nearest=True)

    def result_place(self, k: Expr) -> Expr:
        """Start of the lanes of element k of the results."""
        return (k if self.real else self.transform.result_place(k)) * self.lanes

    def along(self, count: int, block: Any, element: Any) -> None:
        """``block`` of each run along rows that are contiguous and long enough, else elements."""
        if not self.operands.contiguous or count < self.lanes:
            with serial(count) as place:
                element(place)
            return
        with serial(-(-count // self.lanes)) as run:
            block(I.Bind(i64(emit.smaller(run * self.lanes, count - self.lanes))))

    def element(self, part: int, j: Expr) -> Expr:
        """Element j of the inputs' rows."""
        if self.operands.inputs[part] is None:
            return emit.splat(tirx.const(0.0, self.dtype), self.lanes)
        if self.in_place:
            at = self.source + j * i64(self.operands.inner)
            return self.operands.load(part, emit.run(at, self.lanes))
        return self.staged[part, emit.run(j * self.lanes, self.lanes)]

    def put(self, part: int, k: Expr, value: Expr) -> None:
        """Element k of the results' rows."""
        if self.operands.results[part] is None:
            return
        if self.in_place:
            at = self.target + k * i64(self.operands.inner)
            self.operands.store(part, emit.run(at, self.lanes), value, self.lanes)
        else:
            place = emit.run(k * self.lanes, self.lanes)
            I.buffer_store(self.results, value, [i64(part), place])

    def load(self, j: Expr) -> Point:
        """A complex element of the inputs' rows."""
        return self.element(0, j), self.element(1, j)

    def store(self, k: Expr, value: Point) -> None:
        """A complex element of the results' rows."""
        for part in range(2):
            self.put(part, k, value[part])

    def emit_task(self) -> None:
        """The transforms of one group of rows."""
        emit_transform = self.transform.emit
        if not self.real:
            if self.in_place:
                emit_transform(self.load, self.store)
            else:
                memory = LanesMemory(self.staged, self.lanes, i64(0))
                self.transform.emit_in_place(self.load, memory)
                self.results = self.staged
            return
        half = self.transform.memory(self.count + 1)
        read, write = half.load, half.store
        if self.op.kind == "real_to_complex":
            load = self.load_packed if self.packed else self.load
            emit_transform(load, write)
            if self.packed:
                write(i64(self.count), read(i64(0)))
            with serial(self.op.result_length) as k:
                self.store(k, self.unpacked(read, k) if self.packed else read(k))
            return
        with serial(self.count) as k:
            write(k, self.pack(k) if self.packed else self.mirrored(k))
        if self.packed:
            first, last = (self.element(1, i64(k)) for k in (0, self.count))
            write(i64(0), (first - last, first + last))
        emit_transform(read, self.store_packed if self.packed else self.store, half)

    def load_packed(self, j: Expr) -> Point:
        """Elements 2j and 2j + 1 of real rows."""
        return self.element(0, j * 2), self.element(0, j * 2 + 1)

    def store_packed(self, j: Expr, value: Point) -> None:
        """Elements 2j and 2j + 1 of real rows, from a number with the imaginary part first."""
        self.put(1, j * 2, value[1])
        self.put(1, j * 2 + 1, value[0])

    def unpacked(self, read: Any, k: Expr) -> Point:
        """Element k of the spectrum of real rows."""
        registers = CodeletRegisters(self.lanes, self.dtype)
        z, mirrored = registers.point(read(k)), registers.point(read(i64(self.count) - k))
        return spectrum_of_real(registers, z, mirrored, self.twiddles.splat(k, self.lanes))

    def pack(self, k: Expr) -> Point:
        """Element k of the packed spectrum, imaginary part first."""
        registers = CodeletRegisters(self.lanes, self.dtype)
        back = i64(self.count) - k
        x = registers.point((self.element(1, k), self.element(0, k)))
        mirrored = registers.point((self.element(1, back), self.element(0, back)))
        w = self.twiddles.splat(k, self.lanes)
        real, imag = packed_spectrum(registers, x, mirrored, w)
        return imag, real

    def mirrored(self, j: Expr) -> Point:
        """Element j of the whole spectrum of rows of odd length, imaginary part first."""
        above = j * 2 > self.op.length
        at = I.Bind(tirx.Select(above, i64(self.op.length) - j, j))
        sign = tirx.Select(above, tirx.const(-1.0, self.dtype), tirx.const(1.0, self.dtype))
        zero = emit.splat(tirx.const(0.0, self.dtype), self.lanes)
        only_real = emit.splat(j == 0, self.lanes)
        imag = self.element(0, at) * emit.splat(sign, self.lanes)
        return tirx.Select(only_real, zero, imag), self.element(1, at)
