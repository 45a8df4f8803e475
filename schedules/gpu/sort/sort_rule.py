"""The GPU rule for sort.

network   lines that fit shared memory, several a workgroup
radix     longer ones by a plain comparison: by digits, see :mod:`.radix_kernels`
merge     the others: tiles are sorted there, then merged two by two; payload moves once, at last
"""

import math

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import PLACE_BYTES, compared
from tvm_iree_ext.schedules.gpu.ordering.sort_tile_rule import (
    SortTileConfig,
    TileRule,
    check_places,
    sort_lanes,
    tile_elements,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import power_of_two
from tvm_iree_ext.schedules.gpu.sort.radix_kernels import radix_kernel
from tvm_iree_ext.schedules.gpu.sort.radix_tile import RadixShape, column_types, shared_bytes
from tvm_iree_ext.schedules.gpu.sort.sort_kernels import sort_kernel
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_RADIX_LENGTH = 64  # of a line, for each byte of a key: shorter ones take a network
_MOST_SUBGROUPS = 16
_ITEMS = 8  # of a lane, at least
_MOST_ITEMS = 32
_MOST_ELEMENTS = 8192  # of a tile: a digit's run has 32 on average, four sectors of 4-byte keys
_LEAST_ELEMENTS = 1024
_TILE_BYTES = 32 << 10
_WORKGROUPS_PER_CORE = 2


class GpuSort(TileRule):
    """Sort on GPUs."""

    name = "gpu.sort"
    lowers = Sort

    def heuristic(self, op: Sort, target: Target) -> LoweringConfig:
        """A network for short lines, several of them where there are; else digits or merges."""
        most = tile_elements(_bytes(op), target)
        length = op.shape[op.dimension]
        if op.order is not None:
            least = _RADIX_LENGTH * item_bytes(op.dtypes[op.order.operand])
            if not isinstance(length, int) or length > least:
                return _radix_tile(op, target)
        others = [e for at, e in enumerate(op.shape) if at != op.dimension and isinstance(e, int)]
        if isinstance(length, int) and length <= most:
            return sort_lanes("network", length, math.prod(others), most, target)
        return sort_lanes("merge", most, 1, most, target)

    def lower(self, op: Sort, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        if config.algorithm == "radix":
            radix = _radix_shape(op, self.shape(op, target, check))
            sharing = _WORKGROUPS_PER_CORE * gpu_chip(target).usual_cores
            return ir.IRModule({op.entry: radix_kernel(op, radix, target.kind.name, sharing)})
        shape = self.shape(op, target, check)
        return ir.IRModule({op.entry: sort_kernel(op, shape, config.algorithm)})

    def shape(self, op: Sort, target: Target, check: ConfigCheck) -> SortShape:
        """The tiles of a config."""
        config = SortTileConfig.parse(check, "network", "radix", "merge")
        length = op.shape[op.dimension]
        check_places(check, length if isinstance(length, int) else None)
        if config.algorithm == "radix":
            return self._radix(op, target, check, config)
        if config.algorithm == "merge":
            return config.shape(check, target, _bytes(op), None)
        check.need(isinstance(length, int), "'network' needs a static length")
        assert isinstance(length, int)
        return config.shape(check, target, _bytes(op), length)

    def _radix(
        self, op: Sort, target: Target, check: ConfigCheck, config: SortTileConfig
    ) -> SortShape:
        check.need(op.order is not None, "'radix' needs a plain comparison")
        shape = config.shape(check, target, _moved_bytes(op), None)
        items = shape.elements / shape.lanes
        what = f"each of {shape.lanes} lanes has {items:g} of {shape.elements} elements"
        check.need(1 <= items <= _MOST_ITEMS, f"{what}; expected 1 to {_MOST_ITEMS}")
        lanes = f"{shape.lanes} lanes are no power of two"
        check.need(power_of_two(shape.lanes) == shape.lanes, lanes)
        taken = shared_bytes(op, shape.elements, shape)
        most = gpu_chip(target).declared_shared_memory_bytes
        check.need(taken <= most, f"tile and counters are {taken} bytes; there are {most}")
        return shape


def _radix_tile(op: Sort, target: Target) -> LoweringConfig:
    """Tiles as large as memory allows, for runs to be long; smaller ones where they are few."""
    length, size, item = op.shape[op.dimension], subgroup_size(target), _moved_bytes(op)
    elements = _MOST_ELEMENTS
    while elements * item > _TILE_BYTES:
        elements //= 2
    if isinstance(length, int) and length <= elements:
        elements = power_of_two(length)
    elif all(isinstance(extent, int) for extent in op.shape):
        total = math.prod(extent for extent in op.shape if isinstance(extent, int))
        few = _WORKGROUPS_PER_CORE * gpu_chip(target).usual_cores
        while elements > _LEAST_ELEMENTS and total < few * elements:
            elements //= 2
    lanes = max(size, min(_MOST_SUBGROUPS * size, elements // _ITEMS))
    most = gpu_chip(target).declared_shared_memory_bytes
    while shared_bytes(op, elements, WorkgroupShape(lanes // size, size)) > most:
        lanes //= 2
    return SortTileConfig("radix", lanes=lanes, elements=elements).lowering()


def _radix_shape(op: Sort, shape: SortShape) -> RadixShape:
    """Of lines that fit a tile no lane has more than it takes."""
    length, items = op.shape[op.dimension], shape.elements // shape.lanes
    if isinstance(length, int):
        items = min(items, max(1, -(-length // shape.lanes)))
    return RadixShape(shape.subgroups, shape.size, items)


def _bytes(op: Sort) -> int:
    """Bytes of shared memory for an element."""
    return PLACE_BYTES + sum(item_bytes(op.dtypes[at]) for at in compared(op.region))


def _moved_bytes(op: Sort) -> int:
    """Bytes of an element that is sorted by digits."""
    return sum(map(item_bytes, column_types(op)))
