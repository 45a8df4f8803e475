"""From CUDA source to PTX, cubin and SASS, with the compilers that are at hand.

NVRTC (``cuda-bindings`` and the ``nvidia-cuda-*`` packages, or a toolkit) makes PTX; ``ptxas``
makes the cubin and reports registers and spills; ``nvdisasm`` prints SASS.  Each is optional: the
``cuda`` extra brings all of them, and none needs a GPU.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu import compiler_advice
from tvm_iree_ext.runtime.launch.launch_contract import Argument, KernelReport

# What generated code takes for granted and NVRTC does not declare.
_PREAMBLE = """\
#include <cuda/std/cstdint>
#include <cuda/std/limits>
using cuda::std::uint8_t; using cuda::std::uint16_t;
using cuda::std::uint32_t; using cuda::std::uint64_t;
using cuda::std::int8_t; using cuda::std::int16_t;
using cuda::std::int32_t; using cuda::std::int64_t;
#ifndef INFINITY
#define INFINITY (::cuda::std::numeric_limits<float>::infinity())
#endif
#define __asm__ asm
#define __volatile__ volatile
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
"""


@dataclass(frozen=True)
class Assembled:
    """Output of ``ptxas``: the cubin, each kernel's registers, spilled bytes, shared memory.

    ``advice`` is what else it says: see :mod:`~tvm_iree_ext.codegen.gpu.compiler_advice`.
    """

    cubin: bytes
    usage: dict[str, dict[str, int]]
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class NvrtcOutput:
    """Output of NVRTC: PTX, and its warnings."""

    ptx: str
    advice: tuple[str, ...]


@functools.cache
def nvidia_packages() -> tuple[Path, ...]:
    """The folders of NVIDIA's packages from PyPI: each has ``include``, ``bin`` or both."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return tuple(folder for place in places for folder in sorted(Path(place).iterdir()))


def _toolkits() -> list[Path]:
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [*map(Path, named), *nvidia_packages(), Path("/usr/local/cuda")]


def find_tool(name: str) -> str | None:
    """The path of ``ptxas`` or ``nvdisasm``: of a named toolkit, of a package, or on the PATH.

    A package's comes before the PATH's, which may be too old for the PTX of a package's NVRTC.
    """
    tools = (folder / "bin" / name for folder in _toolkits())
    return next((str(tool) for tool in tools if tool.is_file()), shutil.which(name))


def include_folders() -> list[Path]:
    """Folders of ``cuda_runtime.h`` and CCCL's headers."""
    folders = [folder / "include" for folder in _toolkits()]
    folders += [folder / "targets" / "x86_64-linux" / "include" for folder in _toolkits()]
    runtime = [folder for folder in folders if (folder / "cuda_runtime.h").is_file()]
    headers = [*runtime[:1], *(folder / "cccl" for folder in folders)]
    return [folder for folder in headers if folder.is_dir()]


def nvrtc_obstacle() -> str:
    """Why NVRTC cannot be used, for a message; empty when it can."""
    if importlib.util.find_spec("cuda") is None or not _nvrtc():
        return "no NVRTC: pip install 'tvm-iree-ext[cuda]'"
    if not include_folders():
        return "no cuda_runtime.h: pip install 'tvm-iree-ext[cuda]', or set CUDA_HOME"
    return ""


@functools.cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        return None
    return nvrtc


# Variables that are not used; constants with more digits than their type, which are rounded.
_NO_FINDINGS = "177,1046"


def compile_ptx(source: str, arch: str) -> NvrtcOutput:
    """Compile CUDA C++ to PTX.

    By NVRTC's defaults divisions and roots are rounded right, and subnormal numbers are kept:
    ``--use_fast_math`` would change results that the simulator has, of comparisons, too.

    Raises:
        BuildError: where NVRTC is missing, or refuses the source, with what it says.
    """
    if obstacle := nvrtc_obstacle():
        raise BuildError(obstacle)
    nvrtc = _nvrtc()
    text = _PREAMBLE + "\n".join(
        line for line in source.splitlines() if line.strip() != "#include <cuda.h>"
    )
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, None, None)
    options = [
        f"--gpu-architecture={arch.replace('sm_', 'compute_')}",
        "-default-device",
        "--device-int128",
        f"-diag-suppress={_NO_FINDINGS}",
        *(f"--include-path={folder}" for folder in include_folders()),
    ]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BuildError(f"NVRTC refused the kernel for {arch}: {log}")
    ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    return NvrtcOutput(ptx, compiler_advice.of_nvrtc(log))


