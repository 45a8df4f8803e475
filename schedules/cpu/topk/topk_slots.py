"""The K best so far of one line of top-k, and how a candidate gets in.

The slots hold the K first of all that was offered, by value and then by index, whatever the order
in which it comes.  Few are kept in order, best first; many in a heap with the worst on top, so that
an offer costs no more than log2(K) moves.  In the dialect's first form this is so where the
comparison is plain and the inits are in order; in all other cases the slots go through its own
loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

Pair = tuple[Expr, Expr]
"""A value, as a comparator sees it, and its index."""


def lowest(dtype: str, sign: str) -> Expr:
    """The value that loses against any other by ``<`` or ``>``."""
    if dtype.startswith("float"):
        return tirx.const(float("-inf") if sign == ">" else float("inf"), dtype)
    return tirx.min_value(dtype) if sign == ">" else tirx.max_value(dtype)


@dataclass(frozen=True)
class Slots:
    """``values[base + k]`` and ``indices[base + k]`` for k below ``count``."""

    values: Any
    indices: Any
    base: Expr
    count: Index
    heap: bool
    op: Topk

    def pair(self, k: Index) -> Pair:
        """Value and index in a slot."""
        return self.values[self.base + k], self.indices[self.base + k]

    def put(self, k: Index, pair: Pair) -> None:
        """Overwrite a slot."""
        I.buffer_store(self.values, pair[0], [self.base + k])
        I.buffer_store(self.indices, pair[1], [self.base + k])

    def last(self) -> Pair:
        """The worst of the slots."""
        return self.pair(0) if self.heap else self.pair(self.count - 1)

    def is_better(self, one: Pair, other: Pair) -> Expr:
        """Whether one pair goes first: by value, then by index; a NaN among inits, before all."""
        forward = self.op.ranks(one[0], other[0])
        same = one[0] == other[0]
        if self.op.order is None:
            same = tirx.Not(tirx.Or(forward, self.op.ranks(other[0], one[0])))
        first = tirx.Or(forward, tirx.And(same, one[1] < other[1]))
        if not self.op.keeps_pairs or not str(one[0].ty.dtype).startswith("float"):
            return first
        return tirx.And(tirx.Not(tirx.isnan(other[0])), tirx.Or(tirx.isnan(one[0]), first))

    def is_ordered(self, pair: Callable[[Index], Pair], result: Any) -> None:
        """Store in ``result[0]`` whether pairs are in order, best first, and comparable at all."""
        I.buffer_store(result, tirx.const(1, "int32"), [0])
        with serial(self.count) as k:
            here, after = pair(k), pair(emit.smaller(k + 1, self.count - 1))
            broken = self.is_better(after, here)
            if str(here[0].ty.dtype).startswith("float"):
                broken = tirx.Or(tirx.isnan(here[0]), broken)
            with I.If(broken), I.Then():
                I.buffer_store(result, tirx.const(0, "int32"), [0])

    def start(self, pair: Callable[[Index], Pair]) -> None:
        """Take over pairs; they are in order, best first, unless pairs may come in any order."""
        with serial(self.count) as k:
            self.put(self.count - 1 - k if self.heap else k, pair(k))
        if not self.op.keeps_pairs:
            return
        if not self.heap:
            with serial(self.count) as k:
                self.rise((I.Bind(self.pair(k)[0]), I.Bind(self.pair(k)[1])), k)
            return
        parents = tirx.floordiv(i64(self.count), i64(2))
        with serial(parents) as step:
            root = I.Bind(parents - 1 - step)
            self.sift((I.Bind(self.pair(root)[0]), I.Bind(self.pair(root)[1])), self.count, root)

    def offer(self, new: Pair) -> None:
        """Let a pair in that is better than the last."""
        if self.heap:
            self.sift(new, self.count)
        else:
            self.rise(new, self.count - 1)

    def rise(self, new: Pair, last: Index) -> None:
        """Put a pair in the place of ``last``, and move it up to where it belongs."""
        hole = emit.registers(1, "int64")
        I.buffer_store(hole, i64(last), [0])
        at = hole[0]
        before = self.pair(tirx.max(at - 1, i64(0)))
        with I.While(tirx.all(at > 0, self.is_better(new, before))):
            self.put(at, self.pair(at - 1))
            I.buffer_store(hole, at - 1, [0])
        self.put(at, new)

    def sift(self, new: Pair, count: Index, root: Index = 0) -> None:
        """Put a pair in the place of a heap's root, and move it down to where it belongs."""
        hole = emit.registers(2, "int64")

        def descend() -> None:
            """Look at the worse child of the hole; the count where there is none."""
            child = I.Bind(2 * hole[0] + 1)
            other = I.Bind(tirx.min(child + 1, i64(count) - 1))
            inside = tirx.min(child, i64(count) - 1)
            worse = tirx.Select(self.is_better(self.pair(inside), self.pair(other)), other, child)
            I.buffer_store(hole, tirx.if_then_else(child < count, worse, i64(count)), [1])

        I.buffer_store(hole, i64(root), [0])
        descend()
        below = self.pair(tirx.min(hole[1], i64(count) - 1))
        with I.While(tirx.all(hole[1] < count, self.is_better(new, below))):
            self.put(hole[0], self.pair(hole[1]))
            I.buffer_store(hole, hole[1], [0])
            descend()
        self.put(hole[0], new)

    def finish(self, put: Callable[[Index, Pair], None]) -> None:
        """Hand the pairs out, best first unless the order is open; a heap is used up."""
        if not self.heap or not self.op.in_order:
            with serial(self.count) as k:
                put(k, self.pair(k))
            return
        with serial(self.count) as step:
            k = I.Bind(i64(self.count) - 1 - step)
            put(k, self.pair(0))
            moved = tuple(I.Bind(part) for part in self.pair(k))
            with I.If(k > 0), I.Then():
                self.sift((moved[0], moved[1]), k)

    def insert(self, new: Pair) -> None:
        """The dialect's own loop: offer a pair to each slot in turn, best first."""
        value = emit.registers(1, str(new[0].ty.dtype))
        index = emit.registers(1, str(new[1].ty.dtype))
        I.buffer_store(value, new[0], [0])
        I.buffer_store(index, new[1], [0])
        with serial(self.count) as k:
            held = tuple(I.Bind(part) for part in self.pair(k))
            carry = tuple(I.Bind(part) for part in (value[0], index[0]))
            forward = self.op.ranks(carry[0], held[0])
            reverse = self.op.ranks(held[0], carry[0])
            same = tirx.Select(forward, reverse, tirx.Not(reverse))
            moved = tirx.Or(forward, tirx.And(same, carry[1] < held[1]))
            place = self.base + k
            for slot, register, condition, part in (
                (self.values, value, forward, 0),
                (self.indices, index, moved, 1),
            ):
                I.buffer_store(slot, tirx.Select(condition, carry[part], held[part]), [place])
                I.buffer_store(register, tirx.Select(condition, held[part], carry[part]), [0])
