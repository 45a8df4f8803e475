"""What a kernel could reach at most on the chip that is there, by its measured peaks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_iree_ext.on_gpu.peak_run import COPY

_PRODUCTS = ("contraction", "attention", "conv_2d", "grouped_matmul")
_LANES = "float32"  # in which other ops compute


@dataclass(frozen=True)
class Roofs:
    """Peaks: operations a second by the type of operands, and bytes a second."""

    operations: Mapping[str, float] = field(default_factory=dict)
    bytes: float = 0.0

    @property
    def are_known(self) -> bool:
        """Whether the memory's is, without which there is no roof."""
        return self.bytes > 0

    def peak(self, row: Mapping[str, Any]) -> float | None:
        """Operations a second of a kernel that waits for no memory; None where nobody knows.

        Products have those of their operands' type; what lanes compute has float32's.
        """
        is_product = any(word in row.get("op", "") for word in _PRODUCTS)
        kind = row.get("dtype", "") if is_product else _LANES
        return self.operations.get(kind)

    def least_us(self, row: Mapping[str, Any]) -> float | None:
        """The least time for what a kernel computes and moves; None without a roof."""
        if not self.are_known:
            return None
        moved = row["bytes"] / self.bytes
        peak = self.peak(row)
        return max(moved, row["operations"] / peak if peak else 0.0) * 1e6 or None


def roofs_of(rows: Sequence[Mapping[str, Any]]) -> Roofs:
    """The peaks that probes have measured, the highest where there are several for a type."""
    operations: dict[str, float] = {}
    copied = 0.0
    for row in rows:
        if "us" not in row:
            continue
        if row["id"] == COPY:
            copied = max(copied, row["bytes"] / row["us"] * 1e6)
        else:
            found = row["operations"] / row["us"] * 1e6
            operations[row["id"]] = max(found, operations.get(row["id"], 0.0))
    return Roofs(operations, copied)
