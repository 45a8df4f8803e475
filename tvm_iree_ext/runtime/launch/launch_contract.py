"""Agreement of a launch, a binary and a GPU: the table of what must hold before a kernel runs.

                launch                binary                   GPU
    lanes       of a workgroup        at most                  at most, also along each dim
    grid        workgroups                                     at most; HIP: and lanes along x
    cluster     of workgroups, which  of so many workgroups
                divide the grid
    subgroups                         of so many lanes         of so many lanes
    shared      asked for           + declared                 at most
    registers   x lanes               of a lane                of a workgroup
    arguments   number, sizes, kinds  number, sizes, kinds,
                                      aligned places
    chip                              built for                is
    version                           of the code object       that HIP knows

A driver refuses a launch that breaks a line, by a number, or runs it with what is not there.  The
table is checked when kernels are exported, of the compilers' reports and the table of chips, and
again before a launch, of what was loaded and what the driver says of the GPU.

An artifact's ``launch.py`` holds this module, too: it imports nothing of the package.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

POINTER_BYTES, MAP_BYTES = 8, 128
"""Bytes of an address, and of CUDA's descriptor of an array, as arguments."""

_MOST_EXTENT = (1 << 31) - 1  # of any launch, whatever the driver says
_MOST_LANES_ALONG_X = (1 << 32) - 1  # of a launch: hipModuleLaunchKernel in ROCm's clr 6.2

Step = Mapping[str, Any]
"""A step of a launch plan."""


@dataclass(frozen=True)
class Argument:
    """An argument that a binary takes; None for what it does not tell.

    Attributes:
        size: bytes.
        name: of the parameter; empty where it is not told.
        place: in the memory of all arguments.
        is_address: whether it is one.
    """

    size: int
    name: str = ""
    place: int | None = None
    is_address: bool | None = None


@dataclass(frozen=True)
class KernelReport:
    """A binary's figures of a kernel; 0 for a number that it does not tell.

    Attributes:
        lanes: the most of a workgroup.
        registers: 32-bit registers of a lane.
        shared_memory_bytes: what the kernel declares.
        arguments: in order; None where they are not told.
        subgroup_size: lanes of a subgroup.
        cluster: workgroups of a cluster along x, y, z; None where it is not told, or there is none.
    """

    lanes: int
    registers: int
    shared_memory_bytes: int
    arguments: tuple[Argument, ...] | None
    subgroup_size: int = 0
    cluster: tuple[int, ...] | None = None


@dataclass(frozen=True)
class GpuLimits:
    """What a GPU offers to a workgroup; 0 for a number that is not told.

    Attributes:
        name: of the chip.
        is_cuda: else HIP launches.
        lanes: the most of a workgroup, with the most along x, y, z in ``lanes_per_dim``.
        grid: the most workgroups along x, y, z.
        shared_memory_bytes: of a workgroup, of which a kernel may declare
            ``declared_shared_memory_bytes``.
        registers: 32-bit registers for all of a workgroup's lanes.
        subgroup_size: lanes of a subgroup.
    """

    name: str
    is_cuda: bool
    lanes: int
    lanes_per_dim: tuple[int, ...]
    grid: tuple[int, ...]
    shared_memory_bytes: int
    declared_shared_memory_bytes: int
    registers: int = 0
    subgroup_size: int = 0


