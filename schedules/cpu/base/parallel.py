"""Thresholds of parallelism: less work than these is not worth a launch of the thread pool.

A launch of TVM's pool takes 3 to 12 us with two threads; a loop that is not parallel takes none.
So a kernel is shared out where one core would take longer than a launch.  The amounts are round
numbers, set family by family; the times are of a Zen 4 core with vectors of 512 bits, float32.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

LAUNCH_US = (3.0, 12.0)


@dataclass(frozen=True)
class SerialWork:
    """The most work that one thread does alone.

    Attributes:
        most: how much of ``unit``; an op's bytes are those of operands and results, its flops those
            of its definition.
        unit: what is counted.
        us: what one core takes for it; None where that depends on the region, or was not timed.
    """

    most: int
    unit: Literal["bytes", "flops", "elements", "points", "steps"]
    us: float | None


SERIAL_WORK: Mapping[str, SerialWork] = {
    # Products, by their multiply-adds.
    "cpu.contraction": SerialWork(500_000, "flops", 11),
    "cpu.grouped_matmul": SerialWork(500_000, "flops", 11),  # as a contraction
    "cpu.conv_2d": SerialWork(500_000, "flops", 11),
    "cpu.conv_2d filter": SerialWork(1 << 15, "elements", None),  # packed, or transformed
    "cpu.winograd": SerialWork(500_000, "flops", 8),
    "cpu.attention": SerialWork(2_000_000, "flops", 29),
    "cpu.fft_transform": SerialWork(1_000_000, "flops", 18),
    # Passes over memory that is in the second cache, by their bytes.
    "cpu.fft": SerialWork(200_000, "bytes", 9),
    "cpu.scan": SerialWork(256 << 10, "bytes", 34),
    "cpu.arg_compare": SerialWork(256 << 10, "bytes", 15),
    "cpu.pack": SerialWork(256 << 10, "bytes", 9),
    "cpu.im2col": SerialWork(256 << 10, "bytes", 12),
    "cpu.gather": SerialWork(128 << 10, "bytes", 8),
    "cpu.scatter": SerialWork(128 << 10, "bytes", 9),
    "cpu.mapped": SerialWork(128 << 10, "bytes", 8),
    "cpu.transfer": SerialWork(128 << 10, "bytes", 7),
    "cpu.distribution": SerialWork(128 << 10, "bytes", 8),
    "cpu.to_layout": SerialWork(128 << 10, "bytes", 7),
    "cpu.custom_op": SerialWork(64_000, "bytes", None),
    # Comparisons and exponentials, by what is looked at.
    "cpu.sort": SerialWork(4095, "elements", 12),
    "cpu.topk": SerialWork(16383, "elements", 10),
    "cpu.exp_reduction": SerialWork(50_000, "points", None),
    # Plain loops of programs, by their simple steps.
    "cpu.loops": SerialWork((1 << 16) - 1, "steps", None),
}
"""By the names of rules and of parts of them."""


def outweighs_launch(kernel: str, work: int) -> bool:
    """Whether so much work of a kernel is worth threads."""
    return work > SERIAL_WORK[kernel].most
