"""Config of the CPU rules for contractions and grouped products."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number, operands
from tvm_iree_ext.schedules.cpu.products.register_tiles import RegisterTile

PANELS = "panels"
DOTS = "dots"  # panels of words
MATRIX = "tiles"  # panels of words, multiplied by tiles of them

BLOCKED = (PANELS, DOTS, MATRIX)


@dataclass(frozen=True)
class ContractionConfig(RuleConfig):
    """Blocks of a task, in products of m x k and k x n, and what registers hold.

    Attributes:
        rows: of a register tile; in a form for few rows, lines of b side by side.
        vectors: of columns of a register tile.
        promote: factors that are packed.
    """

    block_m: int = number("workgroup_tile.m", forms=BLOCKED)
    block_n: int = number("workgroup_tile.n")
    block_k: int = number("reduction_tile.k", forms=BLOCKED)
    rows: int = number("register_tile.rows")
    vectors: int = number("register_tile.vectors", forms=BLOCKED)
    lanes: int = number("vector_lanes", power_of_two=True)
    promote: tuple[str, ...] = operands("lhs", "rhs")
    parallel: bool = flag("parallel")

    @property
    def tile(self) -> RegisterTile:
        """The register tile of a form with blocks."""
        return RegisterTile(self.rows, self.vectors, self.lanes)
