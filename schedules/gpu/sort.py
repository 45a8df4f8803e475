"""The GPU rule for sort.

network   lines that fit shared memory, several a workgroup
merge     longer ones: tiles are sorted there, then merged two by two; payload moves once, at last
"""

import math

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.gpu.rule import GpuRule
from tvm_iree_ext.schedules.gpu.sort_merge import merge_kernel
from tvm_iree_ext.schedules.gpu.sort_network import SortShape, network_kernel
from tvm_iree_ext.schedules.gpu.sort_tile import PLACE_BYTES, compared
from tvm_iree_ext.schedules.rule import ConfigCheck
from tvm_iree_ext.schedules.space import Choice, Space, form, powers_of_two, refusal

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.sort import Sort
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size

_LANES = 256
_MOST_ELEMENTS = 2048  # of a tile: two workgroups and more of them fit a core
_LEAST_ELEMENTS = 64
_DECLARED_BYTES = 48 << 10  # of shared memory; NVIDIA's launches must ask for more
_PAIRS = 4  # that a lane exchanges in each step of a network


class GpuSort(GpuRule):
    """Sort on GPUs."""

    name = "gpu.sort"
    lowers = Sort

    def heuristic(self, op: Sort, target: Target) -> LoweringConfig:
        """Tiles that leave room for several workgroups; fewer lanes where there is less to do."""
        size = subgroup_size(target)
        most = self._most_elements(op, target)
        length = op.shape[op.dimension]
        if isinstance(length, int) and length <= most:
            reach = max(_power_of_two(length), 2)
            others = math.prod(e for at, e in enumerate(op.shape) if at != op.dimension
                               and isinstance(e, int))  # fmt: skip
            dynamic = any(isinstance(e, str) for e in op.shape)
            wanted = max(reach, min(most, 2 * _PAIRS * size))
            elements = wanted if dynamic else min(wanted, reach * _power_of_two(others))
            elements = max(elements, reach)
            return self._config("network", elements, size)
        return self._config("merge", most, size)

    @staticmethod
    def _config(algorithm: str, elements: int, size: int) -> LoweringConfig:
        lanes = min(_LANES, max(size, elements // (2 * _PAIRS)))
        return LoweringConfig(
            algorithm=algorithm, workgroup_tile={"elements": elements, "lanes": lanes}
        )

    @staticmethod
    def _most_elements(op: Sort, target: Target) -> int:
        """A power of two that takes no more than half a workgroup's shared memory."""
        each = _bytes(op)
        elements = _MOST_ELEMENTS
        while elements * each * 2 > gpu_chip(target).shared_memory_bytes:
            elements //= 2
        return elements

    def space(self, op: Sort, target: Target) -> Space:
        """The tile and the lanes that share it."""
        usual = self.heuristic(op, target)
        elements = powers_of_two(_LEAST_ELEMENTS, 2 * _MOST_ELEMENTS)
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        choices = (
            Choice("workgroup_tile.elements", elements),
            Choice("workgroup_tile.lanes", lanes),
        )
        forms = [form(usual, *choices)]

        def refused(config: LoweringConfig) -> str | None:
            return refusal(lambda: self._shape(op, target, self.check(config)))

        return Space.of(usual, forms, refused)

    def lower(self, op: Sort, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self._shape(op, target, self.check(config))
        kernel = network_kernel if config.algorithm == "network" else merge_kernel
        return ir.IRModule({op.entry: kernel(op, shape)})

    def _shape(self, op: Sort, target: Target, check: ConfigCheck) -> SortShape:
        algorithm = check.algorithm("network", "merge")
        chip, size = gpu_chip(target), subgroup_size(target)
        elements = check.power_of_two(
            "workgroup_tile['elements']", check.tile("workgroup_tile", "elements"), 2
        )
        lanes = check.tile("workgroup_tile", "lanes", chip.max_lanes)
        check.expect(lanes % size == 0, "workgroup_tile['lanes']", lanes, f"a multiple of {size}")
        taken = elements * _bytes(op)
        most = min(chip.shared_memory_bytes, _DECLARED_BYTES)
        check.need(taken <= most, f"{elements} elements are {taken} bytes; there are {most}")
        length = op.shape[op.dimension]
        if algorithm == "merge":
            return SortShape(lanes // size, size, elements, elements)
        check.need(isinstance(length, int), "'network' needs a static length")
        assert isinstance(length, int)
        reach = max(_power_of_two(length), 2)
        check.need(reach <= elements, f"a line of {length} elements does not fit {elements}")
        return SortShape(lanes // size, size, elements, reach)


def _bytes(op: Sort) -> int:
    """Of shared memory, for an element."""
    return PLACE_BYTES + sum(item_bytes(op.dtypes[at]) for at in compared(op.region))


def _power_of_two(size: int) -> int:
    """The smallest that is not below ``size``."""
    return 1 << max(0, size - 1).bit_length()
