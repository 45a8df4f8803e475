"""Operands of blocks with scales as tensor maps copy them, made by a kernel before the product's.

    for run of 16 elements, a lane each:    packed[group, row, run] = the run's bits, side by side
    for word of scales, a lane each:        arranged[...] = the scales of four blocks of a row

In global memory an element is a byte; the instruction has 4-bit floats two to a byte, or, beside
others, a run of 16 floats of 4 or of 6 bits at the begin of 16 bytes.  Scales are arranged in
chunks of 128 rows by four blocks (:mod:`tvm_iree_ext.intrin.tcgen05`), a tile's step after the
other.  Beyond the rows there are those of the last one; beyond K, zeros by the last scales.  A sign
of a scale, which no instruction looks at, goes to the elements.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin.tcgen05 import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_ROWS, WORD_SCALES
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, where
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulOperands
from tvm_iree_ext.schedules.gpu.products.packed_runs import (
    RUN,
    RUN_WORDS,
    packed,
    read_run,
    turned,
)
from tvm_iree_ext.schedules.gpu.products.scale_words import (
    ONE,
    ScaleOperands,
    ScaleWords,
    word_type,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_scaled_plan import ScaledWarpgroupPlan
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits

_LANES = 256  # of a workgroup
_EACH = 2  # of what a lane reads before it stores the first
_WORD_BYTES = 4
_WORD = "uint32"
_NO_SIGNS = 0x7F7F7F7F
_LINES = CHUNK_ROWS // CHUNK_COLUMNS  # lanes of tensor memory that differ


class BlockOperandsSource(MatmulOperands, ScaleOperands):
    """What the op's operands can do."""


