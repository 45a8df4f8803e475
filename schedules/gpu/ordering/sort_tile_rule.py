"""The base of GPU rules that sort: tiles of elements in shared memory, and their sizes."""

from dataclasses import dataclass
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.ordering.sort_network import SortShape
from tvm_iree_ext.schedules.gpu.ordering.sort_tile import NO_PLACE
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import power_of_two
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_LANES = 256
_MOST_ELEMENTS = 2048  # of a tile: two workgroups and more of them fit a core
_LEAST_ELEMENTS = 64
_PAIRS = 4  # that a lane exchanges in each step of a network


@dataclass(frozen=True)
class SortTileConfig(LaneConfig):
    """Elements of a tile in shared memory, and the lanes that share it."""

    elements: int = number("workgroup_tile.elements", least=2, power_of_two=True)

    def shape(
        self, check: ConfigCheck, target: Target, element_bytes: int, length: int | None
    ) -> SortShape:
        """The tile of a workgroup; with a ``length``, whole lines are in it.

        Raises:
            ScheduleError: for a config that does not fit, saying which number.
        """
        chip, elements = gpu_chip(target), self.elements
        workgroup = self.workgroup(check, target)
        taken, most = elements * element_bytes, chip.declared_shared_memory_bytes
        check.need(taken <= most, f"{elements} elements are {taken} bytes; there are {most}")
        if length is None:
            return SortShape(workgroup.subgroups, workgroup.size, elements, elements)
        reach = max(power_of_two(length), 2)
        check.need(reach <= elements, f"a line of {length} elements does not fit {elements}")
        return SortShape(workgroup.subgroups, workgroup.size, elements, reach)


class TileRule(GpuRule):
    """A rule for an op whose lines are sorted by tiles."""

    def shape(self, op: Any, target: Target, check: ConfigCheck) -> SortShape:
        """The tiles of a config; each rule has its own.

        Raises:
            ScheduleError: for a config that does not fit, saying which number.
        """
        raise NotImplementedError

    def space(self, op: Any, target: Target) -> TuningSpace:
        """Tiles and the lanes that share them."""
        usual = self.heuristic(op, target)
        elements = powers_of_two(_LEAST_ELEMENTS, 2 * _MOST_ELEMENTS)
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        choices = (
            SortTileConfig.choice("elements", elements),
            SortTileConfig.choice("lanes", lanes),
        )

        def accept(config: LoweringConfig) -> str | None:
            return refusal(lambda: self.shape(op, target, self.check(config)))

        return TuningSpace.of(usual, [form(usual, *choices)], accept)


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
    return SortTileConfig(algorithm, lanes=lanes, elements=elements).lowering()


def check_places(check: ConfigCheck, length: int | None) -> None:
    """Raise ScheduleError for a line that is too long for the numbers of its places."""
    check.expect(length is None or length < NO_PLACE, "length", length, f"less than {NO_PLACE}")
