"""Config of the CPU rule for scans."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number


@dataclass(frozen=True)
class ScanConfig(RuleConfig):
    """Config of each form.

    Attributes:
        columns: of a tile of neighbouring lines.
        length: of a line's chunks, whole blocks of ``vectors``, where several tasks share it.
        streaming: whether outputs are stored non-temporally.
        fetch_ahead: whether rows that come later are fetched meanwhile.
    """

    columns: int = number("workgroup_tile.columns", forms=("columns",))
    length: int = number("workgroup_tile.length", least=0, forms=("prefix",))
    vectors: int = number("register_tile.vectors", forms=("prefix",))
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")
    streaming: bool = flag("streaming")
    fetch_ahead: bool = flag("stages", 1, 2)
