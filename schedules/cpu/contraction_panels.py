"""A product of matrices in blocks: packed parts of both, sums of a task in scratch.

    for slabs, blocks of m, blocks of n (a task):
        for blocks of depth:
            rows[m, k] = a          (scratch: read as scalars, some rows side by side)
            panels[k, n] = b        (scratch: read as vectors, a panel of columns at a time)
            sums[m, n] += rows * panels
        result = epilogue(init + sums)

A factor that is small, and has the elements side by side that the product wants so, is read where
it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.contraction_plan import Operands, Plan
from tvm_iree_ext.schedules.cpu.emit import (
    At,
    Expr,
    Index,
    Space,
    View,
    held_index,
    i64,
    known,
    serial,
)
from tvm_iree_ext.schedules.cpu.matmul import RegisterTile, Sums, multiply_panels, odd_lines, panels

from tvm_iree_ext.dtypes import item_bytes

Place = Callable[[Expr, Expr], Expr]

# How far ahead of its use a factor that is not packed is fetched: the processor foresees one run of
# memory, not a part of each line.
_COLUMNS_AHEAD = 128


def rounded_blocks(plan: Plan, tile: RegisterTile, m: int, n: int) -> tuple[int, int]:
    """Rows and columns of a block: whole register tiles, or vectors where all blocks are equal."""
    columns, vectors = plan.extent(plan.n), -(-n // tile.lanes) * tile.lanes
    if columns is None or (columns > vectors and columns % vectors):
        # Panels are whole where their number is not known.
        vectors = -(-n // tile.width) * tile.width
    return -(-m // tile.rows) * tile.rows, vectors


class PanelLoops:
    """A kernel under construction."""

    def __init__(self, plan: Plan, config: LoweringConfig) -> None:
        self.plan, self.config = plan, config
        self.operands = Operands(plan)
        self.lanes = config.vector_lanes
        tile = config.register_tile
        self.tile = RegisterTile(tile["rows"], tile["vectors"], self.lanes)
        self.dtype = plan.product_dtype
        self.high, self.wide = self.operands.extent(plan.m), self.operands.extent(plan.n)
        self.depth = self.operands.space.count(plan.depth)
        k = config.reduction_tile["k"]
        self.block_m, self.block_n = rounded_blocks(
            plan, self.tile, config.workgroup_tile["m"], config.workgroup_tile["n"]
        )
        self.block_k = k
        self.held_k = -(-k // self.lanes) * self.lanes
        self.stride = odd_lines(self.held_k, item_bytes(self.dtype))

    def emit(self) -> None:
        """The whole function."""
        plan, operands = self.plan, self.operands
        slabs = operands.space.count(plan.slabs)
        m, n = emit.smaller(self.block_m, self.high), emit.smaller(self.block_n, self.wide)
        space = Space(
            (slabs, emit.ceil_div(self.high, self.block_m), emit.ceil_div(self.wide, self.block_n))
        )
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(space.count((0, 1, 2)))) as task:
            at = space.spread(task, (0, 1, 2))
            slab = emit.bound({**operands.origin, **operands.space.spread(at[0], plan.slabs)})
            row = i64(held_index(i64(at[1]) * self.block_m))
            column = i64(held_index(i64(at[2]) * self.block_n))
            rows = emit.part(m, self.high, row)
            columns = emit.part(n, self.wide, column)
            self.task(slab, row, rows, column, columns)

    def task(self, slab: At, row: Expr, rows: Index, column: Expr, columns: Index) -> None:
        """A block of the result of a slab."""
        exact = known(columns)
        self.parts = [(i64(0), i64(emit.ceil_div(columns, self.tile.width)), self.tile.vectors)]
        if exact is not None:
            self.parts = [(i64(f), i64(n), v) for f, n, v in panels(exact, self.tile)]
        held = -(-exact // self.lanes) * self.lanes if exact is not None else self.block_n
        blocks = emit.ceil_div(self.depth, self.block_k)
        memory = emit.scratch([self.block_m * held], self.plan.op.accumulator_dtype)
        sums = Sums(memory, held, self.lanes, self.dtype, known(blocks) == 1)
        vectors = held // self.lanes
        if exact is None:
            vectors = emit.ceil_div(columns, self.tile.width) * self.tile.vectors
        padded = rows
        if known(rows) is None:
            padded = emit.ceil_div(rows, self.tile.rows) * self.tile.rows
        sums.clear(padded, vectors)
        promoted = self.config.promote
        if self.plan.a in promoted:
            self.rows = emit.scratch([self.block_m * self.stride], self.dtype)
        if self.plan.b in promoted:
            self.panels = emit.scratch([held * self.held_k], self.dtype)
        with serial(blocks) as block:
            first = I.Bind(block * self.block_k)
            depth = emit.part(emit.smaller(self.block_k, self.depth), self.depth, first)
            if self.plan.a in promoted:
                self.pack_rows(slab, row, rows, first, depth)
            if self.plan.b in promoted:
                self.pack_panels(slab, column, columns, first, depth)
            multiply_panels(
                self.tile,
                rows=rows,
                columns=columns if exact is None else held,
                depth=depth,
                dtype=self.dtype,
                a=self.row_element(slab, row, first),
                b=self.panel_vector(slab, column, first),
                start=sums.start,
                finish=sums.finish,
            )
        self.write(slab, row, rows, column, columns, sums)

    def row_element(self, slab: At, row: Expr, first: Expr) -> Callable[[Expr, Expr], Expr]:
        """``a`` at a row and a k of the block."""
        operands, plan = self.operands, self.plan
        if plan.a in self.config.promote:
            return lambda i, k: self.rows[i * self.stride + k]

        def element(i: Expr, k: Expr) -> Expr:
            at = operands.at(slab, plan.m, row + i)
            return operands.views[plan.a].load(operands.depth_at(at, first + k), self.dtype)

        return element

    def panel_vector(
        self, slab: At, column: Expr, first: Expr
    ) -> Callable[[Expr, int, Expr, int], Expr]:
        """``b``: vector j of the panel that begins at a column, at a k of the block."""
        operands, plan = self.operands, self.plan
        view = operands.views[plan.b]
        far = (known(self.wide) or 0) > 2 * _COLUMNS_AHEAD

        def packed(start: Expr, vectors: int, k: Expr, j: int) -> Expr:
            at = start * self.held_k + (k * vectors + j) * self.lanes
            return self.panels[emit.run(at, self.lanes)]

        def direct(start: Expr, vectors: int, k: Expr, j: int) -> Expr:
            place = column + start + j * self.lanes
            if far:
                ahead = operands.at(slab, plan.n, place + _COLUMNS_AHEAD)
                at = operands.depth_at(ahead, first + k)
                emit.prefetch(view.buffer, *view.index(at))
            at = operands.at(slab, plan.n, place)
            return view.load(operands.depth_at(at, first + k), self.dtype, self.lanes)

        return packed if plan.b in self.config.promote else direct

    def pack_rows(self, slab: At, row: Expr, rows: Index, first: Expr, depth: Index) -> None:
        """``rows[i, k]`` = a."""
        operands, plan = self.operands, self.plan
        view = operands.views[plan.a]

        def place(i: Expr, k: Expr) -> Expr:
            return i * self.stride + k

        if plan.m is not None and len(plan.depth) == 1 and plan.lies_along(plan.a, [plan.m]):
            whole = _Side(plan.m, row, rows)
            part = _Side(plan.depth[0], first, depth)
            self.pack_squares(view, slab, self.rows, part, whole, lambda k, i: place(i, k))
            return
        with serial(rows) as i:
            at = operands.at(slab, plan.m, row + i)

            def move(k: Index, lanes: int) -> None:
                value = view.load(operands.depth_at(at, first + i64(k)), self.dtype, lanes)
                I.buffer_store(self.rows, value, [emit.run(place(i, i64(k)), lanes)])

            if plan.lies_along(plan.a, plan.depth):
                emit.copied(depth, self.lanes, move)
            else:
                with serial(depth) as k:
                    move(k, 1)

    def pack_panels(
        self, slab: At, column: Expr, columns: Index, first: Expr, depth: Index
    ) -> None:
        """Panels of b: vectors of each k after one another; past the last column, anything."""
        plan = self.plan
        view = self.operands.views[plan.b]
        for start, count, vectors in self.parts:
            width = vectors * self.lanes
            with serial(count) as panel:
                offset = held_index(start + panel * width)
                live = emit.part(width, columns, i64(offset))
                there = I.Bind(i64(offset) * self.held_k)

                def place(j: Expr, k: Expr, there: Expr = there, width: int = width) -> Expr:
                    return there + k * width + j

                begin = I.Bind(column + offset)
                if plan.lies_along(plan.b, plan.depth) and plan.n is not None:
                    own, along = _Side(plan.n, begin, live), _Side(plan.depth[0], first, depth)
                    self.pack_squares(view, slab, self.panels, own, along, place)
                else:
                    self.pack_lines(slab, begin, live, first, depth, place)

    def pack_lines(
        self, slab: At, begin: Expr, columns: Index, first: Expr, depth: Index, place: Place
    ) -> None:
        """A panel of b, k by k."""
        operands, plan = self.operands, self.plan
        view = operands.views[plan.b]
        with serial(depth) as k:
            there = operands.depth_at(slab, first + k)

            def move(j: Index, lanes: int) -> None:
                at = operands.at(there, plan.n, begin + j)
                value = view.load(at, self.dtype, lanes)
                I.buffer_store(self.panels, value, [emit.run(place(i64(j), k), lanes)])

            if plan.lies_along(plan.b, [plan.n]):
                emit.in_vectors(columns, self.lanes, move)
            else:
                with serial(columns) as j:
                    move(j, 1)

    def pack_squares(
        self, view: View, slab: At, target: Any, own: "_Side", along: "_Side", place: Place
    ) -> None:
        """``target[place(i, j)]`` for i of ``own``, j of ``along``, where runs of i are wanted.

        In memory runs are of j.  Past the end of ``own``, up to a whole vector, comes anything.
        """
        lanes = self.lanes

        def line(i: Index) -> At:
            return {**slab, own.dim: own.first + tirx.min(i64(i), i64(own.count) - 1)}

        with serial(emit.ceil_div(own.count, lanes)) as block:
            lines = [emit.bound(line(block * lanes + i)) for i in range(lanes)]

            def square(j: Expr) -> None:
                values = [
                    view.load({**one, along.dim: along.first + j}, self.dtype, lanes)
                    for one in lines
                ]
                for number, value in enumerate(emit.transpose(values)):
                    at = emit.run(place(block * lanes, j + number), lanes)
                    I.buffer_store(target, value, [at])

            def single(j: Expr) -> None:
                for number, one in enumerate(lines):
                    value = view.load({**one, along.dim: along.first + j}, self.dtype)
                    I.buffer_store(target, value, [place(block * lanes + number, j)])

            def piece(j: Index, width: int) -> None:
                if width == lanes:
                    square(I.Bind(i64(j)))
                else:
                    for step in range(width):
                        single(i64(j) + step)

            emit.copied(along.count, lanes, piece)

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


@dataclass(frozen=True)
class _Side:
    """Of a part of a factor, the elements along one dim: from ``first`` on, ``count`` of them."""

    dim: int
    first: Expr
    count: Index
