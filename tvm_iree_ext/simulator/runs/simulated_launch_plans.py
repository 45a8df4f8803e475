"""Launch plans on the simulator: what a deployment would do, without a GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.runtime.launch.launch_contract import Step
from tvm_iree_ext.runtime.launch.plan_steps import Unmet, bind, blocks_of, follow, number
from tvm_iree_ext.simulator.base.lane_values import element_type
from tvm_iree_ext.simulator.machine.memory_barriers import TensorMap
from tvm_iree_ext.simulator.simulated_launch import (
    Simulation,
    Workgroups,
    hardware_of,
    simulate,
)
from tvm_iree_ext.simulator.translation.lane_statements import translate
from tvm_iree_ext.simulator.translation.lookahead import look_ahead


@dataclass(frozen=True)
class SimulatedPlan:
    """A simulation for each launch, and the results whose extents only the run told."""

    simulations: list[Simulation]
    results: list[np.ndarray]


def simulate_plan(
    plan: Plan,
    kernels: Mapping[str, tirx.PrimFunc],
    arguments: Mapping[str, Any],
    *,
    written: Iterable[str] | None = None,
    workgroups: Workgroups = None,
) -> SimulatedPlan:
    """Follow a plan.

    Args:
        plan: see :mod:`~tvm_iree_ext.codegen.gpu.launch_plan.launch_plan`.
        kernels: lowered, by name.
        arguments: an array for each buffer, changed in place, and numbers, by name.
        written: which arrays have contents at first; by default those that no kernel stores into.
        workgroups: those to run of each launch, as of
            :func:`~tvm_iree_ext.simulator.simulated_launch.simulate`.

    Raises:
        SimulationError: for arguments that do not fit, or what the simulator does not know.
    """
    names = [one["name"] for one in plan["parameters"]]
    if set(names) != set(arguments):
        raise SimulationError(
            f"arguments {', '.join(arguments)}; the function takes {', '.join(names)}"
        )
    if workgroups is not None and not callable(workgroups):
        workgroups = list(workgroups)  # for each launch again
    followed = _Followed(plan, kernels, arguments, written, workgroups)
    try:
        shapes = {name: one.shape for name, one in followed.arrays.items()}
        numbers = bind(plan, shapes, followed.numbers)
    except ValueError as error:
        raise SimulationError(str(error)) from None
    values = numbers | followed.numbers
    try:
        follow(plan["steps"], values, followed.do)
    except Unmet as error:
        raise SimulationError(str(error)) from None
    results = [followed.result(one, values) for one in plan.get("results", ())]
    return SimulatedPlan(followed.done, results)


def array_shapes(plan: Plan, numbers: Mapping[str, int]) -> dict[str, list[int]]:
    """The shapes of a plan's arrays, by the values of its symbols and numbers."""
    return {
        one["name"]: [number(extent, numbers) for extent in one["shape"]]
        for one in plan["parameters"]
        if "shape" in one
    }


def used_arrays(
    steps: Iterable[Step],
    kernels: Mapping[str, tirx.PrimFunc],
    how: Literal["loaded", "stored"],
) -> set[str]:
    """The arrays that a kernel of a plan loads from, or stores into."""
    found: set[str] = set()
    for step in steps:
        for block in blocks_of(step):
            found |= used_arrays(block, kernels, how)
        if "tensor_map" in step and how == "loaded":
            found.add(step["array"])
        if ("copy" in step or "read" in step) and how == "loaded":
            found.add(step["array"])
        if how == "stored":
            found |= {step[kind] for kind in ("copy", "write") if kind in step}
        if "launch" in step:
            kernel = kernels[step["launch"]]
            used = getattr(look_ahead(kernel.body), how)
            for one, parameter in zip(step["arguments"], kernel.params, strict=True):
                if "array" in one and parameter in used:
                    found.add(one["array"])
    return found


