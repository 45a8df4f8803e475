"""The numbers of GPU attention, of both forms."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number, operands, text

ALGORITHM = "online_softmax"
WARPGROUP_ALGORITHM = "warpgroups"


@dataclass(frozen=True)
class GpuAttentionConfig(RuleConfig):
    """A workgroup's tiles, and its instruction.

    Attributes:
        rows, columns: of the result, of a workgroup.
        keys: of a step.
        subgroups: that share the rows.
        promote: ``query`` where each step reads it from shared memory; by warpgroups, all operands.
        splits: workgroups that share the keys.
        stages: tiles of keys under way, by warpgroups.
        mma_kind: of the first product.
        column_major: whether its operands are exchanged.
    """

    rows: int = number("workgroup_tile.m")
    columns: int = number("workgroup_tile.n")
    keys: int = number("reduction_tile.k2")
    subgroups: int = number("subgroups.m")
    promote: tuple[str, ...] = operands("query", "key", "value")
    splits: int = number("splits")
    stages: int = number("stages")
    mma_kind: str = text("mma_kind")
    column_major: bool = flag("column_major")