@dataclass(frozen=True)
class _Made:
    """An array that is made: its elements, and how one is read and stored."""

    count: Any
    words: int  # of an element
    read: Callable[[Any], list[Any]]
    store: Callable[[Any, Any], None]

    @property
    def workgroups(self) -> Any:
        return -(-self.count // (_LANES * _EACH))


class BlockOperands:
    """Operands of a product of blocks; see :class:`MatmulOperands`.

    Args:
        inner: of the op.
        plan: of the product; its ``pad`` are packed.
        scales: the names of the scales of ``lhs`` and ``rhs``; those of one without are 1.
    """

    def __init__(
        self, inner: BlockOperandsSource, plan: ScaledWarpgroupPlan, scales: Mapping[str, str]
    ) -> None:
        self.inner, self.plan, self.shape = inner, plan, plan.shape
        self.names, self.index_dtype = scales, inner.index_dtype
        self.copies: dict[str, Any] = {}
        self.arranged: dict[str, Any] = {}

    def declare(self) -> None:
        """Name the func under construction, and add its parameters."""
        self.inner.declare()

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, m, n and k, of elements."""
        return self.inner.extents()

    def buffer(self, side: str) -> Any:
        """The array that is read: what is packed, of groups, rows and bytes, or the op's."""
        return self.copies[side] if side in self.copies else self.inner.buffer(side)

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of the op's operand."""
        return self.inner.load(side, group, at)

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> Any | None:
        """Whether an element is there."""
        return self.inner.inside(side, at, run)

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Take a sum to the result."""
        self.inner.store(group, i, j, value)

    def tiles(self, side: str) -> Any:
        """Tiles along the rows of an operand, of all groups."""
        groups, m, n, _ = self.extents()
        return groups * -(-(m if side == "lhs" else n) // self.plan.extent(side))

    def emit_kernel(self) -> None:
        """Emit one kernel that packs, and arranges scales."""
        made = [self._packed(side) for side in SIDES if side in self.plan.config.pad]
        made += map(self._arranged, SIDES)
        total = sum(one.workgroups for one in made)
        with (
            I.launch_thread("blockIdx.x", total) as number,
            I.launch_thread("threadIdx.x", _LANES) as lane,
        ):
            first: Any = 0
            for one in made:
                with where(tirx.And(number >= first, number < first + one.workgroups)):
                    self._emit(one, self._index(number - first) * (_LANES * _EACH) + lane)
                first = first + one.workgroups

    def _emit(self, made: _Made, start: Any) -> None:
        held = I.alloc_buffer((_EACH * made.words,), _WORD, scope="local")
        places = [I.Bind(start + turn * _LANES) for turn in range(_EACH)]
        for turn, item in enumerate(places):
            with where(item < made.count):
                for word, value in enumerate(made.read(item)):
                    I.buffer_store(held, value, [turn * made.words + word])
        for turn, item in enumerate(places):
            with where(item < made.count):
                made.store(item, held[vector(turn * made.words, made.words)])

    def _index(self, value: Any) -> Any:
        return tirx.Cast(self.index_dtype, value) if self.index_dtype != "int32" else value

    def _line(self, side: str, row: Any) -> dict[str, Any]:
        """The place of a row, or of the last one."""
        _, m, n, _ = self.extents()
        role, extent = ("m", m) if side == "lhs" else ("n", n)
        return {role: tirx.min(row, extent - 1)}

    def _scales(self, side: str) -> ScaleWords | None:
        if side not in self.names:
            return None
        block, k = self.plan.mma.scale_block or 0, self.extents()[3]
        return ScaleWords(self.inner, self.names[side], block, k)

    def _packed(self, side: str) -> _Made:
        """The bits of an operand's elements."""
        groups, m, n, k = self.extents()
        rows, pitch = (m if side == "lhs" else n), self.shape.pitch(side) or 0
        mma, scales = self.plan.mma, self._scales(side)
        run_bytes = RUN * 256 // mma.k // 8
        words, runs = run_bytes // _WORD_BYTES, pitch // run_bytes
        bits = dtype_bits(mma.a if side == "lhs" else mma.b)
        used = RUN * bits // (8 * _WORD_BYTES)
        signed = scales is not None and mma.operand(f"{side}_scale").dtype == "ue4m3"
        shape = [groups, rows, pitch // _WORD_BYTES]
        buffer = I.alloc_buffer(shape, _WORD, scope="global")
        IRBuilder.name(f"{side}_packed", buffer)
        self.copies[side] = buffer
        inner = self.inner

        def place(item: Any) -> tuple[Any, Any, Any]:
            line = item // runs
            return line // rows, line % rows, item % runs

        def read(item: Any) -> list[Any]:
            group, row, run = place(item)
            at = self._line(side, row)
            start = I.Bind(run * RUN)
            raw = I.Bind(read_run(inner, side, group, at | {"k": tirx.min(start, k - RUN)}))
            found = [tirx.Shuffle([raw], [word]) for word in range(RUN_WORDS)]
            if used < RUN_WORDS:
                found = packed(found, used, "cuda")
            if signed and scales is not None:
                turn = I.Bind(turned(scales.byte(group, at, start)))
                found = [word ^ turn for word in found]
            zero = tirx.const(0, _WORD)
            if runs * RUN > k:
                found = [tirx.Select(start < k, word, zero) for word in found]
            return found + [zero] * (words - used)

        def store(item: Any, value: Any) -> None:
            group, row, run = place(item)
            I.buffer_store(buffer, value, [group, row, vector(run * words, words)])

        return _Made(groups * rows * runs, words, read, store)

    def _arranged(self, side: str) -> _Made:
        """The scales of an operand, or ones."""
        plan, scales = self.plan, self._scales(side)
        chunks, blocks = plan.chunks(side), plan.blocks(side)
        steps = self.tiles(side) * plan.steps
        words = CHUNK_BYTES // _WORD_BYTES
        dtype = plan.mma.operand(f"{side}_scale").dtype
        buffer = I.alloc_buffer([steps * chunks * words], _WORD, scope="global")
        IRBuilder.name(f"{side}_arranged", buffer)
        self.arranged[side] = buffer
        groups = self.extents()[0]
        across = self.tiles(side) // groups if groups != 1 else self.tiles(side)

        def read(item: Any) -> list[Any]:
            one = tirx.const(sum(ONE[dtype] << 8 * at for at in range(WORD_SCALES)), _WORD)
            if scales is None:
                return [one]
            place, chunk = item % words, item // words
            step, chunk = chunk // chunks, chunk % chunks
            tile, step = step // plan.steps, step % plan.steps
            group, tile = (tile // across, tile % across) if groups != 1 else (0, tile)
            row = tile * plan.extent(side) + chunk % blocks * CHUNK_ROWS
            row = row + place % CHUNK_COLUMNS * _LINES + place // CHUNK_COLUMNS
            word = step * plan.words + chunk // blocks
            k = word * (WORD_SCALES * scales.block)
            found = scales.word(group, self._line(side, row), k, WORD_SCALES)
            assert word_type(WORD_SCALES) == _WORD
            return [found & tirx.const(_NO_SIGNS, _WORD) if dtype == "ue4m3" else found]

        def store(item: Any, value: Any) -> None:
            I.buffer_store(buffer, value, [vector(item, 1)])

        return _Made(steps * chunks * words, 1, read, store)
