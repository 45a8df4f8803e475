"""Config of the CPU rule for top-k."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number

MOST_ROWS = 64  # beyond, they are in memory more than in registers


@dataclass(frozen=True)
class TopkConfig(RuleConfig):
    """Blocks that are looked at together, and what each way of keeping candidates reads.

    Attributes:
        vectors: of a block.
        rows: the vectors that are sorted at once.
        candidates, columns: of a tile of strewn lines, which are called columns there.
    """

    vectors: int = number("register_tile.vectors", 64)
    digit_bits: int = number("register_tile.digit_bits", 16, forms=("select",))
    rows: int = number("register_tile.rows", MOST_ROWS, forms=("batches",))
    candidates: int = number("workgroup_tile.candidates", forms=("ordered", "heap"))
    columns: int = number("workgroup_tile.columns", least=0, forms=("ordered", "heap"))
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
