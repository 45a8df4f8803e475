"""Programs for GPUs on the simulator: all kernels of a function, without a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.base.dtypes import COMPLEX_PARTS, numpy_dtype
from tvm_iree_ext.base.errors import CallError, SimulationError
from tvm_iree_ext.base.operand_parts import parts_of
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_with_host
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import host_plans
from tvm_iree_ext.mlir.importing.imported import EntryPoint, Imported
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_gpu import function_plans, kernel_module
from tvm_iree_ext.programs.program_lowering import scheduled_program
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.runtime.launch.plan_steps import bind, number
from tvm_iree_ext.runtime.strided_arrays import StridedPort
from tvm_iree_ext.simulator.runs.simulated_launch_plans import simulate_plan
from tvm_iree_ext.simulator.simulated_launch import Simulation
from tvm_iree_ext.targets.names import TargetLike, make_target


@dataclass(frozen=True)
class SimulatedProgram:
    """The results of a function in order, and a simulation for each launch."""

    results: tuple[np.ndarray, ...]
    simulations: tuple[Simulation, ...]

    def check(self) -> "SimulatedProgram":
        """This, if nothing was found.

        Raises:
            SimulationError: naming every finding.
        """
        for simulation in self.simulations:
            simulation.check()
        return self


def main_point(imported: Imported, name: str | None = None) -> EntryPoint:
    """The function of a name; by default the only one, or ``main``.

    Raises:
        SimulationError: for a name that no function has.
    """
    points = {point.name: point for point in imported.functions}
    name = name or (next(iter(points)) if len(points) == 1 else "main")
    if name not in points:
        raise SimulationError(f"no function {name!r}; there are {', '.join(points)}")
    return points[name]


def simulate_program(
    imported: Imported,
    target: TargetLike,
    arguments: Sequence[np.ndarray],
    function: str | None = None,
    *,
    database: DatabaseLike = None,
) -> SimulatedProgram:
    """Lower a program as it is lowered to be compiled, and run a function of it.

    Args:
        imported: what :mod:`tvm_iree_ext.mlir` makes of a file.
        target: a GPU, such as ``rocm:gfx942``.
        arguments: of the function, of the element types of its signature.
        function: by default the only one, or ``main``.
        database: as of :func:`~tvm_iree_ext.programs.program_build.build_program`.

    Raises:
        ScheduleError: when no rule builds an op of the program.
        BuildError: where TVM cannot lower it.
        CallError: for arguments that do not fit.
        SimulationError: for what the simulator does not know.
    """
    resolved = make_target(target)
    point = main_point(imported, function)
    name = point.name
    constants = Constants()
    scheduled = scheduled_program(imported, resolved, constants, database)
    functions = scheduled.functions
    hosts, kernels = lower_with_host(kernel_module(scheduled.module), resolved)
    plan = function_plans(scheduled.module, functions, constants, host_plans(hosts, kernels))[name]
    signature = point.signature
    passed: list[np.ndarray] = []
    for array, operand in zip(map(np.asarray, arguments), signature.arguments, strict=True):
        passed += _parts(name, array, operand)
    given = dict(zip((one["name"] for one in plan["parameters"]), passed, strict=False))
    inputs = {**plan, "parameters": plan["parameters"][: len(passed)]}
    try:
        symbols = bind(inputs, {key: array.shape for key, array in given.items()}, {})
    except ValueError as error:
        raise CallError(f"{name}: {error}") from None
    results = {}
    for one in plan["parameters"][len(passed) :]:
        shape = [number(extent, symbols) for extent in one["shape"]]
        results[one["name"]] = np.zeros(shape, numpy_dtype(one["dtype"]))
    fixed = {one["name"]: one for one in plan["constants"]}
    by_name = {parameter.name: parameter for parameter in functions}
    named = dict(zip(fixed, by_name[name].parameters, strict=True))
    held = {key: np.array(constants[named[key]], order="C") for key in fixed}
    whole = {**plan, "parameters": [*plan["parameters"], *fixed.values()]}
    by_kernel = {str(var.name_hint): kernel for var, kernel in kernels.functions.items()}
    done = simulate_plan(whole, by_kernel, {**given, **results, **held}, written=[*given, *held])
    rest = iter([*results.values(), *done.results])
    names = [part.name for one in signature.arguments for part in parts_of(one)]
    homes = dict(zip(names, given.values(), strict=True))
    parts = [
        homes[one.in_place_of] if one.in_place_of else next(rest)
        for result in signature.results
        for one in parts_of(result)
    ]
    returned = _joined(signature, homes, iter(parts))
    return SimulatedProgram(tuple(returned), tuple(done.simulations))


def _parts(name: str, array: np.ndarray, operand: Operand) -> list[np.ndarray]:
    """An argument as the arrays that stand for it, which a run may change."""
    if operand.strides:
        layout, line = StridedPort(name, operand, None).parts(array)
        return [layout, line.copy()]
    parts = (array.real, array.imag) if str(array.dtype) in COMPLEX_PARTS else (array,)
    return [np.array(part, order="C") for part in parts]


def _joined(
    signature: Signature, parts: Mapping[str, np.ndarray], arrays: Iterator[np.ndarray]
) -> Iterator[np.ndarray]:
    """The results, put together from their parts; ``parts`` are those of the arguments."""
    for operand, result in zip(signature.results, arrays, strict=False):
        if operand.strides:
            *shape, _ = parts[operand.in_place_of].shape
            rank = len(operand.shape)
            steps = [stride * result.itemsize for stride in shape[rank:]]
            yield np.lib.stride_tricks.as_strided(result, shape[:rank], steps)
        elif operand.dtype in COMPLEX_PARTS:
            joined = np.empty(result.shape, operand.dtype)
            joined.real, joined.imag = result, next(arrays)
            yield joined
        else:
            yield result
