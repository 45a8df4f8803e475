"""A product of matrices in blocks: packed parts of both, sums of a task in scratch.

    for slabs, blocks of m, blocks of n (a task):
        for blocks of depth:
            panels[k, n] = b        (scratch: read as vectors, a panel of columns at a time)
            for some rows:
                rows[m, k] = a      (scratch: read as scalars, some rows side by side)
                sums[m, n] += rows * panels
        result = epilogue(init + sums)

Panels stay in the second cache, and the rows of a register tile, which meet all of them, in the
first.  Rows whose depth is a run of memory are read where they are; so is b for few rows.  With an
instruction that multiplies neighbours, both are packed into words of such, and depth is counted in
words.  That of int8 takes unsigned bytes for a, so sums begin with

    offsets[n] = -128 * sum over the block of depth of b[n]
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.contraction.contraction_config import ContractionConfig
from tvm_iree_ext.schedules.cpu.contraction.contraction_packing import (
    OFFSETS,
    WORD,
    Neighbours,
    PanelPacking,
    Part,
    Place,
    factor_of,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import (
    ContractionOperands,
    ContractionPlan,
)
from tvm_iree_ext.schedules.cpu.contraction.contraction_sums import (
    DirectSums,
    Finish,
    without_scratch,
)
from tvm_iree_ext.schedules.cpu.products.dot_products import DotProduct
from tvm_iree_ext.schedules.cpu.products.panels_ahead import panels_ahead
from tvm_iree_ext.schedules.cpu.products.register_product import MultiplyAdd, multiply_tile
from tvm_iree_ext.schedules.cpu.products.register_tiles import (
    Beside,
    RegisterTile,
    Sums,
    multiply_panels,
    odd_lines,
    panels,
    zeros,
)
from tvm_iree_ext.schedules.emit import (
    At,
    Expr,
    Index,
    IterationSpace,
    held_index,
    i64,
    known,
    serial,
)

# Vectors of rows that are packed at once: by squares of vectors, where runs of memory are of rows.
_VECTORS_OF_ROWS = 3

# How far ahead of its use a factor that is not packed is fetched: the processor foresees one run of
# memory, not a part of each line.
_COLUMNS_AHEAD = 128


def rounded_blocks(plan: ContractionPlan, tile: RegisterTile, m: int, n: int) -> tuple[int, int]:
    """Rows and columns of a block: whole register tiles, or vectors where all blocks are equal."""
    columns, vectors = plan.extent(plan.n), -(-n // tile.lanes) * tile.lanes
    if columns is None or (columns > vectors and columns % vectors):
        # Panels are whole where their number is not known.
        vectors = -(-n // tile.width) * tile.width
    return -(-m // tile.rows) * tile.rows, vectors


def rows_at_once(tile: RegisterTile, block: int) -> int:
    """How many rows are packed at once of a block whose rows are packed before their products."""
    return min(-(-_VECTORS_OF_ROWS * tile.lanes // tile.rows) * tile.rows, block)


class PanelLoops:
    """A kernel under construction."""

    def __init__(
        self,
        plan: ContractionPlan,
        operands: ContractionOperands,
        config: ContractionConfig,
        dot: Neighbours | None = None,
    ) -> None:
        self.plan, self.operands, self.config, self.dot = plan, operands, config, dot
        self.lanes = config.lanes
        self.tile = config.tile
        self.dtype = dot.sums if dot else plan.product_dtype
        self.high, self.wide = self.operands.extent(plan.m), self.operands.extent(plan.n)
        self.block_m, self.block_n = rounded_blocks(plan, self.tile, config.block_m, config.block_n)
        self.last = plan.last_vector(self.lanes, self.block_n)
        self.a = factor_of(self.operands, plan.a, dot)
        self.b = factor_of(self.operands, plan.b, dot, self.last)
        elements = self.operands.space.count(plan.depth)
        self.depth = emit.ceil_div(elements, self.a.group)
        self.block_k = -(-config.block_k // self.a.group)
        in_runs = self.block_k % self.lanes == 0
        self.packing = {
            one.name: PanelPacking(one, self.lanes, elements, in_runs=in_runs)
            for one in (self.a, self.b)
        }
        self.held_k = -(-self.block_k // self.lanes) * self.lanes
        self.stride = odd_lines(self.held_k, item_bytes(self.dtype))
        self.held_rows = rows_at_once(self.tile, self.block_m) if self.rows_first else self.block_m

    @property
    def rows_first(self) -> bool:
        """Whether a few rows meet all panels, which are packed, and are packed just before."""
        return self.plan.b in self.config.promote

    def emit(self) -> None:
        """The whole function."""
        with self.declared():
            self.tasks()

    def declared(self) -> AbstractContextManager[Any]:
        """With what tasks take."""
        dot = self.dot
        return dot.declared(self.lanes) if isinstance(dot, DotProduct) else nullcontext()

    def tasks(self) -> None:
        """All blocks of the result."""
        plan, operands = self.plan, self.operands
        slabs = operands.space.count(plan.slabs)
        space = IterationSpace(
            (slabs, emit.ceil_div(self.high, self.block_m), emit.ceil_div(self.wide, self.block_n))
        )
        # A vector that ends with the row is whole.
        unit = self.lanes if self.last is not None else 1
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(space.count((0, 1, 2)))) as task:
            at = space.spread(task, (0, 1, 2))
            slab = emit.bound({**operands.origin, **operands.space.spread(at[0], plan.slabs)})
            row = i64(held_index(i64(at[1]) * self.block_m))
            column = i64(held_index(i64(at[2]) * self.block_n))
            for rows in _parts(self.block_m, self.high, row):
                for columns in _parts(self.block_n, self.wide, column, unit):
                    self.task(slab, row, rows, column, columns)

    def task(self, slab: At, row: Expr, rows: Index, column: Expr, columns: Index) -> None:
        """A block of the result of a slab."""
        exact = known(columns)
        self.parts = [(i64(0), i64(emit.ceil_div(columns, self.tile.width)), self.tile.vectors)]
        if exact is not None:
            self.parts = [(i64(f), i64(n), v) for f, n, v in panels(exact, self.tile)]
        held = -(-exact // self.lanes) * self.lanes if exact is not None else self.block_n
        blocks = emit.ceil_div(self.depth, self.block_k)
        single = known(blocks) == 1
        direct = self.plan.runs_along_n
        memory = None
        if not without_scratch(self.plan, self.lanes, single):
            memory = emit.scratch([self.block_m * held], self.plan.op.accumulator_dtype)
        promoted = self.config.promote
        if self.plan.a in promoted:
            self.rows = emit.scratch([self.held_rows * self.stride], self.a.dtype)
        if self.plan.b in promoted:
            self.panels = emit.scratch([held * self.held_k], self.b.dtype)
        if self.a.flipped:
            self.offsets = emit.scratch([held], self.dtype)
        sums: Sums | DirectSums
        if direct:
            block_at = (slab, row, rows, column, columns)
            sums = DirectSums(self.operands, *block_at, self.lanes, memory, held, self.last)
        else:
            sums = Sums(memory, held, self.lanes, self.dtype, single)
            self.clear(sums, rows, columns)
        with serial(blocks) as block:
            first = I.Bind(block * self.block_k)
            depth = emit.part(emit.smaller(self.block_k, self.depth), self.depth, first)
            if self.plan.a in promoted and not self.rows_first:
                self.pack_rows(slab, Part(row, rows), Part(first, depth))
            if self.plan.b in promoted:
                self.pack_panels(slab, column, columns, Part(first, depth))
            if self.a.flipped:
                self.sum_panels(depth)
            wide = columns if exact is None else held
            finish = sums.finish if isinstance(sums, Sums) else sums.ways(block, blocks)
            self.multiply(slab, Part(row, rows), Part(column, wide), Part(first, depth), finish)
        if isinstance(sums, Sums):
            self.write(slab, row, rows, column, columns, sums)

    def multiply(self, slab: At, rows: Part, columns: Part, depth: Part, finish: Finish) -> None:
        """The products of a block of depth, of whole vectors of columns."""

        def first(row: Expr) -> None:
            if self.plan.a not in self.config.promote:
                return
            with I.If(tirx.floormod(row, self.held_rows) == 0), I.Then():
                count = emit.part(self.held_rows, rows.count, row)
                self.pack_rows(slab, Part(rows.first + row, count), depth)

        multiply_panels(
            self.tile,
            rows=rows.count,
            columns=columns.count,
            depth=depth.count,
            dtype=self.dtype,
            a=self.row_element(slab, rows, depth.first),
            b=self.panel_vector(slab, columns.first, depth.first),
            start=self.start,
            finish=finish,
            add=self.add,
            first=first if self.rows_first else None,
            beside=self.ahead(slab, rows, columns.first, depth),
        )

    def ahead(self, slab: At, rows: Part, column: Expr, depth: Part) -> Beside | None:
        """Fetches of a panel's next block of depth where it is read in place, or the next panel."""
        wide = known(self.wide)
        if self.plan.b in self.config.promote or wide is None or wide > self.tile.width:
            return None

        def fetch(start: Expr, vectors: int, k: Expr, offset: Expr) -> None:
            place = self.operands.at(slab, self.plan.n, column + start + offset)
            place_of_k = (depth.first + k + depth.count) * self.a.group
            at = self.operands.depth_at(place, place_of_k)
            emit.prefetch(self.b.view.buffer, *self.b.view.index(at), nearest=False)

        shape = self.plan.op.types[self.plan.b].shape
        sizes = [extent for extent in shape if isinstance(extent, int)]
        elements = prod(sizes) if len(sizes) == len(shape) else None
        return panels_ahead(self.tile, elements, self.b.dtype, rows.count, fetch)

    def clear(self, sums: Sums, rows: Index, columns: Index) -> None:
        """Begin with zeros."""
        vectors: Index = sums.stride // self.lanes
        if known(columns) is None:
            vectors = emit.ceil_div(columns, self.tile.width) * self.tile.vectors
        if known(rows) is None:
            rows = emit.ceil_div(rows, self.tile.rows) * self.tile.rows
        sums.clear(rows, vectors)

    def start(self, i: Expr, j: Expr) -> Expr:
        """Initial vector of sums of a block of depth."""
        if self.a.flipped:
            return self.offsets[emit.run(j, self.lanes)]
        return zeros(self.dtype, self.lanes)

    @property
    def add(self) -> MultiplyAdd | None:
        """Accumulation of neighbours' products; None for those of numbers."""
        dot, lanes = self.dot, self.lanes
        if not isinstance(dot, DotProduct):
            return None
        return lambda sums, x, y: dot.add(sums, y, x, lanes)

    def row_element(self, slab: At, rows: Part, first: Expr) -> Callable[[Expr, Expr], Expr]:
        """``a`` at a row and a k of the block."""
        operands, plan = self.operands, self.plan
        if plan.a in self.config.promote:
            held = self.held_rows
            return lambda i, k: self.rows[(i % held if self.rows_first else i) * self.stride + k]

        def direct(i: Expr, k: Expr) -> Expr:
            row: Index = rows.first + i
            if known(rows.count) is None:  # whole tiles, whose rows past the last are not used
                row = emit.smaller(row, i64(self.high) - 1)
            return self.a.across(operands.at(slab, plan.m, row), first + k)

        return direct

    def panel_vector(
        self, slab: At, column: Expr, first: Expr
    ) -> Callable[[Expr, int, Expr, int], Expr]:
        """``b``: vector j of the panel that begins at a column, at a k of the block."""
        operands, plan = self.operands, self.plan
        far = (known(self.wide) or 0) > 2 * _COLUMNS_AHEAD

        def direct(start: Expr, vectors: int, k: Expr, j: int) -> Expr:
            place = column + start + j * self.lanes
            if far:
                ahead = operands.at(slab, plan.n, place + _COLUMNS_AHEAD)
                at = operands.depth_at(ahead, first + k)
                emit.prefetch(self.b.view.buffer, *self.b.view.index(at))
            return self.b.across(operands.at(slab, plan.n, place), first + k, self.lanes)

        return self.packed if plan.b in self.config.promote else direct

    def packed(self, start: Expr, vectors: int, k: Expr, j: int) -> Expr:
        """Vector j of the packed panel that begins at a column of the block."""
        return self.panels[emit.run(self.line(start, vectors, k, j), self.lanes)]

    def line(self, start: Expr, vectors: int, k: Expr, j: int) -> Expr:
        """Start of vector ``j`` of a line."""
        return start * self.held_k + (k * vectors + j) * self.lanes

    def pack_rows(self, slab: At, rows: Part, depth: Part) -> None:
        """``rows[i, k]`` = a."""

        packing = self.packing[self.plan.a]
        packing.rows(slab, self.plan.m, rows, depth, self.rows, self.row_place)
        if known(rows.count) is None and not self.dot:  # tiles are whole
            end = emit.ceil_div(rows.count, self.tile.rows) * self.tile.rows
            with serial(end, rows.count) as i, serial(depth.count) as k:
                I.buffer_store(self.rows, tirx.const(0, self.a.dtype), [self.row_place(i, k)])

    def row_place(self, i: Expr, k: Expr) -> Expr:
        """Index of a packed place of depth of a row."""
        return i * self.stride + k

    def pack_panels(self, slab: At, column: Expr, columns: Index, depth: Part) -> None:
        """Panels of b: vectors of each k after one another; past the last column, zeros."""
        for start, count, vectors in self.parts:
            width = vectors * self.lanes
            alone = known(count) == 1  # how many columns it has is a number then
            with nullcontext(i64(0)) if alone else serial(count) as panel:
                offset = held_index(start + panel * width)
                live = width if self.last is not None else emit.part(width, columns, i64(offset))
                there = I.Bind(i64(offset) * self.held_k)

                def place(j: Expr, k: Expr, there: Expr = there, width: int = width) -> Expr:
                    return there + k * width + j

                own = Part(I.Bind(column + offset), live)
                self.clear_columns(live, vectors, depth.count, place)
                packing = self.packing[self.plan.b]
                packing.lines(slab, self.plan.n, own, depth, self.panels, place)

    def clear_columns(self, live: Index, vectors: int, depth: Index, place: Place) -> None:
        """Zeros in the vectors of a panel that have no column, or not all of theirs.

        They are multiplied, too, and what scratch had before may be numbers below the smallest
        normal one, which take a hundred times as long.
        """
        exact = known(live)
        first = exact // self.lanes if exact is not None else 0
        if exact == vectors * self.lanes or self.dot:
            return
        partial = I.If(i64(live) < vectors * self.lanes) if exact is None else nullcontext()
        then = I.Then() if exact is None else nullcontext()
        with partial, then, serial(depth) as k:
            for j in range(first, vectors):
                at = emit.run(place(i64(j * self.lanes), k), self.lanes)
                I.buffer_store(self.panels, zeros(self.b.dtype, self.lanes), [at])

    def sum_panels(self, depth: Index) -> None:
        """``offsets`` of the panels: 128 times their sums, negative."""
        for start, count, vectors in self.parts:
            with serial(count) as panel:
                first = I.Bind(start + panel * (vectors * self.lanes))

                def panel_vector(
                    k: Expr, j: int, first: Expr = first, vectors: int = vectors
                ) -> Expr:
                    return self.packed(first, vectors, k, j)

                def keep(_: int, j: int, value: Expr, first: Expr = first) -> None:
                    at = emit.run(first + j * self.lanes, self.lanes)
                    I.buffer_store(self.offsets, zeros(self.dtype, self.lanes) - value, [at])

                multiply_tile(
                    rows=1,
                    vectors=vectors,
                    lanes=self.lanes,
                    depth=depth,
                    dtype=self.dtype,
                    x=panel_vector,
                    y=lambda i, k: tirx.const(OFFSETS, WORD),
                    start=lambda i, j: zeros(self.dtype, self.lanes),
                    finish=keep,
                    add=self.add,
                )

    def sum_at(self, sums: Sums, source: Expr) -> Callable[[Expr], Expr]:
        """A sum of the row that begins at a place."""
        return lambda j: sums.buffer[source + j]

    def write(
        self, slab: At, row: Expr, rows: Index, column: Expr, columns: Index, sums: Sums
    ) -> None:
        """The sums to the result, through the epilogue."""
        operands, plan = self.operands, self.plan
        with serial(rows) as i:
            line = operands.at(slab, plan.m, row + i)
            source = I.Bind(i * sums.stride)
            operands.write(line, column, columns, self.lanes, self.sum_at(sums, source))


def _parts(block: int, whole: Index, first: Expr, unit: int = 1) -> Iterator[Index]:
    """How much of a block from ``first`` on there is: code for each number that it may be.

    Where the whole is a number these are numbers, and register tiles have no rows or vectors that
    are multiplied in vain.  Of a last ``unit`` there may be less than all.
    """
    exact = known(whole)
    if exact is None or exact <= block or exact % block == 0:
        yield emit.part(emit.smaller(block, whole), whole, first)
        return
    rest = exact % block
    if -(-rest // unit) * unit == block:
        yield block
        return
    with I.If(first + block <= exact):
        with I.Then():
            yield block
        with I.Else():
            yield rest
