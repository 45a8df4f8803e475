"""Cycles that the units of AMD's cores take, chip by chip: issue, matrix units, LDS, memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.inspection.loop_time.core_timing import CoreTiming, of_mnemonic


@dataclass(frozen=True, kw_only=True)
class AmdTiming(CoreTiming):
    """Cycles and widths of a core's units.

    Attributes:
        on_vector_unit: whether matrix instructions keep the vector unit from other instructions.
        matrix_cycles: patterns of matrix instructions, and for how long each occupies the unit;
            the first that matches.
        matrix_answer_cycles: beyond that, until another instruction than the next sum reads it.
        vector_answer_cycles: from an instruction of the vector unit to one that needs its result.
        slow_vector_cycles: of exp, logarithms, roots and the like.
        lds_read_bytes: of a port, a cycle.
        lds_write_bytes: of a port, a cycle; addresses of 4 bytes a lane come along.
        scalar_answer_cycles: of a scalar load.
    """

    on_vector_unit: bool
    matrix_cycles: tuple[tuple[str, int], ...]
    matrix_answer_cycles: int
    vector_answer_cycles: int
    slow_vector_cycles: int
    lds_read_bytes: int
    lds_write_bytes: int
    scalar_answer_cycles: int

    def matrix(self, mnemonic: str) -> int:
        """Cycles of the matrix unit for an instruction.

        Raises:
            TargetError: for one that no pattern matches.

        >>> amd_timing("gfx942").matrix("v_mfma_f32_16x16x16_f16")
        16
        """
        return of_mnemonic(self.matrix_cycles, mnemonic)


# Passes of 4 cycles.  Source: LLVM, SISchedule.td (SIDPFullSpeedModel, SIDPGFX940FullSpeedModel;
# gfx950: SIDPGFX950FullSpeedModel).  A test holds them against the data sheets' peaks.
_CDNA2 = (
    (r"v_mfma_\w+?_4x4x", 8),
    (r"v_mfma_\w+?_16x16x", 32),
    (r"v_mfma_\w+?_32x32x", 64),
)
_CDNA3 = (
    (r"v_s?mfmac?_\w+?_4x4x", 8),
    (r"v_mfma_f64_16x16x", 32),
    (r"v_mfma_\w+?_16x16x[14]_", 32),
    (r"v_mfma_\w+?_32x32x[12]_", 64),
    (r"v_mfma_\w+?_32x32x4_(2b|f32|f16|bf16|i8)", 64),
    (r"v_s?mfmac?_\w+?_16x16x", 16),
    (r"v_s?mfmac?_\w+?_32x32x", 32),
)
_CDNA4 = (
    (r"v_mfma_f64_16x16x", 64),
    # 8-bit floats; the half for narrower ones is not told apart.
    (r"v_mfma_(scale_)?f32_16x16x128_f8f6f4", 32),
    (r"v_mfma_(scale_)?f32_32x32x64_f8f6f4", 64),
    *_CDNA3,
)
# From the data sheets' peaks: no manual says them.
_RDNA3 = ((r"v_wmma_i32_16x16x16_iu4", 16), (r"v_wmma_", 32))
_RDNA4 = (
    (r"v_s?wmmac?_i32_16x16x(16|32)_iu4", 8),
    (r"v_swmmac_i32_16x16x64_iu4", 8),
    (r"v_s?wmmac?_\w+?_(iu8|fp8|bf8)", 8),
    (r"v_s?wmmac?_", 16),
)

# Issue, LDS ports and widths: "ROCm Compute Profiler", Pipeline descriptions: a scheduler's turn
# comes every 4 cycles and gives each pipeline one subgroup's instruction; two schedulers share a
# port of 64 bytes a cycle each way, on which addresses travel, too.  Answers of matrix units: LLVM,
# GCNHazardRecognizer (passes + 3).  Branches: LLVM, SISchedule.td (8 issues).  Counters: the ISA
# manuals, S_WAITCNT.  L2: "AMD CDNA 3" white paper, 2 KB a cycle for 38 cores.
# No vendor says how long LDS and memory take to answer.  LLVM's bounds for LDS are 2 and 64 issues;
# 64 cycles and 800 (0.4 us, of memory beyond the caches) are guesses, whose half and double are
# what the model's uncertainty is stated by.
_GFX942 = AmdTiming(
    issue_cycles=4,
    one_issue=False,
    on_vector_unit=False,
    matrix_cycles=_CDNA3,
    matrix_answer_cycles=12,
    vector_answer_cycles=4,
    slow_vector_cycles=16,
    lds_ports=2,
    lds_read_bytes=64,
    lds_write_bytes=64,
    lds_answer_cycles=64,
    memory_bytes=54,
    memory_answer_cycles=800,
    scalar_answer_cycles=200,
    branch_cycles=32,
    most={"lds": 15, "memory": 63, "store": 63},
)
# RDNA: an instruction each cycle, LDS of 128 bytes a cycle for each half of a workgroup processor;
# "RDNA3 Instruction Set Architecture", Device Overview.  Answers of the vector unit: LLVM,
# SISchedule.td (GFX11SpeedModel).
_GFX1100 = replace(
    _GFX942,
    issue_cycles=1,
    on_vector_unit=True,
    matrix_cycles=_RDNA3,
    matrix_answer_cycles=5,
    vector_answer_cycles=5,
    slow_vector_cycles=4,
    lds_read_bytes=128,
    lds_write_bytes=128,
    memory_bytes=128,
    branch_cycles=16,
    most={"lds": 63, "memory": 63, "store": 63},
)
_TIMINGS: Mapping[str, AmdTiming] = {
    # L2: 4 KB a cycle for 104 cores or more, "AMD CDNA 2" white paper.
    "gfx90a": replace(_GFX942, matrix_cycles=_CDNA2, memory_bytes=39),
    "gfx942": _GFX942,
    # "AMD CDNA 4" white paper: LDS reads at twice the width; 2 KB a cycle of L2 for 32 cores.
    "gfx950": replace(_GFX942, matrix_cycles=_CDNA4, lds_read_bytes=128, memory_bytes=64),
    "gfx1100": _GFX1100,
    "gfx1201": replace(_GFX1100, matrix_cycles=_RDNA4),
}


def amd_timing(chip: str) -> AmdTiming:
    """The cycles of a chip's units.

    Raises:
        TargetError: for a chip of which none are recorded.
    """
    if chip not in _TIMINGS:
        known = ", ".join(_TIMINGS)
        raise TargetError(f"{chip}: its units' cycles are not known; known are {known}")
    return _TIMINGS[chip]
