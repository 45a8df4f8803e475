"""The AMD chips that are emulated: what of their instruction sets differs.

Sources: LLVM's "User Guide for AMDGPU Backend" (initial kernel state, kernel descriptor, ELF header
flags), and AMD's instruction set manuals of CDNA 2 and 3 and of RDNA 3 and 4.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ChipFacts:
    """A chip; ``isa`` is the name of its instruction set in tinygrad's tables."""

    name: str
    isa: str
    machine: int  # EF_AMDGPU_MACH of the ELF header's flags
    has_ocp_floats: bool  # 8-bit floats as OCP has them, not the older ones without infinities
    has_architected_scratch: bool  # the hardware knows where a wave's scratch is
    has_workgroup_in_traps: bool  # a workgroup's numbers are in TTMP9 and TTMP7

    @property
    def is_cdna(self) -> bool:
        """Whether it has 64 lanes always, accumulators, and a scalar M0 at 124."""
        return self.isa == "cdna"

    @property
    def m0(self) -> int:
        """The number of M0 among scalar operands; RDNA has NULL at 124."""
        return 124 if self.is_cdna else 125

    @property
    def null(self) -> int | None:
        """The number of NULL among scalar operands."""
        return None if self.is_cdna else 124


CHIPS = {
    chip.name: chip
    for chip in (
        ChipFacts("gfx90a", "cdna", 0x3F, False, False, False),
        ChipFacts("gfx942", "cdna", 0x4C, False, True, False),
        ChipFacts("gfx950", "cdna", 0x4F, True, True, False),
        ChipFacts("gfx1100", "rdna3", 0x41, False, True, False),
        ChipFacts("gfx1201", "rdna4", 0x4E, True, True, True),
    )
}
"""By name."""
