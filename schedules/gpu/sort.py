"""The GPU rule for sort.

network   lines that fit shared memory, several a workgroup
merge     longer ones: tiles are sorted there, then merged two by two; payload moves once, at last
"""

import math
from collections.abc import Callable

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.kernels import workgroup_shape
from tvm_iree_ext.schedules.gpu.rule import GpuRule
from tvm_iree_ext.schedules.gpu.sort_merge import merge_kernel
from tvm_iree_ext.schedules.gpu.sort_network import SortShape, network_kernel
from tvm_iree_ext.schedules.gpu.sort_tile import NO_PLACE, PLACE_BYTES, compared
from tvm_iree_ext.schedules.layouts import power_of_two
from tvm_iree_ext.schedules.rule import ConfigCheck
from tvm_iree_ext.schedules.space import Choice, Space, form, powers_of_two, refusal

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.sort import Sort
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size

_LANES = 256
_MOST_ELEMENTS = 2048  # of a tile: two workgroups and more of them fit a core
_LEAST_ELEMENTS = 64
_PAIRS = 4  # that a lane exchanges in each step of a network


class GpuSort(GpuRule):
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

    def space(self, op: Sort, target: Target) -> Space:
        """The tile and the lanes that share it."""
        return tile_space(
            self.heuristic(op, target), target, lambda c: self._shape(op, target, self.check(c))
        )

    def lower(self, op: Sort, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self._shape(op, target, self.check(config))
        kernel = network_kernel if config.algorithm == "network" else merge_kernel
        return ir.IRModule({op.entry: kernel(op, shape)})

    @staticmethod
    def _shape(op: Sort, target: Target, check: ConfigCheck) -> SortShape:
        algorithm = check.algorithm("network", "merge")
        length = op.shape[op.dimension]
        check_places(check, length if isinstance(length, int) else None)
        if algorithm == "merge":
            return sort_shape(check, target, _bytes(op), None)
        check.need(isinstance(length, int), "'network' needs a static length")
        assert isinstance(length, int)
        return sort_shape(check, target, _bytes(op), length)


def _bytes(op: Sort) -> int:
    """Of shared memory, for an element."""
    return PLACE_BYTES + sum(item_bytes(op.dtypes[at]) for at in compared(op.region))


def tile_elements(element_bytes: int, target: Target) -> int:
    """Elements of a tile: a power of two that leaves room for two workgroups and more."""
    elements, chip = _MOST_ELEMENTS, gpu_chip(target)
    most = min(chip.shared_memory_bytes // 2, chip.declared_shared_memory_bytes)
    while elements * element_bytes > most:
        elements //= 2
    return elements


def sort_lanes(
    algorithm: str, length: int, lines: int, most: int, target: Target
) -> LoweringConfig:
    """The config for tiles of lines of a length: enough of them, and lanes, to fill a workgroup."""
    size, reach = subgroup_size(target), max(power_of_two(length), 2)
    filled = max(reach, min(most, 2 * _PAIRS * size))
    elements = max(reach, min(filled, reach * power_of_two(lines)))
    lanes = min(_LANES, max(size, elements // (2 * _PAIRS)))
    tile = {"elements": elements, "lanes": lanes}
    return LoweringConfig(algorithm=algorithm, workgroup_tile=tile)


def tile_space(
    usual: LoweringConfig, target: Target, shape: Callable[[LoweringConfig], SortShape]
) -> Space:
    """Tiles and the lanes that share them, of those for which ``shape`` finds nothing wrong."""
    elements = powers_of_two(_LEAST_ELEMENTS, 2 * _MOST_ELEMENTS)
    lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
    choices = (Choice("workgroup_tile.elements", elements), Choice("workgroup_tile.lanes", lanes))
    return Space.of(usual, [form(usual, *choices)], lambda config: refusal(lambda: shape(config)))


def check_places(check: ConfigCheck, length: int | None) -> None:
    """Raise ScheduleError for a line that is too long for the numbers of its places."""
    check.expect(length is None or length < NO_PLACE, "length", length, f"less than {NO_PLACE}")


def sort_shape(
    check: ConfigCheck, target: Target, element_bytes: int, length: int | None
) -> SortShape:
    """What a config says; with a ``length``, whole lines are in a tile.

    Raises:
        ScheduleError: for a config that does not fit, saying which number.
    """
    chip = gpu_chip(target)
    elements = check.tile("workgroup_tile", "elements")
    check.power_of_two("workgroup_tile['elements']", elements, 2)
    shape = workgroup_shape(check, target)
    taken, most = elements * element_bytes, chip.declared_shared_memory_bytes
    check.need(taken <= most, f"{elements} elements are {taken} bytes; there are {most}")
    if length is None:
        return SortShape(shape.subgroups, shape.size, elements, elements)
    reach = max(power_of_two(length), 2)
    check.need(reach <= elements, f"a line of {length} elements does not fit {elements}")
    return SortShape(shape.subgroups, shape.size, elements, reach)
