"""Agreement of compiled kernels with their launch plan and their chip, before they are exported.

The table is in :mod:`~tvm_iree_ext.runtime.launch.launch_contract`; what TIR alone tells stands
here: the arguments that a kernel was compiled for, in their order, and the dynamic shared memory
that it uses; and how registers are shared among a core's schedulers, by the table of chips.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx

from tvm_iree_ext.base.errors import BuildError, TargetError
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.runtime.launch.binary_file import read_binary
from tvm_iree_ext.runtime.launch.launch_contract import (
    MAP_BYTES,
    POINTER_BYTES,
    Argument,
    GpuLimits,
    KernelReport,
    disagreements,
    scalar_bytes,
)
from tvm_iree_ext.runtime.launch.plan_steps import blocks_of
from tvm_iree_ext.targets.gpu import GpuChip, occupancy


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


def check_binary(binary: bytes, chip: GpuChip) -> None:
    """Check that a binary is for a chip, as whoever loads it will.

    Raises:
        BuildError: where it is for another.
    """
    read = read_binary("the binary", binary)
    if why := read.obstacle(chip.kind, chip.name, "", (0, 0)):
        raise BuildError(f"the binary {why}")


def _launches(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for step in steps:
        if "launch" in step:
            yield step
        for block in blocks_of(step):
            yield from _launches(block)


def _problems(
    step: Mapping[str, Any],
    kernel: tirx.PrimFunc,
    report: KernelReport,
    chip: GpuChip,
    subgroup_size: int,
) -> Iterator[str]:
    yield from disagreements(step, report, _limits(chip, subgroup_size))
    shared = step["shared"] if isinstance(step["shared"], int) else 0
    if isinstance(step["shared"], int) and shared < (used := _dynamic_bytes(kernel)):
        yield f"launched with {shared} bytes of dynamic shared memory; the kernel uses {used}"
    try:
        occupancy(
            chip,
            registers=report.registers,
            shared_memory_bytes=report.shared_memory_bytes + shared,
            lanes=prod(extent for extent in step["block"] if isinstance(extent, int)),
            subgroup_size=subgroup_size,
        )
    except TargetError as error:
        yield str(error)
    yield from _arguments(kernel, report.arguments or ())


def _limits(chip: GpuChip, subgroup_size: int) -> GpuLimits:
    # Registers are not one pool here: each scheduler has its own, which occupancy knows.
    return GpuLimits(
        name=chip.name,
        is_cuda=chip.kind == "cuda",
        lanes=chip.max_lanes,
        lanes_per_dim=chip.max_lanes_per_dim,
        grid=chip.max_grid,
        shared_memory_bytes=chip.shared_memory_bytes,
        declared_shared_memory_bytes=chip.declared_shared_memory_bytes,
        subgroup_size=subgroup_size,
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


def _arguments(kernel: tirx.PrimFunc, taken: Sequence[Argument]) -> Iterator[str]:
    """What a binary takes beside the parameters that were compiled."""
    # Pointers have a suffix in the TIR, and none in the binary.
    wanted = [
        Argument(_parameter_bytes(one), str(one.name).removesuffix("_ptr")) for one in kernel.params
    ]
    if len(wanted) != len(taken):
        yield f"the binary takes {len(taken)} arguments; the kernel has {len(wanted)}"
        return
    for place, (parameter, argument) in enumerate(zip(wanted, taken, strict=True)):
        where = f"argument {place} ({parameter.name})"
        # LLVM renames values; an argument that has another one's name stands in its place.
        told = argument.name.removesuffix("_ptr")
        if told and told != parameter.name and told in {other.name for other in wanted}:
            yield f"{where} is {argument.name} in the binary"
        if parameter.size != argument.size:
            yield (
                f"{where} has {argument.size} bytes in the binary; by the kernel, {parameter.size}"
            )


def _parameter_bytes(parameter: Any) -> int:
    if not isinstance(parameter.ty, ir.PointerType):
        return scalar_bytes(str(parameter.ty.dtype))
    is_map = isinstance(parameter.ty.element_type, tirx.TensorMapType)
    return MAP_BYTES if is_map else POINTER_BYTES
