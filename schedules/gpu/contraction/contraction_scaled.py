"""Contractions of blocks with scales, where a chip's instructions take the scales."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.contraction.factors import scales_of
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, number, text
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import (
    ContractionMatrices,
    MatrixOperands,
)
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.packed_runs import RUN
from tvm_iree_ext.schedules.gpu.products.scaled_kernel import ScaledTiles, scaled_matmul
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import Mma, tvm_dtype
from tvm_iree_ext.targets.mma.mma_table import scaled_kinds
from tvm_iree_ext.targets.mma.scaled_kinds import SCALE_FORMATS

_RULE = "gpu.contraction"
SCALED = "scaled"
"""The algorithm of products by instructions that take scales."""

_SCALES = {dtypes.EXPONENTS: "e8m0", "float8_e4m3fn": "ue4m3"}
_FORMATS = {tvm_dtype(name): name for name in SCALE_FORMATS}
_MOST_GROUPS = 65535  # workgroups along y
_DEPTHS = (512, 256, 128)  # of a step, the last the usual one
_READ_SHARE = 8  # of a lane's registers one in so many is for what is read, in a deeper step
# By the lanes of a subgroup, rows and columns of a workgroup, and its subgroups along both; the
# larger the less is read.
_TILES = {
    64: (
        ((256, 256), (2, 2)),
        ((128, 256), (2, 2)),
        ((128, 128), (2, 2)),
        ((64, 128), (2, 2)),
        ((64, 64), (2, 2)),
        ((32, 128), (1, 4)),
        ((16, 128), (1, 4)),
        ((32, 32), (2, 2)),
        ((16, 64), (1, 4)),
        ((16, 16), (1, 1)),
    ),
    32: (
        ((128, 256), (2, 4)),
        ((128, 128), (2, 4)),
        ((128, 64), (2, 2)),
        ((64, 128), (2, 4)),
        ((64, 64), (2, 2)),
        ((32, 128), (1, 4)),
        ((16, 128), (1, 4)),
        ((32, 32), (2, 2)),
        ((16, 64), (1, 4)),
        ((16, 32), (1, 1)),
    ),
}
_TYPICAL = 4096  # what rows or columns that are known at call time count as
_READ = 64  # products that take as long as to read an element


@dataclass(frozen=True)
class ScaledConfig(RuleConfig):
    """The numbers of a product by instructions that take scales."""

    rows: int = number("workgroup_tile.m")
    columns: int = number("workgroup_tile.n")
    depth: int = number("reduction_tile.k")
    subgroup_rows: int = number("subgroups.m")
    subgroup_columns: int = number("subgroups.n")
    mma_kind: str = text("mma_kind")


@dataclass(frozen=True)
class ScaledProducts:
    """The products of an op on a chip whose instructions take their scales."""

    matrices: ContractionMatrices
    kinds: tuple[Mma, ...]
    chip: GpuChip

    def heuristic(self) -> LoweringConfig:
        """The tiles that take the fewest rounds of workgroups, by what they multiply and read."""
        kind = self.kinds[0]
        m, n = (self.matrices.extent(role) or _TYPICAL for role in "mn")
        groups, cores = self.matrices.extent("g") or 1, self.chip.usual_cores or 1

        def cost(config: ScaledConfig) -> float:
            count = -(-m // config.rows) * -(-n // config.columns) * groups
            each = config.rows * config.columns + _READ * (config.rows + config.columns)
            return -(-count // cores) * each

        return min(self._configs(kind), key=cost).lowering()

    def _configs(self, kind: Mma) -> Iterator[ScaledConfig]:
        for (rows, columns), (down, across) in _TILES[kind.subgroup_size]:
            if rows % (down * kind.m) == 0 and columns % (across * kind.n) == 0:
                depth = self._depth(rows + columns, down * across * kind.subgroup_size)
                config = ScaledConfig(SCALED, rows, columns, depth, down, across, kind.name)
                if self._refused(config.lowering()) is None:
                    yield config

    def _depth(self, lines: int, lanes: int) -> int:
        """Elements along k of a step, of so many rows and columns together."""
        known = self.matrices.extent("k") or 0
        most = (self.chip.max_registers + 1) // _READ_SHARE * 4 * lanes  # bytes
        return next((d for d in _DEPTHS if d <= known and lines * d <= most), _DEPTHS[-1])

    def _refused(self, config: LoweringConfig) -> str | None:
        return refusal(lambda: self.tiles(ConfigCheck(_RULE, config)))

    def space(self) -> TuningSpace:
        """Tiles of the instructions there are."""
        usual = self.heuristic()
        forms = tuple(
            form(one.lowering(), Choice("reduction_tile.k", _DEPTHS[::-1]))
            for kind in self.kinds
            for one in self._configs(kind)
        )
        return TuningSpace.of(usual, forms, self._refused)

    def tiles(self, check: ConfigCheck) -> ScaledTiles:
        """A config's numbers, in instructions.

        Raises:
            ScheduleError: for a number that the kernel cannot use.
        """
        config = ScaledConfig.parse(check, SCALED)
        names = [kind.name for kind in self.kinds]
        check.expect(
            config.mma_kind in names, "mma_kind", config.mma_kind, f"one of {', '.join(names)}"
        )
        kind = self.kinds[names.index(config.mma_kind)]
        subgroups = (config.subgroup_rows, config.subgroup_columns)
        found = ScaledTiles(
            kind,
            subgroups,
            (
                check.parts("workgroup_tile", "m", subgroups[0] * kind.m),
                check.parts("workgroup_tile", "n", subgroups[1] * kind.n),
            ),
            check.parts("reduction_tile", "k", kind.k),
        )
        check.need(
            found.lanes <= self.chip.max_lanes and found.lanes % (config.depth // RUN) == 0,
            f"{found.lanes} lanes; a workgroup has at most {self.chip.max_lanes}, a multiple of"
            f" {config.depth // RUN}",
        )
        check.need(
            found.shared_bytes <= self.chip.shared_memory_bytes,
            f"tiles of {found.shared_bytes} bytes; a workgroup of {self.chip.name} has"
            f" {self.chip.shared_memory_bytes} of shared memory",
        )
        resident = -(-prod(subgroups) // self.chip.simds_per_core)
        most = min(self.chip.max_registers, self.chip.register_file // resident)
        check.need(
            found.registers <= most * 3 // 4,
            f"{found.registers} registers of a lane for what is multiplied;"
            f" {self.chip.name} has {most}, of which a quarter is for the rest",
        )
        return found

    def lower(self, operands: MatrixOperands, check: ConfigCheck) -> tirx.PrimFunc:
        """The func of the op.

        Raises:
            ScheduleError: as :meth:`tiles`.
        """
        scales = scale_names(self.matrices.op, self.matrices)
        return scaled_matmul(self.tiles(check), operands, scales)


@dataclass(frozen=True)
class BlockTypes:
    """The types of an op's blocks with scales, by the table's names."""

    lhs: str
    rhs: str
    scales: str

    @staticmethod
    def of(op: Contraction, matrices: ContractionMatrices) -> "BlockTypes | None":
        """Those of an op; None where it is of no such blocks, or sums are no float32."""
        kinds = [_FORMATS.get(op.number_dtype(matrices.operand(side)), "") for side in SIDES]
        types = {op.number_dtype(name) for name in map(scales_of, SIDES) if name in op.types}
        if len(types) != 1 or "" in kinds or op.accumulator_dtype != "float32":
            return None
        scales = _SCALES.get(types.pop())
        lhs, rhs = kinds
        return None if scales is None else BlockTypes(lhs, rhs, scales)


def scale_names(op: Contraction, matrices: ContractionMatrices) -> dict[str, str]:
    """The names of the scales of ``lhs`` and ``rhs``, where they have some."""
    names = {side: scales_of(matrices.operand(side)) for side in SIDES}
    return {side: name for side, name in names.items() if name in op.types}


def lies_in_blocks(op: Contraction, matrices: ContractionMatrices, block: int) -> bool:
    """Whether blocks lie side by side in both operands; rows and columns alone may be open."""
    lasts = {op.maps[side].axes[-1:] for side in SIDES}
    last = next(iter(lasts))
    if op.layouts is not None or len(lasts) > 1 or not last or not last[0]:
        return False
    (dim,) = last[0]
    if any(dim in op.maps[name].dims for name in scale_names(op, matrices).values()):
        return False
    extent = op.extents[dim]
    if dim not in op.dims("lhs", "rhs") or not isinstance(extent, int) or extent % block:
        return False
    groups = matrices.extent("g")
    known = matrices.extent("k") is not None and groups is not None
    return known and (groups or 0) <= _MOST_GROUPS and 0 not in op.extents


def scaled_products(
    op: Contraction, matrices: ContractionMatrices, target: Target
) -> ScaledProducts | None:
    """The op's products by instructions that take its scales; None where there are none.

    These are of blocks of whole 32 elements with scales of E8M0, or on some chips 16 with those of
    E4M3, that lie side by side in both operands; rows and columns alone may be known at call time.
    """
    types = BlockTypes.of(op, matrices)
    found = tuple(scaled_kinds(target, types.lhs, types.rhs, types.scales)) if types else ()
    if not found or not lies_in_blocks(op, matrices, found[0].scale_block or 0):
        return None
    return ScaledProducts(matrices, found, gpu_chip(target))
