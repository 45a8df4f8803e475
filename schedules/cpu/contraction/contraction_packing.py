"""The factors of a contraction as its product of tiles takes them: parts of them, packed.

A place of depth is a number, converted to the type of products; or a word, of neighbours in depth
that one instruction multiplies (:mod:`.dot_products`, :mod:`.amx`).  Depth is counted in such
places here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionOperands
from tvm_iree_ext.schedules.cpu.products.amx import TileProduct
from tvm_iree_ext.schedules.cpu.products.dot_products import DotProduct
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, known, serial

Place = Callable[[Expr, Expr], Expr]
Load = Callable[[Expr, Expr, int], Expr]

Neighbours = DotProduct | TileProduct

WORD = "uint32"

# How far ahead of their turn parts of lines are fetched: the processor foresees a run of memory,
# not which line is next.  Rows are long, lines of a panel short.
_ROWS_AHEAD = 4
_LINES_AHEAD = 8

# What makes words of int8 words of unsigned bytes, each 128 more.
OFFSETS = 0x80808080


@dataclass(frozen=True)
class Part:
    """Places from ``first`` on, ``count`` of them."""

    first: Expr
    count: Index


@dataclass(frozen=True)
class Factor:
    """One factor, read by places of depth.

    ``view`` has elements as unsigned integers where they are put into words; ``flipped`` says that
    int8 comes as unsigned bytes.  No vector begins behind ``last`` (:meth:`.Plan.last_vector`).
    """

    operands: ContractionOperands
    name: str
    view: OperandView
    dtype: str
    dot: Neighbours | None
    flipped: bool
    last: int | None = None

    @property
    def group(self) -> int:
        """Elements of a place of depth."""
        return self.dot.group if self.dot else 1

    def lies_along(self, *dims: int | None) -> bool:
        """Whether flat positions of ``dims`` are next to each other."""
        return self.operands.plan.lies_along(self.name, dims)

    def across(self, at: At, k: Expr, lanes: int = 1) -> Expr:
        """A place of depth; with ``lanes``, of a run along the last dim, which is another one."""
        if not self.dot:
            return self.view.load(self._point(at, k, lanes), self.dtype, lanes)
        return self._word(
            [self._raw(at, k * self.group + i, lanes) for i in range(self.group)], lanes
        )

    def along(self, at: At, k: Expr, lanes: int) -> Expr:
        """A run of places of depth, which is the last dim."""
        if not self.dot:
            return self.view.load(self.operands.depth_at(at, k), self.dtype, lanes)
        if lanes == 1:
            return self.across(at, k)
        raw = self.view.dtype
        first = self.operands.depth_at(at, k * self.group)
        return self._signed(
            tirx.reinterpret(f"{WORD}x{lanes}", self.view.load(first, raw, lanes * self.group)),
            lanes,
        )

    def partial(self, at: At, k: Expr, depth: Index, lanes: int = 1) -> Expr:
        """Words as :meth:`across` packs them, with zeros behind the last of ``depth``."""
        found = []
        for i in range(self.group):
            element = i64(k * self.group + i)
            inside = self._raw(at, tirx.min(element, i64(depth) - 1), lanes)
            zero = emit.splat(tirx.const(0, WORD), lanes)
            found.append(tirx.Select(element < i64(depth), inside, zero))
        return self._word(found, lanes)

    def fetch(self, at: At, k: Expr) -> None:
        """Have the first element of a place of depth fetched, if there is one."""
        place = self.operands.depth_at(at, k * self.group)
        emit.prefetch(self.view.buffer, *self.view.index(place))

    def _raw(self, at: At, element: Expr, lanes: int) -> Expr:
        return self.view.load(self._point(at, element, lanes), WORD, lanes)

    def _point(self, at: At, element: Expr, lanes: int) -> At:
        n = self.operands.plan.n
        if self.last is not None and lanes > 1 and n is not None:
            at = {**at, n: emit.smaller(at[n], self.last)}
        return self.operands.depth_at(at, element)

    def _word(self, elements: list[Expr], lanes: int) -> Expr:
        bits = 32 // self.group
        word = elements[0]
        for i, element in enumerate(elements[1:], 1):
            word = word | (element << emit.splat(tirx.const(i * bits, WORD), lanes))
        return self._signed(word, lanes)

    def _signed(self, word: Expr, lanes: int) -> Expr:
        return word ^ emit.splat(tirx.const(OFFSETS, WORD), lanes) if self.flipped else word


def factor_of(
    operands: ContractionOperands, name: str, dot: Neighbours | None, last: int | None = None
) -> Factor:
    """A factor of the kernel under construction: of words where there is ``dot``.

    Of an instruction with an unsigned factor it is the one that is read as scalars.
    """
    view, dtype = operands.views[name], operands.plan.product_dtype
    if dot is None:
        return Factor(operands, name, view, dtype, None, False, last)
    size = item_bytes(dot.dtype)
    shape, data = list(view.buffer.shape), view.buffer.data
    raw = I.decl_buffer(shape, f"uint{size * 8}", data=data, align=size)
    flipped = isinstance(dot, DotProduct) and dot.is_mixed and name == operands.plan.a
    return Factor(operands, name, OperandView(raw, view.map, view.space), WORD, dot, flipped, last)


@dataclass(frozen=True)
class PanelPacking:
    """Packs one factor, for a number of lanes."""

    factor: Factor
    lanes: int
    elements: Index
    """Elements of all of depth."""
    overlap: bool = True
    """Whether runs of a row may begin at any place of depth, not at multiples of lanes alone."""

    in_runs: bool = False
    """Whether parts of depth begin at multiples of vectors, which may then be in runs."""

    @property
    def along_depth(self) -> bool:
        """Whether vectors of places of depth are next to each other."""
        plan, name = self.factor.operands.plan, self.factor.name
        unit = self.lanes * self.factor.group
        return plan.lies_in_runs(name, unit) if self.in_runs else plan.lies_along(name, plan.depth)

    def whole(self, depth: Part) -> Index:
        """The places of a part of depth that have all of their elements; all, or all but one."""
        exact, group = known(self.elements), self.factor.group
        if exact is not None and exact % group == 0:
            return depth.count
        return emit.held_index(
            emit.smaller(depth.count, tirx.floordiv(i64(self.elements), i64(group)) - depth.first)
        )

    def rest(self, whole: Index, depth: Part, place: Callable[[Expr], None]) -> None:
        """``place(k)`` for the one that :meth:`whole` leaves out, if it does."""
        if whole is not depth.count:
            with I.If(i64(whole) < i64(depth.count)), I.Then():
                place(i64(whole))

    def lines(
        self, slab: At, dim: int | None, own: Part, depth: Part, target: Any, place: Place
    ) -> None:
        """``target[place(i, k)]`` for i along ``dim``, where runs of i are wanted, k by k.

        Past the end of ``own``, up to a whole vector, may come anything.
        """
        factor, operands = self.factor, self.factor.operands
        whole = self.whole(depth)
        if self.along_depth and dim is not None:

            def square(i: Expr, k: Expr, lanes: int) -> Expr:
                return factor.along(operands.at(slab, dim, own.first + i), depth.first + k, lanes)

            self.squares(own.count, whole, square, target, place)
        else:
            with serial(whole) as k:

                def load(at: At, lanes: int, k: Expr = k) -> Expr:
                    if lanes == self.lanes:
                        factor.fetch(at, depth.first + k + _LINES_AHEAD)
                    return factor.across(at, depth.first + k, lanes)

                self.line(slab, dim, own, target, place, k, load)

        def last(k: Expr) -> None:
            self.line(
                slab,
                dim,
                own,
                target,
                place,
                k,
                lambda at, lanes: factor.partial(at, depth.first + k, self.elements, lanes),
            )

        self.rest(whole, depth, last)

    def line(
        self,
        slab: At,
        dim: int | None,
        own: Part,
        target: Any,
        place: Place,
        k: Expr,
        load: Callable[[At, int], Expr],
    ) -> None:
        """A line of :meth:`lines`."""

        def move(i: Index, lanes: int) -> None:
            value = load(self.factor.operands.at(slab, dim, own.first + i), lanes)
            I.buffer_store(target, value, [emit.run(place(i64(i), k), lanes)])

        if self.factor.lies_along(dim):
            emit.in_vectors(own.count, self.lanes, move)
        else:
            with serial(own.count) as i:
                move(i, 1)

    def rows(
        self, slab: At, dim: int | None, own: Part, depth: Part, target: Any, place: Place
    ) -> None:
        """``target[place(i, k)]`` for i along ``dim``, where runs of k are wanted, i by i."""
        factor, operands = self.factor, self.factor.operands
        whole = self.whole(depth)
        if dim is not None and factor.lies_along(dim) and len(operands.plan.depth) == 1:

            def square(k: Expr, i: Expr, lanes: int) -> Expr:
                return factor.across(operands.at(slab, dim, own.first + i), depth.first + k, lanes)

            self.squares(whole, own.count, square, target, lambda k, i: place(i, k))
        else:
            with serial(own.count) as i:
                at = operands.at(slab, dim, own.first + i)

                def move(k: Index, lanes: int, i: Expr = i, at: At = at) -> None:
                    if lanes == self.lanes and dim is not None:
                        factor.fetch({**at, dim: i64(at[dim]) + _ROWS_AHEAD}, depth.first + i64(k))
                    value = factor.along(at, depth.first + i64(k), lanes)
                    I.buffer_store(target, value, [emit.run(place(i, i64(k)), lanes)])

                if self.along_depth:
                    (emit.copied if self.overlap else emit.in_vectors)(whole, self.lanes, move)
                else:
                    with serial(whole) as k:
                        move(k, 1)

        def last(k: Expr) -> None:
            with serial(own.count) as i:
                at = operands.at(slab, dim, own.first + i)
                value = factor.partial(at, depth.first + k, self.elements)
                I.buffer_store(target, value, [place(i, k)])

        self.rest(whole, depth, last)

    def squares(self, own: Index, along: Index, load: Load, target: Any, place: Place) -> None:
        """``target[place(i, j)]`` for i below ``own``, j below ``along``; runs of i are wanted.

        In memory runs are of j: ``load(i, j, lanes)``.  Past the end of ``own``, up to a whole
        vector, comes anything.
        """
        lanes = self.lanes
        with serial(emit.ceil_div(own, lanes)) as block:
            lines = [I.Bind(tirx.min(block * lanes + i, i64(own) - 1)) for i in range(lanes)]

            def square(j: Expr) -> None:
                values = [load(one, j, lanes) for one in lines]
                for number, value in enumerate(emit.transpose(values)):
                    at = emit.run(place(block * lanes, j + number), lanes)
                    I.buffer_store(target, value, [at])

            def single(j: Expr) -> None:
                for number, one in enumerate(lines):
                    value = load(one, j, 1)
                    I.buffer_store(target, value, [place(block * lanes + number, j)])

            def piece(j: Index, width: int) -> None:
                if width == lanes:
                    square(I.Bind(i64(j)))
                else:
                    for step in range(width):
                        single(i64(j) + step)

            emit.copied(along, lanes, piece)
