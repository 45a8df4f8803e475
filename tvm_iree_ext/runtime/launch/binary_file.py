"""Binaries as they say of themselves: the chip they are for, and the kernels of a code object.

Sources: LLVM's "User Guide for AMDGPU Backend", sections "ELF Code Object" and "Code Object V5
Metadata"; LLVM's BinaryFormat/ELF.h; the PTX ISA, *Directives*.

An artifact's ``launch.py`` holds this module, too.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.runtime.launch.launch_contract import (
    Argument,
    KernelReport,
    chip_obstacle,
    version_obstacle,
)
from tvm_iree_ext.runtime.launch.message_pack import unpack

AMD_MACHINES = {
    0x30: "gfx908", 0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950", 0x41: "gfx1100",
    0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103", 0x43: "gfx1150", 0x4A: "gfx1151",
    0x48: "gfx1200", 0x4E: "gfx1201", 0x49: "gfx1250",
}  # fmt: skip
"""Chips by the number in the flags of a code object (EF_AMDGPU_MACH)."""

# Bits of these flags: EF_AMDGPU_FEATURE_SRAMECC_V4, EF_AMDGPU_FEATURE_XNACK_V4.
_FEATURES = (("sramecc", 0x800, 0xC00), ("xnack", 0x200, 0x300))
_AMD, _NVIDIA = 224, 190  # EM_AMDGPU, EM_CUDA
_NEWER_FLAGS = 8  # from this version on a cubin's number is in other bits (ELFABIVERSION_CUDA_V2)
_NOTES, _METADATA = 4, 32  # PT_NOTE, NT_AMDGPU_METADATA


@dataclass(frozen=True)
class BinaryFile:
    """What a binary says of itself.

    Attributes:
        name: of its file.
        vendor: ``rocm`` or ``cuda``; empty where it is neither's.
        chip: that it is for; of a cubin without the letter of ``sm_90a``, which it does not hold.
        is_text: PTX, which the driver compiles.
        version: of a code object; 0 for others.
        kernels: by name, of a code object; for others the driver tells.
    """

    name: str
    vendor: str
    chip: str
    is_text: bool = False
    version: int = 0
    kernels: Mapping[str, KernelReport] | None = None

    def obstacle(self, vendor: str, chip: str, found: str, hip: tuple[int, int]) -> str:
        """Why a GPU does not run it, for a message; empty where it does.

        Args:
            vendor: of the driver.
            chip: that the artifact is for.
            found: the GPU's chip; empty where the driver does not say.
            hip: HIP's version; zeros where it is not known.
        """
        if self.vendor != vendor:
            kinds = {"rocm": "a code object of AMD's", "cuda": "a cubin or PTX"}
            return f"is no binary for {vendor}; expected {kinds[vendor]}"
        if self.chip.partition(":")[0] != _processor(chip, self.is_text):
            return f"is for {self.chip}; the artifact is for {chip}"
        if self.version and (why := version_obstacle(self.version, hip)):
            return why
        # A cubin's own name of its chip lacks the letter.
        own = chip if self.vendor == "cuda" else self.chip
        return chip_obstacle(own, found, is_text=self.is_text)


def _processor(chip: str, is_text: bool) -> str:
    name = chip.partition(":")[0]
    return name if is_text or not name.startswith("sm_") else name.rstrip("af")


def read_binary(name: str, image: bytes) -> BinaryFile:
    """Read a code object, a cubin or PTX."""
    if image[:4] != b"\x7fELF":
        target = re.search(rb"^\s*\.target\s+(\w+)", image, re.MULTILINE)
        if target is None:
            return BinaryFile(name, "", "")
        return BinaryFile(name, "cuda", target[1].decode(), is_text=True)
    (machine,) = struct.unpack_from("<H", image, 18)
    (flags,) = struct.unpack_from("<I", image, 48)
    if machine == _NVIDIA:
        number = flags >> 8 & 0xFF if image[8] >= _NEWER_FLAGS else flags & 0xFF
        return BinaryFile(name, "cuda", f"sm_{number}")
    if machine != _AMD:
        return BinaryFile(name, "", "")
    chip = AMD_MACHINES.get(flags & 0xFF, f"machine {flags & 0xFF:#x}")
    for feature, off, on in _FEATURES:
        value = flags & on
        if value in (off, on):
            chip += f":{feature}{'+' if value == on else '-'}"
    kernels = {one[".name"]: _report(one) for one in _metadata(image).get("amdhsa.kernels", ())}
    return BinaryFile(name, "rocm", chip, version=image[8] + 2, kernels=kernels)


def _report(entry: Mapping[str, Any]) -> KernelReport:
    given = [one for one in entry.get(".args", ()) if not one[".value_kind"].startswith("hidden")]
    return KernelReport(
        lanes=int(entry.get(".max_flat_workgroup_size", 0)),
        registers=int(entry.get(".vgpr_count", 0)),
        shared_memory_bytes=int(entry.get(".group_segment_fixed_size", 0)),
        arguments=tuple(
            Argument(
                int(one[".size"]),
                str(one.get(".name", "")),
                int(one[".offset"]),
                one[".value_kind"] == "global_buffer",
            )
            for one in given
        ),
        subgroup_size=int(entry.get(".wavefront_size", 0)),
    )


def _metadata(image: bytes) -> Mapping[str, Any]:
    """What the note of a code object holds; empty where there is none."""
    for start, end in _segments(image, _NOTES):
        at = start
        while at + 12 <= end:
            name, size, kind = struct.unpack_from("<III", image, at)
            content = at + 12 + -(-name // 4) * 4
            if kind == _METADATA:
                return dict(unpack(image[content : content + size]))
            at = content + -(-size // 4) * 4
    return {}


def _segments(image: bytes, wanted: int) -> Iterator[tuple[int, int]]:
    """Where segments of a type begin and end in the file."""
    (start,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    for place in range(start, start + size * count, size):
        kind, _flags, offset, _address, _physical, length = struct.unpack_from(
            "<IIQQQQ", image, place
        )
        if kind == wanted:
            yield offset, offset + length


def chosen(
    binaries: Sequence[BinaryFile], vendor: str, chip: str, found: str, hip: tuple[int, int]
) -> tuple[list[BinaryFile], str]:
    """The binaries that a GPU runs, in order; and why not, where it runs none."""
    why = [(one, one.obstacle(vendor, chip, found, hip)) for one in binaries]
    fitting = [one for one, obstacle in why if not obstacle]
    return fitting, "" if fitting else "; ".join(f"{one.name} {text}" for one, text in why)
