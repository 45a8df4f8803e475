"""Config of the CPU rule for sort."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class SortConfig(RuleConfig):
    """Config of each algorithm; ``splits`` are the parts of a line.

    Attributes:
        run: the length of a merge's first runs, even.
        rows: vectors of all operands, and of their places, that are sorted in registers.
    """

    digit_bits: int = number("register_tile.digit_bits", 16, forms=("radix",))
    run: int = number("register_tile.run", 64, forms=("merge",))
    rows: int = number("register_tile.rows", 32, forms=("network", "quick"))
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
