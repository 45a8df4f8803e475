"""The GPU rule for top-k: see :mod:`.topk_kernels`."""

import math

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import PLACE_BYTES
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import (
    SortTileConfig,
    TileRule,
    check_places,
    sort_lanes,
    tile_elements,
)
from tvm_iree_ext.schedules.gpu.topk.topk_kernels import topk_kernel

_LEAST_SHRINKING = 4  # of a line, in a round that leaves the best of each tile


class GpuTopk(TileRule):
    """Top-k on GPUs, in both of the dialect's forms."""

    name = "gpu.topk"
    lowers = Topk

    def heuristic(self, op: Topk, target: Target) -> LoweringConfig:
        """One tile for short lines, rounds of tiles for few of many, else a sort."""
        most = tile_elements(_bytes(op), target)
        length = _length(op)
        lines = math.prod(
            e for at, e in enumerate(op.types["values"].shape)
            if at != op.dimension and isinstance(e, int)
        )  # fmt: skip
        if length is not None and length <= most:
            return sort_lanes("network", length, lines, most, target)
        few = isinstance(op.k, int) and op.k * _LEAST_SHRINKING <= most
        if length is not None and few:
            return sort_lanes("tiles", most, 1, most, target)
        return sort_lanes("merge", most, 1, most, target)

    def lower(self, op: Topk, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self.shape(op, target, self.check(config))
        return ir.IRModule({op.entry: topk_kernel(op, config.algorithm, shape)})

    def shape(self, op: Topk, target: Target, check: ConfigCheck) -> SortShape:
        """The tiles of a config."""
        config = SortTileConfig.parse(check, "network", "tiles", "merge")
        algorithm = config.algorithm
        length = _length(op)
        check_places(check, length)
        check.need(
            algorithm == "merge" or length is not None,
            f"{algorithm!r} needs extents that are known when the kernel is built",
        )
        reach = length if algorithm == "network" else None
        shape = config.shape(check, target, _bytes(op), reach)
        if algorithm == "tiles":
            assert isinstance(op.k, int)
            fits = 2 * op.k <= shape.elements
            check.need(fits, f"tiles of {shape.elements} leave too many of {op.k} each")
        return shape


def _length(op: Topk) -> int | None:
    """Length of a line with its inits, where it is known."""
    sizes = [extent for extent in (op.k, op.candidates) if isinstance(extent, int)]
    return sum(sizes) if len(sizes) == 2 else None


def _bytes(op: Topk) -> int:
    """Bytes of shared memory for a candidate."""
    index = item_bytes(op.index_dtype) if op.has_output_indices else 0
    return PLACE_BYTES + item_bytes(op.types["values"].dtype) + index
