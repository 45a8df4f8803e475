"""How many lanes AMD's kernels are launched with, said in LLVM's IR.

TVM asks a driver how many a kernel may have, and says 256 where there is none.  HIP then refuses a
launch with more, and LLVM takes ids beyond for impossible and gives out more registers than so many
lanes have.  So a module with a larger kernel is compiled once more from its IR:

    define amdgpu_kernel void @scan(...) #0        attributes #0 = { ...-size"="1,256" ... }
    define amdgpu_kernel void @scan(...) #9        attributes #9 = { ...-size"="1,1024" ... }

Workgroups come whole: one of 16 subgroups is 4 on each SIMD, two are 8.  LLVM does not count so,
and saves registers for a seventh that never comes; then it is told how many there are.

Kernels of at most 256 lanes keep what TVM said, and their code.
"""

import re
from collections.abc import Mapping
from math import ceil

from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.targets.gpu import gpu_chip, occupancy, subgroup_size

_SAID_BY_TVM = 256
_ATTRIBUTE = re.compile(r'"amdgpu-flat-work-group-size"="\d+,\d+"')


def exceeds_default(lanes: Mapping[str, int]) -> bool:
    """Whether one of the kernels has more lanes than TVM says."""
    return max(lanes.values(), default=0) > _SAID_BY_TVM


def with_lanes(text: str, lanes: Mapping[str, int], waves: Mapping[str, int]) -> str:
    """A module's IR whose larger kernels have attributes with their number of lanes.

    Args:
        text: as TVM makes it.
        lanes: of a workgroup, by kernels.
        waves: the most subgroups that a SIMD will have, of kernels that are told.

    Raises:
        BuildError: for a kernel that the IR does not define as TVM does.
    """
    groups = dict(re.findall(r"^attributes #(\d+) = \{(.*)\}$", text, re.MULTILINE))
    added = []
    for number, (name, count) in enumerate(lanes.items(), max(map(int, groups), default=0) + 1):
        if count <= _SAID_BY_TVM:
            continue
        head = re.search(rf"^define .*amdgpu_kernel .*@{name}\(.* #(\d+) ", text, re.MULTILINE)
        if head is None or not _ATTRIBUTE.search(groups[head[1]]):
            raise BuildError(f"{name}: the IR does not say how many lanes the kernel may have")
        # From 1 on, as TVM says it: from the same number on LLVM schedules some loops worse.
        said = f'"amdgpu-flat-work-group-size"="1,{count}"'
        if name in waves:
            said += f' "amdgpu-waves-per-eu"="{waves[name]},{waves[name]}"'
        added.append(f"attributes #{number} = {{{_ATTRIBUTE.sub(said, groups[head[1]])}}}\n")
        text = text[: head.start(1)] + str(number) + text[head.end(1) :]
    return text + "\n" + "".join(added)


def whole_waves(
    usage: Mapping[str, Mapping[str, int]], lanes: Mapping[str, int], target: Target
) -> dict[str, int]:
    """How many subgroups a SIMD has, of the larger kernels whose registers would be for more."""
    chip, size = gpu_chip(target), subgroup_size(target)
    found = {}
    for name, figures in usage.items():
        if lanes[name] <= _SAID_BY_TVM:
            continue
        taken = {"registers": figures["vector_registers"], "subgroup_size": size}
        resident = occupancy(
            chip, shared_memory_bytes=figures["shared_memory_bytes"], lanes=lanes[name], **taken
        )
        apart = occupancy(chip, shared_memory_bytes=0, lanes=size, **taken)
        if apart.subgroups_per_simd > resident.subgroups_per_simd:
            found[name] = ceil(resident.subgroups_per_simd)
    return found
