"""Simulation of ops: the kernels that their rules build, on given or on random operands.

``mma:KIND`` is the smallest kernel of a matrix instruction; ``FILE.py:NAME`` a function of a file:
TensorIR with its thread bindings.
"""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import SimulationError, TargetError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import extent_value
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_with_host
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan, host_plans
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.runtime.arrays import word_of, words_in
from tvm_iree_ext.schedules.dispatch import choose
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.runs.sample_mma import tile_product
from tvm_iree_ext.simulator.runs.simulated_launch_plans import (
    array_shapes,
    simulate_plan,
    used_arrays,
)
from tvm_iree_ext.simulator.simulated_launch import Simulation, Workgroups
from tvm_iree_ext.targets.gpu import chip_names
from tvm_iree_ext.targets.mma.mma_table import mma_kind
from tvm_iree_ext.targets.names import TargetLike, make_target

_MMA = "mma:"
_UNWRITTEN = 77  # what results hold before: no plausible value


@dataclass(frozen=True)
class Simulated:
    """A simulation for each launch, and the arrays that they left, by name."""

    simulations: tuple[Simulation, ...]
    arrays: Mapping[str, np.ndarray]

    @property
    def simulation(self) -> Simulation:
        """The only one, or the first."""
        return self.simulations[0]


def simulate_kernel(
    kernel: str | tirx.PrimFunc,
    target: TargetLike | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    workgroups: Workgroups = None,
    seed: int = 0,
) -> Simulated:
    """Lower a kernel as it is lowered to be compiled, and simulate it on random operands.

    Args:
        kernel: a name, see the module, or a function with thread bindings, of one or more kernels.
        target: such as ``cuda:sm_80``; for a matrix instruction by default a chip that has it.
        sizes: the function's numbers, and the extents that it leaves open.
        workgroups: those to run of each launch, by default all.
        seed: of the operands.

    Raises:
        SimulationError: for a name that stands for no kernel, or what the simulator does not know.
        BuildError: where the kernel cannot be lowered.

    >>> done = simulate_kernel("mma:NV_MMA_SYNC_F32_16x8x16_F16", "cuda:sm_80")
    >>> done.simulation.findings, done.simulation.counts
    ([], {'NV_MMA_SYNC_F32_16x8x16_F16': 2})
    """
    function = named_kernel(kernel) if isinstance(kernel, str) else kernel
    if target is None:
        if not (isinstance(kernel, str) and kernel.startswith(_MMA)):
            raise SimulationError("a kernel needs a target, such as cuda:sm_80 or rocm:gfx942")
        target = default_target(kernel)
    plan, kernels = _planned(function, make_target(target))
    arguments = _arguments(plan, kernels, sizes or {}, np.random.default_rng(seed))
    done = simulate_plan(plan, kernels, arguments, workgroups=workgroups).simulations
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    return Simulated(tuple(done), arrays)


def simulate_function(
    func: tirx.PrimFunc,
    target: TargetLike,
    arguments: Mapping[str, Any],
    *,
    written: Iterable[str] | None = None,
    workgroups: Workgroups = None,
) -> list[Simulation]:
    """Lower a function of one or several kernels and run it whole; one simulation a launch.

    Args:
        func: scheduled, with thread bindings.
        target: such as ``rocm:gfx942``.
        arguments: an array for each buffer, changed in place, and numbers, by the function's names.
        written: which arrays have contents at first; by default those that no kernel stores into.
        workgroups: those to run of each launch, as of
            :func:`~tvm_iree_ext.simulator.simulated_launch.simulate`.

    Raises:
        SimulationError: for arguments that do not fit, or what the simulator does not know.
        BuildError: where the function cannot be lowered.
    """
    plan, kernels = _planned(func, make_target(target))
    own = [str(parameter.name) for parameter in func.params]
    # A plan has other names for those that mean something else in a program: max, sum.
    names = dict(zip(own, (one["name"] for one in plan["parameters"]), strict=True))
    given = {names.get(name, name): value for name, value in arguments.items()}
    full = None if written is None else [names.get(name, name) for name in written]
    return simulate_plan(plan, kernels, given, written=full, workgroups=workgroups).simulations


def _planned(func: tirx.PrimFunc, target: Target) -> tuple[Plan, dict[str, tirx.PrimFunc]]:
    """How a function launches its kernels, and the kernels."""
    hosts, kernels = lower_with_host(func, target)
    (plan,) = host_plans(hosts, kernels).values()
    return plan, {str(name.name_hint): kernel for name, kernel in kernels.functions.items()}


@dataclass(frozen=True)
class SimulatedOp:
    """The results of an op's kernels by name, and a simulation for each launch."""

    results: dict[str, np.ndarray]
    simulations: tuple[Simulation, ...]

    def check(self) -> "SimulatedOp":
        """This, if nothing was found.

        Raises:
            SimulationError: naming every finding.
        """
        for simulation in self.simulations:
            simulation.check()
        return self


