"""From device TIR to AMDGPU assembly and a code object, with the plain TVM wheel.

TVM's wheel has LLVM's AMDGPU back end, and asks two functions for what ROCm would bring: device
libraries, for which our kernels need a few lines of LLVM IR (:mod:`.intrin.amd`,
:mod:`~tvm_iree_ext.codegen.gpu.passes.amd_memory`), and a linker, which any ``ld.lld`` is.
"""

import atexit
import contextlib
import functools
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm.target import Target
from tvm.target import codegen as llvm

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError, TargetError
from tvm_iree_ext.codegen.gpu import compiler_advice
from tvm_iree_ext.codegen.gpu.cpp_log import logged
from tvm_iree_ext.codegen.gpu.passes import amd_lanes
from tvm_iree_ext.codegen.gpu.passes.amd_loops import count_definitions
from tvm_iree_ext.codegen.gpu.passes.amd_memory_functions import memory_definitions
from tvm_iree_ext.codegen.gpu.passes.amd_sums import use_definitions
from tvm_iree_ext.codegen.linker import find_lld
from tvm_iree_ext.codegen.llvm_text import compile_ir
from tvm_iree_ext.intrin.amd import bfloat_definitions, kinds_called
from tvm_iree_ext.intrin.atomics import atomic_definitions, with_wide_position
from tvm_iree_ext.intrin.handed_words import handing_definitions
from tvm_iree_ext.runtime.launch.binary_file import read_binary
from tvm_iree_ext.runtime.launch.launch_contract import KernelReport
from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.mma_table import mma_table

_linked: list[bytes] = []  # what the callback saw in this build; builds run under TVM's one lock


@dataclass(frozen=True)
class CodeObject:
    """A linked code object, its assembly, what its metadata says of each kernel, and advice."""

    hsaco: bytes
    assembly: str
    usage: dict[str, dict[str, int]]
    reports: dict[str, KernelReport]
    advice: tuple[str, ...] = ()


@functools.cache
def _register_callbacks() -> None:
    held = contextlib.ExitStack()
    folder = held.enter_context(scratch())
    atexit.register(held.close)
    library = folder / "functions.ll"
    texts = (
        bfloat_definitions(mma_table().values()),
        memory_definitions(),
        atomic_definitions(),
        handing_definitions(),
        use_definitions(),
        count_definitions(),
    )
    library.write_text("".join(f"{text}\n" for text in texts))
    tvm_ffi.register_global_func(
        "tvm_callback_rocm_bitcode_path", lambda: [str(library)], override=True
    )
    tvm_ffi.register_global_func("tvm_callback_rocm_link", _link, override=True)


def _link(code: bytearray) -> bytearray:
    with scratch() as folder:
        source, target = folder / "kernel.o", folder / "kernel.hsaco"
        source.write_bytes(bytes(code))
        command = [*find_lld(), "--no-undefined", "-shared", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"ld.lld refused the kernel: {(done.stderr or done.stdout).strip()}")
        _linked.append(as_version_5(target.read_bytes()))
    return bytearray(_linked[-1])


_VERSION_PLACE, _VERSION_5, _VERSION_6 = 8, 3, 4  # EI_ABIVERSION, ELFABIVERSION_AMDGPU_HSA_V5, V6


def as_version_5(code: bytes) -> bytes:
    """A code object as one of version 5, which HIP takes from 5.0 on; 6 is for HIP 6.4 and later.

    Version 6 adds targets that stand for several chips, and those have a number in the flags.  In
    all else they are the same but for the number: LLVM 22 makes the same bytes by its module flag
    ``amdhsa_code_object_version``.
    """
    (flags,) = struct.unpack_from("<I", code, 48)
    if code[_VERSION_PLACE] != _VERSION_6 or flags >> 24:
        return code
    return code[:_VERSION_PLACE] + bytes([_VERSION_5]) + code[_VERSION_PLACE + 1 :]


def compile_rocm(mod: tvm.IRModule, target: Target, lanes: Mapping[str, int]) -> CodeObject:
    """Compile device functions for a ROCm target.

    Args:
        mod: the functions.
        target: which chip.
        lanes: of a workgroup, by the functions' names.

    Raises:
        BuildError: where LLVM or the linker refuses, with what it says.
        TargetError: for a matrix instruction that the chip lacks.
    """
    mod = _with_wide_positions(mod)
    _check_instructions(mod, str(target.attrs["mcpu"]))
    _check_functions(mod, str(target.attrs["mcpu"]))
    _register_callbacks()
    find_lld()  # before LLVM's work, with a clear message where there is none
    _linked.clear()
    said: list[str] = []
    try:
        with logged(said):
            assembly = _compiled(mod, target, lanes)
    finally:
        advice = compiler_advice.of_tvm("".join(said))
        for line in advice:  # what is not answered is seen, too
            print(line, file=sys.stderr)
    reports = dict(read_binary("kernel.hsaco", _linked[-1]).kernels or {})
    return CodeObject(_linked[-1], assembly, _usage(assembly), reports, advice)