def _text(size: Any, get: Any, program: Any) -> str:
    _, length = size(program)
    data = bytearray(length)  # bytes that somebody writes to may be other people's, too
    get(program, data)
    return data.rstrip(b"\0 ").decode(errors="replace")


def assemble(ptx: str, arch: str) -> Assembled:
    """Assemble PTX.

    Raises:
        BuildError: where ``ptxas`` is missing, or refuses the PTX, with what it says.
    """
    tool = find_tool("ptxas")
    if tool is None:
        raise BuildError("no ptxas: pip install 'tvm-iree-ext[cuda]', or set CUDA_HOME")
    with scratch() as folder:
        source, target = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx)
        said = _run([tool, "-v", f"-arch={arch}", str(source), "-o", str(target)], arch)
        return Assembled(target.read_bytes(), _usage(said), compiler_advice.of_ptxas(said))


def disassemble(cubin: bytes, *, words: bool = False) -> str:
    """The SASS of a cubin; on demand with the word of each instruction.

    Raises:
        BuildError: where ``nvdisasm`` is missing.
    """
    tool = find_tool("nvdisasm")
    if tool is None:
        raise BuildError("no nvdisasm: pip install 'tvm-iree-ext[cuda]', or set CUDA_HOME")
    with scratch() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        options = ["-c", "-hex"] if words else ["-c"]
        return _run([tool, *options, str(path)], "this cubin")


def _run(command: list[str], what: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise BuildError(f"{Path(command[0]).name} refused {what}: {said}")
    return done.stdout + done.stderr


_ENTRY = re.compile(r"^\.visible \.entry (\w+)\((.*?)\)(.*?)^\{", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(
    r"\.param (?:\.align (\d+) )?\.[a-z]+(\d+) (?:\.ptr .*)?\w+(?:\[(\d+)\])?,?\s*$", re.MULTILINE
)
_CLUSTER = re.compile(r"\.reqnctapercluster (\d+)(?:, (\d+), (\d+))?")
_LANES = re.compile(r"\.maxntid (\d+)(?:, (\d+), (\d+))?")


def kernel_reports(ptx: str, usage: Mapping[str, Mapping[str, int]]) -> dict[str, KernelReport]:
    """Figures of each kernel in PTX, and from ``ptxas``, that must agree with a launch."""
    reports = {}
    for name, parameters, directives in _ENTRY.findall(ptx):
        limit, cluster = _LANES.search(directives), _CLUSTER.search(directives)
        reports[name] = KernelReport(
            lanes=prod(int(extent or 1) for extent in limit.groups()) if limit else 0,
            registers=usage[name]["registers"],
            shared_memory_bytes=usage[name]["shared_memory_bytes"],
            arguments=tuple(_arguments(parameters)),
            cluster=tuple(int(extent or 1) for extent in cluster.groups())
            if cluster
            else (1, 1, 1),
        )
    return reports


def _arguments(parameters: str) -> Iterator[Argument]:
    """The parameters of a kernel in PTX; without an alignment of its own each has its size's."""
    end = 0
    for alignment, bits, count in _PARAMETER.findall(parameters):
        element = int(bits) // 8
        unit = int(alignment or element)
        place = -(-end // unit) * unit
        yield Argument(element * int(count or 1), place=place)
        end = place + element * int(count or 1)


_KERNEL = re.compile(r"Compiling entry function '(\w+)'")
_FIGURES = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_memory_bytes": re.compile(r"(\d+) bytes smem"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
}


def _usage(said: str) -> dict[str, dict[str, int]]:
    """Figures of each kernel that ``ptxas -v`` prints; 0 for those it does not mention."""
    usage: dict[str, dict[str, int]] = {}
    figures: dict[str, int] = {}
    for line in said.splitlines():
        if found := _KERNEL.search(line):
            figures = usage.setdefault(found[1], dict.fromkeys(_FIGURES, 0))
        for name, pattern in _FIGURES.items():
            if found := pattern.search(line):
                figures[name] = int(found[1])
    return usage
