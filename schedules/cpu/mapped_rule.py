"""The CPU rule for map_load and map_store: rows of the domain, analysed when the kernel is built.

A row is a run of the domain's last dim.  Where the region's place is affine in that dim, the part
of a row that lies in the other tensor is an interval: what is outside is padding, or left out, and
what is inside is a copy without tests, of neighbours in memory for a pad or a slice.  Any other
region is evaluated for each element, and tested where it cannot be proved to lie inside.

Where a dim before the last runs along the other tensor's memory instead (a transpose), rows are cut
to tiles, so that a cache line is used up while it is in the first cache.  A tile that is whole, and
lies inside, is transposed in registers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import sym, tirx
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.mapped.mapped import Mapped
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.tasks import Tasks
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.shared.slice_operands import static_count
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features
from tvm_iree_ext.tir.tir_expressions import bits

_TILE = 32  # rows and columns of a tile: so many cache lines of either tensor
_FARTHEST = (1 << 63) - (
    1 << 48
)  # no column, of 2**47 at most, moves a place from there into a tensor


@dataclass(frozen=True)
class MappedConfig(RuleConfig):
    """A tile of a transpose; tasks share the rows, or the columns of all."""

    rows: int = number("workgroup_tile.rows")
    columns: int = number("workgroup_tile.columns")
    splits: int = number("splits")
    parallel: bool = flag("parallel")


class CpuMapped(CpuRule):
    """map_load and map_store on an LLVM CPU target."""

    name = "cpu.mapped"
    lowers = Mapped
    typed = MappedConfig
    algorithms = ("rows", "columns")

    def usual(self, op: Mapped, target: Target) -> MappedConfig:
        """Tasks share the rows, or where these are few, the columns."""
        parallel = self.is_large(op)
        cores = cpu_features(target).cores if parallel else 1
        rows = static_count(op.domain.shape[:-1])
        return MappedConfig(
            "columns" if rows is not None and rows < 4 * cores else "rows",
            rows=_TILE,
            columns=_TILE,
            splits=cores,
            parallel=parallel,
        )

    def emit(self, op: Mapped, config: MappedConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _Kernel(op, config).emit()


@dataclass(frozen=True)
class _Affine:
    """A place along one dim of the domain: ``start + step * x`` for each axis."""

    start: list[Expr]
    step: list[int]


class _Kernel:
    """The kernel under construction."""

    def __init__(self, op: Mapped, config: MappedConfig) -> None:
        self.op, self.config = op, config
        self.parameters = Parameters.declare(op)
        self.domain = [self.extent(extent) for extent in op.domain.shape]
        self.other = [self.extent(extent) for extent in op.other.shape]
        names = ("output", "source") if op.loads else ("input", "output")
        domain, other = (self.parameters[name] for name in names)
        # Words: data only move, whatever they are.
        self.domain_words, self.other_words = emit.flat_words(domain), emit.flat_words(other)
        self.tasks = Tasks(config.splits, config.parallel)
        self.analyzer = sym.Analyzer()
        self.lanes = min(16, emit.LINE_BYTES // item_bytes(op.dtype))

    def extent(self, extent: Extent) -> Index:
        """An extent as a number, or an expression where it is a symbol."""
        return self.parameters.symbols[extent] if isinstance(extent, str) else extent

    def emit(self) -> None:
        """The copy of the init, for a store; the rows of each task."""
        if not self.op.loads:
            init = emit.flat_words(self.parameters["output_init"])
            self.tasks.copy(self.other_words, init, emit.product(self.other))
        if not self.domain:
            self.element([])
            return
        along = self.transposed_dim()
        *outer, length = self.domain
        if along is not None:
            rows = self.config.rows
            outer[along] = emit.ceil_div(outer[along], rows)
        with self.tasks.each() as task:
            first, stop = i64(0), i64(emit.product(outer))
            low, high = i64(0), i64(length)
            if self.config.algorithm == "rows":
                first, stop = self.tasks.share(task, emit.product(outer))
            else:
                line = emit.LINE_BYTES // item_bytes(self.op.dtype)
                low, high = self.tasks.share(task, length, line)
            with serial(stop, first) as number:
                at = [I.Bind(i64(one)) for one in spread(number, outer)]
                if along is None:
                    self.row(at, low, high)
                else:
                    self.tile(at, along, low, high)

    def tile(self, at: list[Expr], along: int, low: Expr, high: Expr) -> None:
        """Some rows along a dim, in parts of some columns."""
        rows, columns = self.config.rows, self.config.columns
        first = I.Bind(at[along] * i64(rows))
        count = emit.smaller(self.domain[along] - first, rows)
        with serial(emit.ceil_div(high - low, columns)) as part:
            start = I.Bind(low + part * i64(columns))
            stop = I.Bind(i64(emit.smaller(start + columns, high)))
            corner = [*at[:along], first, *at[along + 1 :], start]
            whole = self.whole_tile(corner, along, count, stop - start)

            def each_row() -> None:
                with serial(count) as row:
                    self.row([*at[:along], first + row, *at[along + 1 :]], start, stop)

            if whole is None:
                each_row()
            else:
                with I.If(whole):
                    with I.Then():
                        self.transpose(corner, along)
                    with I.Else():
                        each_row()

    def whole_tile(
        self, corner: list[Expr], along: int, rows: Index, columns: Index
    ) -> Expr | None:
        """Whether a tile is whole and inside; None where it cannot be transposed in registers.

        It can be where its rows are neighbours in the other tensor's memory, and all are moved.
        """
        tile = [self.config.rows, self.config.columns]
        if any(size % self.lanes for size in tile):
            return None
        _, mask = self.op.region(corner, self.parameters.symbols)
        if not self.op.loads and known(mask) != 1:
            return None
        by_row, by_column = (self.along(corner, dim) for dim in (along, len(corner) - 1))
        if by_row is None or by_column is None or known(self.flat_step(by_row)) != 1:
            return None
        place, _ = self.op.region(corner, self.parameters.symbols)
        inside = tirx.And(tirx.EQ(i64(rows), i64(tile[0])), tirx.EQ(i64(columns), i64(tile[1])))
        for axis, extent in enumerate(self.other):
            moves = [(tile[0] - 1) * by_row.step[axis], (tile[1] - 1) * by_column.step[axis]]
            least, most = (sum(pick(move, 0) for move in moves) for pick in (min, max))
            start = I.Bind(place[axis])
            one = tirx.And(start + least >= i64(0), start + most < i64(extent))
            inside = tirx.And(inside, one)
        return inside

    def along(self, at: list[Expr], dim: int) -> _Affine | None:
        """How the place depends on a dim, at a point."""
        var = tirx.Var("along", "int64")
        place, _ = self.op.region([*at[:dim], var, *at[dim + 1 :]], self.parameters.symbols)
        return self.affine(place, var)

    def transpose(self, corner: list[Expr], along: int) -> None:
        """A whole tile, by squares that are transposed in registers."""
        lanes = self.lanes
        rows, columns = self.config.rows, self.config.columns
        by_column = self.along(corner, len(corner) - 1)
        assert by_column is not None
        step = i64(self.flat_step(by_column))
        place, _ = self.op.region(corner, self.parameters.symbols)
        other = I.Bind(emit.flat_index(place, self.other))
        domain = I.Bind(emit.flat_index(corner, self.domain))
        stride = i64(emit.product(self.domain[along + 1 :]))
        with serial(rows // lanes) as row, serial(columns // lanes) as column:
            first = I.Bind(other + row * i64(lanes) + column * i64(lanes) * step)
            target = I.Bind(domain + row * i64(lanes) * stride + column * i64(lanes))
            others = [first + i64(i) * step for i in range(lanes)]
            domains = [target + i64(i) * stride for i in range(lanes)]
            if self.op.loads:
                emit.move_transposed(self.domain_words, domains, self.other_words, others)
            else:
                emit.move_transposed(self.other_words, others, self.domain_words, domains)

    def row(self, at: list[Expr], low: Expr, high: Expr) -> None:
        """The elements ``low`` to ``high`` - 1 of a row."""
        column = tirx.Var("column", "int64")
        place, _ = self.op.region([*at, column], self.parameters.symbols)
        affine = self.affine(place, column)
        if affine is None:
            with serial(high, low) as j:
                self.element([*at, j])
            return
        inside = [I.Bind(i64(bound)) for bound in self.interval(affine, low, high)]
        base = I.Bind(emit.flat_index([*at, i64(0)], self.domain))
        start = I.Bind(emit.flat_index(affine.start, self.other))
        step = self.flat_step(affine)
        if self.op.loads:
            for first, stop in ((low, inside[0]), (inside[1], high)):
                with serial(stop, first) as j:
                    self.pad([*at, j])
        with serial(inside[1], inside[0]) as j:
            self.move(base + j, start + j * i64(step), [*at, j])

    def flat_step(self, affine: _Affine) -> Index:
        """How far the place in the other tensor moves for each column."""
        step: Index = 0
        for axis, one in enumerate(affine.step):
            if one:
                stride = emit.product([one, *self.other[axis + 1 :]])
                both = isinstance(step, int) and isinstance(stride, int)
                step = step + stride if both else i64(step) + i64(stride)
        return step

    def interval(self, affine: _Affine, low: Expr, high: Expr) -> tuple[Index, Index]:
        """The columns from ``low`` to ``high`` whose place lies in the other tensor."""
        first, stop = low, high
        for start, step, extent in zip(affine.start, affine.step, self.other, strict=True):
            if self.op.region_scalars:
                # A call may give any number; what is so far off never lies in a tensor.
                start = tirx.max(i64(-_FARTHEST), tirx.min(start, i64(_FARTHEST)))
            start = I.Bind(start)
            last = i64(extent) - 1
            if step == 0:
                # All of the row, or nothing.
                within = tirx.And(i64(0) <= start, start <= last)
                stop = tirx.Select(within, stop, first)
            elif step > 0:
                first = tirx.max(first, -tirx.floordiv(start, i64(step)))
                stop = tirx.min(stop, tirx.floordiv(last - start, i64(step)) + 1)
            else:
                first = tirx.max(first, -tirx.floordiv(last - start, i64(-step)))
                stop = tirx.min(stop, tirx.floordiv(start, i64(-step)) + 1)
            first, stop = I.Bind(first), I.Bind(stop)
        # An empty interval must not reach out of low to high, where padding begins and ends.
        first = I.Bind(tirx.min(first, high))
        return first, tirx.min(tirx.max(first, stop), high)

    def affine(self, place: Sequence[Expr], var: tirx.Var) -> _Affine | None:
        """How a place depends on a variable; None where that is not by constant steps."""
        steps = []
        starts = []
        for index in place:
            moved, start = (substitute(index, var, to) for to in (var + i64(1), i64(0)))
            difference = self.analyzer.simplify(moved - index)
            number = known(difference)
            if number is None:
                return None
            steps.append(number)
            starts.append(start)
        return _Affine(starts, steps)

    def transposed_dim(self) -> int | None:
        """The dim that runs along the other tensor's memory, where the last one does not."""
        variables = [tirx.Var(f"x{dim}", "int64") for dim in range(len(self.domain))]
        place, _ = self.op.region(variables, self.parameters.symbols)
        found = [self.affine(place[-1:], variable) for variable in variables]
        if not place or found[-1] is None or found[-1].step != [0]:
            return None
        dims = [dim for dim, one in enumerate(found) if one and abs(one.step[0]) == 1]
        return dims[0] if dims else None

    def element(self, at: Sequence[Expr]) -> None:
        """One element, with the tests that are needed."""
        place, value = self.op.region(at, self.parameters.symbols)
        place = [I.Bind(index) for index in place]
        inside: Expr = tirx.const(True, "bool")
        for index, extent in zip(place, self.other, strict=True):
            inside = tirx.And(inside, tirx.And(i64(0) <= index, index < i64(extent)))
        other = emit.flat_index(place, self.other)
        domain = emit.flat_index(at, self.domain)
        if self.op.loads:
            padding = bits(value, self.op.dtype)
            found = tirx.if_then_else(inside, self.other_words[other], padding)
            I.buffer_store(self.domain_words, found, [domain])
        else:
            with I.If(tirx.And(value, inside)), I.Then():
                I.buffer_store(self.other_words, self.domain_words[domain], [other])

    def pad(self, at: Sequence[Expr]) -> None:
        """The padding of one element of a load."""
        _, value = self.op.region(at, self.parameters.symbols)
        domain = emit.flat_index(at, self.domain)
        I.buffer_store(self.domain_words, bits(value, self.op.dtype), [domain])

    def move(self, domain: Expr, other: Expr, at: Sequence[Expr]) -> None:
        """One element whose place is known to lie in the other tensor."""
        if self.op.loads:
            I.buffer_store(self.domain_words, self.other_words[other], [domain])
            return
        _, mask = self.op.region(at, self.parameters.symbols)
        if known(mask) == 1:
            I.buffer_store(self.other_words, self.domain_words[domain], [other])
            return
        with I.If(mask), I.Then():
            I.buffer_store(self.other_words, self.domain_words[domain], [other])


def spread(flat: Expr, extents: Sequence[Index]) -> list[Index]:
    """The index at a row-major position."""
    at: list[Index] = []
    for extent in reversed(extents[1:]):
        at.append(tirx.floormod(flat, i64(extent)))
        flat = tirx.floordiv(flat, i64(extent))
    return [*([flat] if extents else []), *reversed(at)]


def substitute(body: Expr, var: tirx.Var, value: Expr) -> Expr:
    """``body`` with ``value`` for a variable."""
    return tvm_ffi.structural_map(body, (tirx.Var, lambda one: value if one.same_as(var) else one))
