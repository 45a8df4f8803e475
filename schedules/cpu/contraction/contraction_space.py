"""The tuning space of contractions on a CPU: blocks, register tiles, what is packed."""

from collections.abc import Callable

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import MATRIX, ContractionConfig
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionPlan
from tvm_iree_ext.schedules.cpu.products.amx import TILE
from tvm_iree_ext.targets.cpu import CpuFeatures

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16)  # of an extent: blocks that share it out evenly
_BLOCKS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
_DEPTHS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_ROWS = tuple(range(1, 15))
_VECTORS = (1, 2, 3, 4)

_MOST_SERIAL_FLOPS = 8_000_000  # above, one thread alone is never the best


def contraction_space(
    plan: ContractionPlan,
    usual: ContractionConfig,
    panels: ContractionConfig | None,
    features: CpuFeatures,
    accept: Callable[[LoweringConfig], str | None],
) -> TuningSpace:
    """The configs around ``usual``, and those of ``panels``, where that is another form."""
    choice = ContractionConfig.choice
    lanes = choice("lanes", tuple({max(usual.lanes // 2, 1), usual.lanes}))
    small = not plan.op.signature.symbols and plan.op.flops() <= _MOST_SERIAL_FLOPS
    parallel = choice("parallel", (False, True) if small else ())
    columns = choice("block_n", _blocks(plan.extent(plan.n)))
    forms = []
    for base in (usual, panels):
        if base is None:
            continue
        if not base.block_m:  # lines of b, side by side
            lines = choice("rows", powers_of_two(1, features.vector_registers))
            forms.append(form(base.lowering(), columns, lines, lanes, parallel))
            continue
        tiled = base.algorithm == MATRIX
        rows = tuple(TILE * count for count in (1, 2, 3)) if tiled else _ROWS
        packed = choice("promote", (("lhs", "rhs"), ("lhs",), ("rhs",), ()))
        forms.append(
            form(
                base.lowering(),
                choice("block_m", _blocks(plan.extent(plan.m))),
                columns,
                choice("block_k", _depths(plan.count(plan.depth))),
                choice("rows", rows),
                choice("vectors", _VECTORS),
                *(() if tiled else (lanes, packed)),
                parallel,
            )
        )

    return TuningSpace.of(usual.lowering(), forms, accept)


def _blocks(extent: int | None) -> tuple[int, ...]:
    if extent is None:
        return _BLOCKS
    shares = {-(-extent // parts) for parts in _PARTS}
    return tuple(sorted(shares | {size for size in _BLOCKS if size <= extent}))


def _depths(extent: int | None) -> tuple[int, ...]:
    if extent is None:
        return _DEPTHS
    shares = {-(-extent // parts) for parts in _PARTS if extent // parts >= _DEPTHS[0]}
    return tuple(sorted({size for size in _DEPTHS if size <= extent} | shares or {extent}))
