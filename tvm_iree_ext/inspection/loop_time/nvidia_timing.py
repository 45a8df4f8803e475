"""Cycles that the units of NVIDIA's cores take, chip by chip: tensor cores, lanes, memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.instruction_counts import cuda_matrix_shape
from tvm_iree_ext.inspection.loop_time.core_timing import CoreTiming, of_mnemonic

ALU, FMA, HEAVY, HALF, SLOW, DOUBLE = "alu", "fma", "heavy", "half", "slow", "double"
"""Units of lanes: integers and comparisons; multiply-adds of float32, with those that integers take
part in; of float16; exp, logarithms, roots and conversions; of float64."""

PAIR = ".2CTA"
"""In the name of an instruction of two workgroups."""

_LANES = 32


@dataclass(frozen=True, kw_only=True)
class NvidiaTiming(CoreTiming):
    """Cycles and widths of a core's units; a unit is a scheduler's where nothing else is said.

    Attributes:
        rates: patterns of matrix instructions, and multiply-adds of a tensor core in a cycle; the
            first that matches.
        matrix_answer_cycles: beyond its passes, until another instruction reads a product.
        lanes: of a unit, in a cycle.
        lds_bytes: of a core's shared memory, a cycle.
        read_answer_cycles: until an access has read its operands.
        slow_answer_cycles: of what takes a barrier and is no access.
    """

    rates: tuple[tuple[str, Fraction], ...]
    matrix_answer_cycles: int
    lanes: Mapping[str, Fraction]
    lds_bytes: int
    read_answer_cycles: int
    slow_answer_cycles: int

    def matrix(self, mnemonic: str) -> int:
        """Cycles of a scheduler's tensor core for an instruction of a subgroup or a warpgroup.

        Of a product in tensor memory: cycles of all four, which are one unit; of one of a pair of
        workgroups, of each one's.

        Raises:
            TargetError: for one that no pattern matches.

        >>> nvidia_timing("sm_80").matrix("HMMA.16816.F32")
        8
        >>> nvidia_timing("sm_90a").matrix("HGMMA.64x256x16.F32")
        128
        >>> nvidia_timing("sm_100a").matrix("UTCHMMA.128x256x16")
        128
        """
        rate = of_mnemonic(self.rates, mnemonic)
        m, n, k = cuda_matrix_shape(mnemonic)
        if "x" not in mnemonic or mnemonic.startswith("UTC"):
            return ceil(m * n * k / (rate * _workgroups(mnemonic)))
        return max(ceil(m // 4 * n * k / rate), _LEAST_WARPGROUP)

    def shared_reads(self, mnemonic: str, *, shared_lhs: bool) -> int:
        """Bytes of a core's shared memory that an instruction reads: B, and perhaps A."""
        rows, columns, _ = cuda_matrix_shape(mnemonic)
        return _STEP_BYTES * (columns + (rows if shared_lhs else 0)) // _workgroups(mnemonic)

    def cycles(self, unit: str) -> int:
        """Of a unit of lanes for an instruction."""
        return ceil(_LANES / self.lanes[unit])


# A row of a step has 32 bytes of every type.  A warpgroup's few columns take 13 cycles at least:
# Luo et al., "Dissecting the NVIDIA Hopper Architecture through Microbenchmarking and Multiple
# Level Analysis" (2025), table 9.  The same table has 24, 32, 64 and 128 cycles for 32, 64, 128 and
# 256 columns with both operands in shared memory: what its 128 bytes a cycle give, or the peak.
_LEAST_WARPGROUP = 13
_STEP_BYTES = 32


def _workgroups(mnemonic: str) -> int:
    """Those that have a product in common, each on a core of its own."""
    return 2 if PAIR in mnemonic else 1


def _rates(half: float | None = None, **others: float) -> tuple[tuple[str, Fraction], ...]:
    """Of products of 16-bit floats added in 32 bits; others by the first letters of mnemonics.

    Those in tensor memory are of a core, which has one unit.
    """
    named = others if half is None else {"half": half, **others}
    patterns = {
        "float16": r"HMMA\.\d+\.F16$",
        "tf32": r"HMMA\.\d+\.F32\.TF32",
        "half": r"HMMA\.",
        "int8": r"IMMA\.\w+\.[SU]8",
        "int4": r"IMMA\.\w+\.[SU]4",
        "float8": r"QMMA\.",
        "double": r"DMMA\.",
        "warpgroup_tf32": r"HGMMA\.\w+\.F32\.TF32",
        "warpgroup": r"HGMMA\.",
        "warpgroup8": r"[IQ]GMMA\.",
        "tensor_memory": r"UTCHMMA\.",
        "tensor_memory8": r"UTC[IQ]MMA\.",
    }
    return tuple(
        (pattern, Fraction(named[name]).limit_denominator(64))
        for name, pattern in patterns.items()
        if name in named
    )


