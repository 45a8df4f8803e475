"""Config of the CPU rule for convolutions."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.products.register_tiles import RegisterTile


@dataclass(frozen=True)
class ConvConfig(RuleConfig):
    """A task's block of pixels, or tiles of Winograd; register tiles; parts of the filters.

    Attributes:
        columns: of the block; it has lines so that there are ``pixels`` in all.
        depth: products that are packed at once, where windows are.
        rows, vectors: of a register tile.
    """

    pixels: int = number("workgroup_tile.pixels")
    columns: int = number("workgroup_tile.columns")
    depth: int = number("reduction_tile.k", least=0)
    rows: int = number("register_tile.rows")
    vectors: int = number("register_tile.vectors")
    lanes: int = number("vector_lanes", power_of_two=True)
    splits: int = number("splits")
    parallel: bool = flag("parallel")

    @property
    def tile(self) -> RegisterTile:
        """Rows times vectors of sums."""
        return RegisterTile(self.rows, self.vectors, self.lanes)
