"""The GPU rule for top-k: see :mod:`.topk_kernels`."""

import math

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import PLACE_BYTES
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import (
    TileRule,
    check_places,
    sort_lanes,
    tile_elements,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import power_of_two
from tvm_iree_ext.schedules.gpu.topk.topk_kernels import TopkTileConfig, topk_kernel
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_LISTED = 8  # places in a list for each that is kept, while it has room
_LEAST_LISTED = 128
_LEAST_KEPT_PLACES = 2
_LEAST_LISTS = 4  # that a part of a line has elements for; of shorter lines all is sorted at once
_MOST_LANES = 256
_WORKGROUPS_PER_CORE = 4
_ASSUMED_LENGTH = 1 << 20  # of a line whose length is known at the call only


class GpuTopk(TileRule):
    """Top-k on GPUs, in both of the dialect's forms."""

    name = "gpu.topk"
    lowers = Topk

    def heuristic(self, op: Topk, target: Target) -> LoweringConfig:
        """One tile for short lines, a filter where few of many are kept, else a sort."""
        most = tile_elements(_bytes(op), target)
        length = _length(op)
        lines = math.prod(
            e for at, e in enumerate(op.types["values"].shape)
            if at != op.dimension and isinstance(e, int)
        )  # fmt: skip
        if isinstance(op.k, int) and op.k * _LEAST_KEPT_PLACES <= most:
            listed = power_of_two(max(_LEAST_LISTED, _LISTED * op.k))
            listed = max(min(listed, most), power_of_two(_LEAST_KEPT_PLACES * op.k))
            if length is None or length >= _LEAST_LISTS * listed:
                lanes = max(subgroup_size(target), min(_MOST_LANES, listed // 2))
                wanted = _WORKGROUPS_PER_CORE * gpu_chip(target).usual_cores
                parts = (length or _ASSUMED_LENGTH) // (_LEAST_LISTS * listed)
                splits = max(1, min(parts, -(-wanted // max(lines, 1))))
                return TopkTileConfig(
                    "filter", lanes=lanes, elements=listed, splits=splits
                ).lowering()
        if length is not None and length <= most:
            return sort_lanes("network", length, lines, most, target)
        return sort_lanes("merge", most, 1, most, target)

    def lower(self, op: Topk, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        shape, typed = self.shape(op, target, check), _typed(check)
        return ir.IRModule({op.entry: topk_kernel(op, typed, shape, target.kind.name)})

    def shape(self, op: Topk, target: Target, check: ConfigCheck) -> SortShape:
        """The tiles of a config."""
        config, length = _typed(check), _length(op)
        algorithm = config.algorithm
        check_places(check, length)
        needed = {"network": length, "filter": op.k, "merge": 0}[algorithm]
        check.need(
            isinstance(needed, int),
            f"{algorithm!r} needs extents that are known when the kernel is built",
        )
        reach = length if algorithm == "network" else None
        shape = config.shape(check, target, _bytes(op), reach)
        if algorithm == "filter":
            assert isinstance(op.k, int)
            most = min(shape.elements // _LEAST_KEPT_PLACES, shape.elements - shape.lanes)
            fits = op.k <= most
            check.need(fits, f"lists of {shape.elements} for {shape.lanes} lanes keep up to {most}")
        return shape


def _typed(check: ConfigCheck) -> TopkTileConfig:
    return TopkTileConfig.parse(check, "network", "filter", "merge")


def _length(op: Topk) -> int | None:
    """Length of a line with its inits, where it is known."""
    sizes = [extent for extent in (op.k, op.candidates) if isinstance(extent, int)]
    return sum(sizes) if len(sizes) == 2 else None


def _bytes(op: Topk) -> int:
    """Bytes of shared memory for a candidate."""
    index = item_bytes(op.index_dtype) if op.has_output_indices else 0
    return PLACE_BYTES + item_bytes(op.types["values"].dtype) + index
