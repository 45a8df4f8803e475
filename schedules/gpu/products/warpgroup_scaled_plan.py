"""The plan of a product of blocks with scales whose sums lie in tensor memory.

It is that of :mod:`.warpgroup_plan`, with K counted in bytes of shared memory, and with the scales
of a step behind the tiles of its slot: *chunks* of 128 rows by four blocks, as the copy to tensor
memory takes them (:mod:`tvm_iree_ext.intrin.tcgen05`).  In tensor memory they lie behind the sums.

    a step, of 128 bytes       four instructions; a row has 4, 8 or 16 scales: 1, 2 or 4 words
    chunks of an operand       for word of a row: for 128 rows of the tile
"""

from dataclasses import dataclass, replace
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.intrin.mbarrier import TensorMapDescriptor
from tvm_iree_ext.intrin.tcgen05 import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_ROWS, WORD_SCALES
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    GUESSED_ROWS,
    STEPS,
    WarpgroupConfig,
    WarpgroupPlan,
    check_limits,
    slot_tiles,
)
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits
from tvm_iree_ext.targets.mma.mma_table import mma_kind

BYTES = "uint8"
"""The type of what is packed."""

_ROW_BYTES = 16  # of which rows of what a tensor map copies are multiples
_MAP_WORD, _MAP_BYTES = "uint64", 8  # of a tensor map of scales, whose boxes have up to 256 words


@dataclass(frozen=True)
class ScaledWarpgroupPlan(WarpgroupPlan):
    """The plan of a product of blocks with scales; k and depths are in bytes."""

    @property
    def words(self) -> int:
        """Words of a row's scales in a step."""
        return STEPS * self.instruction_scales // WORD_SCALES

    @property
    def instruction_scales(self) -> int:
        """Scales of a row that an instruction takes."""
        return self.mma.operand("lhs_scale").extent("K")

    def place(self, part: int) -> Ints:
        """The word with the scales of a step's instruction, and the first's byte in it."""
        first = part * self.instruction_scales
        return first // WORD_SCALES, first % WORD_SCALES

    def extent(self, side: str) -> int:
        """Rows or columns of a tile."""
        return self.tile[SIDES.index(side)]

    def blocks(self, side: str) -> int:
        """Chunks below each other for a tile; the last one's rows may be others."""
        return -(-self.extent(side) // CHUNK_ROWS)

    def chunks(self, side: str) -> int:
        """Chunks of a step."""
        return self.words * self.blocks(side)

    def scales_offset(self, side: str) -> int:
        """The first byte of the scales in a slot."""
        before = self.chunks("lhs") if side == "rhs" else 0
        return super().slot_end + before * CHUNK_BYTES

    def scales_column(self, side: str, number: int) -> int:
        """The first column of a chunk in tensor memory."""
        before = self.chunks("lhs") if side == "rhs" else 0
        return self.halves * self.sum_columns + (before + number) * CHUNK_COLUMNS

    def columns(self, halves: int) -> int:
        """Columns of tensor memory that are taken with the sums of so many tiles."""
        scales = sum(map(self.chunks, SIDES)) * CHUNK_COLUMNS
        return super().columns(halves) + scales

    @property
    def slot_end(self) -> int:
        """Bytes from the begin of a slot to the end of what lies in it."""
        return self.scales_offset("rhs") + self.chunks("rhs") * CHUNK_BYTES

    @property
    def slot_bytes(self) -> int:
        """Bytes that are copied for a step."""
        return super().slot_bytes + sum(map(self.chunks, SIDES)) * CHUNK_BYTES

    def scales_map(self, side: str, steps: Any) -> TensorMapDescriptor:
        """Tensor map of an operand's scales, of so many steps of tiles: a box is a step's."""
        chunks, row = self.chunks(side), CHUNK_BYTES // _MAP_BYTES
        return TensorMapDescriptor(
            f"{side}_scales", _MAP_WORD, (steps * chunks, row), (chunks, row), _ROW_BYTES
        )


def shared_bytes_along(mma: Mma, k: int) -> int:
    """Bytes along K in shared memory: 4-bit floats are two to a byte, or have one of their own."""
    return k * 256 // mma.k // 8


def is_packed(mma: Mma, side: str) -> bool:
    """Whether an operand's elements lie in shared memory as they do in no array."""
    return dtype_bits(mma.a if side == "lhs" else mma.b) < 8


def plan_scaled_warpgroup(
    shape: MatmulShape, target: Target, config: WarpgroupConfig
) -> ScaledWarpgroupPlan:
    """Derive the tiles of a product of blocks with scales, and check them against the chip.

    Args:
        shape: its k are elements; those of ``config.pad`` are packed first, and lie along k then.
        target: the chip.
        config: the numbers.

    Raises:
        ScheduleError: for what the chip, the instruction or shared memory cannot have.
    """
    kind = config.mma_kind
    chip, mma = gpu_chip(target), mma_kind(kind)
    where = f"matmul by {kind}"
    if mma.kind != "scaled_tensor_memory" or not mma.on(chip.name):
        raise ScheduleError(f"{where}: {chip.name} has no such instruction with scales")
    if unpacked := [side for side in SIDES if is_packed(mma, side) and side not in config.pad]:
        raise ScheduleError(
            f"{where}: pad is {list(config.pad)}; {unpacked[0]} is below 8 bits, and packed first"
        )
    n, k, groups = shape.n, shape.k, shape.groups
    if n is None or k is None or groups is None:
        raise ScheduleError(f"{where}: it takes matrices of fixed extents, but for rows")
    if min(config.tiles, config.stages - 1) < 1:
        raise ScheduleError(
            f"{where}: {config.tiles} tiles, {config.stages} stages; expected 1 and 2 or more"
        )
    depth = shared_bytes_along(mma, k)
    pitches = dict.fromkeys(config.pad, -(-depth // _ROW_BYTES) * _ROW_BYTES)
    shape = replace(
        shape,
        k=depth,
        lhs_order=(0, 1) if "lhs" in config.pad else shape.lhs_order,
        rhs_order=(1, 0) if "rhs" in config.pad else shape.rhs_order,
        memory={**(shape.memory or {}), **dict.fromkeys(config.pad, BYTES)},
        pitches=pitches,
        prologues=None,
    )
    majors = {"lhs": shape.lhs_order == (0, 1), "rhs": shape.rhs_order == (1, 0)}
    shared, tile = slot_tiles(mma, config, majors)
    extents = (GUESSED_ROWS if shape.m is None else shape.m, n, depth)
    plan = ScaledWarpgroupPlan(
        shape, config, mma, groups, extents, tile, shared, chip.shared_memory_bytes
    )
    check_limits(plan, chip, where)
    return plan
