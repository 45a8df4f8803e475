"""What a GPU offers to a schedule: lanes, registers, shared memory, copies, peaks.

The numbers are rows of ``gpu_chips.json``, which names their sources.  A *core* is what runs a
workgroup (SM, CU, WGP); each has ``simds_per_core`` schedulers with a register file of their own.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.errors import TargetError

_DECLARED_BYTES = 48 << 10
_USUAL_CORES = 128

LINE_BYTES = 128
"""A line of the second cache, of every chip here.

NVIDIA: the CUDA C++ programming guide, with sectors of 32 bytes.  AMD: the white papers of CDNA 3
and RDNA.
"""


@dataclass(frozen=True)
class GpuPart:
    """A product with the chip: figures of its vendor, peak and dense, never measured.

    ``peak_tflops`` is by element type of the operands of a matrix product (the types with none are
    not offered, or not published), accumulated in 32 bits; of ``float32`` and ``float64`` that of
    lanes' multiply-adds, where no matrix instruction takes them.
    """

    name: str
    cores: int
    bandwidth_tbs: float
    peak_tflops: Mapping[str, float]


@dataclass(frozen=True)
class GpuChip:
    """Limits of one architecture.

    Attributes:
        name: by the vendor's compiler: ``sm_80``, ``gfx942``.
        kind: of TVM's target: ``cuda`` or ``rocm``.
        variants: names of chips with the same limits.
        subgroup_sizes: lanes of a subgroup (warp, wave), the preferred size first.
        max_lanes: of a workgroup, with the most along x, y, z in ``max_lanes_per_dim``.
        shared_memory_bytes: what one workgroup can have.
        shared_memory_per_core_bytes: what a core's resident workgroups share; each also costs
            ``shared_memory_reserved_bytes``, and is rounded up to the granule.
        banks: of shared memory, each 4 bytes wide.
        max_registers: 32-bit registers that one lane can address.
        register_file: 32-bit registers per lane of a scheduler, for all its resident subgroups;
            they are given in granules.  AMD's RDNA: for subgroups of 32; 64 halve it.
        compares_with_constants: whether a comparison whose result is a bit of each lane can hold a
            constant of 32 bits; else that takes a scalar register.
        loads_matrices: whether an instruction loads 8x8 matrices from shared memory such that each
            lane has what a matrix instruction takes (``ldmatrix``).
        scalar_registers: of a subgroup, in which the compiler keeps addresses before it takes lanes
            of vector registers for them; 0 where it does not.
        mma_by_conversion: types of which a subgroup's matrix instruction is made, by the compiler,
            of conversions to 16 bits, and of an instruction for these.
        async_copy_bits: widths of copies from global to shared memory past the registers, by kind.
        parts: the first is what ``peak_tflops`` and the like speak of where none is named.
    """

    name: str
    kind: str
    variants: tuple[str, ...]
    subgroup_sizes: tuple[int, ...]
    simds_per_core: int
    max_lanes: int
    max_lanes_per_dim: tuple[int, ...]
    max_grid: tuple[int, ...]
    shared_memory_bytes: int
    shared_memory_per_core_bytes: int
    shared_memory_reserved_bytes: int
    shared_memory_granule_bytes: int
    banks: int
    max_registers: int
    register_file: int
    register_granule: int
    subgroups_per_simd: int
    workgroups_per_core: int
    compares_with_constants: bool
    loads_matrices: bool
    scalar_registers: int
    mma_by_conversion: tuple[str, ...]
    async_copy_bits: Mapping[str, tuple[int, ...]]
    parts: tuple[GpuPart, ...]

    @property
    def subgroup_size(self) -> int:
        """Lanes of a subgroup, unless a target says otherwise."""
        return self.subgroup_sizes[0]

    @property
    def usual_cores(self) -> int:
        """Of the first part; where none is listed, about what most have."""
        return self.parts[0].cores if self.parts else _USUAL_CORES

    @property
    def declared_shared_memory_bytes(self) -> int:
        """What a kernel may declare; NVIDIA's launches must ask for more than 48 KiB."""
        most = self.shared_memory_bytes
        return min(most, _DECLARED_BYTES) if self.kind == "cuda" else most


@dataclass(frozen=True)
class Occupancy:
    """How many subgroups one scheduler keeps, and what keeps it from more."""

    subgroups_per_simd: float
    workgroups_per_core: int
    limit: str


