"""The tuning space of products: a form for each matrix instruction that fits the types."""

from collections.abc import Callable, Sequence

from tvm.target import Target

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import Choice, ConfigForm, TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.products.matmul_kinds import multiplying_kinds
from tvm_iree_ext.schedules.gpu.products.matmul_planning import check_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import MMA, matmul_numbers
from tvm_iree_ext.targets.gpu import gpu_chip
from tvm_iree_ext.targets.mma.mma_kinds import Mma
from tvm_iree_ext.targets.mma.mma_table import mma_kind

_TILES = (1, 2, 4, 8)  # instructions of a subgroup along a dim, and of a step along k
_SUBGROUPS = (1, 2, 4)
_STAGES = (1, 2, 3, 4)
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)


def matmul_space(
    shape: MatmulShape,
    target: Target,
    usual: LoweringConfig,
    check: Callable[[LoweringConfig], ConfigCheck],
    others: Sequence[ConfigForm] = (),
    accept_other: Callable[[LoweringConfig], str | None] = lambda _: None,
    pad: tuple[str, ...] = (),
) -> TuningSpace:
    """The configs of every instruction for a product, that the chip can have.

    Refused is what does not fit registers, shared memory or a workgroup, before anything is built.

    Args:
        shape: the product.
        target: the GPU.
        usual: the heuristic's config, of this algorithm or another one.
        check: the checks of a config that name the rule.
        others: the forms of other algorithms.
        accept_other: what refuses a config of theirs.
        pad: operands that may be padded.
    """
    types = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    kinds = {mma.name: mma for mma in multiplying_kinds(target).get(types, [])}
    if usual.algorithm == MMA:
        kinds[usual.mma_kind] = mma_kind(usual.mma_kind)
    cores = gpu_chip(target).parts[0].cores if gpu_chip(target).parts else 0
    forms = [_form(mma, usual, cores, pad) for mma in kinds.values()]

    def accept(config: LoweringConfig) -> str | None:
        if config.algorithm != MMA:
            return accept_other(config)
        if config.workgroups and config.splits > 1:
            return "workgroups share the steps of K, or parts of it are split: not both"
        return refusal(lambda: check_matmul(shape, target, matmul_numbers(check(config))))

    return TuningSpace.of(usual, [*forms, *others], accept)


def _form(mma: Mma, usual: LoweringConfig, cores: int, pad: tuple[str, ...]) -> ConfigForm:
    """The configs of an instruction, around the heuristic's where that is its own."""
    base = usual
    if usual.mma_kind != mma.name:
        base = LoweringConfig(
            algorithm=MMA,
            workgroup_tile={"m": 2 * 2 * mma.m, "n": 2 * 2 * mma.n},
            reduction_tile={"k": mma.k},
            promote=SIDES,
            mma_kind=mma.name,
            subgroups={"m": 2, "n": 2},
        )
    return form(
        base,
        Choice("subgroups.m", _SUBGROUPS),
        Choice("subgroups.n", _SUBGROUPS),
        Choice("workgroup_tile.m", tuple(t * mma.m for t in _TILES), ("subgroups.m",)),
        Choice("workgroup_tile.n", tuple(t * mma.n for t in _TILES), ("subgroups.n",)),
        Choice("reduction_tile.k", tuple(t * mma.k for t in _TILES)),
        Choice("stages", _STAGES),
        Choice("splits", _SPLITS),
        Choice("workgroups", tuple({0, cores})),
        Choice("column_major", (False, True) if mma.column_major else ()),
        Choice("swizzle", (False, True)),
        Choice("promote", ((), SIDES)),
        Choice("pad", ((), pad) if pad else ()),
    )
