"""The plan of a tiled product: what follows from the layouts of its instruction.

Which subgroup has which rows and columns, how the tiles lie in shared memory, and how much is
accessed at once.
"""

from dataclasses import dataclass
from math import prod

from tvm import DataType

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig
from tvm_iree_ext.schedules.gpu.sblocks.copies import (
    ChosenPlacement,
    copy_layout,
    transposing_layout,
)
from tvm_iree_ext.targets.gpu import GpuChip
from tvm_iree_ext.targets.mma.contraction_layouts import ContractionLayouts
from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits


@dataclass(frozen=True)
class MatmulPlan:
    """A tiled product's layouts, placements and accesses.

    Attributes:
        tile: rows, columns and depth of a workgroup's tile.
        layouts: of the operands, with their dims as they lie in memory.
        placements: of the operands' tiles in shared memory.
        runs: elements that a lane accesses at once in ``lhs``, ``rhs`` and ``result``.
        ldmatrix: the operands that are loaded by it.
        orders: of the dims of ``lhs`` and ``rhs`` where they are multiplied from; where one is not
            that of global memory, the copy transposes.
        interleave: columns that lie side by side in memory and belong to as many instructions, the
            same lane's: it reads them at once where ``rhs`` is in registers.
    """

    shape: MatmulShape
    config: MatmulConfig
    mma: Mma
    chip: GpuChip
    tile: Ints
    layouts: ContractionLayouts
    placements: dict[str, ChosenPlacement]
    runs: dict[str, int]
    ldmatrix: frozenset[str]
    orders: dict[str, Ints]
    interleave: int = 1

    @property
    def direct(self) -> frozenset[str]:
        """The operands whose tiles are in registers alone."""
        return frozenset(SIDES).difference(self.config.promote)

    @property
    def asynchronous(self) -> bool:
        """Whether copies go past the registers, where nothing can be transposed or converted."""
        if self.direct:
            return False
        worked = any(self.transposes(side) or self.converts(side) for side in SIDES)
        return "cp.async" in self.chip.async_copy_bits and not worked

    @property
    def through_registers(self) -> frozenset[str]:
        """The operands whose tiles stop in registers on their way: to wait, or to be turned."""
        if self.config.stages > 1 and not self.asynchronous:
            return frozenset(SIDES)
        return frozenset(side for side in SIDES if self.transposes(side))

    @property
    def by_turns(self) -> bool:
        """Whether one tile is multiplied while the next one goes from registers to its place."""
        return self.config.stages > 2 and not self.asynchronous

    def converts(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.shape.converts(side)

    def transposes(self, side: str) -> bool:
        """Whether the copy of an operand's tile does."""
        return self.orders[side] != self.shape.order(side)

    @property
    def scope(self) -> str:
        """Storage scope of shared memory."""
        return "shared.dyn" if self.chip.kind == "cuda" else "shared"

    @property
    def shared_memory_bytes(self) -> int:
        """Bytes of shared memory of a workgroup."""
        return self.stages * sum(placement.bytes for placement in self.placements.values())

    @property
    def has_bank_conflicts(self) -> bool:
        """Whether shared memory takes more passes than its accesses are wide."""
        return any(placement.excess for placement in self.placements.values())

    @property
    def stages(self) -> int:
        """Tiles of an operand in shared memory at once."""
        return self.config.stages if self.asynchronous else 1 + self.by_turns

    def tile_bytes(self, side: str) -> int:
        """Bytes of an operand's tile in shared memory, without padding."""
        return prod(self.tile_shape(side)) * self.element_bytes(side)

    def row_bytes(self, side: str) -> int:
        """Bytes of a row of an operand's tile in shared memory."""
        return self.tile_shape(side, self.orders[side])[-1] * self.element_bytes(side)

    def tile_shape(self, side: str, order: Ints | None = None) -> Ints:
        """The tile of ``lhs`` or ``rhs``, by default as it lies in global memory."""
        rows, columns, depth = self.tile
        own = (rows, depth) if side == "lhs" else (depth, columns)
        return tuple(own[dim] for dim in order or self.shape.order(side))

    def element_bytes(self, side: str) -> int:
        """Bytes of an element of ``lhs`` or ``rhs``."""
        return dtype_bits(getattr(self.mma, side).dtype) // 8

    def memory_bits(self, side: str) -> int:
        """Bits of an element of ``lhs``, ``rhs`` or ``result`` in memory."""
        return DataType(self.shape.memory_dtype(side)).bits

    def shared_run(self, side: str) -> int:
        """The most elements that a lane of the copy writes to shared memory at once."""
        run = min(self.runs[side], WIDEST_ACCESS_BYTES // self.element_bytes(side))
        # CUDA has arithmetic on vectors of four elements at most.
        return min(run, 4) if self.converts(side) and self.chip.kind == "cuda" else run

    def written_run(self, side: str) -> int:
        """Elements that it writes at once where its tile lies."""
        widths = self.placements[side].widths
        narrowest = (
            widths[0] // self.element_bytes(side) if len(widths) > 1 else self.shared_run(side)
        )
        return min(self.shared_run(side), narrowest)

    def copy(self, side: str) -> NestedLayout:
        """The layout of the copy of an operand's tile, as it lies in global memory."""
        if side in self.direct:
            own: NestedLayout = getattr(self.layouts, side)
            return permute(own, (1, 0)) if self.transposes(side) else own
        make = transposing_layout if self.transposes(side) else copy_layout
        count, size = self.config.num_subgroups, self.mma.subgroup_size
        bits = self.memory_bits(side)
        return make(self.tile_shape(side), bits, count, size, run=self.runs[side])