def occupancy(
    chip: GpuChip,
    *,
    registers: int,
    shared_memory_bytes: int,
    lanes: int,
    subgroup_size: int | None = None,
) -> Occupancy:
    """How many workgroups of a kernel are resident at once.

    Args:
        registers: 32-bit registers of one lane (with a unified file, both kinds together).
        shared_memory_bytes: of one workgroup.
        lanes: of one workgroup.
        subgroup_size: by default the chip's.

    Raises:
        TargetError: when not even one workgroup fits, saying what it lacks.

    >>> occupancy(gpu_chip("sm_80"), registers=128, shared_memory_bytes=32768, lanes=256)
    Occupancy(subgroups_per_simd=4.0, workgroups_per_core=2, limit='registers')
    """
    size = subgroup_size or chip.subgroup_size
    subgroups = -(-lanes // size)
    file = chip.register_file * chip.subgroup_size // size
    granule = chip.register_granule
    per_lane = max(granule, -(-registers // granule) * granule)
    by_registers = min(file // per_lane, chip.subgroups_per_simd)
    granule = chip.shared_memory_granule_bytes
    shared = -(-shared_memory_bytes // granule) * granule + chip.shared_memory_reserved_bytes
    limits = {
        "registers": by_registers * chip.simds_per_core // subgroups,
        "subgroups": chip.subgroups_per_simd * chip.simds_per_core // subgroups,
        "shared memory": chip.shared_memory_per_core_bytes // shared if shared else 1 << 30,
        "workgroups": chip.workgroups_per_core,
    }
    if chip.kind == "rocm" and subgroups == 1:  # needs no barrier, of which there are so many
        del limits["workgroups"]
    if lanes > chip.max_lanes:
        raise TargetError(f"{chip.name}: {lanes} lanes; a workgroup has at most {chip.max_lanes}")
    if shared_memory_bytes > chip.shared_memory_bytes:
        raise TargetError(
            f"{chip.name}: {shared_memory_bytes} bytes of shared memory; a workgroup has at most"
            f" {chip.shared_memory_bytes}"
        )
    if registers > chip.max_registers or not limits["registers"]:
        raise TargetError(
            f"{chip.name}: {registers} registers for each of {lanes} lanes; a lane has at most"
            f" {chip.max_registers}, and the workgroup's subgroups share the register files"
        )
    order = ("subgroups", "registers", "shared memory", "workgroups")
    limit = min(filter(limits.__contains__, order), key=lambda name: limits[name])
    workgroups = limits[limit]
    return Occupancy(workgroups * subgroups / chip.simds_per_core, workgroups, limit)


@functools.cache
def gpu_chips() -> tuple[GpuChip, ...]:
    """Every chip of the table."""
    data = json.loads(files("tvm_iree_ext.targets").joinpath("gpu_chips.json").read_text())
    return tuple(_chip(row) for row in data["chips"])


def _chip(row: dict[str, Any]) -> GpuChip:
    parts = tuple(GpuPart(name, **figures) for name, figures in row.pop("parts").items())
    copies = {kind: tuple(bits) for kind, bits in row.pop("async_copy_bits").items()}
    plain: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return GpuChip(**plain, async_copy_bits=copies, parts=parts)


def gpu_chip(name: str | Target) -> GpuChip:
    """The chip of a name or of a target; a variant's limits are those of its chip.

    Raises:
        TargetError: for an unknown chip or a target that is no GPU, saying which are known.
    """
    if isinstance(name, Target):
        if name.kind.name not in ("cuda", "rocm"):
            raise TargetError(f"{name.kind.name} is not a GPU target")
        name = str(name.attrs["arch" if name.kind.name == "cuda" else "mcpu"])
    for chip in gpu_chips():
        if name == chip.name or name in chip.variants:
            return replace(chip, name=name)
    raise TargetError(f"chip {name!r} is unknown; known are {', '.join(chip_names())}")


def chip_names(kind: str | None = None) -> list[str]:
    """The names of all chips and variants, or those of one kind of target."""
    chips = [chip for chip in gpu_chips() if kind in (None, chip.kind)]
    return [name for chip in chips for name in (chip.name, *chip.variants)]


def subgroup_size(target: Target) -> int:
    """Lanes of a subgroup of a GPU target."""
    return int(target.attrs.get("thread_warp_size", gpu_chip(target).subgroup_size))
