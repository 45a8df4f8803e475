"""Compile GPU kernels, and say what the compiler made of them: no GPU is needed.

ROCm   code object, AMDGPU assembly, registers and scratch from its metadata
CUDA   source always; PTX where NVRTC is found; cubin, registers and spills where ptxas is;
       SASS where nvdisasm is
"""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError, TargetError
from tvm_iree_ext.codegen.gpu import cuda
from tvm_iree_ext.codegen.gpu.compiler_advice import by_kernel
from tvm_iree_ext.codegen.gpu.gpu_pipeline import lower_with_host
from tvm_iree_ext.codegen.gpu.instruction_counts import KernelInstructions, count_instructions
from tvm_iree_ext.codegen.gpu.launch_contract import check_binary, check_launches
from tvm_iree_ext.codegen.gpu.launch_plan.clusters import with_clusters
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import SHARED_MEMORY, Plan, host_plans
from tvm_iree_ext.codegen.gpu.passes.constant_bits import name_constant_bits
from tvm_iree_ext.codegen.gpu.passes.kernel_names import name_apart_from_cuda
from tvm_iree_ext.codegen.gpu.passes.narrow_broadcasts import reinterpret_narrow_broadcasts
from tvm_iree_ext.codegen.gpu.rocm import compile_rocm
from tvm_iree_ext.intrin.fast_exp2 import with_definitions
from tvm_iree_ext.runtime.launch.launch_contract import KernelReport
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip, occupancy, subgroup_size