def simulate_op(
    op: Op,
    target: TargetLike,
    operands: Mapping[str, Any],
    config: LoweringConfig | None = None,
    *,
    extents: Mapping[str, int] | None = None,
    compiled: bool = False,
    workgroups: Workgroups = None,
) -> SimulatedOp:
    """Lower an op by the rule that builds it, and run its kernels on the simulator.

    Args:
        op: what :mod:`tvm_iree_ext.ops` makes.
        target: a GPU, such as ``cuda:sm_80``.
        operands: arrays and numbers by name, as the signature's arguments.
        config: by default the rule's heuristic.
        extents: those of results that follow from no operand, by name.
        compiled: compile the kernels afterwards, too, as far as the tools at hand go.
        workgroups: those to run of each launch, as of
            :func:`~tvm_iree_ext.simulator.simulated_launch.simulate`.

    Raises:
        ScheduleError: when no rule builds the op, or the config does not fit.
        BuildError: where TVM cannot lower the kernels, or a compiler refuses them.
        CallError: for operands that do not fit the signature.
        SimulationError: for what the simulator does not know.
    """
    resolved = make_target(target)
    rule = choose(op, resolved)
    module = rule.lower(op, resolved, config or rule.heuristic(op, resolved))
    signature = op.passed_signature
    shapes = [
        None if operand.role == "scalar" else np.shape(operands[operand.name])
        for operand in signature.arguments
    ]
    bound = {**signature.bind(op.name, shapes), **(extents or {})}
    arguments = {
        name: np.array(value, order="C") if isinstance(value, np.ndarray) else value
        for name, value in operands.items()
    }
    results = {}
    for operand in signature.results:
        shape = [extent_value(extent, bound) for extent in operand.shape]
        results[operand.name] = np.full(
            shape, np.asarray(_UNWRITTEN).astype(numpy_dtype(operand.dtype))
        )
    ((_, function),) = module.functions.items()
    given = {**arguments, **results}
    for operand in signature.operands:
        if operand.words and operand.role == "scalar":
            kind = numpy_dtype(operand.dtype)
            given[operand.name] = word_of(given[operand.name], kind, operand.words)
        elif operand.words:  # over the same memory
            array = np.asarray(given[operand.name], numpy_dtype(operand.dtype))
            given[operand.name] = words_in(array, operand.words)
    done = simulate_function(function, resolved, given, workgroups=workgroups)
    if compiled:
        compile_device(function, resolved).plan()
    return SimulatedOp(results, tuple(done))


def named_kernel(name: str) -> tirx.PrimFunc:
    """The kernel of a name; see the module.

    Raises:
        SimulationError: for a name that stands for no kernel.
    """
    if name.startswith(_MMA):
        return tile_product(name.removeprefix(_MMA))
    path, colon, wanted = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise SimulationError(f"{name!r} is no kernel; expected FILE.py:NAME or {_MMA}KIND")
    if not Path(path).is_file():
        raise SimulationError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location("simulated_kernel", path)
    if spec is None or spec.loader is None:
        raise SimulationError(f"{path}: Python cannot load it")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, wanted, None)
    if not isinstance(found, tirx.PrimFunc):
        known = [key for key, value in vars(module).items() if isinstance(value, tirx.PrimFunc)]
        raise SimulationError(
            f"{path} has no function {wanted!r}; it has {', '.join(known) or 'none'}"
        )
    return found


def default_target(name: str, chips: Sequence[str] = ()) -> str:
    """A chip that has the matrix instruction of a name such as ``mma:KIND``.

    Args:
        name: of the kernel.
        chips: one of these, by default of all.

    Raises:
        TargetError: where none of them has it.
    """
    mma = mma_kind(name.removeprefix(_MMA))
    chip = next((chip for chip in mma.arch if chip in (chips or chip_names())), None)
    if chip is None:
        raise TargetError(f"{mma.name} is on {', '.join(mma.arch)}; none of these is emulated")
    if mma.vendor == "nvidia":
        return f"cuda:{chip}"
    wave = "@wave64" if mma.subgroup_size == 64 and mma.name.startswith("WMMA") else ""
    return f"rocm:{chip}{wave}"


def _arguments(
    plan: Plan,
    kernels: Mapping[str, tirx.PrimFunc],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Random arrays where a kernel loads, zeros elsewhere, and the numbers that were given."""
    scalars = [one["name"] for one in plan["parameters"] if "shape" not in one]
    names = list(dict.fromkeys([*scalars, *plan["symbols"]]))
    for name in names:
        if name not in sizes:
            raise SimulationError(f"the kernel takes a number {name}; give it as {name}=N")
    for name in sizes:
        if name not in names:
            known = ", ".join(names) or "none"
            raise SimulationError(f"the kernel takes no number {name}; it takes {known}")
    shapes, loaded = array_shapes(plan, sizes), used_arrays(plan["steps"], kernels, "loaded")
    given: dict[str, Any] = {}
    for one in plan["parameters"]:
        name = one["name"]
        if "shape" in one:
            given[name] = _random(rng, shapes[name], element_type(one["dtype"]), name in loaded)
        else:
            given[name] = sizes[name]
    return given


def _random(rng: np.random.Generator, shape: list[int], kind: np.dtype, read: bool) -> np.ndarray:
    if not read:
        return np.zeros(shape, kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else -8, 8, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)
