"""Products of blocks with scales in tensor memory; see :mod:`.warpgroup_scaled_plan`.

The kernel is that of :mod:`.warpgroup_tensor_memory`, and beside it

    a lane copies       the scales of a step, behind its tiles
    a lane multiplies   copies the scales to tensor memory first.  What a lane copies there and
                        multiplies is done in its order: one place is enough for all steps
"""

from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, tcgen05
from tvm_iree_ext.schedules.gpu.products.block_operands import BlockOperands
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_scaled_plan import ScaledWarpgroupPlan
from tvm_iree_ext.schedules.gpu.products.warpgroup_tensor_memory import TensorMemorySums

_UNIT = 16  # bytes, in which descriptors count


def scaled_warpgroup_matmul(
    plan: ScaledWarpgroupPlan, operands: Any, scales: dict[str, str], target: Target
) -> tirx.PrimFunc:
    """The func of a product; ``scales`` names the operands with those of ``lhs`` and ``rhs``."""
    return _ScaledSums(plan, BlockOperands(operands, plan, scales)).func(target)


class _ScaledSums(TensorMemorySums):
    plan: ScaledWarpgroupPlan
    operands: BlockOperands

    def _prepare_operands(self, target: Target) -> None:
        self.operands.emit_kernel()

    def _make_maps(self) -> None:
        super()._make_maps()
        self.scale_maps = {}
        for side in SIDES:
            tiles = self.operands.tiles(side)
            if not isinstance(tiles, int):  # a tensor map has rows
                tiles = tirx.max(tiles, 1)
            described = self.plan.scales_map(side, tiles * self.plan.steps)
            self.scale_maps[side] = described.encode(self.operands.arranged[side].data)

    def _copy_tile(self, side: str, row: Any, column: Any, step: Any, slot: Any) -> None:
        super()._copy_tile(side, row, column, step, slot)
        tile = (row if side == "lhs" else column) // self.plan.extent(side)
        if self.plan.groups > 1:
            count = self._row_tiles() if side == "lhs" else self.plan.grid[1]
            tile = self.group * count + tile
        first = (tile * self.plan.steps + step) * self.plan.chunks(side)
        address = self._address(slot * self.stride + self.plan.scales_offset(side))
        mbarrier.copy_box(address, self.scale_maps[side], [first, 0], self._full(slot))

    def _describe(self) -> None:
        super()._describe()
        words = I.alloc_buffer((1,), "uint64", scope="local")
        first = self._address(self.plan.scales_offset("lhs"))
        tcgen05.encode_chunk_descriptor(words, first)
        self.first_chunk = words[0]

    def _scales(self, side: str, number: int) -> Any:
        """The address of a chunk's first column."""
        return self.columns + tirx.const(self.plan.scales_column(side, number), "uint32")

    def _multiply_step(self, slot: Any, half: Any, step: Any) -> None:
        begin = self.plan.scales_offset("lhs")
        for side in SIDES:
            for number in range(self.plan.chunks(side)):
                place = self.plan.scales_offset(side) - begin + number * tcgen05.CHUNK_BYTES
                units = tirx.Cast("uint64", (slot * self.stride + place) // _UNIT)
                tcgen05.copy_scales(self._scales(side, number), self.first_chunk + units)
        super()._multiply_step(slot, half, step)

    def _multiply_part(self, sums: Any, tiles: list[Any], more: Any, down: int, part: int) -> None:
        word, first = self.plan.place(part)
        numbers = {
            "lhs": word * self.plan.blocks("lhs") + down,
            "rhs": word * self.plan.blocks("rhs"),
        }
        scales = (self._scales("lhs", numbers["lhs"]), self._scales("rhs", numbers["rhs"]))
        lhs, rhs = tiles
        kind = tcgen05.scaled_descriptor(self.mma, **self._majors, first=first)
        tcgen05.multiply_scaled(self.mma, sums, lhs, rhs, kind, scales, more)