@dataclass(frozen=True)
class KernelResources:
    """Resources of one kernel, by the compiler's own report.

    Attributes:
        registers: 32-bit vector registers of a lane, those for accumulators included.
        scalar_registers: of a subgroup; 0 where the chip has none, or none are reported.
        spills: values (AMD) or bytes (NVIDIA) that did not fit the registers.
        scratch_bytes: memory of a lane for them, and for arrays with variable indices.
        shared_memory_bytes: of a workgroup, with what a launch asks for where that is a number.
        subgroups_per_simd: resident at once, for workgroups of the kernel's size.
        limited_by: what keeps it from more.
        advice: what the compilers said of it beside figures, such as that they serialize matrix
            instructions; see :mod:`~tvm_iree_ext.codegen.gpu.compiler_advice`.
    """

    registers: int
    scalar_registers: int
    spills: int
    scratch_bytes: int
    shared_memory_bytes: int
    subgroups_per_simd: float
    limited_by: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched: extents by ``blockIdx.x``, ``threadIdx.y`` and the like.

    An extent that depends on the arguments is absent from ``extents`` and named in ``dynamic``.
    ``shared_memory_bytes`` are those that are asked for at the launch.
    """

    extents: dict[str, int]
    dynamic: tuple[str, ...] = ()
    shared_memory_bytes: int = 0

    @property
    def lanes(self) -> int:
        """Lanes of one workgroup."""
        count = 1
        for name, extent in self.extents.items():
            count *= extent if name.startswith("threadIdx") else 1
        return count

    def lanes_at_most(self, chip: GpuChip) -> int:
        """Most lanes of one workgroup, whatever the arguments are."""
        is_open = any(name.startswith("threadIdx") for name in self.dynamic)
        return chip.max_lanes if is_open else self.lanes


@dataclass(frozen=True)
class DeviceCode:
    """Compiled GPU kernels: texts, binary and figures; what could not be made is None, and why.

    ``assembly`` is AMDGPU assembly, or SASS; ``binary`` a code object (``hsaco``) or a cubin;
    ``missing`` says what is absent for want of which tool.  ``module`` has the kernels as they were
    compiled, ``hosts`` the functions that launch them, ``reports`` what the binary says of each.
    ``provenance`` is that of the lowering config, of kernels that are an op's.
    """

    target: Target
    hosts: ir.IRModule = field(repr=False)
    module: ir.IRModule = field(repr=False)
    source: str | None = field(repr=False)
    ptx: str | None = field(repr=False)
    assembly: str | None = field(repr=False)
    binary: bytes | None = field(repr=False)
    launches: dict[str, Launch]
    resources: dict[str, KernelResources]
    reports: dict[str, KernelReport] = field(default_factory=dict, repr=False)
    missing: str = ""
    provenance: str = ""

    def plan(self) -> Plan:
        """How the kernels are launched, as data.

        Raises:
            BuildError: for several functions, for one that does more than a plan can say, and where
                plan, binary and chip disagree.
        """
        plans = list(self.plans().values())
        if len(plans) != 1:
            raise BuildError(f"{len(plans)} functions launch kernels; a plan is of one")
        return plans[0]

    def plans(self) -> dict[str, Plan]:
        """The same of each function, by name."""
        plans = host_plans(self.hosts, self.module)
        if self.binary is not None:
            chip, size = gpu_chip(self.target), subgroup_size(self.target)
            check_binary(self.binary, chip)
            for plan in plans.values():
                check_launches(plan, self.module, self.reports, chip, size)
        return plans

    def resident_workgroups(self, kernel: str) -> int:
        """Workgroups of a kernel that a core keeps at once."""
        subgroups = max(1, -(-self.launches[kernel].lanes // subgroup_size(self.target)))
        kept = self.resources[kernel].subgroups_per_simd * gpu_chip(self.target).simds_per_core
        return max(1, int(kept / subgroups))

    def bytes_of_a_wait(self, kernel: str) -> int:
        """Bytes that most waits for the tensor memory unit are for; 0 where it copies nothing."""
        function = next(f for v, f in self.module.functions.items() if str(v.name_hint) == kernel)
        found: Counter[int] = Counter()

        def see(call: Any) -> None:
            if str(getattr(call.op, "name", "")).endswith("mbarrier_arrive_expect_tx"):
                found[int(call.args[1])] += 1

        tvm_ffi.structural_walk(function.body, (ir.Call, see))
        return found.most_common(1)[0][0] if found else 0

    def instructions(self, kernel: str) -> KernelInstructions | None:
        """Instruction counts of a kernel; None where there is no assembly."""
        if self.assembly is None:
            return None
        return count_instructions(self.assembly, self.target.kind.name, kernel)


def compile_device(mod: ir.IRModule | tirx.PrimFunc, target: Target) -> DeviceCode:
    """Compile scheduled functions for a GPU as far as the tools at hand go.

    Raises:
        TargetError: for a target that is no GPU, or a kernel beyond its limits.
        BuildError: where a compiler refuses, with what it says.
    """
    chip = gpu_chip(target)
    hosts, module = lower_with_host(mod, target)
    _check_shared_memory(module, target)
    launches = _launches(hosts, module)
    if target.kind.name == "rocm":
        lanes = {name: launch.lanes_at_most(chip) for name, launch in launches.items()}
        made = compile_rocm(module, target, lanes)
        usage = {name: _of_amd(figures) for name, figures in made.usage.items()}
        resources = _resources(target, launches, usage, made.advice)
        return DeviceCode(
            target, hosts, module, None, None, made.assembly, made.hsaco, launches, resources,
            made.reports,
        )  # fmt: skip
    named = name_apart_from_cuda(name_constant_bits(reinterpret_narrow_broadcasts(module)))
    written = str(tvm.get_global_func("target.build.cuda")(named, target).inspect_source())
    source = with_clusters(with_definitions(written), named)
    code = functools.partial(DeviceCode, target, hosts, module, source)
    if obstacle := cuda.nvrtc_obstacle():
        return code(None, None, None, launches, {}, missing=f"PTX and cubin: {obstacle}")
    translated = cuda.compile_ptx(source, chip.name)
    ptx = translated.ptx
    if cuda.find_tool("ptxas") is None:
        return code(ptx, None, None, launches, {}, missing="cubin: no ptxas")
    assembled = cuda.assemble(ptx, chip.name)
    reports = cuda.kernel_reports(ptx, assembled.usage)
    sass = cuda.disassemble(assembled.cubin) if cuda.find_tool("nvdisasm") else None
    usage = {name: _of_nvidia(figures) for name, figures in assembled.usage.items()}
    resources = _resources(target, launches, usage, (*translated.advice, *assembled.advice))
    missing = "" if sass else "SASS: no nvdisasm"
    return code(ptx, sass, assembled.cubin, launches, resources, reports, missing=missing)


def device_tools(target: Target) -> list[str]:
    """The optional tools that :func:`compile_device` finds."""
    if target.kind.name == "rocm":
        return []
    found = [] if cuda.nvrtc_obstacle() else ["nvrtc"]
    return found + [tool for tool in ("ptxas", "nvdisasm") if cuda.find_tool(tool)]


def _bytes(buffer: Any) -> int:
    """The bytes of a workgroup's buffer; BuildError where the call would tell them."""
    if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
        raise BuildError(
            f"{buffer.name} in shared memory has the extents {buffer.shape}; expected numbers"
        )
    dtype = DataType(str(buffer.dtype))
    return prod(int(extent) for extent in buffer.shape) * -(-dtype.bits * dtype.lanes // 8)


def _check_shared_memory(module: ir.IRModule, target: Target) -> None:
    """Raise TargetError for a kernel that declares more than there is: LLVM ends the process."""
    chip = gpu_chip(target)
    most = chip.declared_shared_memory_bytes
    for name, kernel in module.functions.items():
        buffers: list[Any] = []
        tvm_ffi.structural_walk(
            kernel.body, (tirx.AllocBuffer, lambda node, add=buffers.append: add(node.buffer))
        )
        found = [_bytes(buffer) for buffer in buffers if buffer.scope() == "shared"]
        if sum(found) > most:
            raise TargetError(
                f"{name.name_hint} declares {sum(found)} bytes of shared memory; a kernel of"
                f" {chip.name} may declare {most}"
            )


def _launches(hosts: ir.IRModule, module: ir.IRModule) -> dict[str, Launch]:
    shared: dict[str, int] = {}

    def see(call: Any) -> None:
        tags = getattr(call.attrs, "launch_params", ())
        if SHARED_MEMORY in map(str, tags) and isinstance(call.args[-1], tirx.IntImm):
            # The last of the launch parameters; the name of the kernel comes first.
            shared[str(call.args[0].value)] = int(call.args[-1])

    for host in hosts.functions.values():
        tvm_ffi.structural_walk(host.body, (ir.Call, see))
    kernels = {str(name.name_hint): func for name, func in module.functions.items()}
    return {name: _launch(func, shared.get(name, 0)) for name, func in kernels.items()}


def _launch(func: tirx.PrimFunc, shared_memory_bytes: int) -> Launch:
    extents: dict[str, int] = {}
    dynamic: list[str] = []

    def see(attr: Any) -> None:
        if attr.attr_key == "thread_extent":
            tag = str(attr.node.thread_tag)
            if isinstance(attr.value, tirx.IntImm):
                extents[tag] = int(attr.value)
            else:
                dynamic.append(tag)

    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, see))
    return Launch(extents, tuple(dynamic), shared_memory_bytes)


