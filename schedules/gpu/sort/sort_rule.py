"""The GPU rule for sort.

network   lines that fit shared memory, several a workgroup
merge     longer ones: tiles are sorted there, then merged two by two; payload moves once, at last
"""

import math

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import PLACE_BYTES, compared
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import (
    SortTileConfig,
    TileRule,
    check_places,
    sort_lanes,
    tile_elements,
)
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import sort_kernel


class GpuSort(TileRule):
    """Sort on GPUs."""

    name = "gpu.sort"
    lowers = Sort

    def heuristic(self, op: Sort, target: Target) -> LoweringConfig:
        """One tile for short lines, several of them where there are; else merges of tiles."""
        most = tile_elements(_bytes(op), target)
        length = op.shape[op.dimension]
        others = [e for at, e in enumerate(op.shape) if at != op.dimension and isinstance(e, int)]
        if isinstance(length, int) and length <= most:
            return sort_lanes("network", length, math.prod(others), most, target)
        return sort_lanes("merge", most, 1, most, target)

    def lower(self, op: Sort, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self.shape(op, target, self.check(config))
        return ir.IRModule({op.entry: sort_kernel(op, shape, config.algorithm)})

    def shape(self, op: Sort, target: Target, check: ConfigCheck) -> SortShape:
        """The tiles of a config."""
        config = SortTileConfig.parse(check, "network", "merge")
        length = op.shape[op.dimension]
        check_places(check, length if isinstance(length, int) else None)
        if config.algorithm == "merge":
            return config.shape(check, target, _bytes(op), None)
        check.need(isinstance(length, int), "'network' needs a static length")
        assert isinstance(length, int)
        return config.shape(check, target, _bytes(op), length)


def _bytes(op: Sort) -> int:
    """Bytes of shared memory for an element."""
    return PLACE_BYTES + sum(item_bytes(op.dtypes[at]) for at in compared(op.region))
