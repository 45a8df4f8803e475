"""The config of a contraction whose layouts are given: the instruction and tiles that have them.

Along each of m, n and k one dim of the op is tiled.  Its tile, subgroups and batches are the
layouts'; the instruction is the one that is named, or any that the GPU has for the types.  A layout
is an instruction's where each lane holds the same elements: batch and outer digits may be written
one for the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tvm.target import Target

from tvm_iree_ext.base.errors import LayoutError, ScheduleError, TargetError
from tvm_iree_ext.layout.conversion import equal_but_for_batch_and_outer
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.layout.transform import apply
from tvm_iree_ext.ops.families.contraction.lane_layouts import OPERANDS
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import ContractionMatrices
from tvm_iree_ext.schedules.gpu.products.matmul_kinds import multiplying_kinds
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MatmulConfig, check_numbers
from tvm_iree_ext.schedules.gpu.products.padded_operands import sides_to_pad
from tvm_iree_ext.targets.mma.contraction_layouts import ContractionLayouts, contraction_layouts
from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.operand_layouts import named_mma

_STAGES = (3, 2, 1)
_ROLES = {"lhs": "mk", "rhs": "kn", "acc": "mn"}


@dataclass(frozen=True)
class GivenLayouts:
    """Layouts of matrices, as a kernel has them, and what follows from them for its tiles."""

    matrices: dict[str, NestedLayout]  # of lhs [m, k], rhs [k, n] and acc [m, n]
    mma_kind: Any

    @staticmethod
    def of(matrices: ContractionMatrices) -> "GivenLayouts":
        """Those of a contraction that has some.

        Raises:
            ScheduleError: where they are no tiles of matrices.
        """
        op = matrices.op
        assert op.layouts is not None
        tiled = _tiled_dims(matrices)
        found = {}
        for name, layout in op.layouts.given.items():
            side = matrices.operand(name)
            dims = sorted(op.maps[OPERANDS[name]].dims)
            along = [tiled[role] for role in _ROLES[side]]
            found[side] = apply(layout, [None if one is None else dims.index(one) for one in along])
        return GivenLayouts(found, op.layouts.mma_kind)

    def tile(self, role: str) -> tuple[int, int]:
        """What a workgroup covers along ``m``, ``n`` or ``k``, and its subgroups there."""
        for side, layout in self.matrices.items():
            if role in _ROLES[side]:
                place = _ROLES[side].index(role)
                return layout.undistributed_shape[place], layout.subgroup_tile[place]
        raise AssertionError(role)  # of two operands of three every role is one's

    def configs(self, shape: MatmulShape, target: Target) -> Iterator[MatmulConfig]:
        """The configs of one stage of instructions that have these layouts.

        Raises:
            ScheduleError: for an instruction that is unknown, or has other layouts.
        """
        try:
            named = named_mma(self.mma_kind)
        except TargetError as error:
            raise ScheduleError(str(error)) from error
        types = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
        kinds = [named] if named else multiplying_kinds(target, largest=64).get(types, [])
        for mma in kinds:
            for column_major, rows_first in product((False, True), repeat=2):
                config = self._config(mma, column_major=column_major, rows_first=rows_first)
                if self._differs(mma, config) is None:
                    yield config

    def _config(self, mma: Mma, **forms: bool) -> MatmulConfig:
        (m, sm), (n, sn), (k, _) = (self.tile(role) for role in "mnk")
        tiles = (m // (sm * mma.m), n // (sn * mma.n))
        return MatmulConfig(mma.name, (sm, sn), tiles, k // mma.k, **forms)  # type: ignore[arg-type]

    def _differs(self, mma: Mma, config: MatmulConfig) -> str | None:
        """None, or which layout is not the instruction's in a config."""
        bounds = [self.tile(role)[0] for role in "mnk"]
        try:
            wanted: ContractionLayouts = contraction_layouts(
                mma, "mnk", bounds, (*config.subgroups, 1),
                column_major=config.column_major, counted=config.counted,
            )  # fmt: skip
        except LayoutError as error:
            return str(error)
        for side, layout in self.matrices.items():
            own: NestedLayout | None = getattr(wanted, side)
            if own is None or not equal_but_for_batch_and_outer(layout, own):
                return f"the layout of {side} is {layout}; {mma.name} has {own}"
        return None

    def refusal(self, shape: MatmulShape, target: Target) -> str:
        """Why no instruction has these layouts."""
        named = named_mma(self.mma_kind)
        if named is not None:
            return self._differs(named, self._config(named)) or f"{named.name} does not fit"
        types = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
        kinds = [mma.name for mma in multiplying_kinds(target, largest=64).get(types, [])]
        return (
            f"the layouts are of no instruction that multiplies {', '.join(types)}; there are"
            f" {', '.join(kinds) or 'none'}"
        )


