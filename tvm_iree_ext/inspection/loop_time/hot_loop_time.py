"""The time of a compiled kernel's hot loop, by the model of the chip's core."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.codegen.gpu.device_code import DeviceCode
from tvm_iree_ext.codegen.gpu.instruction_counts import hot_loop_text
from tvm_iree_ext.inspection.loop_time.amd_steps import amd_steps
from tvm_iree_ext.inspection.loop_time.amd_timing import amd_timing
from tvm_iree_ext.inspection.loop_time.core_run import LoopTime, run_loop
from tvm_iree_ext.inspection.loop_time.core_timing import CoreTiming
from tvm_iree_ext.inspection.loop_time.loop_steps import LoopStep
from tvm_iree_ext.inspection.loop_time.nvidia_steps import WARPGROUP, CopiedBeside, nvidia_steps
from tvm_iree_ext.inspection.loop_time.nvidia_timing import PAIR, nvidia_timing
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_FAST, _SLOW = 0.5, 2.0


@dataclass(frozen=True)
class TimedLoop:
    """A loop's steady state, and how sure it is.

    ``fast_share`` and ``slow_share`` are the shares of the matrix units' time where shared and
    global memory answer in half and in twice the cycles of the model; ``of_peak`` is the share of
    the data sheet's peak that is all of their time.
    """

    time: LoopTime
    fast_share: float
    slow_share: float
    of_peak: float


def timed_loop(code: DeviceCode, kernel: str) -> TimedLoop | None:
    """A kernel's hot loop; as :func:`hot_loop_time`."""
    loop = _hot_loop(code, kernel)
    usual, fast, slow = (loop.run(answers) for answers in (1.0, _FAST, _SLOW))
    if usual is None or fast is None or slow is None:
        return None
    timing, _ = loop.steps(1.0)
    return TimedLoop(usual, fast.share, slow.share, timing.of_peak)


def hot_loop_time(
    code: DeviceCode, kernel: str, answers: float = 1.0, workgroups: int | None = None
) -> LoopTime | None:
    """The steady state of a kernel's hot loop; None where there is no such loop.

    Args:
        code: compiled, with its assembly.
        kernel: its name.
        answers: by how much memory answers more slowly than the model has it.
        workgroups: of a core, where the grid has fewer than there is room for.

    Raises:
        TargetError: for a chip or an instruction of which no cycles are known.
    """
    return _hot_loop(code, kernel).run(answers, workgroups)


@dataclass(frozen=True)
class _HotLoop:
    """``copies``: what others copy for the subgroups in the loop.

    ``matrix_units`` are a core's: its schedulers' or, of tensor memory, one.
    """

    code: DeviceCode
    kernel: str
    texts: Sequence[str]
    copies: CopiedBeside | None
    subgroups: int
    matrix_units: int

    def run(self, answers: float, workgroups: int | None = None) -> LoopTime | None:
        """The steady state; as of :func:`hot_loop_time`."""
        timing, steps = self.steps(answers)
        if not steps:
            return None
        room = self.code.resident_workgroups(self.kernel)
        return run_loop(
            steps,
            timing,
            subgroups=self.subgroups,
            workgroups=min(room, workgroups or room),
            simds=self.matrix_units,
        )

    def steps(self, answers: float) -> tuple[CoreTiming, tuple[LoopStep, ...]]:
        """A pass, and the cycles that it is of."""
        name = gpu_chip(self.code.target).name
        if self.code.target.kind.name == "rocm":
            amd = amd_timing(name).with_answers(answers)
            return amd, amd_steps(self.texts, amd, subgroup_size(self.code.target))
        nvidia = nvidia_timing(name).with_answers(answers)
        return nvidia, nvidia_steps(self.texts, nvidia, self.copies)


def _hot_loop(code: DeviceCode, kernel: str) -> _HotLoop:
    if code.assembly is None:
        raise TargetError(f"{kernel}: there is no assembly to model; {code.missing}")
    lanes = subgroup_size(code.target)
    subgroups = max(1, -(-code.launches[kernel].lanes // lanes))
    simds = gpu_chip(code.target).simds_per_core
    if code.target.kind.name == "rocm":
        texts = hot_loop_text(code.assembly, "rocm", kernel)
        return _HotLoop(code, kernel, texts, None, subgroups, simds)
    assert code.binary is not None
    texts = hot_loop_text(cuda.disassemble(code.binary, words=True), "cuda", kernel)
    # Of a kernel of warpgroups one copies, and is in a loop of its own.
    expected = code.bytes_of_a_wait(kernel)
    waits = sum(text.startswith("SYNCS.PHASECHK") for text in texts)
    if not expected or not waits:
        return _HotLoop(code, kernel, texts, None, subgroups, simds)
    ahead = code.resources[kernel].shared_memory_bytes
    if any(text.startswith("UTC") for text in texts):  # one lane multiplies
        if any(re.match(r"UTC[A-Z]MMA\S* tmem", text) for text in texts):
            raise TargetError(f"{kernel}: what others compute for its products is not modelled")
        # The first workgroup of a pair waits for what is copied to both.
        here = waits * expected // (2 if any(PAIR in text for text in texts) else 1)
        copies = CopiedBeside(here, 1, 1, ahead)
        return _HotLoop(code, kernel, texts, copies, 1, 1)
    subgroups -= WARPGROUP
    copies = CopiedBeside(waits * expected, subgroups, WARPGROUP, ahead)
    return _HotLoop(code, kernel, texts, copies, subgroups, simds)
