"""CPU top-k: walk along each line once, and insert what beats the worst that is kept.

The best of a block of candidates is found in vectors, lane by lane, and compared with the worst
element kept; most blocks end there, so a long line costs what reading it costs.  A block with a
candidate in it is walked singly.

Where the dim is not the innermost, the lines of some cache lines of elements are copied to a tile
together, a piece at a time.  Where there are fewer lines than cores, a line is walked in
``splits`` parts, each with slots of its own, which are offered to those of the first at the end.

Work: N, and log2(K) or K / 2 moves for each candidate inserted.  Scratch: the slots, and the tile.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.comparators import is_nan
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.line_elements import as_seen, stored
from tvm_iree_ext.schedules.cpu.topk.topk_config import TopkConfig
from tvm_iree_ext.schedules.cpu.topk.topk_lines import TopkLines
from tvm_iree_ext.schedules.cpu.topk.topk_slots import Slots, lowest
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, product, serial

_LARGEST_SQUARE = 16
_ROWS_AHEAD = 32  # that are fetched: they lie too far apart for the CPU to foresee them


def scan_kernel(op: Topk, config: TopkConfig) -> tirx.PrimFunc:
    """The PrimFunc of ``op``, with slots that are in order or a heap."""
    with IRBuilder() as builder, I.prim_func():
        _Scan(op, config).emit()
    return builder.get()


class _Scan(TopkLines):
    """The kernel under construction."""

    def emit(self) -> None:
        """All lines."""
        with I.sblock("root"):
            self.declare()
            if known(self.inner) != 1:
                self.emit_tiles()
            else:
                self.emit_lines()

    def emit_lines(self) -> None:
        """Lines that lie in one piece, each in one or several parts."""
        splits = self.config.splits
        share = I.Bind(i64(emit.ceil_div(self.candidates, splits)))
        tasks = product([self.outer, splits])
        count = splits if splits > 1 else 1
        values = indices = ordered = None
        if splits > 1:
            values, indices = self.slot_memory(product([tasks, self.k]))
            ordered = emit.scratch([self.outer], "int32")
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(tasks)) as task:
            line = I.Bind(tirx.floordiv(task, i64(count)))
            part = I.Bind(tirx.floormod(task, i64(count)))
            if splits == 1:
                slots = self.slots(*self.slot_memory(self.k), i64(0))
            else:
                slots = self.slots(values, indices, I.Bind(task * i64(self.k)))
            begin = I.Bind(i64(emit.smaller(part * share, self.candidates)))
            end = I.Bind(i64(emit.smaller(begin + share, self.candidates)))
            start = I.Bind(line * i64(self.candidates))

            def candidate(i: Index, lanes: int = 1) -> Expr:
                return self.flat["values"][emit.run(start + i, lanes)]

            def index(i: Index) -> Expr:
                if self.op.has_indices:
                    return self.flat[self.op.input_indices][start + i]
                return self.number(i)

            is_ordered = self.check_order(slots, line * i64(self.k), 1)
            if splits > 1:
                with I.If(part == 0), I.Then():
                    I.buffer_store(ordered, is_ordered[0], [line])

            def select() -> None:
                if splits == 1:
                    slots.start(self.inits(line * i64(self.k), 1))
                else:
                    self.start_part(slots, part, line)
                self.scan(slots, candidate, index, begin, end)

            def follow() -> None:
                with I.If(part == 0), I.Then():
                    self.insert_all(slots, line * i64(self.k), 1, candidate, index)

            self.choose(is_ordered, select, follow)
            if splits == 1:
                self.hand_out(slots, is_ordered, line * i64(self.k), 1)
        if splits > 1:
            with serial(self.outer) as line:
                self.gather_parts(values, indices, ordered, line)

    def start_part(self, slots: Slots, part: Expr, line: Expr) -> None:
        """The first part starts from the inits, the others from what loses against all."""
        assert self.op.order is not None
        worst = lowest(self.seen_dtype, self.op.order.sign)
        nothing = worst, tirx.max_value(self.index_dtype)
        with I.If(part == 0):
            with I.Then():
                slots.start(self.inits(line * i64(self.k), 1))
            with I.Else():
                slots.start(lambda k: nothing)

    def scan(
        self,
        slots: Slots,
        candidate: Callable[..., Expr],
        index: Callable[[Index], Expr],
        begin: Expr,
        end: Expr,
    ) -> None:
        """Offer the candidates ``begin .. end - 1``."""
        if self.op.order is None:
            self.scan_singly(slots, candidate, index, begin, end)
            return
        vectors, lanes = self.config.vectors, self.lanes
        size = vectors * lanes
        blocks = I.Bind(tirx.floordiv(end - begin, i64(size)))
        threshold = emit.registers(1, self.seen_dtype)

        def renew() -> None:
            I.buffer_store(threshold, slots.last()[0], [0])

        def each(first: Expr, stop: Expr) -> None:
            with serial(stop, first) as i:
                value = I.Bind(as_seen(candidate(i), self.dtype))
                with I.If(tirx.Not(self.loses(value, threshold[0]))), I.Then():
                    new = value, I.Bind(index(i))
                    with I.If(slots.is_better(new, slots.last())), I.Then():
                        slots.offer(new)
                        renew()

        renew()
        with serial(blocks) as block:
            first = I.Bind(begin + block * size)
            best = self.best_of_block(candidate, first)
            with I.If(tirx.Not(self.loses(best, threshold[0]))), I.Then():
                each(first, first + size)
        each(I.Bind(begin + blocks * size), end)

    def scan_singly(
        self,
        slots: Slots,
        candidate: Callable[..., Expr],
        index: Callable[[Index], Expr],
        begin: Expr,
        end: Expr,
    ) -> None:
        """Offer candidates by a comparator of which nothing is known; never a NaN."""
        with serial(end, begin) as i:
            new = I.Bind(as_seen(candidate(i), self.dtype)), I.Bind(index(i))
            better = slots.is_better(new, slots.last())
            with I.If(tirx.And(tirx.Not(is_nan(new[0])), better)), I.Then():
                slots.offer(new)

    def gather_parts(self, values: Any, indices: Any, ordered: Any, line: Expr) -> None:
        """Offer what the other parts of a line kept to the slots of the first."""
        base = I.Bind(line * i64(self.k) * self.config.splits)
        first = self.slots(values, indices, base)
        others = (self.config.splits - 1) * i64(self.k)
        if self.is_selective:
            with I.If(ordered[line] == 1), I.Then(), serial(others) as k:
                place = base + self.k + k
                new = I.Bind(values[place]), I.Bind(indices[place])
                with I.If(first.is_better(new, first.last())), I.Then():
                    first.offer(new)
        is_ordered = emit.registers(1, "int32")
        I.buffer_store(is_ordered, ordered[line], [0])
        self.hand_out(first, is_ordered, line * i64(self.k), 1)

    def emit_tiles(self) -> None:
        """Lines that are strewn, some of them at a time, through a tile."""
        width = self.config.columns
        inner = known(self.inner)
        width = width if inner is None else min(width, inner)
        # At least one, as TVM sees a division by zero otherwise.
        blocks = emit.larger(emit.ceil_div(self.inner, width), 1)
        tile_n = self.config.candidates
        loop = I.parallel if self.config.parallel else I.serial
        with loop(i64(0), i64(product([self.outer, blocks]))) as task:
            outer = I.Bind(tirx.floordiv(task, i64(blocks)))
            first = I.Bind(tirx.floormod(task, i64(blocks)) * width)
            columns = I.Bind(i64(emit.smaller(width, self.inner - first)))
            values, indices = self.slot_memory(product([width, self.k]))
            ordered = emit.scratch([width], "int32")
            # Rows a power of two apart would share the places of a cache.
            row = tile_n + emit.LINE_BYTES
            tile = {"values": emit.scratch([width, row], stored(self.dtype))}
            if self.op.has_indices:
                tile[self.op.input_indices] = emit.scratch([width, row], self.index_dtype)
            stride = i64(self.inner)
            line_base = I.Bind(outer * i64(self.candidates) * stride + first)
            out_base = I.Bind(outer * i64(self.k) * stride + first)

            def slots_of(c: Expr) -> Slots:
                return self.slots(values, indices, I.Bind(c * i64(self.k)))

            with serial(columns) as c:
                slots = slots_of(c)
                is_ordered = self.check_order(slots, out_base + c, stride)
                I.buffer_store(ordered, is_ordered[0], [c])
                self.choose(
                    is_ordered,
                    lambda: slots.start(self.inits(out_base + c, stride)),
                    lambda: self.follow_strided(slots, out_base + c, line_base + c),
                )
            if self.is_selective:
                with serial(emit.ceil_div(self.candidates, tile_n)) as piece:
                    begin = I.Bind(piece * tile_n)
                    count = I.Bind(i64(emit.smaller(tile_n, self.candidates - begin)))
                    for name, target in tile.items():
                        start = I.Bind(line_base + begin * stride)
                        self.fill(target, self.flat[name], start, count, columns)
                    with serial(columns) as c, I.If(ordered[c] == 1), I.Then():
                        self.scan_tile(slots_of(c), tile, c, begin, count)
            with serial(columns) as c:
                is_ordered = emit.registers(1, "int32")
                I.buffer_store(is_ordered, ordered[c], [0])
                self.hand_out(slots_of(c), is_ordered, out_base + c, stride)

    def fill(self, tile: Any, source: Any, start: Expr, count: Expr, columns: Expr) -> None:
        """Copy ``count`` rows of some lines to the columns of a tile, squares in registers."""
        stride = i64(self.inner)
        width, row = (int(extent) for extent in tile.shape)
        side = 1 << (min(width, self.lanes, _LARGEST_SQUARE).bit_length() - 1)
        blocks = I.Bind(tirx.floordiv(count, i64(side)))
        across = I.Bind(tirx.floordiv(columns, i64(side)))
        line = emit.LINE_BYTES // item_bytes(str(tile.dtype))
        with serial(blocks) as block:
            first = I.Bind(block * side)
            with serial(side) as i, serial(-(-width // line) + 1) as piece:
                ahead = start + (first + i + _ROWS_AHEAD) * stride
                emit.prefetch(source, ahead + tirx.min(piece * line, i64(width - 1)))
            with serial(across) as square:
                left = I.Bind(square * side)
                corner = I.Bind(start + first * stride + left)
                to = I.Bind(left * row + first)
                rows = [I.Bind(corner + i * stride) for i in range(side)]
                targets = [to + c * row for c in range(side)]
                emit.move_transposed(emit.flat(tile), targets, source, rows)
            with serial(columns, across * side) as c, serial(side) as i:
                I.buffer_store(tile, source[start + (first + i) * stride + c], [c, first + i])
        with serial(count, blocks * side) as i, serial(columns) as c:
            I.buffer_store(tile, source[start + i * stride + c], [c, i])

    def follow_strided(self, slots: Slots, out_base: Expr, line_base: Expr) -> None:
        """The dialect's loops over a line that is strewn."""

        def element(name: str, i: Index) -> Expr:
            return self.flat[name][line_base + i64(i) * i64(self.inner)]

        def index(i: Index) -> Expr:
            if self.op.has_indices:
                return element(self.op.input_indices, i)
            return self.number(i)

        def candidate(i: Index, lanes: int = 1) -> Expr:
            return element("values", i)

        self.insert_all(slots, out_base, self.inner, candidate, index)

    def scan_tile(
        self, slots: Slots, tile: dict[str, Any], c: Expr, begin: Expr, count: Expr
    ) -> None:
        """Offer what a row of the tile holds."""

        def candidate(i: Index, lanes: int = 1) -> Expr:
            return tile["values"][c, emit.run(i, lanes)]

        def index(i: Index) -> Expr:
            if self.op.has_indices:
                return tile[self.op.input_indices][c, i]
            return self.number(begin + i)

        self.scan(slots, candidate, index, i64(0), count)
