"""A butterfly stage on the CPU: one pass over memory.

Blocks of a stage lie one after another, and a row is whole blocks, so the batch and a row are one
long row.  Butterflies are numbered p = 0, 1, ... through it: block p // h, position j = p % h.
Where h is a vector or more, the two elements of consecutive butterflies are two contiguous runs.
Below, they are in two neighbouring vectors, and two shuffles bring them apart, two together again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.fft.fft_config import FftStageConfig
from tvm_iree_ext.schedules.cpu.fft.fft_tables import constants
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.fft.fft_codelets import root
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots

_PARTS = ("real", "imag")
_TASK_VECTORS = 512  # butterflies of a task, in vectors

Pair = tuple[Expr, Expr]


def stage_kernel(op: Fft, config: FftStageConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, with vectors of ``config.lanes``."""
    with IRBuilder() as builder, I.prim_func():
        _Stage(op, config).emit()
    return builder.get()


class _Stage:
    """The kernel under construction."""

    def __init__(self, op: Fft, config: FftStageConfig) -> None:
        self.op, self.config = op, config
        self.dtype, self.lanes = op.compute_dtype, config.lanes
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        self.buffers = {}
        for operand in op.signature.operands:
            if operand.role == "scalar":
                self.stage = I.arg("stage", tirx.Var("stage", "int64"))
                continue
            shape = [i64(symbols[e] if isinstance(e, str) else e) for e in operand.shape]
            buffer = I.buffer(shape, operand.dtype, align=item_bytes(operand.dtype))
            self.buffers[operand.name] = I.arg(operand.name, buffer)
        extents: list[Index] = [symbols[e] if isinstance(e, str) else e for e in op.shape]
        self.length = extents[-1]
        self.total = emit.product(extents)
        self.count = self.symbolic_coefficients(symbols)

    def symbolic_coefficients(self, symbols: dict[str, tirx.Var]) -> Index:
        """The extent of the coefficient operands, 0 without."""
        extent = self.op.coefficients or 0
        return symbols[extent] if isinstance(extent, str) else extent

    def emit(self) -> None:
        """The stage, or one form for each small stage and one for all others."""
        with I.sblock("root"):
            if isinstance(self.op.stage, int):
                self.check_length()
                self.emit_stage(2 ** (self.op.stage - 1))
                return
            self.check_stage()
            small = self.lanes.bit_length() - 1
            longest = known(self.length)
            if longest is not None:
                small = min(small, longest.bit_length() - 1)
            for stage in range(1, small + 1):
                with I.If(self.stage == i64(stage)), I.Then():
                    self.emit_stage(2 ** (stage - 1))
            if longest is None or longest > self.lanes:
                with I.If(self.stage > i64(small)), I.Then():
                    self.emit_stage(I.Bind(i64(1) << (self.stage - i64(1))))

    def check_length(self) -> None:
        """Check at the call, where it can only be known, that the length fits the stage."""
        if known(self.length) is None:
            length = i64(self.length)
            power = tirx.all(length > i64(0), (length & (length - i64(1))) == i64(0))
            self.require(power, "the innermost extent is not a power of two")
            if isinstance(self.op.stage, int):
                fits = length >= i64(2**self.op.stage)
                self.require(fits, f"stage {self.op.stage} is larger than the innermost extent")

    def check_stage(self) -> None:
        """The same of a stage that is an operand."""
        self.check_length()
        self.require(
            tirx.all(self.stage >= i64(1), self.stage < i64(62)), "stage is not from 1 to log2(n)"
        )
        block = i64(1) << self.stage
        self.require(block <= i64(self.length), "stage is larger than log2(n) for the innermost n")
        if self.op.coefficients is not None:
            self.require(
                i64(self.count) * i64(2) == block,
                "the extent of real_coeff and imag_coeff is not 2^(stage - 1)",
            )

    def require(self, condition: Expr, message: str) -> None:
        """An error of the call, before anything is written."""
        with I.Assert(condition, f"{self.op.name}: {message}", error_kind="CallError"):
            pass

    def flat(self, name: str, index: Expr) -> list[Expr]:
        """The indices of an element of the whole operand, seen as one row."""
        return [i64(0)] * (len(self.op.shape) - 1) + [index]

    def load(self, name: str, index: Expr) -> Expr:
        """An element or run of the operand, in the compute type."""
        at = [index] if name.endswith("coeff") else self.flat(name, index)
        return emit.cast(self.buffers[name][tuple(at)], self.dtype)

    def store(self, name: str, index: Expr, value: Expr) -> None:
        """Write an element or run."""
        at = self.flat(name, index)
        I.buffer_store(self.buffers[name], emit.cast(value, self.op.dtype), at)

    def emit_stage(self, half: Index) -> None:
        """All butterflies of blocks of ``2 * half``."""
        number = known(half)
        butterflies = (
            self.total // 2 if isinstance(self.total, int) else tirx.floordiv(self.total, i64(2))
        )
        if number is None or number >= self.lanes:
            vectors = butterflies // self.lanes if isinstance(butterflies, int) else None
            vectors = vectors or tirx.floordiv(i64(butterflies), i64(self.lanes))
            self.tasks(vectors, lambda v, _: self.long_vector(v * self.lanes, half), lambda: None)
            return
        vectors = tirx.floordiv(i64(butterflies), i64(self.lanes))
        self.tasks(vectors, self.short_vector, lambda: self.short_twiddles(number))
        with serial(butterflies, vectors * self.lanes) as p:
            self.butterfly(p, number, 1)

    def tasks(
        self,
        vectors: Index,
        body: Callable[[Expr, Any], None],
        prepare: Callable[[], Any],
    ) -> None:
        """``body(v)`` for all vectors, in tasks that first ``prepare``."""
        count = emit.ceil_div(vectors, _TASK_VECTORS)
        loop = I.parallel if self.config.parallel and known(count) != 1 else I.serial
        with loop(i64(0), i64(count)) as task:
            prepared = prepare()
            rest = i64(vectors) - task * _TASK_VECTORS
            with serial(emit.smaller(_TASK_VECTORS, rest)) as v:
                body(task * _TASK_VECTORS + v, prepared)

    def long_vector(self, p: Expr, half: Index) -> None:
        """Butterflies p .. p + lanes - 1 of one block."""
        self.butterfly(p, half, self.lanes)

    def butterfly(self, p: Expr, half: Index, lanes: int) -> None:
        """``lanes`` butterflies from the p'th on, whose elements are two contiguous runs."""
        j = I.Bind(p & (i64(half) - 1))
        low = I.Bind((p - j) * 2 + j)
        high = I.Bind(low + i64(half))
        place = (emit.run(low, lanes), emit.run(high, lanes))
        if self.op.coefficients is not None:
            w = tuple(self.load(f"{part}_coeff", emit.run(j, lanes)) for part in _PARTS)
        else:
            w = unit_roots(emit.run(j, lanes), i64(half) * 2, self.dtype, lanes)
        u = tuple(self.load(f"{part}_init", place[0]) for part in _PARTS)
        a = tuple(self.load(f"{part}_init", place[1]) for part in _PARTS)
        for part, (total, rest) in zip(_PARTS, self.products(w, a, u, lanes), strict=True):
            self.store(part, place[0], total)
            self.store(part, place[1], rest)

    def products(self, w: Pair, a: Pair, u: Pair, lanes: int) -> list[Pair]:
        """``u + w * a`` and ``u - w * a``, real and imaginary."""
        t = emit.registers(2 * lanes, self.dtype)
        I.buffer_store(t, w[0] * a[0] - w[1] * a[1], [emit.run(0, lanes)])
        I.buffer_store(t, w[0] * a[1] + w[1] * a[0], [emit.run(lanes, lanes)])
        parts = [t[emit.run(part * lanes, lanes)] for part in range(2)]
        return [(u[part] + parts[part], u[part] - parts[part]) for part in range(2)]

    def short_twiddles(self, half: int) -> tuple[int, Pair]:
        """The twiddle factors of a vector of butterflies in blocks shorter than it."""
        lanes = self.lanes
        if self.op.coefficients is None:
            w = np.array([root(lane % half, 2 * half) for lane in range(lanes)])
            return half, (constants(w.real, self.dtype), constants(w.imag, self.dtype))
        vectors = []
        for part in _PARTS:
            vector = emit.registers(lanes, self.dtype)
            for lane in range(lanes):
                value = self.load(f"{part}_coeff", i64(lane % half))
                I.buffer_store(vector, value, [i64(lane)])
            vectors.append(vector[emit.run(0, lanes)])
        return half, (vectors[0], vectors[1])

    def short_vector(self, v: Expr, prepared: tuple[int, Pair]) -> None:
        """The butterflies of two neighbouring vectors."""
        half, w = prepared
        lanes = self.lanes
        first = [2 * (lane - lane % half) + lane % half for lane in range(lanes)]
        places = [emit.run(v * (2 * lanes) + side * lanes, lanes) for side in range(2)]
        u, a = [], []
        for part in _PARTS:
            pair = [I.Bind(self.load(f"{part}_init", place)) for place in places]
            u.append(I.Bind(tirx.Shuffle(pair, first)))
            a.append(I.Bind(tirx.Shuffle(pair, [index + half for index in first])))
        found = self.products(w, (a[0], a[1]), (u[0], u[1]), lanes)
        back = [0] * (2 * lanes)
        for lane, index in enumerate(first):
            back[index], back[index + half] = lane, lanes + lane
        for part, sums in zip(_PARTS, found, strict=True):
            bound = [I.Bind(one) for one in sums]
            for side, place in enumerate(places):
                order = back[side * lanes : (side + 1) * lanes]
                self.store(part, place, tirx.Shuffle(bound, order))
