"""Config of the CPU rules for butterfly stages and whole transforms."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class FftStageConfig(RuleConfig):
    """The vectors of one butterfly stage."""

    lanes: int = number("vector_lanes", least=2, power_of_two=True)
    parallel: bool = flag("parallel")


@dataclass(frozen=True)
class FftTransformConfig(RuleConfig):
    """How a transform is cut up.

    Attributes:
        radix: the largest, of a power of two.
        columns: their length in a row whose parts go to vectors.
        rows: of a task.
    """

    radix: int = number("register_tile.radix", least=2, power_of_two=True)
    columns: int = number("register_tile.columns", least=0, forms=("row",))
    rows: int = number("workgroup_tile.rows", least=0, forms=("row", "lanes"))
    lanes: int = number("vector_lanes", least=2, power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
