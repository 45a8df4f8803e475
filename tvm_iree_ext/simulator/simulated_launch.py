"""Launch a device function on the simulator."""

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from tvm import ir, tirx

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.simulator.base.findings import Finding, Findings
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.base.simulated_memory import SimulatedMemory
from tvm_iree_ext.simulator.base.traffic import Hardware, StatementTraffic, Traffic
from tvm_iree_ext.simulator.machine.memory_barriers import TensorMap
from tvm_iree_ext.simulator.machine.pairs import WorkgroupPair
from tvm_iree_ext.simulator.machine.strands import Stuck
from tvm_iree_ext.simulator.machine.workgroup import SimulatedWorkgroup
from tvm_iree_ext.simulator.translation.lane_statements import (
    TENSOR_MAP,
    KernelParameter,
    Translation,
    translate,
)
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

Place: TypeAlias = tuple[int, int, int]
Workgroups: TypeAlias = Iterable[Place] | Callable[[Place], Iterable[Place]] | None
"""Workgroups of a launch, or a function that gives them for a grid; None for all."""

_DEVICE_KERNEL_LAUNCH = 2  # tvm's CallingConv of a device function


@dataclass
class Simulation:
    """Findings, traffic and counts of a kernel that was run; the arrays hold its results.

    Attributes:
        workgroups: how many were run, of ``grid``.
        accesses: memory traffic by statement.
        counts: instructions executed by subgroups: ``barrier``, ``shuffle``, names of MMAs.
        seconds: how long the simulation took.
        written: for each array, which of its bytes have contents now.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    workgroups: int
    findings: list[Finding]
    accesses: list[StatementTraffic]
    counts: dict[str, int]
    seconds: float
    hardware: Hardware
    written: dict[str, np.ndarray] = field(repr=False, default_factory=dict)
    source: str = field(repr=False, default="")

    @property
    def bank_conflicts(self) -> int:
        """Passes over the banks of shared memory beyond the fewest."""
        return sum(a.total - a.ideal for a in self.accesses if a.space == "shared")

    @property
    def uncoalesced(self) -> int:
        """Segments of global memory touched beyond the fewest."""
        return sum(a.total - a.ideal for a in self.accesses if a.space == "global")

    def check(self) -> "Simulation":
        """This, if nothing was found.

        Raises:
            SimulationError: naming every finding.
        """
        if self.findings:
            raise SimulationError(
                f"{self.kernel}: {len(self.findings)} found\n" + "\n".join(map(str, self.findings))
            )
        return self


def device_functions(module: ir.IRModule | tirx.PrimFunc) -> list[tirx.PrimFunc]:
    """The functions of a lowered module that run on the device, in the module's order."""
    if isinstance(module, tirx.PrimFunc):
        return [module]
    return [
        function
        for function in module.functions.values()
        if isinstance(function, tirx.PrimFunc)
        and function.attrs
        and int(function.attrs.get("calling_conv", 0)) == _DEVICE_KERNEL_LAUNCH
    ]


def hardware_of(function: tirx.PrimFunc) -> Hardware:
    """Subgroup size, banks and segments of the target that a function was lowered for."""
    target = function.attrs.get("target") if function.attrs else None
    if target is None:
        return Hardware()
    chip, amd = gpu_chip(target), target.kind.name == "rocm"
    return Hardware(
        subgroup_size(target), chip.banks, 64 if amd else 32, lockstep=amd, chip=chip.name
    )


