"""The tuning space of contractions on a CPU: blocks, register tiles, what is packed."""

from collections.abc import Callable

from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionPlan
from tvm_iree_ext.schedules.cpu.products.amx import TILE
from tvm_iree_ext.targets.cpu import CpuFeatures

PANELS = "panels"
DOTS = "dots"  # panels of words
MATRIX = "tiles"  # panels of words, multiplied by tiles of them

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16)  # of an extent: blocks that share it out evenly
_BLOCKS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
_DEPTHS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_ROWS = tuple(range(1, 15))
_VECTORS = (1, 2, 3, 4)

_MOST_SERIAL_FLOPS = 8_000_000  # above, one thread alone is never the best


def contraction_space(
    plan: ContractionPlan,
    usual: LoweringConfig,
    panels: LoweringConfig | None,
    features: CpuFeatures,
    check: Callable[[LoweringConfig], str | None],
) -> TuningSpace:
    """The configs around ``usual``, and those of ``panels``, where that is another form.

    Refused are register tiles that would be spilled, and what ``check`` refuses.
    """
    lanes = Choice("vector_lanes", tuple({max(usual.vector_lanes // 2, 1), usual.vector_lanes}))
    small = not plan.op.signature.symbols and plan.op.flops() <= _MOST_SERIAL_FLOPS
    parallel = Choice("parallel", (False, True) if small else ())
    columns = Choice("workgroup_tile.n", _blocks(plan.extent(plan.n)))
    forms = []
    for base in (usual, panels):
        if base is None:
            continue
        if "m" not in base.workgroup_tile:  # lines of b, side by side
            lines = Choice("register_tile.rows", powers_of_two(1, features.vector_registers))
            forms.append(form(base, columns, lines, lanes, parallel))
            continue
        tiled = base.algorithm == MATRIX
        rows = tuple(TILE * count for count in (1, 2, 3)) if tiled else _ROWS
        packed = Choice("promote", (("lhs", "rhs"), ("lhs",), ("rhs",), ()))
        forms.append(
            form(
                base,
                Choice("workgroup_tile.m", _blocks(plan.extent(plan.m))),
                columns,
                Choice("reduction_tile.k", _depths(plan.count(plan.depth))),
                Choice("register_tile.rows", rows),
                Choice("register_tile.vectors", _VECTORS),
                *(() if tiled else (lanes, packed)),
                parallel,
            )
        )

    def accept(config: LoweringConfig) -> str | None:
        if "vectors" in config.register_tile and config.algorithm != MATRIX:
            rows, vectors = (config.register_tile[role] for role in ("rows", "vectors"))
            # A row of b beside the sums, and a scalar of a that is in all lanes.
            if (needed := rows * vectors + vectors + 1) > features.vector_registers:
                return f"{needed} vectors do not fit {features.vector_registers} registers"
        return check(config)

    return TuningSpace.of(usual, forms, accept)


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
