"""Config of the CPU rule for arg_compare."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class ArgCompareConfig(RuleConfig):
    """Columns of a tile and rows that are read together; vectors that walk along a line."""

    columns: int = number("workgroup_tile.columns", forms=("columns",))
    rows: int = number("register_tile.rows", forms=("columns",))
    vectors: int = number("register_tile.vectors", forms=("tree",))
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
    fetch_ahead: bool = flag("stages", 1, 2)
