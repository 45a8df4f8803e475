"""The time of a GPU kernel, computed from what compilers say of it and from the chip's data sheet.

It ranks candidates where no device is.  What a kernel's subgroup executes is counted in its
assembly, and how often in its loops; the compiler's report says how many workgroups a core keeps at
once.  Each of these takes a time by itself, and the longest weighs most:

issue         instructions, one a cycle for each scheduler of a core
mma           matrix instructions, at the chip's peak
shared        bytes to and from shared memory, 128 a cycle for each core
cache         bytes to and from global memory, spills among them, 64 a cycle for each core
loop          the hot loop with its waits, by a model of a core
latency       without one: answers of memory that are waited for, fewer with more stages or resident
              workgroups
memory        every operand once, at the chip's bandwidth
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from tvm_iree_ext.base.errors import TargetError, TuningError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.codegen.gpu.device_code import DeviceCode, Launch
from tvm_iree_ext.codegen.gpu.instruction_counts import InstructionCounts, KernelInstructions
from tvm_iree_ext.inspection.inspected_kernel import inspect_op
from tvm_iree_ext.inspection.loop_time.hot_loop_time import hot_loop_time
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.targets.gpu import GpuChip, GpuPart, gpu_chip, subgroup_size
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import TargetLike, make_target
from tvm_iree_ext.tuning.static.loop_counts import LoopCounts, loop_counts

_CYCLES_PER_US = 1700.0  # chips of today clock at 1.5 to 2.1 GHz under load
_SHARED_BYTES = 128  # a core's shared memory, in a cycle
_CACHE_BYTES = 64  # from the second cache to a core, in a cycle
_ANSWER_US = 0.7  # of global memory
_LAUNCH_US = 3.0
_WARPGROUP = 4  # subgroups
_SCRATCH_BYTES = 4  # of a lane
_NORM = 4  # times that overlap, though not wholly: near their maximum


@dataclass(frozen=True)
class KernelCost:
    """One kernel; ``parts`` are times in microseconds, as the module's text names them."""

    name: str
    time_us: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class StaticCost:
    """An op's kernels, which run one after the other, and what no kernel can be faster than."""

    time_us: float
    memory_us: float
    kernels: tuple[KernelCost, ...]


def static_cost(op: Op, target: TargetLike, config: LoweringConfig | None = None) -> StaticCost:
    """Cost of an op on a chip.

    Args:
        op: all of whose extents are known.
        target: a GPU, such as ``rocm:gfx942``.
        config: by default the rule's heuristic.

    Raises:
        TargetError: for a target that is no GPU.
        ScheduleError: when no rule builds the op, or the config does not fit.
        BuildError: where a compiler refuses.
        TuningError: where the compilers at hand do not say enough, or no figures of the chip are
            known.

    >>> from tvm_iree_ext import ops
    >>> maps = ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d1, d2)", "(d0, d1, d2) -> (d0, d1)"]
    >>> half = ops.TensorType((512, 512), "float16")
    >>> cost = static_cost(ops.contraction(half, half, indexing_maps=maps), "rocm:gfx942")
    >>> sorted(cost.kernels[0].parts)
    ['cache', 'issue', 'loop', 'mma', 'shared']
    """
    resolved = make_target(target)
    chip = gpu_chip(resolved)
    if not chip.parts:
        raise TuningError(f"{chip.name}: no part's peaks are recorded, so there is no static cost")
    if op.signature.symbols:
        names = ", ".join(op.signature.symbols)
        raise TuningError(f"{op.name}: {names} are known when the kernel is called")
    if config is None:
        config = choose(op, resolved).heuristic(op, resolved)
    code = inspect_op(op, resolved, config)
    kernels = tuple(
        _kernel_cost(code, name, chip, op, subgroup_size(resolved), config)
        for name in code.launches
    )
    memory = op.bytes() / (chip.parts[0].bandwidth_tbs * 1e6)
    total = _together([sum(kernel.time_us for kernel in kernels), memory])
    return StaticCost(total, memory, kernels)


def _together(times: list[float]) -> float:
    return sum(time**_NORM for time in times) ** (1 / _NORM)


def _kernel_cost(
    code: DeviceCode, name: str, chip: GpuChip, op: Op, lanes: int, config: LoweringConfig
) -> KernelCost:
    launch, counted = code.launches[name], code.instructions(name)
    if counted is None or name not in code.resources:
        raise TuningError(f"{name} for {chip.name}: nothing to count; {code.missing}")
    if launch.dynamic:
        raise TuningError(f"{name} for {chip.name}: its launch depends on arguments")
    kernel = next(f for var, f in code.module.functions.items() if str(var.name_hint) == name)
    loops = loop_counts(kernel, launch.extents)
    resident = code.resident_workgroups(name)
    run = _KernelRun(chip, chip.parts[0], launch, resident, lanes, counted, loops)
    run = run.at_least(op.flops(), config)
    parts = _parts(run, op, config)
    loop = _loop_us(run, code, name)
    parts |= {"latency": _latency_us(run, config)} if loop is None else {"loop": loop}
    return KernelCost(name, _LAUNCH_US + _together([*parts.values()]), parts)


