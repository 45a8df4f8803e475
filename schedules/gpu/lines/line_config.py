"""The configs of rules that walk along lines on a GPU: the heuristic's, and a tuner's space."""

from collections.abc import Callable
from dataclasses import replace

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.gpu.lines.line_plan import (
    LEAST_TILES,
    LineConfig,
    LinePlan,
    LineShape,
)
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import power_of_two, vector_elements
from tvm_iree_ext.schedules.shared.lines import held_dtype
from tvm_iree_ext.targets.gpu import LINE_BYTES, gpu_chip, subgroup_size

_SUBGROUPS = 4
_MOST_SUBGROUPS = 8  # of one line: each combines what all others leave
_HELD_BYTES = 64  # of elements that a lane has on their way at once: enough to wait for
_FEW_BYTES = 256  # of a row that a lane has for itself, where few lanes have any
_HANDED_BYTES = LINE_BYTES  # of a row that neighbouring lanes read for another one
_MOST_HELD = 64  # elements of a lane, each in a register
_MOST_SLOTS = 8  # lines of a lane: what it finds of each goes through shared memory
_WORKGROUPS_PER_CORE = 4
_MOST_TILES = 64  # of a part


def line_config(shape: LineShape, target: Target) -> LoweringConfig:
    """Wide accesses, tiles that give every lane something, and workgroups for all cores."""
    return _usual(shape, target).lowering()


def _usual(shape: LineShape, target: Target) -> LineConfig:
    if shape.inner == 1 and not (shape.in_order and shape.length == 1):
        return _rows(shape, target)
    return _columns(shape, target)


def _rows(shape: LineShape, target: Target) -> LineConfig:
    size = subgroup_size(target)
    run = WIDEST_ACCESS_BYTES // item_bytes(shape.dtype)
    length = 1 << 30 if shape.length is None else shape.length
    run = min(run, power_of_two(length))
    batches = max(1, _HELD_BYTES // (run * item_bytes(held_dtype(shape.dtype))))
    if shape.in_order:
        # Few lanes wait for memory step after step: the more at once.  Many change hands.
        few = shape.count is not None and shape.count <= size // 4
        item = item_bytes(shape.dtype)
        held = max(min((_FEW_BYTES if few else _HANDED_BYTES) // item, _MOST_HELD), run)
        batches = max(1, min(held, power_of_two(length)) // run)
        config = LineConfig("rows", size, run * batches, apart=1, along=1, run=run)
        return config if few or batches == 1 else replace(config, promote=("input",))
    if shape.length is None and size > 32 and item_bytes(shape.dtype) > 4:
        # A line's end that the call tells is conditions for each access: of 64 lanes, two scalar
        # registers each, which wide elements would otherwise take from one another.
        batches = max(1, batches // 2)
    lanes = min(size, power_of_two(-(-length // run)))
    tiles = -(-length // (lanes * run))
    # A workgroup for each line where lines are few, or so long that its subgroups can share it.
    cores = gpu_chip(target).parts[0].cores
    many = shape.count is not None and shape.count >= _SUBGROUPS * _WORKGROUPS_PER_CORE * cores
    along = 1
    while along < _MOST_SUBGROUPS and 2 * along <= tiles and not (many and tiles <= 16 * batches):
        along *= 2
    apart = max(1, _SUBGROUPS // along)
    while batches > 1 and along * batches > tiles:
        batches //= 2
    positions = along * batches * lanes * run
    lines = apart * size // lanes
    part = _part(shape, target, positions, lines, rows=True)
    return LineConfig("rows", lines, positions, *part, apart, along, run)


def _columns(shape: LineShape, target: Target) -> LineConfig:
    size, cores = subgroup_size(target), gpu_chip(target).parts[0].cores
    item = item_bytes(shape.dtype)
    run = vector_elements(
        8 * item, min(WIDEST_ACCESS_BYTES // item, _MOST_SLOTS), shape.inner_factor
    )
    count = shape.count
    while run > 1 and count is not None and count < size * run * cores:
        run //= 2
    held = max(1, _HELD_BYTES // (run * item_bytes(held_dtype(shape.dtype))))
    length = 1 << 30 if shape.length is None else shape.length
    held = min(held, 8, power_of_two(length))
    along = 1
    if not shape.in_order:
        enough = _SUBGROUPS * _WORKGROUPS_PER_CORE * cores * size * run
        few = count is None or count < enough
        while few and along < _MOST_SUBGROUPS and 2 * along * held <= length:
            along *= 2
    apart, lanes = max(1, _SUBGROUPS // along), 1
    while apart > 1 and count is not None and count <= apart * size * run // 2:
        apart //= 2
    while not shape.in_order and count is not None and 2 * lanes * count <= size * run:
        lanes *= 2
    while lanes > 1 and lanes * along * held > 2 * length:
        lanes //= 2
    lines, positions = apart * size * run // lanes, along * lanes * held
    part = _part(shape, target, positions, lines, rows=False)
    return LineConfig("columns", lines, positions, *part, apart, along, run)


def _part(
    shape: LineShape, target: Target, positions: int, lines: int, *, rows: bool
) -> tuple[int, int]:
    """A workgroup's part of a line, 0 for all, and how many share lines that the call tells."""
    wanted = _WORKGROUPS_PER_CORE * gpu_chip(target).parts[0].cores
    sharing = wanted if shape.count is None else wanted // max(1, -(-shape.count // lines))
    tiles = None if shape.length is None else -(-shape.length // positions)
    if shape.in_order or sharing < 2 or (tiles is not None and tiles <= LEAST_TILES):
        return 0, 0
    told = wanted if shape.count is None or tiles is None else 0
    if shape.looks_back and rows:
        return positions, told
    if told or tiles is None:
        return LEAST_TILES * positions, told
    return max(LEAST_TILES, -(-tiles // sharing)) * positions, 0


def line_space(
    shape: LineShape, target: Target, check: Callable[[LoweringConfig], ConfigCheck]
) -> TuningSpace:
    """Who shares a line, and how much of it is under way at once or a workgroup's."""
    usual, size, choice = _usual(shape, target), subgroup_size(target), LineConfig.choice
    rows = usual.algorithm == "rows"
    choices = [
        choice("run", powers_of_two(1, usual.run)),
        choice("lines", powers_of_two(1, size), ("apart",) if rows else ("apart", "run")),
        choice("apart", powers_of_two(1, _MOST_SUBGROUPS)),
    ]
    if not shape.in_order:
        most = 1 if shape.looks_back and rows else _MOST_TILES
        tile = ("along", "run") if rows else ("along",)
        choices += [
            choice("positions", powers_of_two(1, 4 * size if rows else 16), tile),
            choice("along", powers_of_two(1, _MOST_SUBGROUPS)),
            choice("part", powers_of_two(1, most), ("positions",)),
        ]

    def accept(config: LoweringConfig) -> str | None:
        return refusal(lambda: LinePlan.of(shape, target, check(config)))

    return TuningSpace.of(usual.lowering(), [form(usual.lowering(), *choices)], accept)
