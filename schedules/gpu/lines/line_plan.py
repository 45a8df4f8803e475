"""Lines shared out to a GPU: the layout of a workgroup's tile, and the parts of a line.

A tile is ``[lines, positions]``; a workgroup walks along its lines tile by tile:

    rows      neighbouring lanes have neighbouring runs of a line that is contiguous in memory;
              a short line has a few lanes of a subgroup, a long one all lanes of several subgroups
    columns   neighbouring lanes have neighbouring lines, which lie side by side, and subgroups
              have successive positions

Few long lines are cut into parts, each a workgroup's.  Where the call tells how many lines there
are or how long they are, it is reckoned then.
"""

from dataclasses import dataclass, replace
from math import prod

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, number, operands
from tvm_iree_ext.schedules.emit import Index, ceil_div, i64, known
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import shared_elements
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups_each
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.schedules.shared.lines import Lines, static_lines
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

LEAST_TILES = 2
"""Of a part that is worth a workgroup, and more kernels."""


@dataclass(frozen=True)
class LineShape:
    """The lines of a tensor, before and beside one another; None where known at call time only.

    Attributes:
        outer, length, inner: of :class:`~tvm_iree_ext.schedules.shared.lines.Lines`.
        inner_factor: a number that divides ``inner`` whatever it is.
        dtype: of the elements.
        in_order: whether only one lane after the other may take a line's elements.
        left: the types of what a subgroup leaves of a line for others, in shared memory.
        looks_back: whether a row's part is one tile, of which others tell what lies before it.
    """

    outer: int | None
    length: int | None
    inner: int | None
    inner_factor: int
    dtype: str
    in_order: bool
    left: tuple[str, ...]
    looks_back: bool = False

    @staticmethod
    def of(kind: TensorType, dimension: int, in_order: bool, left: tuple[str, ...]) -> "LineShape":
        """Of a tensor."""
        factor = prod(e for e in kind.shape[dimension + 1 :] if isinstance(e, int))
        counts = static_lines(kind.shape, dimension)
        return LineShape(*counts, factor, kind.dtype, in_order, left)

    @property
    def count(self) -> int | None:
        """Of lines."""
        return None if self.outer is None or self.inner is None else self.outer * self.inner


@dataclass(frozen=True)
class LineConfig(RuleConfig):
    """A workgroup's tile, as numbers.

    Attributes:
        lines, positions: of a tile.
        part: positions that a workgroup takes of a line; 0 for all.
        workgroups: so many at most share the lines, where there are fewer lines: then ``part`` is
            the fewest positions of one, and the call's extents say how many it takes.
        apart, along: subgroups that share the lines, and the positions.
        run: elements of one access.
        promote: ``input`` where neighbouring lanes read a row for another one.
    """

    lines: int = number("workgroup_tile.lines")
    positions: int = number("reduction_tile.positions")
    part: int = number("workgroup_tile.positions", optional=True)
    workgroups: int = number("workgroups", least=0)
    apart: int = number("subgroups.lines")
    along: int = number("subgroups.positions")
    run: int = number("vector_lanes", power_of_two=True)
    promote: tuple[str, ...] = operands("input")


