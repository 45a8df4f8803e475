"""What compilers say of kernels beside their figures: each line is a finding.

ptxas   (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
NVRTC   kernel.cu(12): warning #186-D: pointless comparison of unsigned integer with zero
TVM     its warnings while it makes LLVM IR

What is answered elsewhere is no finding: see :data:`ANSWERED`.
"""

import re
from collections.abc import Iterable, Mapping

ANSWERED: Mapping[str, str] = {
    "Cannot get maximum number of threads for AMD codegen": (
        "amd_lanes says how many lanes a kernel may have, and the launch contract refuses a binary"
        " that takes fewer than it is launched with"
    ),
}
"""Parts of lines, and why they are no finding."""

_FIGURES = re.compile(
    r"bytes gmem|Compiling entry function|Function properties for|bytes stack frame"
    r"|Used \d+ registers|Compile time"
)
_SAID = re.compile(r"^(?:ptxas\s+(?:info|warning)\s*:\s*|\[[\d:]+\] \S+: (?=Warning))")
_NVRTC = re.compile(r"^(.*): (warning #\d+.*)", re.MULTILINE)


def of_ptxas(said: str) -> tuple[str, ...]:
    """The lines of ``ptxas -v`` that are no figures."""
    return _lines(line for line in said.splitlines() if not _FIGURES.search(line))


def of_nvrtc(log: str) -> tuple[str, ...]:
    """The warnings in NVRTC's log, each at its first place."""
    found = {text: f"{place}: {text}" for place, text in reversed(_NVRTC.findall(log))}
    return _lines(reversed(found.values()))


def of_tvm(logged: str) -> tuple[str, ...]:
    """What TVM has logged."""
    return _lines(logged.splitlines())


def _lines(said: Iterable[str]) -> tuple[str, ...]:
    found = (_SAID.sub("", line.strip()) for line in said)
    kept = (line for line in found if line and not any(part in line for part in ANSWERED))
    return tuple(dict.fromkeys(kept))


def by_kernel(advice: Iterable[str], kernels: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The lines about each kernel: those that name it, and those that name none."""
    lines, names = list(advice), list(kernels)
    named = {line: [name for name in names if f"'{name}'" in line] for line in lines}
    return {name: tuple(one for one in lines if name in (named[one] or names)) for name in names}
