"""Config of the CPU rule for exp_reduction."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class ExpReductionConfig(RuleConfig):
    """Tiles of a task and of registers; ``splits`` are parts of the keys.

    Attributes:
        rows, columns: of a task, in tiles of keys and in loops over single outputs.
        keys: of a tile, in vectors.
        rows_at_once, vectors: accumulators of a product of weights and columns.
    """

    rows: int = number("workgroup_tile.m")
    columns: int = number("workgroup_tile.columns")
    keys: int = number("reduction_tile.k")
    rows_at_once: int = number("register_tile.m")
    vectors: int = number("register_tile.n")
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