@dataclass(frozen=True)
class _KernelRun:
    """A kernel as it runs on a chip, of which a core keeps so many workgroups at once."""

    chip: GpuChip
    part: GpuPart
    launch: Launch
    resident: int
    lanes: int
    counted: KernelInstructions
    loops: LoopCounts

    @property
    def subgroups(self) -> int:
        """Subgroups of a workgroup."""
        return max(1, ceil(self.launch.lanes / self.lanes))

    @property
    def workgroups(self) -> int:
        """That a core runs, one after the other or at once."""
        return ceil(self.grid / self.part.cores)

    @property
    def grid(self) -> int:
        """Workgroups in all."""
        extents = self.launch.extents.items()
        return prod(extent for tag, extent in extents if tag.startswith("blockIdx"))

    def at_least(self, flops: int, config: LoweringConfig) -> "_KernelRun":
        """With loops that do an op's multiplications: those of a share of tiles have no bounds."""
        written = self.counted.whole
        if not written.mma:
            return self
        each = written.flops / written.mma * self.grid * _multiplying(self, config)
        return replace(self, loops=replace(self.loops, mma=max(self.loops.mma, flops / each)))

    @property
    def passes(self) -> float:
        """Passes of the hot loop."""
        hot = self.counted.hot_loop
        return max(1.0, self.loops.mma / hot.mma) if hot else 1.0

    def executed(self, count: Callable[[InstructionCounts], float]) -> float:
        """A count of what a subgroup executes."""
        whole, hot = count(self.counted.whole), self.counted.hot_loop
        if hot is None:
            written = self.counted.whole.mma  # of which a compiler may have unrolled all
            return whole * max(1.0, self.loops.mma / written if written else self.loops.repeats)
        return whole + (self.passes - 1) * count(hot)


def _parts(run: _KernelRun, op: Op, config: LoweringConfig) -> dict[str, float]:
    """Microseconds of a core."""
    subgroups = run.workgroups * run.subgroups
    cycles = {
        "issue": run.executed(lambda counts: counts.total) / run.chip.simds_per_core,
        "shared": run.executed(lambda counts: _bytes(counts, "shared")) * run.lanes / _SHARED_BYTES,
        "cache": run.executed(lambda counts: _bytes(counts, "global")) * run.lanes / _CACHE_BYTES,
    }
    times = {name: each * subgroups / _CYCLES_PER_US for name, each in cycles.items()}
    flops = run.executed(lambda counts: counts.flops) * run.workgroups * _multiplying(run, config)
    times["mma"] = flops / (_peak(run.part, op) * 1e6 / run.part.cores)
    return times


def _latency_us(run: _KernelRun, config: LoweringConfig) -> float:
    """Of the answers of global memory that are waited for."""
    rounds = ceil(run.workgroups / run.resident)
    hot = run.counted.hot_loop
    answers = run.passes if hot and _bytes(hot, "global") else 1.0
    return rounds * answers * _ANSWER_US / max(1, config.stages - 1)


def _loop_us(run: _KernelRun, code: DeviceCode, name: str) -> float | None:
    """Of the hot loop by the model of a core; None where there is no model, or no loop."""
    if run.counted.hot_loop is None:
        return None
    try:
        time = hot_loop_time(code, name, workgroups=run.workgroups)
    except TargetError:
        return None
    if time is None:
        return None
    rounds = run.workgroups / min(run.resident, run.workgroups)
    return run.passes * rounds * time.subgroups * time.cycles / _CYCLES_PER_US


def _multiplying(run: _KernelRun, config: LoweringConfig) -> float:
    """How many of a workgroup's subgroups execute each matrix instruction for themselves.

    Four subgroups share one of a warpgroup, and some only copy: those are not the config's.
    """
    if not config.subgroups or not config.mma_kind:
        return run.subgroups
    sharing = _WARPGROUP if mma_kind(config.mma_kind).kind == "warpgroup" else 1
    return prod(config.subgroups.values()) / sharing


def _bytes(counts: InstructionCounts, memory: str) -> float:
    """Bytes that a lane moves."""
    moves = (counts.loads, counts.stores)
    total = sum(width * n for one in moves for (place, width), n in one.items() if place == memory)
    if memory == "global":
        total += counts.scratch * _SCRATCH_BYTES
    # A copy from global to shared memory is a write of the one, too.
    return total + sum(width * n for width, n in counts.copies.items())


def _peak(part: GpuPart, op: Op) -> float:
    """The chip's for the type of the first operand, else for float16, in TFLOP/s."""
    dtype = op.signature.operands[0].dtype
    kind = "float8" if dtype.startswith("float8") else dtype
    known: Mapping[str, Any] = part.peak_tflops
    return known.get(kind) or known.get("float16") or max(known.values())