def simulate(
    function: tirx.PrimFunc | Translation,
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    workgroups: Workgroups = None,
    hardware: Hardware | None = None,
    written: Iterable[int | str] | Mapping[str, np.ndarray] | None = None,
) -> Simulation:
    """Run a device function: what it computes, what it does wrong, what its accesses cost.

    Args:
        function: flat and split from the host, as code generation gets it.
        arguments: a C-contiguous array for each buffer, changed in place, and a number for each
            scalar: by name (``A`` of a parameter ``A_ptr``), or in the order of the device
            function's parameters, which need not be that of the function it was split from.
        workgroups: blockIdx (x, y, z) of those to run, in this order, or a function that gives them
            for a grid; by default all.
        hardware: by default that of the function's target.
        written: which arrays have contents before the kernel runs, by name or number, or which of
            their bytes; by default those that the kernel does not store into.

    Raises:
        SimulationError: for arguments that do not fit, or TIR that the simulator does not know.
    """
    if isinstance(function, Translation):
        translation, hardware = function, hardware or Hardware()
    else:
        hardware = hardware or hardware_of(function)
        translation = translate(function, hardware)
    ordered = _ordered(translation, arguments)
    known = written if written is None or isinstance(written, Mapping) else set(written)
    parameters, memories = _bound(translation, ordered, known)
    started = time.perf_counter()
    grid, block = translation.grid(ordered), translation.block(ordered)
    lanes = block[0] * block[1] * block[2]
    traffic = Traffic(hardware, lanes)
    findings = Findings(translation.statement_text)
    counts: Counter = Counter()
    every = itertools.product(*map(range, reversed(grid)))
    chosen = [(x, y, z) for z, y, x in every]
    if workgroups is not None:
        chosen = list(workgroups(grid) if callable(workgroups) else workgroups)
    with np.errstate(all="ignore"):
        for index in chosen:
            if not all(0 <= i < extent for i, extent in zip(index, grid, strict=True)):
                raise SimulationError(f"workgroup {index} is outside the grid {grid}")
        chosen = _whole_clusters(chosen, translation.cluster, grid)
        for first in range(0, len(chosen), translation.cluster):
            pair = WorkgroupPair() if translation.cluster > 1 else None
            made = [
                SimulatedWorkgroup(
                    chosen[number], number, block, traffic, findings, counts, memories,
                    translation.ordered, pair,
                )
                for number in range(first, first + translation.cluster)
            ]  # fmt: skip
            bodies = [functools.partial(translation.run, one, parameters) for one in made]
            try:
                if pair is None:
                    bodies[0]()
                else:
                    pair.run(bodies)
                    pair.finish()
            except Stuck:  # a finding says where
                continue
            for one in made:
                one.finish()
    return Simulation(
        translation.name,
        grid,
        block,
        len(chosen),
        findings.list(),
        traffic.accesses(translation.statement_text),
        dict(counts),
        time.perf_counter() - started,
        hardware,
        {memory.name: np.repeat(memory.valid, memory.unit) for memory in memories},
        translation.source,
    )


def _whole_clusters(chosen: list[Place], workgroups: int, grid: Place) -> list[Place]:
    """The workgroups of all clusters of which some are to run, each cluster's together."""
    if workgroups == 1:
        return chosen
    if grid[0] % workgroups:
        raise SimulationError(f"a grid of {grid[0]} along x, in clusters of {workgroups}")
    firsts = dict.fromkeys((x // workgroups * workgroups, y, z) for x, y, z in chosen)
    return [(x + rank, y, z) for x, y, z in firsts for rank in range(workgroups)]


def _ordered(translation: Translation, arguments: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    names = [parameter.short_name for parameter in translation.parameters]
    if isinstance(arguments, Mapping):
        if set(arguments) != set(names):
            raise SimulationError(
                f"{translation.name}: arguments {', '.join(arguments)}; it takes {', '.join(names)}"
            )
        return [arguments[name] for name in names]
    if len(arguments) != len(names):
        raise SimulationError(
            f"{translation.name}: {len(arguments)} arguments; it takes {len(names)}:"
            f" {', '.join(names)}"
        )
    return list(arguments)


def _bound(
    translation: Translation,
    arguments: list[Any],
    written: set[int | str] | Mapping[str, np.ndarray] | None,
) -> tuple[list[Any], list[SimulatedMemory]]:
    values: list[Any] = []
    memories: list[SimulatedMemory] = []
    for at, (parameter, value) in enumerate(zip(translation.parameters, arguments, strict=True)):
        if parameter.dtype == TENSOR_MAP:
            if not isinstance(value, TensorMap):
                raise SimulationError(
                    f"{translation.name}: {parameter.name} is {type(value).__name__}; expected a"
                    " simulator.TensorMap"
                )
            values.append(value)
            continue
        if not parameter.pointer:
            values.append(int(value) if "int" in parameter.dtype else value)
            continue
        full = not parameter.stored
        if written is not None:
            full = at in written or parameter.short_name in written
        memory = _memory(translation.name, parameter, value, full)
        if isinstance(written, Mapping) and full:
            contents: Any = written[parameter.short_name].reshape(-1, memory.unit)
            memory.valid = contents.all(axis=1)
            memory.complete = bool(memory.valid.all())
        values.append(memory)
        memories.append(memory)
    return values, memories


def _memory(kernel: str, parameter: KernelParameter, array: Any, written: bool) -> SimulatedMemory:
    kind = element_type(parameter.dtype)
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise SimulationError(
            f"{kernel}: {parameter.short_name} is {type(array).__name__};"
            " expected a contiguous array"
        )
    if array.dtype.itemsize != kind.itemsize and parameter.size is not None:
        raise SimulationError(
            f"{kernel}: {parameter.short_name} has elements of {array.dtype}; expected {kind}"
        )
    if parameter.size is not None and array.size != parameter.size:
        raise SimulationError(
            f"{kernel}: {parameter.short_name} has {array.size} elements; expected {parameter.size}"
        )
    if parameter.stored and not array.flags.writeable:
        raise SimulationError(
            f"{kernel}: {parameter.short_name} is written, and the array is read-only"
        )
    return SimulatedMemory(
        parameter.short_name,
        "global",
        array.reshape(-1).view(np.uint8),
        parameter.unit or kind.itemsize,
        written=written,
        logged=parameter.stored,
    )
