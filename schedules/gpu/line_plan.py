"""How a GPU shares lines out: the layout of a workgroup's tile, and who takes which part.

A tile is ``[lines, positions]``; a workgroup walks along its lines tile by tile:

    rows      neighbouring lanes have neighbouring runs of a line that is contiguous in memory;
              a short line has a few lanes of a subgroup, a long one all lanes of several subgroups
    columns   neighbouring lanes have neighbouring lines, which lie side by side, and subgroups
              have successive positions

Few long lines are cut into parts, each a workgroup's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.emit import Index, ceil_div
from tvm_iree_ext.schedules.layouts import vector_elements
from tvm_iree_ext.schedules.lines import held_dtype, static_lines
from tvm_iree_ext.schedules.rule import ConfigCheck

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.signature import TensorType
from tvm_iree_ext.target.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_MOST_SUBGROUPS = 8  # of one line: each combines what all others leave
_HELD_BYTES = 64  # of elements that a lane has on their way at once: enough to wait for
_MOST_SLOTS = 8  # lines of a lane: what it finds of each goes through shared memory
_WORKGROUPS_PER_CORE = 4
_LEAST_TILES = 4  # of a part that is worth a workgroup


@dataclass(frozen=True)
class LineShape:
    """What there is: lines before and beside one another, None where known at call time only.

    Attributes:
        outer, length, inner: of :class:`~tvm_iree_ext.schedules.lines.Lines`.
        inner_factor: a number that divides ``inner`` whatever it is.
        dtype: of the elements.
        in_order: whether only one lane after the other may take a line's elements.
    """

    outer: int | None
    length: int | None
    inner: int | None
    inner_factor: int
    dtype: str
    in_order: bool

    @staticmethod
    def of(kind: TensorType, dimension: int, in_order: bool) -> "LineShape":
        """Of a tensor."""
        factor = prod(e for e in kind.shape[dimension + 1 :] if isinstance(e, int))
        counts = static_lines(kind.shape, dimension)
        return LineShape(*counts, factor, kind.dtype, in_order)

    @property
    def count(self) -> int | None:
        """Of lines."""
        return None if self.outer is None or self.inner is None else self.outer * self.inner


@dataclass(frozen=True)
class LinePlan:
    """A workgroup's tile.

    Attributes:
        layout: of ``[lines, positions]``.
        size: lanes of a subgroup.
        kind: of the target.
        rows: whether an access is of neighbouring positions, rather than lines.
        run: elements of one access.
        part: positions that a workgroup takes of a line; None for all.
    """

    layout: NestedLayout
    size: int
    kind: str
    rows: bool
    run: int
    part: int | None

    @property
    def subgroups(self) -> int:
        """Of a workgroup."""
        return self.layout.subgroup_tile[0] * self.layout.subgroup_tile[1]

    @property
    def lines(self) -> int:
        """Of a tile."""
        return self.layout.undistributed_shape[0]

    @property
    def positions(self) -> int:
        """Of a tile."""
        return self.layout.undistributed_shape[1]

    @property
    def serial(self) -> bool:
        """Whether one lane takes a whole line, element by element."""
        alone = self.layout.subgroup_tile[1] == self.layout.thread_tile[1] == 1
        return alone and self.part is None

    def parts(self, length: Index) -> Index:
        """Of a line: one more at times, as rows may begin before their first element."""
        if self.part is None:
            return 1
        return ceil_div(length + (self.run - 1 if self.rows else 0), self.part)

    @staticmethod
    def of(shape: LineShape, target: Target, check: ConfigCheck) -> "LinePlan":
        """The plan of a config.

        Raises:
            ScheduleError: for a config that does not fit, saying which number.
        """
        config, size = check.config, subgroup_size(target)
        form = check.algorithm(*(("rows", "columns") if shape.inner == 1 else ("columns",)))
        lines = check.tile("workgroup_tile", "lines")
        positions = check.tile("reduction_tile", "positions")
        apart, along = (check.tile("subgroups", role) for role in ("lines", "positions"))
        chip = gpu_chip(target)
        most = chip.max_lanes // size
        check.expect(apart * along <= most, "subgroups", apart * along, f"at most {most}")
        run = check.lanes(most=WIDEST_ACCESS_BYTES // item_bytes(shape.dtype))
        each = run if form == "columns" else 1  # lines of a lane
        lanes = size * apart * each // lines
        fits = 1 <= lanes <= size and lanes * lines == size * apart * each
        fits = fits and not lanes & (lanes - 1) and shape.inner_factor % each == 0
        tile = along * max(lanes, 1) * (run // each)
        check.expect(fits, "workgroup_tile['lines']", lines, "what the subgroups' lanes divide")
        divides = positions >= tile and positions % tile == 0
        check.expect(divides, "reduction_tile['positions']", positions, f"a multiple of {tile}")
        part = config.workgroup_tile.get("positions")
        if part is not None:
            check.tile("workgroup_tile", "positions")
            expected = f"a multiple of {positions}"
            check.expect(part % positions == 0, "workgroup_tile['positions']", part, expected)
        count = positions // tile
        layout = NestedLayout(
            subgroup_tile=(apart, along),
            batch_tile=(1, count if form == "rows" else 1),
            outer_tile=(1, 1),
            thread_tile=(size // lanes, lanes),
            element_tile=(1, run) if form == "rows" else (run, count),
            subgroup_strides=(along, 1),
            # What lies side by side in memory is of lanes side by side.
            thread_strides=(lanes, 1) if form == "rows" else (1, size // lanes),
        )
        plan = LinePlan(layout, size, target.kind.name, form == "rows", run, part)
        if shape.in_order:
            check.need(plan.serial, "lines are shared, but only their order gives the result")
        return plan

    def check_shared(self, check: ConfigCheck, target: Target, dtypes: Sequence[str]) -> None:
        """Raise ScheduleError where subgroups leave more of some types than shared memory takes."""
        layout = self.layout
        if layout.subgroup_tile[1] == 1:
            return
        each = self.lines * layout.subgroup_tile[1]
        taken, most = each * sum(map(item_bytes, dtypes)), _static_shared_bytes(target)
        check.expect(taken <= most, "bytes of shared memory", taken, f"at most {most}")


def _static_shared_bytes(target: Target) -> int:
    """What a kernel may have whose size is known when it is compiled."""
    return min(gpu_chip(target).shared_memory_bytes, 48 * 1024)


def line_config(shape: LineShape, target: Target) -> LoweringConfig:
    """Wide accesses, tiles that give every lane something, and workgroups for all cores."""
    if shape.inner == 1 and not (shape.in_order and shape.length == 1):
        return _rows(shape, target)
    return _columns(shape, target)


def _rows(shape: LineShape, target: Target) -> LoweringConfig:
    size = subgroup_size(target)
    run = WIDEST_ACCESS_BYTES // item_bytes(shape.dtype)
    length = 1 << 30 if shape.length is None else shape.length
    run = min(run, _power_of_two(length))
    batches = max(1, _HELD_BYTES // (run * item_bytes(held_dtype(shape.dtype))))
    if shape.in_order:
        subgroups = 1
        return _config("rows", size, run * batches, (subgroups, 1), run, None)
    lanes = min(size, _power_of_two(-(-length // run)))
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
    part = _part(shape, target, positions, 1)
    return _config("rows", apart * size // lanes, positions, (apart, along), run, part)


def _columns(shape: LineShape, target: Target) -> LoweringConfig:
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
    held = min(held, 8, _power_of_two(length))
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
    part = _part(shape, target, positions, lines)
    return _config("columns", lines, positions, (apart, along), run, part)


def _part(shape: LineShape, target: Target, positions: int, lines: int) -> int | None:
    """Positions of a workgroup's part of a line; None where lines are enough, or short."""
    if shape.in_order:
        return None
    wanted = _WORKGROUPS_PER_CORE * gpu_chip(target).parts[0].cores
    tasks = -(-shape.count // lines) if shape.count is not None else 1
    if tasks * 2 > wanted or (shape.count is None and shape.length is not None):
        return None
    if shape.length is None:
        return 2 * _LEAST_TILES * positions
    tiles = -(-shape.length // positions)
    each = max(_LEAST_TILES, -(-tiles * tasks // wanted))
    return each * positions if tiles > each else None


def _config(
    form: str, lines: int, positions: int, subgroups: tuple[int, int], run: int, part: int | None
) -> LoweringConfig:
    tile = {"lines": lines} | ({} if part is None else {"positions": part})
    return LoweringConfig(
        algorithm=form,
        workgroup_tile=tile,
        reduction_tile={"positions": positions},
        subgroups={"lines": subgroups[0], "positions": subgroups[1]},
        vector_lanes=run,
    )


def _power_of_two(size: int) -> int:
    """The smallest that is not below ``size``."""
    return 1 << max(0, size - 1).bit_length()