def config_of_layouts(
    matrices: ContractionMatrices, shape: MatmulShape, target: Target
) -> MatmulConfig:
    """The config by which a kernel has the layouts that its op says.

    Raises:
        ScheduleError: where no instruction of the target has them, or they do not fit the chip.
    """
    given = GivenLayouts.of(matrices)
    refused: ScheduleError | None = None
    for base in given.configs(shape, target):
        try:
            check_numbers(shape, target, named_mma(base.mma_kind), base)  # type: ignore[arg-type]
            return _staged(base, shape, target)
        except ScheduleError as error:
            refused = error
    raise refused or ScheduleError(given.refusal(shape, target))


def _staged(base: MatmulConfig, shape: MatmulShape, target: Target) -> MatmulConfig:
    """With as many tiles under way at once as there is room for."""
    refused: ScheduleError | None = None
    pad = sides_to_pad(shape, target, together=False)
    for stages in _STAGES:
        config = replace(base, stages=stages, pad=pad)
        try:
            plan = plan_matmul(shape, target, config)
        except ScheduleError as error:
            refused = error
            continue
        if not plan.by_turns:  # for what is ordered for it: see matmul_turns
            return config
    assert refused is not None
    raise refused


def has_layouts(config: MatmulConfig, usual: MatmulConfig) -> bool:
    """Whether a config has the layouts of another one."""
    free = {name: getattr(usual, name) for name in ("stages", "swizzle", "pad", "rows_first")}
    return replace(config, **free) == usual


def _tiled_dims(matrices: ContractionMatrices) -> dict[str, int | None]:
    """The dim of the op along which each role is tiled; None where the tile is of one element.

    Raises:
        ScheduleError: where tiles are of several dims, or run across rows.
    """
    op = matrices.op
    assert op.layouts is not None
    tiles: dict[int, int] = {}
    for name, layout in op.layouts.given.items():
        tiles |= zip(sorted(op.maps[OPERANDS[name]].dims), layout.undistributed_shape, strict=True)
    lhs, rhs = (matrices.operand(side) for side in SIDES)
    roles = {"g": (lhs, rhs, "result"), "m": (lhs, "result"), "n": (rhs, "result"), "k": (lhs, rhs)}
    found: dict[str, int | None] = {}
    for role, operands in roles.items():
        dims = op.dims(*operands)
        tiled = [dim for dim in dims if tiles.get(dim, 1) != 1]
        if (role == "g" and tiled) or len(tiled) > 1:
            what = ", ".join(f"{tiles[dim]} along d{dim}" for dim in tiled)
            raise ScheduleError(f"layouts have tiles of {what}; expected of one dim of m, n and k")
        found[role] = tiled[0] if tiled else None
        if tiled and not _is_whole(matrices, role, tiled[0], tiles[tiled[0]]):
            raise ScheduleError(
                f"layouts have a tile of {tiles[tiled[0]]} along d{tiled[0]}, which runs across"
                f" rows of the other dims of {role}"
            )
    return found


def _is_whole(matrices: ContractionMatrices, role: str, dim: int, tile: int) -> bool:
    """Whether tiles along a dim do not run across those of the role's other dims."""
    own = [one for fused in matrices.roles[role] for one in matrices.groups[fused]]
    others = [one for one in own if one != dim and matrices.op.extents[one] != 1]
    if not others:
        return True
    extent = matrices.op.extents[dim]
    return own[-1] == dim and isinstance(extent, int) and extent % tile == 0
