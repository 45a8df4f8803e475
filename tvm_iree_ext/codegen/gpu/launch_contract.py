"""Agreement of a binary, a launch plan and a chip about a kernel.

                binary            plan                 chip
    lanes       at most           of a workgroup       at most, also of each dim
    subgroups   of so many lanes                       of so many lanes
    shared      declared        + asked for            at most
    registers   of a lane       x lanes                the register files
    arguments   number, sizes     number, sizes        and those of the TIR, in its order

A driver refuses a launch that breaks a line, or runs it with what is not there.  Numbers that are
known only when a function is called are left to the driver.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.base.errors import BuildError, TargetError
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.targets.gpu import GpuChip, occupancy

_POINTER_BYTES, _MAP_BYTES = 8, 128


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: its bytes, and its name where one is told."""

    size: int
    name: str = ""


@dataclass(frozen=True)
class KernelReport:
    """A binary's figures of a kernel.

    Attributes:
        lanes: the most of a workgroup; 0 where it is not said.
        registers: 32-bit registers of a lane.
        shared_memory_bytes: what the kernel declares.
        arguments: in order.
        subgroup_size: lanes of a subgroup; 0 where it is not said.
    """

    lanes: int
    registers: int
    shared_memory_bytes: int
    arguments: tuple[Argument, ...]
    subgroup_size: int = 0


def check_launches(
    plan: Plan,
    kernels: ir.IRModule,
    reports: Mapping[str, KernelReport],
    chip: GpuChip,
    subgroup_size: int,
) -> None:
    """Check every launch of a plan.

    Args:
        plan: see :mod:`~tvm_iree_ext.codegen.gpu.launch_plan.launch_plan`.
        kernels: the TIR that was compiled.
        reports: by the kernels' names.
        chip: which is to run them.
        subgroup_size: that the target asks for.

    Raises:
        BuildError: for the first disagreement, naming the kernel and both sides.
    """
    functions = {str(name.name_hint): kernel for name, kernel in kernels.functions.items()}
    for step in _launches(plan["steps"]):
        name = step["launch"]
        if name not in reports:
            raise BuildError(f"{name} is launched and is not in the binary")
        problems = _problems(step, functions[name], reports[name], chip, subgroup_size)
        if problem := next(problems, ""):
            raise BuildError(f"{name} on {chip.name}: {problem}")


def _launches(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        if "launch" in step:
            yield step
        elif "if" in step:
            yield from _launches([*step["then"], *step["else"]])
        elif "for" in step:
            yield from _launches(step["steps"])


def _problems(
    step: Mapping[str, Any],
    kernel: tirx.PrimFunc,
    report: KernelReport,
    chip: GpuChip,
    subgroup_size: int,
) -> Iterator[str]:
    if report.subgroup_size not in (0, subgroup_size):
        yield (
            f"subgroups have {report.subgroup_size} lanes in the binary; by the target,"
            f" {subgroup_size}"
        )
    for key, most in (("block", chip.max_lanes_per_dim), ("grid", chip.max_grid)):
        for axis, extent, limit in zip("xyz", step[key], most, strict=True):
            if isinstance(extent, int) and extent > limit:
                yield f"{key}.{axis} is launched with {extent}; the chip takes at most {limit}"
    known = [extent for extent in step["block"] if isinstance(extent, int)]
    lanes = prod(known)
    if lanes > chip.max_lanes:
        yield f"launched with {lanes} lanes; the chip takes at most {chip.max_lanes}"
    if report.lanes and lanes > report.lanes:
        yield f"launched with {lanes} lanes; the binary takes at most {report.lanes}"
    yield from _memory(step, kernel, report, chip)
    shared = step["shared"] if isinstance(step["shared"], int) else 0
    try:
        occupancy(
            chip,
            registers=report.registers,
            shared_memory_bytes=report.shared_memory_bytes + shared,
            lanes=lanes,
            subgroup_size=subgroup_size,
        )
    except TargetError as error:
        yield str(error)
    yield from _arguments(step["arguments"], kernel, report.arguments)


def _memory(
    step: Mapping[str, Any], kernel: tirx.PrimFunc, report: KernelReport, chip: GpuChip
) -> Iterator[str]:
    declared, asked = report.shared_memory_bytes, step["shared"]
    if declared > chip.declared_shared_memory_bytes:
        yield (
            f"declares {declared} bytes of shared memory; a kernel may declare at most"
            f" {chip.declared_shared_memory_bytes}"
        )
    if not isinstance(asked, int):
        return
    if asked < (used := _dynamic_bytes(kernel)):
        yield f"launched with {asked} bytes of dynamic shared memory; the kernel uses {used}"
    if declared + asked > chip.shared_memory_bytes:
        yield (
            f"{declared} bytes of shared memory declared and {asked} asked for; a workgroup has"
            f" at most {chip.shared_memory_bytes}"
        )


def _dynamic_bytes(kernel: tirx.PrimFunc) -> int:
    sizes: list[int] = []

    def see(node: Any) -> None:
        buffer = node.buffer
        if buffer.scope() == "shared.dyn" and all(isinstance(e, tirx.IntImm) for e in buffer.shape):
            dtype = DataType(str(buffer.dtype))
            sizes.append(prod(map(int, buffer.shape)) * -(-dtype.bits * dtype.lanes // 8))

    tvm_ffi.structural_walk(kernel.body, (tirx.AllocBuffer, see))
    return sum(sizes)


def _arguments(
    given: Sequence[Mapping[str, Any]], kernel: tirx.PrimFunc, taken: Sequence[Argument]
) -> Iterator[str]:
    # Pointers have a suffix in the TIR, and none in the binary.
    wanted = [
        Argument(_parameter_bytes(one), str(one.name).removesuffix("_ptr")) for one in kernel.params
    ]
    for who, count in (("the plan gives", len(given)), ("the kernel has", len(wanted))):
        if count != len(taken):
            yield f"the binary takes {len(taken)} arguments; {who} {count}"
            return
    for place, (one, parameter, argument) in enumerate(zip(given, wanted, taken, strict=True)):
        where = f"argument {place} ({parameter.name})"
        # LLVM renames values; an argument that has another one's name stands in its place.
        told = argument.name.removesuffix("_ptr")
        if told and told != parameter.name and told in {other.name for other in wanted}:
            yield f"{where} is {argument.name} in the binary"
        for who, size in (("the plan", _given_bytes(one)), ("the kernel", parameter.size)):
            if size != argument.size:
                yield f"{where} has {argument.size} bytes in the binary; by {who}, {size}"


def _given_bytes(argument: Mapping[str, Any]) -> int:
    """Bytes of an argument that launchers pass."""
    if "value" in argument:
        return _scalar_bytes(argument["dtype"])
    return _POINTER_BYTES if "array" in argument else _MAP_BYTES


def _parameter_bytes(parameter: Any) -> int:
    if not isinstance(parameter.ty, ir.PointerType):
        return _scalar_bytes(str(parameter.ty.dtype))
    is_map = isinstance(parameter.ty.element_type, tirx.TensorMapType)
    return _MAP_BYTES if is_map else _POINTER_BYTES


def _scalar_bytes(dtype: str) -> int:
    return 1 if dtype == "bool" else -(-DataType(dtype).bits // 8)