def _told_apart(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel with a name of its own for each parameter: a caller may give one array twice."""
    taken: set[str] = set()
    renamed: dict[Any, Any] = {}
    for parameter in kernel.params:
        name = short = str(parameter.name).removesuffix("_ptr")
        while name in taken:
            name = f"{short}_{len(taken)}"
        taken.add(name)
        if name != short:
            renamed[parameter] = tirx.Var(name, parameter.ty)
    if not renamed:
        return kernel
    body = tvm_ffi.structural_map(kernel.body, (ir.Var, lambda var: renamed.get(var, var)))
    parameters = [renamed.get(parameter, parameter) for parameter in kernel.params]
    return tirx.PrimFunc(parameters, body, kernel.ret_type, kernel.attrs)


class _Followed:
    def __init__(
        self,
        plan: Plan,
        kernels: Mapping[str, tirx.PrimFunc],
        arguments: Mapping[str, Any],
        written: Iterable[str] | None,
        workgroups: Workgroups,
    ) -> None:
        self.kernels, self.workgroups = kernels, workgroups
        self.done: list[Simulation] = []
        self.maps: dict[str, TensorMap] = {}
        self.allocated: set[str] = set()
        self.arrays: dict[str, np.ndarray] = {}
        self.numbers: dict[str, Any] = {}
        for one in plan["parameters"]:
            value = arguments[one["name"]]
            if "shape" in one:
                if not isinstance(value, np.ndarray):
                    raise SimulationError(f"{one['name']} is {value!r}; expected an array")
                self.arrays[one["name"]] = value
            else:
                self.numbers[one["name"]] = value
        stored = used_arrays(plan["steps"], kernels, "stored")
        full = set(self.arrays) - stored if written is None else set(written)
        self.written = {  # of each array, the bytes with contents
            name: np.full(one.nbytes, name in full) for name, one in self.arrays.items()
        }

    def do(self, step: Step) -> int | None:
        """A step, with numbers for its texts; the number that it reads."""
        if "read" in step:
            return self._read(step)
        if "write" in step:
            value = np.array(step["value"]).astype(element_type(step["dtype"]))
            self._fill(step["write"], value.reshape(1).view(np.uint8), True)
        elif "copy" in step:
            size = step["bytes"]
            content = self._bytes(step["array"])[:size]
            self._fill(step["copy"], content, self.written[step["array"]][:size])
        elif "allocate" in step:
            name = step["allocate"]
            self.allocated.add(name)
            self.arrays[name] = np.zeros(step["bytes"], np.uint8)
            self.written[name] = np.zeros(step["bytes"], bool)
        elif "tensor_map" in step:
            self.maps[step["tensor_map"]] = self._tensor_map(step)
        elif 0 not in step["grid"]:
            self._launch(step)
        return None

    def result(self, named: Mapping[str, Any], names: Mapping[str, Any]) -> np.ndarray:
        """An array of the plan, as it is now: its name, dtype and shape by texts."""
        shape = [number(extent, names) for extent in named["shape"]]
        kind = element_type(named["dtype"])
        content = self._bytes(named["name"])[: prod(shape) * kind.itemsize]
        return content.view(kind).reshape(shape).copy()

    def _bytes(self, name: str) -> np.ndarray:
        """The bytes of an array, which are its memory."""
        return self.arrays[name].reshape(-1).view(np.uint8)

    def _fill(self, name: str, content: np.ndarray, is_written: Any) -> None:
        """Have an array begin with some bytes; ``is_written`` says which have contents."""
        self._bytes(name)[: len(content)] = content
        self.written[name][: len(content)] = is_written

    def _read(self, step: Step) -> int:
        """The number at a place of an array.

        Raises:
            SimulationError: where nothing was written there.
        """
        kind = element_type(step["dtype"])
        start = step["at"] * kind.itemsize
        span = slice(start, start + kind.itemsize)
        if not self.written[step["array"]][span].all():
            raise SimulationError(f"the host reads {step['array']}, which has no contents yet")
        return int(self._bytes(step["array"])[span].view(kind)[0])

    def _tensor_map(self, step: Step) -> TensorMap:
        """One whose dims, strides and box have the fastest first, which here come last."""
        array, extents = self.arrays[step["array"]], step["extents"]
        if step["array"] in self.allocated:  # bytes, of which other tensors may share some
            array = array.view(element_type(step["dtype"]))[: prod(extents)]
        packed = [array.itemsize * int(np.prod(extents[:dim])) for dim in range(1, len(extents))]
        if step["strides"] != packed:
            raise SimulationError(f"the simulator takes tensor maps of whole arrays, not {step}")
        swizzle, steps = 16 << step["swizzle"], tuple(step["steps"][::-1])
        box = tuple(-(-span // by) for span, by in zip(step["box"][::-1], steps, strict=True))
        written = self.written[step["array"]][: array.nbytes]
        if array.size < prod(extents):  # an array without rows, which has a map, too
            array = np.zeros(prod(extents), array.dtype)
            written = np.zeros(array.nbytes, bool)
        return TensorMap(array.reshape(extents[::-1]), box, swizzle, written, steps)

    def _launch(self, step: Step) -> None:
        kernel = _told_apart(self.kernels[step["launch"]])
        hardware = hardware_of(kernel)
        translation = translate(kernel, hardware)
        sizes = {parameter.short_name: parameter.size for parameter in translation.parameters}
        given: dict[str, Any] = {}
        written: dict[str, np.ndarray] = {}
        places: dict[str, str] = {}
        for one, parameter in zip(step["arguments"], kernel.params, strict=True):
            short = str(parameter.name).removesuffix("_ptr")
            if "array" not in one:
                given[short] = (
                    self.maps[one["tensor_map"]]
                    if "tensor_map" in one
                    else _passed(one["value"], str(parameter.ty.dtype))
                )
                continue
            places[short] = one["array"]
            array = self.arrays[one["array"]]
            element = element_type(str(parameter.ty.element_type.dtype))
            is_bytes = one["array"] in self.allocated
            # Memory that tensors share may be larger than this one.
            given[short] = array.view(element)[: sizes[short]] if is_bytes else array
            written[short] = self.written[one["array"]][: given[short].nbytes]
        done = simulate(
            translation, given, hardware=hardware, written=written, workgroups=self.workgroups
        )
        planned = [tuple(step[key]) for key in ("grid", "block")]
        if planned != [done.grid, done.block]:
            raise SimulationError(
                f"{step['launch']}: the plan launches {planned}; the kernel is for"
                f" {[done.grid, done.block]}"
            )
        self.done.append(done)
        for short, name in places.items():
            self.written[name][: len(done.written[short])] = done.written[short]


def _passed(number: Any, dtype: str) -> Any:
    """A number as a kernel's parameter has it: an integer wraps to its type."""
    kind = element_type(dtype)
    return int(np.asarray(number).astype(kind)) if kind.kind in "iu" else number
