"""The parameters of a transform's kernel, addressed by outer point, place along the axis, inner."""

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64
from tvm_iree_ext.schedules.shared.fft.fft_codelets import Point


class TransformOperands:
    """Names the PrimFunc under construction and declares its parameters.

    An inverse transform is a forward one with real and imaginary parts in each other's place: of
    complex inputs and results, part 0 is then the imaginary one.
    """

    def __init__(self, op: FftTransform) -> None:
        self.op = op
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        self.buffers: dict[str, Any] = {}
        for operand in op.signature.operands:
            shape = [i64(symbols[e] if isinstance(e, str) else e) for e in operand.shape]
            buffer = I.buffer(shape, operand.dtype, align=item_bytes(operand.dtype))
            self.buffers[operand.name] = I.arg(operand.name, buffer)
        extents: list[Index] = [symbols[e] if isinstance(e, str) else e for e in op.shape]
        self.outer = emit.product(extents[: op.axis])
        self.inner = emit.product(extents[op.axis + 1 :])
        self.points = emit.product([self.outer, self.inner])
        parts = ("imag", "real") if op.inverse else ("real", "imag")
        self.inputs = [self.buffers.get(part) for part in parts]
        self.results = [self.buffers.get(f"result_{part}") for part in parts]
        extent = op.shape[op.axis]
        assert isinstance(extent, int)
        self.extent = extent
        self.rank = len(op.shape)

    def start(self, point: Expr, extent: int) -> Expr:
        """The flat place of element 0 of a point's row."""
        inner = i64(self.inner)
        if self.contiguous:
            return point * extent
        return tirx.floordiv(point, inner) * (inner * extent) + tirx.floormod(point, inner)

    @property
    def contiguous(self) -> bool:
        """Whether rows lie in memory as they are."""
        return self.inner == 1

    def load(self, part: int, at: Expr) -> Expr:
        """Flat elements of an input, in the compute type; 0 for a part that is not there."""
        buffer = self.inputs[part]
        if buffer is None:
            return tirx.const(0.0, self.op.compute_dtype)
        return emit.cast(buffer[tuple(self.flat(at))], self.op.compute_dtype)

    def store(self, part: int, at: Expr, value: Expr, lanes: int) -> None:
        """Write flat elements of a result, scaled."""
        buffer = self.results[part]
        if buffer is not None:
            I.buffer_store(buffer, self.result(value, lanes), self.flat(at))

    def result(self, value: Expr, lanes: int) -> Expr:
        """Elements of a result as they are stored, from those of the transform."""
        if self.op.scale != 1.0:
            scale = tirx.const(self.op.scale, self.op.compute_dtype)
            value = value * emit.splat(scale, lanes)
        return emit.cast(value, self.op.dtype)

    def store_point(self, at: Expr, value: Point, lanes: int) -> None:
        """Write both parts."""
        for part in range(2):
            self.store(part, at, value[part], lanes)

    def store_first(self, at: Expr, value: Point, lanes: int, count: int) -> None:
        """Write the first ``count`` lanes of both parts."""
        mask = emit.run(0, lanes) < emit.splat(i64(count), lanes)
        for buffer, part in zip(self.results, value, strict=True):
            place = self.flat(at)
            I.evaluate(I.masked_store(buffer, self.result(part, lanes), *place, mask))

    def flat(self, at: Expr) -> list[Expr]:
        """The indices of an element of the whole operand, seen as one row."""
        return [i64(0)] * (self.rank - 1) + [at]

    def full_spectrum(self, start: Expr, step: Index, j: Expr) -> Point:
        """Element j of the spectrum that half of it, the input, stands for.

        The imaginary part of what is real by symmetry is not read: it has no meaning.
        """
        length = self.op.length
        above = j * 2 > length
        at = I.Bind(start + tirx.Select(above, i64(length) - j, j) * i64(step))
        real, imag = self.load(1, at), self.load(0, at)
        zero = tirx.const(0.0, self.op.compute_dtype)
        real_only = tirx.any(j == 0, j * 2 == length)
        imag = tirx.Select(real_only, zero, tirx.Select(above, zero - imag, imag))
        return imag, real