@dataclass(frozen=True)
class LineParts:
    """Parts of a line: the positions of each, and how many there are."""

    positions: Index
    count: Index


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
        workgroups: how many share the lines, for which ``part`` is the least; 0 where it is all.
        promoted: the layout by which memory is accessed, where it is not ``layout``.
        looks_back: whether a part is one tile, of which others tell what lies before it.
    """

    layout: NestedLayout
    size: int
    kind: str
    rows: bool
    run: int
    part: int | None
    workgroups: int
    promoted: NestedLayout | None
    looks_back: bool = False

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

    def shifts(self, lines: Lines) -> bool:
        """Whether a row may begin within an access, which is then read from its first element."""
        return self.rows and known_factor(lines.length) % self.run != 0 and known(lines.outer) != 1

    def reach(self, lines: Lines) -> Index:
        """The positions to be walked along: all of a line, and those of an access before it."""
        return lines.length + (self.run - 1) if self.shifts(lines) else lines.length

    def parts(self, lines: Lines) -> LineParts | None:
        """Parts of each line; None where a workgroup takes whole ones."""
        if self.part is None:
            return None
        reach = self.reach(lines)
        part: Index = self.part
        if self.workgroups:
            tiles = ceil_div(emit.product([lines.outer, lines.inner]), self.lines)
            sharing = workgroups_each(self.workgroups, tiles)
            along = ceil_div(reach, self.positions)
            if self.looks_back:
                return LineParts(part, _tiles_or_one(along, sharing))
            each = ceil_div(along, sharing)
            part = emit.larger(emit.product([each, self.positions]), self.part)
        return LineParts(part, emit.larger(ceil_div(reach, part), 1))

    @staticmethod
    def of(shape: LineShape, target: Target, check: ConfigCheck) -> "LinePlan":
        """The plan of a config.

        Raises:
            ScheduleError: for a config that does not fit, saying which number.
        """
        forms = ("rows", "columns") if shape.inner == 1 else ("columns",)
        config, size = LineConfig.parse(check, *forms), subgroup_size(target)
        form, lines, positions = config.algorithm, config.lines, config.positions
        apart, along, run = config.apart, config.along, config.run
        chip = gpu_chip(target)
        most = chip.max_lanes // size
        check.expect(apart * along <= most, "subgroups", apart * along, f"at most {most}")
        check.power_of_two("vector_lanes", run, most=WIDEST_ACCESS_BYTES // item_bytes(shape.dtype))
        each = run if form == "columns" else 1  # lines of a lane
        lanes = size * apart * each // lines
        fits = 1 <= lanes <= size and lanes * lines == size * apart * each
        fits = fits and not lanes & (lanes - 1) and shape.inner_factor % each == 0
        tile = along * max(lanes, 1) * (run // each)
        config.expect(check, "lines", fits, "what the subgroups' lanes divide")
        config.expect(check, "positions", positions % tile == 0, f"a multiple of {tile}")
        looks_back = shape.looks_back and form == "rows" and config.part > 0
        if looks_back:
            config.expect(check, "part", config.part == positions, f"{positions}, as of a tile")
        config.expect(check, "part", config.part % positions == 0, f"a multiple of {positions}")
        shared = config.part > 0 or not config.workgroups
        config.expect(check, "workgroups", shared, "0 where lines are not cut")
        count = positions // tile
        layout = NestedLayout(
            subgroup_tile=(apart, along),
            batch_tile=(1, count),
            outer_tile=(1, 1),
            thread_tile=(size // lanes, lanes),
            element_tile=(1, run) if form == "rows" else (run, 1),
            subgroup_strides=(along, 1),
            # What lies side by side in memory is of lanes side by side.
            thread_strides=(lanes, 1) if form == "rows" else (1, size // lanes),
        )
        promoted = None
        if config.promote:
            alone = form == "rows" and lanes == 1 and count <= size and not count & (count - 1)
            expected = "input, where a lane has a row for itself" if alone else "nothing"
            config.expect(check, "promote", alone and len(config.promote) == 1, expected)
            promoted = replace(
                layout, batch_tile=(count, 1), thread_tile=(size // count, count),
                thread_strides=(count, 1),
            )  # fmt: skip
        plan = LinePlan(
            layout, size, target.kind.name, form == "rows", run, config.part or None,
            config.workgroups, promoted, looks_back,
        )  # fmt: skip
        if shape.in_order:
            check.need(plan.serial, "lines are shared, but only their order gives the result")
        taken, most = plan.shared_bytes(shape), chip.declared_shared_memory_bytes
        check.expect(taken <= most, "bytes of shared memory", taken, f"at most {most}")
        return plan

    def shared_bytes(self, shape: LineShape) -> int:
        """Of shared memory: for what subgroups leave, and for rows that change hands."""
        along, taken = self.layout.subgroup_tile[1], 0
        if along > 1:
            taken += self.lines * along * sum(map(item_bytes, shape.left))
        if self.looks_back:
            taken += self.lines * sum(map(item_bytes, shape.left)) + item_bytes("int32")
        if self.promoted is not None:
            item = item_bytes(shape.dtype)
            hardware = self.subgroups, self.size
            taken += item * shared_elements(
                self.promoted, self.layout, *hardware, f"uint{8 * item}", through_shared_memory=True
            )
        return taken


def _tiles_or_one(along: Index, sharing: Index) -> Index:
    """A line's tiles, where there are more than few and enough workgroups to share it; else 1."""
    many, shared = known(along), known(sharing)
    if (many is not None and many <= LEAST_TILES) or shared == 1:
        return 1
    if many is not None and shared is not None:
        return many
    worth = tirx.And(i64(along) > LEAST_TILES, i64(sharing) > 1)
    return tirx.Select(worth, i64(along), i64(1))
