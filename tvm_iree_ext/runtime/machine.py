"""May a library run on this machine? Found out before it is loaded, when it is still an error.

A library of another processor fails in the loader with a riddle, and one that uses instructions
which this processor lacks, or which the system withholds, ends the process.
"""

import contextlib
import ctypes
import functools
import platform
from collections.abc import Iterable
from pathlib import Path

from tvm_iree_ext.base.errors import ArtifactError

# e_machine of an ELF header -> the name that uname gives.
_ELF_MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SAME = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "armv7l": "arm"}

# LLVM's name of a vector extension -> Linux's, in /proc/cpuinfo. Only those that LLVM uses unasked
# for a given processor, or that our schedules use.
CPU_FEATURES = {
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vbmi": "avx512vbmi",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}


# arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) of Linux on x86-64.
_ASK_FOR_TILES = (158, 0x1023, 18)


def uname_machine(name: str) -> str:
    """An architecture's name as Linux gives it: ``x86_64`` for ``AMD64``."""
    name = name.lower()
    return _SAME.get(name, name)


def this_machine() -> str:
    """This machine's architecture: ``x86_64``, ``aarch64``."""
    return uname_machine(platform.machine())


def is_this_machine(triple: str) -> bool:
    """Whether a target triple (empty for none) names this architecture and operating system."""
    if not triple:
        return True
    return uname_machine(triple.split("-")[0]) == this_machine() and "linux" in triple


def library_machine(data: bytes) -> str | None:
    """The architecture that an ELF library was built for; None for other file formats."""
    if data[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(data[18:20], "little" if data[5] == 1 else "big")
    return _ELF_MACHINES.get(number, f"ELF machine {number}")


def check_library(library: Path, triple: str | None, features: Iterable[str]) -> None:
    """Check that ``library``, built for ``triple`` with ``features``, can run here.

    Raises:
        ArtifactError: for another architecture, operating system or file format, or for
            instructions that this processor lacks.
    """
    with library.open("rb") as file:
        machine = library_machine(file.read(20))
    here = this_machine()
    if machine is None:
        built_for = triple or "another operating system"
        raise ArtifactError(f"{library}: built for {built_for}; this machine runs Linux")
    if machine != here:
        built_for = triple or f"{machine}-linux-gnu"
        raise ArtifactError(f"{library}: built for {built_for}; this machine is {here}")
    if missing := lacking(features):
        raise ArtifactError(
            f"{library}: uses {', '.join(missing)}, {why_lacking(missing)};"
            " build for a target with this processor's mcpu"
        )


def lacking(features: Iterable[str]) -> list[str]:
    """Features, by LLVM's names, that this processor lacks, as far as Linux says."""
    flags = cpu_flags()
    return [
        feature for feature in features if flags and CPU_FEATURES.get(feature, feature) not in flags
    ]


def why_lacking(missing: Iterable[str]) -> str:
    """The reason why this process cannot use some features, for a message."""
    if any(CPU_FEATURES.get(feature) in withheld_flags() for feature in missing):
        return "which the system does not let this process use"
    return "which this processor lacks"


def present() -> list[str]:
    """The vector extensions that this processor has, by LLVM's names, as far as Linux says."""
    return [feature for feature, flag in CPU_FEATURES.items() if flag in cpu_flags()]


def cpu_flags() -> frozenset[str]:
    """Flags the first processor has and the system lets this process use; empty if unknown."""
    return _listed_flags() - withheld_flags()


@functools.cache
def withheld_flags() -> frozenset[str]:
    """The flags of AMX, where Linux has no room for its registers in this process's threads.

    It makes room when it is asked to, once for a process: hereby.
    """
    tiles = frozenset(flag for flag in _listed_flags() if flag.startswith("amx_"))
    if not tiles or ctypes.CDLL(None).syscall(*_ASK_FOR_TILES) == 0:
        return frozenset()
    return tiles


_MODEL = ("vendor_id", "cpu family", "model", "stepping")
_ARM_MODEL = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")


@functools.cache
def cpu_model() -> tuple[str, ...]:
    """The numbers by which LLVM names the first processor's model; empty if unknown."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in (*_MODEL, *_ARM_MODEL):
                found.setdefault(name.strip(), value.strip())
            elif not name.strip():
                break
    return tuple(f"{name} {value}" for name, value in found.items())


@functools.cache
def _listed_flags() -> frozenset[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, flags = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(flags.split())
    except OSError:
        pass
    return frozenset()
