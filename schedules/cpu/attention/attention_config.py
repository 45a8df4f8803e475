"""Config of the CPU rule for attention."""

from dataclasses import dataclass

from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number, operands

LANES, PAIRS, MATRIX, ROWS = "lanes", "pairs", "tiles", "rows"
"""The forms: pairs is lanes by an instruction that multiplies neighbours, tiles by one of tiles."""

MANY_ROWS = (LANES, PAIRS, MATRIX)


@dataclass(frozen=True)
class AttentionConfig(RuleConfig):
    """Tiles of a task and of registers.

    Attributes:
        rows, keys: query rows of a task, and the keys of a tile that they share.
        keys_at_once: accumulators of a product of queries and keys, in tiles where these are used.
        columns_at_once: those of weights and values; of few rows, vectors of a row.
        vectors: vectors of query rows that meet them, or tiles.
        promote: what is copied first.
        fetch_ahead: whether few rows have keys and values fetched.
    """

    rows: int = number("workgroup_tile.m")
    keys: int = number("reduction_tile.k2")
    keys_at_once: int = number("register_tile.k2", forms=MANY_ROWS)
    columns_at_once: int = number("register_tile.n")
    vectors: int = number("register_tile.m", forms=MANY_ROWS)
    lanes: int = number("vector_lanes", power_of_two=True)
    promote: tuple[str, ...] = operands("key", "value")
    splits: int = number("splits")
    parallel: bool = flag("parallel")
    fetch_ahead: bool = flag("stages", 1, 2)
