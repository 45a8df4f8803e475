"""The time of a compiled kernel's hot loop on an AMD chip, by the model of its core."""

from dataclasses import dataclass

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.device_code import DeviceCode
from tvm_iree_ext.codegen.gpu.instruction_counts import hot_loop_text
from tvm_iree_ext.inspection.loop_time.core_run import LoopTime, run_loop
from tvm_iree_ext.inspection.loop_time.loop_steps import loop_steps
from tvm_iree_ext.inspection.loop_time.unit_timing import unit_timing
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_FAST, _SLOW = 0.5, 2.0


@dataclass(frozen=True)
class TimedLoop:
    """A loop's steady state, and how sure it is.

    ``fast_share`` and ``slow_share`` are the shares of the matrix units' time where LDS and global
    memory answer in half and in twice the cycles that are guessed.
    """

    time: LoopTime
    fast_share: float
    slow_share: float


def timed_loop(code: DeviceCode, kernel: str) -> TimedLoop | None:
    """A kernel's hot loop; as :func:`hot_loop_time`."""
    usual, fast, slow = (hot_loop_time(code, kernel, one) for one in (1.0, _FAST, _SLOW))
    if usual is None or fast is None or slow is None:
        return None
    return TimedLoop(usual, fast.share, slow.share)


def hot_loop_time(
    code: DeviceCode, kernel: str, answers: float = 1.0, workgroups: int | None = None
) -> LoopTime | None:
    """The steady state of a kernel's hot loop; None where there is no such loop.

    Args:
        code: compiled for an AMD chip.
        kernel: its name.
        answers: by how much LDS and global memory answer more slowly than is guessed.
        workgroups: of a core, where the grid has fewer than there is room for.

    Raises:
        TargetError: for a chip or an instruction of which no cycles are known.
    """
    if code.target.kind.name != "rocm" or code.assembly is None:
        raise TargetError(f"{code.target.kind.name}: the model of time is of AMD's chips")
    chip, lanes = gpu_chip(code.target), subgroup_size(code.target)
    timing = unit_timing(chip.name).with_answers(answers)
    steps = loop_steps(hot_loop_text(code.assembly, "rocm", kernel), timing, lanes)
    if not steps:
        return None
    subgroups = max(1, -(-code.launches[kernel].lanes // lanes))
    kept = code.resources[kernel].subgroups_per_simd * chip.simds_per_core
    room = max(1, int(kept / subgroups))
    return run_loop(
        steps,
        timing,
        subgroups=subgroups,
        workgroups=min(room, workgroups or room),
        simds=chip.simds_per_core,
    )
