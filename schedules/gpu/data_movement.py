"""Ops that move elements, on a GPU: every element of the result by one lane.

    before:  for i, j: result[i, j] = input[f(i, j)]
    after:   for workgroup in blockIdx: for subgroup in threadIdx.y: for lane in threadIdx.x:
                 for several, a workgroup's lanes apart: if inside: result[i, j] = input[f(i, j)]

Neighbouring lanes write neighbouring elements of the result, or runs of up to 16 bytes where the
op reads what it writes in the same order.  A function of several blocks is as many kernels.
"""

from collections.abc import Sequence
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.elementwise import elementwise_layout
from tvm_iree_ext.schedules.gpu.rule import GpuRule
from tvm_iree_ext.schedules.layouts import distribute, vector_elements

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.distribution import Distribution
from tvm_iree_ext.ops.pack import Packing
from tvm_iree_ext.ops.to_layout import ToLayout
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_WIDEST_BYTES = 16


class GpuDataMovement(GpuRule):
    """Pack, unpack, to_layout, to_simt and to_simd on GPUs."""

    name = "gpu.data_movement"
    lowers = (Packing, ToLayout, Distribution)

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """Four subgroups; wide accesses where the op is a plain copy."""
        result = op.signature.results[0]
        last = result.shape[-1] if isinstance(op, ToLayout) and result.shape else 1
        run = vector_elements(8 * item_bytes(result.dtype), last) if isinstance(last, int) else 1
        return LoweringConfig(
            algorithm="elementwise",
            workgroup_tile={"lanes": _SUBGROUPS * subgroup_size(target)},
            vector_lanes=run,
        )

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check, size = self.check(config), subgroup_size(target)
        check.algorithm("elementwise")
        lanes = check.tile("workgroup_tile", "lanes", gpu_chip(target).max_lanes)
        check.expect(lanes % size == 0, "workgroup_tile['lanes']", lanes, f"a multiple of {size}")
        item = item_bytes(op.signature.results[0].dtype)
        run = check.lanes(most=_WIDEST_BYTES // item)
        sch = s_tir.Schedule(op.prim_func())
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            loops = _fused(sch, sch.get_loops(block))
            extents = [_number(sch.get(loop).extent) for loop in loops]
            layout = elementwise_layout(extents, 8 * item, target, lanes // size, run=run)
            distribute(sch, block, layout, lanes // size, size, loops=loops, vector=run)
        return ir.IRModule({op.entry: sch.mod["main"]})


def _fused(sch: s_tir.Schedule, loops: Sequence[Any]) -> list[Any]:
    """At most three loops: of the last two that count, and of all before them as one.

    A layout of many dims would be sought among very many.
    """
    counting = [at for at, loop in enumerate(loops) if _number(sch.get(loop).extent) != 1]
    starts = sorted({0, *counting[-2:]})
    ends = [*starts[1:], len(loops)]
    return [sch.fuse(*loops[start:end]) for start, end in zip(starts, ends, strict=True)]


def _number(extent: Any) -> Any:
    return int(extent) if isinstance(extent, tirx.IntImm) else extent
