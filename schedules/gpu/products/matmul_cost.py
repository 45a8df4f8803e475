"""A cost model of products: the rough time on a chip by tiles and parts of K.

It is what a heuristic compares.  A core does one workgroup's products at a time and reads its tiles
from the second cache; a round is one workgroup for each core.  Lanes that multiply by themselves
wait for shared memory: a core needs several subgroups of them.  However many there are, operands
come through the chip's bandwidth, and a step of K takes no less than memory takes to answer.  K in
parts makes more workgroups, and a second kernel that reads and adds what they leave.  Workgroups
that share tiles and steps evenly end together, at the same price.
"""

from dataclasses import dataclass

from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.stream_k import Shares
from tvm_iree_ext.targets.gpu import GpuChip

# Guesses that rank tiles: they came with this model on 2026-11-20 and were fitted on no time of any
# chip.  Each tells an order: it may be off by a factor of 2.
_CACHE_BYTES_PER_US = 115e3  # of a core: 64 bytes a cycle, at 1.8 GHz
_ANSWER_US = 0.7  # of memory: some hundred nanoseconds beyond the caches, and as much under load
_LAUNCH_US = 3.0  # of another kernel: launches one after the other take 2 to 5
_TFLOPS, _TBS = 100.0, 1.0  # of a chip of which nothing is known
# Of multiply-adds by lanes: the share of the peak that a core tends to, and how many subgroups
# give half of that.  Fitted on 23 products and convolutions of float32 on an H100, 2026-11-26:
# 9 % off by root mean square.
_LANES_SHARE = 0.9
_LANES_HALF = 5
# Where subgroups copy tiles themselves: cycles of a step in which one waits for the copies, and for
# each fragment that it reads; and the most that others' products hide of it.  By the model of time
# in inspection.loop_time: f16 on gfx90a, gfx942 and gfx950, 2026-11-26, 5 % off but for two.
_STEP_WAIT, _READ_WAIT = 400, 110
_MOST_HIDDEN = 0.95
_CYCLES_PER_US = 2000  # chips of today clock at 1.7 to 2.4 GHz
_RESIDENT = 128 * 128  # sums of the workgroups that a core holds at once: 64 KiB of registers
_MOST_RESIDENT = 8


@dataclass(frozen=True)
class MatmulTiling:
    """A workgroup's rows, columns and depth, the tiles of K under way, and the parts of K.

    ``lanes``: the subgroups whose lanes multiply by themselves; 0 where matrix instructions do.
    ``workgroups``: that share all tiles and steps; 0 where each has one tile, or a part of it.
    ``waiting``: where a subgroup waits for what it copied, how many of a workgroup's a scheduler
    has, how many it keeps of all, and how many reads a step waits for.
    ``share``: of the peak, where it is known.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    splits: int
    lanes: int = 0
    workgroups: int = 0
    waiting: tuple[float, float, int] | None = None
    share: float = 1.0


def _hidden(step_us: float, waiting: tuple[float, float, int], workgroups: int) -> float:
    """The share of the peak where a step's products hide the waits of other subgroups."""
    each, most, reads = waiting
    cycles = step_us * _CYCLES_PER_US
    kept = max(each, min(most, each * max(1, workgroups)))
    return min(_MOST_HIDDEN, kept * cycles / (cycles + _STEP_WAIT + _READ_WAIT * reads))


def cost_us(
    shape: MatmulShape, chip: GpuChip, tiling: MatmulTiling, widths: tuple[float, float]
) -> float:
    """The time of a product whose extents are known; ``widths`` are bytes of the operands."""
    m, n, k = shape.m or 1, shape.n or 1, shape.k or 1
    groups = shape.groups or 1
    part = chip.parts[0] if chip.parts else None
    cores = part.cores if part else 1
    peaks = dict(part.peak_tflops) if part else {}
    dtype = "float8" if shape.lhs_dtype.startswith("float8") else shape.lhs_dtype
    peak = peaks.get(dtype, peaks.get("float16", _TFLOPS)) * 1e6  # flops in a us
    rows, columns = min(tiling.rows, -(-m // 16) * 16), min(tiling.columns, -(-n // 8) * 8)
    workgroups = groups * -(-m // rows) * -(-n // columns) * tiling.splits
    steps = -(-k // (tiling.splits * tiling.depth))
    if tiling.lanes:
        peak *= _LANES_SHARE
    alone = _LANES_HALF / tiling.lanes if tiling.lanes else 0  # of a step, what nobody fills
    per_step = 2 * rows * columns * tiling.depth * cores / (peak * tiling.share)
    if tiling.waiting:
        per_step /= _hidden(per_step, tiling.waiting, (tiling.workgroups or workgroups) // cores)
    per_step += tiling.depth * (rows * widths[0] + columns * widths[1]) / _CACHE_BYTES_PER_US
    if tiling.workgroups:
        shares = Shares(tiling.workgroups, workgroups, steps)
        rounds, each = shares.rounds, shares.each if shares.left else 0
        resident = tiling.workgroups / cores
        busy = (rounds * (steps + 1) + each + 2) * (resident + alone) * per_step
        waits = rounds * (steps + tiling.stages) + each + 2 * tiling.stages
        left = (shares.parts if shares.left else 0) * rows * columns
    else:
        resident = max(1, min(_MOST_RESIDENT, _RESIDENT // (rows * columns)))
        each_core = -(-workgroups // cores)
        busy = (each_core + -(-each_core // resident) * alone) * (steps + 1) * per_step
        waits = -(-workgroups // (cores * resident)) * (steps + tiling.stages)
        left = groups * m * n * tiling.splits if tiling.splits > 1 else 0
    waiting = waits * _ANSWER_US / max(1, tiling.stages - 1)
    bandwidth = (part.bandwidth_tbs if part else _TBS) * 1e6  # bytes in a us
    moved = groups * (m * k * widths[0] + k * n * widths[1] + 4 * m * n)
    total = max(busy, waiting, moved / bandwidth)
    return total + (_LAUNCH_US + 8 * left / bandwidth if left else 0)