def disagreements(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    """The lines that a launch breaks, for messages; what only a call tells may be left as text."""
    for line in CONTRACT.values():
        yield from line(step, report, limits)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _lanes(step: Step) -> int:
    return prod(_number(extent) or 1 for extent in step["block"])


def _lanes_of_binary(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    if report.lanes and _lanes(step) > report.lanes:
        yield f"launched with {_lanes(step)} lanes; the binary takes at most {report.lanes}"


def _lanes_of_gpu(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    yield from _extents("block", step, limits.lanes_per_dim)
    if limits.lanes and _lanes(step) > limits.lanes:
        yield f"launched with {_lanes(step)} lanes; the chip takes at most {limits.lanes}"


def _grid(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    yield from _extents("grid", step, limits.grid)
    along_x = _number(step["grid"][0]) * _number(step["block"][0])
    if not limits.is_cuda and along_x > _MOST_LANES_ALONG_X:
        yield f"launched with {along_x} lanes along x; HIP takes at most {_MOST_LANES_ALONG_X}"


def _cluster(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    """A launch takes clusters from the binary alone."""
    given = tuple(step.get("cluster", (1, 1, 1)))
    if report.cluster is not None and given != report.cluster:
        yield (
            f"clusters have {list(report.cluster)} workgroups in the binary; by the plan,"
            f" {list(given)}"
        )
    for axis, extent, part in zip("xyz", step["grid"], given, strict=True):
        if _number(extent) % part:
            yield f"grid.{axis} is launched with {extent}; clusters have {part} workgroups along it"


def _extents(what: str, step: Step, most: Sequence[int]) -> Iterator[str]:
    for axis, extent, limit in zip("xyz", step[what], most, strict=True):
        if _number(extent) > (limit or _MOST_EXTENT):
            yield (
                f"{what}.{axis} is launched with {extent}; the chip takes at most"
                f" {limit or _MOST_EXTENT}"
            )


def _subgroups(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    sizes = report.subgroup_size, limits.subgroup_size
    if all(sizes) and sizes[0] != sizes[1]:
        yield f"subgroups have {sizes[0]} lanes in the binary; by the target, {sizes[1]}"


def _declared_shared(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    declared, most = report.shared_memory_bytes, limits.declared_shared_memory_bytes
    if most and declared > most:
        yield f"declares {declared} bytes of shared memory; a kernel may declare at most {most}"


def _all_shared(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    declared, asked = report.shared_memory_bytes, _number(step["shared"])
    if limits.shared_memory_bytes and declared + asked > limits.shared_memory_bytes:
        yield (
            f"{declared} bytes of shared memory declared and {asked} asked for; a workgroup has"
            f" at most {limits.shared_memory_bytes}"
        )


def _registers(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    if limits.registers and report.registers * _lanes(step) > limits.registers:
        yield (
            f"{report.registers} registers for each of {_lanes(step)} lanes; a workgroup has"
            f" {limits.registers}"
        )


def _argument_count(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    taken, given = report.arguments, step["arguments"]
    if taken is not None and len(taken) != len(given):
        yield f"the binary takes {len(taken)} arguments; the plan gives {len(given)}"


def _argument_sizes(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    for place, (given, taken) in enumerate(_pairs(step, report)):
        if (size := given_bytes(given)) != taken.size:
            yield (
                f"argument {place} ({_called(given, taken)}) has {taken.size} bytes in the binary;"
                f" by the plan, {size}"
            )


def _argument_kinds(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    """The order of arguments, as far as addresses and numbers show it."""
    for place, (given, taken) in enumerate(_pairs(step, report)):
        if taken.is_address is not None and taken.is_address != ("array" in given):
            kinds = ("an address", "a number") if taken.is_address else ("a number", "an address")
            yield (
                f"argument {place} ({_called(given, taken)}) is {kinds[0]} in the binary; by the"
                f" plan, {kinds[1]}"
            )


def _argument_places(step: Step, report: KernelReport, limits: GpuLimits) -> Iterator[str]:
    """Each argument lies at a multiple of its alignment, behind the one before.

    A tensor map's 64 bytes are counted from the constant bank's beginning, not from the first
    argument's place: an H100's driver says byte 48, and arguments begin at byte 528 there.
    """
    end = 0
    for place, one in enumerate(report.arguments or ()):
        if one.place is None:
            continue
        alignment = min(one.size & -one.size, 16)
        if one.place % alignment or one.place < end:
            yield (
                f"argument {place} ({one.name or 'no name'}) of {one.size} bytes lies at byte"
                f" {one.place} in the binary; expected a multiple of {alignment} from {end} on"
            )
        end = one.place + one.size


def _pairs(step: Step, report: KernelReport) -> Iterator[tuple[Step, Argument]]:
    if report.arguments is not None:
        yield from zip(step["arguments"], report.arguments, strict=False)


def _called(given: Step, taken: Argument) -> str:
    """What an argument is called in a message."""
    return str(taken.name or given.get("array") or given.get("tensor_map") or given.get("value"))


def given_bytes(argument: Step) -> int:
    """Bytes of an argument that a launch passes."""
    if "value" in argument:
        return scalar_bytes(argument["dtype"])
    return POINTER_BYTES if "array" in argument else MAP_BYTES


def scalar_bytes(dtype: str) -> int:
    """Bytes of a number that a kernel takes."""
    bits = re.search(r"\d+", dtype)
    return 1 if dtype == "bool" or bits is None else -(-int(bits[0]) // 8)


Line = Callable[[Step, KernelReport, GpuLimits], Iterator[str]]

CONTRACT: Mapping[str, Line] = {
    "lanes, by the chip": _lanes_of_gpu,
    "lanes, by the binary": _lanes_of_binary,
    "workgroups": _grid,
    "workgroups of a cluster": _cluster,
    "lanes of a subgroup": _subgroups,
    "shared memory declared": _declared_shared,
    "shared memory in all": _all_shared,
    "registers x lanes": _registers,
    "number of arguments": _argument_count,
    "sizes of arguments": _argument_sizes,
    "order of arguments": _argument_kinds,
    "alignment of arguments": _argument_places,
}
"""The lines about one launch, by what they are about."""


def chip_obstacle(built: str, found: str, *, is_text: bool = False) -> str:
    """Why a GPU does not run what is built for a chip, for a message; empty where it does.

    HIP: the processor must be the same; a feature that the code names (``gfx942:xnack-``) must be
    as the GPU has it (``gfx942:sramecc+:xnack-``), and one that it does not name is any.
    Source: isCodeObjectCompatibleWithDevice of ROCm's clr.

    CUDA: a cubin runs on its own generation from its number on, a text (PTX) on all later chips,
    and one for ``sm_90a`` on that chip alone.  Source: CUDA's guide, *Application Compatibility*.

    >>> chip_obstacle("gfx942", "gfx942:sramecc+:xnack-"), chip_obstacle("sm_80", "sm_89")
    ('', '')
    >>> chip_obstacle("gfx942:xnack+", "gfx942:sramecc+:xnack-")
    'is for gfx942:xnack+; the GPU is gfx942:sramecc+:xnack-'
    >>> chip_obstacle("sm_80", "sm_90"), chip_obstacle("sm_80", "sm_90", is_text=True)
    ('is for sm_80; the GPU is sm_90', '')
    """
    if not built or not found:
        return ""
    runs = _cuda_runs(built, found, is_text) if found.startswith("sm_") else _hip_runs(built, found)
    kind = " and later" if is_text and built[-1].isdigit() else ""
    return "" if runs else f"is for {built}{kind}; the GPU is {found}"


def _hip_runs(built: str, found: str) -> bool:
    processor, *wanted = built.split(":")
    own, *has = found.split(":")
    return processor == own and set(wanted) <= set(has)


def _cuda_runs(built: str, found: str, is_text: bool) -> bool:
    number, form, own = int(re.sub(r"\D", "", built)), built[-1], int(re.sub(r"\D", "", found))
    if form == "a":
        return number == own
    is_generation = number // 10 == own // 10
    return own >= number and (is_generation or (is_text and form != "f"))


_LEAST_HIP = {4: (4, 1), 5: (5, 0), 6: (6, 4)}
"""From which version on HIP takes a code object: amd_hsa_elf.hpp of ROCm's clr has 5 in 5.6, the
oldest that was read, and not 6 in 6.3; 4 by LLVM's D99235."""


def version_obstacle(version: int, hip: tuple[int, int]) -> str:
    """Why HIP does not take a code object, for a message; empty where it does or is not known."""
    if version not in _LEAST_HIP:
        return f"is a code object of version {version}; expected 4, 5 or 6"
    least = _LEAST_HIP[version]
    if any(hip) and hip < least:
        return (
            f"is a code object of version {version}, for HIP {least[0]}.{least[1]} and later; HIP"
            f" here is {hip[0]}.{hip[1]}"
        )
    return ""