def _of_amd(figures: dict[str, int]) -> dict[str, int]:
    return {
        "registers": figures["vector_registers"],
        "scalar_registers": figures["scalar_registers"],
        "spills": figures["vector_spills"] + figures["scalar_spills"],
        "scratch_bytes": figures["scratch_bytes"],
        "shared_memory_bytes": figures["shared_memory_bytes"],
    }


def _of_nvidia(figures: dict[str, int]) -> dict[str, int]:
    return {
        "registers": figures["registers"],
        "scalar_registers": 0,
        "spills": figures["spill_stores"] + figures["spill_loads"],
        "scratch_bytes": figures["stack_bytes"],
        "shared_memory_bytes": figures["shared_memory_bytes"],
    }


def _resources(
    target: Target,
    launches: dict[str, Launch],
    usage: dict[str, dict[str, int]],
    advice: Sequence[str],
) -> dict[str, KernelResources]:
    chip, said = gpu_chip(target), by_kernel(advice, usage)
    found = {}
    for name, reported in usage.items():
        shared = reported["shared_memory_bytes"] + launches[name].shared_memory_bytes
        figures = {**reported, "shared_memory_bytes": shared}
        resident = occupancy(
            chip,
            registers=figures["registers"],
            shared_memory_bytes=figures["shared_memory_bytes"],
            lanes=launches[name].lanes,
            subgroup_size=subgroup_size(target),
        )
        found[name] = KernelResources(
            **figures,
            subgroups_per_simd=resident.subgroups_per_simd,
            limited_by=resident.limit,
            advice=said[name],
        )
    return found