def _compiled(mod: tvm.IRModule, target: Target, lanes: Mapping[str, int]) -> str:
    """Compile and link; the assembly."""
    try:
        made = tvm.get_global_func("target.build.rocm")(mod, target)
    except (RuntimeError, ValueError, TypeError) as error:
        raise BuildError(f"LLVM refused the kernel for {target.attrs['mcpu']}: {error}") from error
    text = str(made.inspect_source("llvm"))
    check_addresses(text)
    if amd_lanes.exceeds_default(lanes):
        code, assembly = compile_ir(amd_lanes.with_lanes(text, lanes, {}), target)
        if waves := amd_lanes.whole_waves(_usage(assembly), lanes, target):
            code, assembly = compile_ir(amd_lanes.with_lanes(text, lanes, waves), target)
        _link(bytearray(code))
        return assembly
    return str(made.inspect_source("asm"))


_CAST = re.compile(r"addrspacecast \(?ptr addrspace\(([35])\) (\S+) to ptr(?: addrspace\((\d+)\))?")
_MEMORIES = {"3": "shared", "5": "private"}


def check_addresses(text: str) -> None:
    """Refuse LLVM IR that takes an address of shared or private memory for one of another.

    TVM's code of a view whose memory it does not know is such: what it reads is undefined.
    """
    if (cast := _CAST.search(text)) is not None:
        space, name, other = cast.groups()
        raise BuildError(
            f"{name} is an address in {_MEMORIES[space]} memory; the kernel's LLVM IR casts it to"
            f" address space {other or 0}, where nothing is"
        )


def _with_wide_positions(mod: tvm.IRModule) -> tvm.IRModule:
    """The functions with atomic updates as they are defined for AMD."""
    functions = {
        name: func.with_body(tvm_ffi.structural_map(func.body, (tvm.ir.Call, with_wide_position)))
        for name, func in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _check_instructions(mod: tvm.IRModule, chip: str) -> None:
    """Refuse what the chip lacks: LLVM would end the process."""

    called: list[list[Mma]] = []
    for func in mod.functions.values():
        tvm_ffi.structural_walk(
            func.body, (tvm.ir.Call, lambda call: called.append(kinds_called(call)))
        )
    for kinds in called:
        if kinds and not any(row.on(chip) for row in kinds):
            kind = kinds[0]
            raise TargetError(f"{kind.name} is not on {chip}; it is on {', '.join(kind.arch)}")


_PURE = tvm.ir.Op.get("tirx.call_llvm_pure_intrin")
_NOT_WIDE = ("exp", "exp2", "exp10", "log", "log2", "log10", "pow", "sin", "cos")
"""Functions of float64 that would be a device library's."""


def _check_functions(mod: tvm.IRModule, chip: str) -> None:
    """Refuse what LLVM has no code for: it would end the process."""
    known = {int(llvm.llvm_lookup_intrinsic_id(f"llvm.{name}")): name for name in _NOT_WIDE}

    called: list[str | None] = []

    def see(call: tvm.ir.Call) -> None:
        if call.op.same_as(_PURE) and str(call.ty.dtype).startswith("float64"):
            called.append(known.get(int(call.args[0])))

    for func in mod.functions.values():
        tvm_ffi.structural_walk(func.body, (tvm.ir.Call, see))
    if lacking := sorted({name for name in called if name}):
        raise BuildError(f"LLVM has no {', '.join(lacking)} of float64 for {chip}")


_FIGURES = {
    "vector_registers": "vgpr_count",
    "accumulator_registers": "agpr_count",
    "scalar_registers": "sgpr_count",
    "vector_spills": "vgpr_spill_count",
    "scalar_spills": "sgpr_spill_count",
    "shared_memory_bytes": "group_segment_fixed_size",
    "scratch_bytes": "private_segment_fixed_size",
    "lanes": "max_flat_workgroup_size",
    "subgroup_size": "wavefront_size",
}


def _usage(assembly: str) -> dict[str, dict[str, int]]:
    """Figures of each kernel in the metadata at the end of the assembly."""
    return {
        values["name"]: {name: int(values.get(key, 0)) for name, key in _FIGURES.items()}
        for values in _entries(assembly)
    }


def _entries(assembly: str) -> Iterator[dict[str, str]]:
    """Values by key of each kernel in the metadata."""
    _, _, rest = assembly.partition("amdhsa.kernels:")
    metadata = rest.partition("amdhsa.target:")[0]
    for entry in re.split(r"^  - (?=\.\w+:)", metadata, flags=re.MULTILINE)[1:]:
        values = _values(entry)
        if "vgpr_count" in values:
            yield values


def _values(text: str) -> dict[str, str]:
    """Key-value pairs of a kernel itself, not of its arguments."""
    return dict(re.findall(r"^(?: {4})?\.(\w+):\s+'?([\w.]+)", text, flags=re.MULTILINE))
