"""Config of the CPU rule for pack and unpack."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class PackConfig(RuleConfig):
    """Work of one task.

    Attributes:
        run: positions of a dim that both operands walk without tiles.
        tiles: along the last unpacked dim.
        streaming: whether results are stored non-temporally.
        fetch_ahead: whether the next tiles are fetched meanwhile.
    """

    run: int = number("workgroup_tile.run")
    tiles: int = number("workgroup_tile.tiles")
    lanes: int = number("vector_lanes", power_of_two=True)
    parallel: bool = flag("parallel")
    streaming: bool = flag("streaming")
    fetch_ahead: bool = flag("stages", 1, 2)