def _lanes(*, float32: int, float16: int, float64: float) -> dict[str, Fraction]:
    """Of a scheduler, by results of a core in a cycle: a quarter each.

    CUDA C++ programming guide, "Throughput of native arithmetic instructions": 64 integers, 16
    functions and conversions on all chips.  An instruction of float16 has two results a lane.
    """
    return {
        ALU: Fraction(64, 4),
        FMA: Fraction(float32, 4),
        HEAVY: Fraction(64, 4),
        HALF: Fraction(float16, 8),
        SLOW: Fraction(16, 4),
        DOUBLE: Fraction(float64) / 4,
    }


# Tensor cores: peaks of the data sheets by cores, four schedulers and the boost clock, which a test
# holds against this table.  Latency of a product, 33 cycles from issue to use on A100: Sun et al.,
# "Dissecting Tensor Cores via Microbenchmarks" (2022).  Shared memory, 29 cycles, its turn among
# them, and 128 bytes a cycle: Luo et al. (2025), tables 3 and 5, of H800; other chips are taken to
# have the same.  Memory: Luo et al. have 258 and 414 cycles for the near and the far half of H800's
# second cache, 656 beyond it; 500 is between, for operands of which most workgroups find the lines
# in that cache.  Operands are read after some 9 to 20 cycles, by the width: Huerta et al.,
# "Analyzing Modern NVIDIA GPU cores" (2025).
# From the second cache a core takes 64 bytes a cycle while it reads: a guess, that of the static
# cost.  All cores at once get less: 47 of A100 by its white paper (5120 for 108 cores), 39 of H800
# by Luo et al. (4472 for 114), if no two want the same lines.
# Guesses: 20 cycles for functions of lanes, 12 for a branch that is taken; the lanes of sm_100 are
# those of sm_90, and the unit of integers packs two floats of 16 bits.
_SM_80 = NvidiaTiming(
    issue_cycles=1,
    one_issue=True,
    rates=_rates(256, tf32=128, int8=512, int4=1024, double=16),
    matrix_answer_cycles=25,
    lanes=_lanes(float32=64, float16=256, float64=32),
    lds_ports=1,
    lds_bytes=128,
    lds_answer_cycles=28,
    memory_bytes=64,
    memory_answer_cycles=500,
    read_answer_cycles=12,
    slow_answer_cycles=20,
    branch_cycles=12,
    most={},
)
# GeForce: half the rate where sums are of 32 bits.
_SM_86 = replace(
    _SM_80,
    rates=_rates(64, float16=128, tf32=32, int8=256, int4=512, double=0.5),
    matrix_answer_cycles=8,
    lanes=_lanes(float32=128, float16=256, float64=2),
)
_SM_89 = replace(
    _SM_86,
    rates=_rates(64, float16=128, tf32=32, int8=256, int4=512, float8=128, double=0.5),
    lanes=_lanes(float32=128, float16=128, float64=2),
)
# A subgroup's instructions reach 62.9 % of Hopper's peak on average (Luo et al., 2025, 6.2): 2/3
# here, 6 cycles, which ptxas leaves between two of them.  A warpgroup's have the peak.
_SM_90 = replace(
    _SM_80,
    rates=_rates(
        1024 / 3, float16=1024 / 3, tf32=512 / 3, int8=2048 / 3, double=32, warpgroup_tf32=256,
        warpgroup=512, warpgroup8=1024,
    ),
    lanes=_lanes(float32=128, float16=256, float64=64),
)  # fmt: skip
_TIMINGS: Mapping[str, NvidiaTiming] = {
    "sm_80": _SM_80,
    "sm_86": _SM_86,
    "sm_89": _SM_89,
    "sm_90": replace(_SM_90, of_peak=2 / 3),
    "sm_90a": _SM_90,
    # No document says what a subgroup's products take on B200, whose peak is that of tcgen05.  Of
    # two in a row ptxas 13 issues the second 8 cycles later, as on sm_80; on sm_90 6 cycles.
    "sm_100": replace(
        _SM_90, rates=_rates(256, float16=256, tf32=128, int8=512, double=16), of_peak=1 / 4
    ),
    # Products in tensor memory alone, which have the peak.
    "sm_100a": replace(_SM_90, rates=_rates(tensor_memory=4096, tensor_memory8=8192)),
}


def nvidia_timing(chip: str) -> NvidiaTiming:
    """The cycles of a chip's units.

    Raises:
        TargetError: for a chip of which none are recorded.
    """
    if chip not in _TIMINGS:
        known = ", ".join(_TIMINGS)
        raise TargetError(f"{chip}: its units' cycles are not known; known are {known}")
    return _TIMINGS[chip]
