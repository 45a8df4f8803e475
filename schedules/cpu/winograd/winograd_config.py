"""Config of the CPU rule for the Winograd transforms."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class WinogradConfig(RuleConfig):
    """Work of a task: input channels of a filter, or tiles of a row; channels of a vector."""

    channels: int = number("workgroup_tile.channels", least=0)
    tiles: int = number("workgroup_tile.tiles", least=0)
    lanes: int = number("vector_lanes", 16, power_of_two=True)
    parallel: bool = flag("parallel")
