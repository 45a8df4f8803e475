"""Keys alone moved to both ends of a line by a pivot, in vectors, where no near cache holds it.

Smaller keys are stored at the front, others at the end, where they come in no order.  A line may be
moved within itself: it is read at the end where less room has been made, so that every cache line
that is written has just been read, and memory is not read for what is only written.  Some keys of
either end are kept aside at first, which makes the room, and moved last.
"""

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import KeyPlace, Keys
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

# Vectors that are read at one end in turn.
_BLOCK = 4

# How far ahead of either end memory is fetched.
_AHEAD_BYTES = 4096


@dataclass(frozen=True)
class Ends:
    """Parts of three blocks at least, moved to both ends of a target."""

    keys: Keys
    vectors: Compress

    def move(self, place: KeyPlace, size: Expr, last: Expr, target: KeyPlace, count: Any) -> None:
        """Move keys up to ``last`` to the front of ``target`` and count them, others to its end.

        ``target`` is where the keys are, or elsewhere.
        """
        lanes = self.vectors.lanes
        block = _BLOCK * lanes
        bound = emit.splat(last, lanes)
        # Room for a block is left at either end when one has been read where there was less.
        ahead = I.Bind(block + tirx.floormod(size, i64(block)))
        kept = emit.scratch([3 * block], self.keys.unsigned)
        for start in range(0, 2 * block, lanes):
            keys = place.vector(self.vectors, start)
            I.buffer_store(kept, keys, [emit.run(start, lanes)])
        for start in range(0, block, lanes):
            keys = place.vector(self.vectors, size - block + start)
            I.buffer_store(kept, keys, [emit.run(ahead + start, lanes)])
        within = place.buffer is target.buffer
        end, left, right = (emit.registers(1, "int64") for _ in range(3))
        for cell, value in ((count, i64(0)), (end, size), (left, ahead), (right, size - block)):
            I.buffer_store(cell, value, [0])

        def move(keys: Expr, among: Index | None) -> None:
            beyond = I.Bind(self.vectors.count(bound, keys, among))
            front, back = I.Bind(count[0]), I.Bind(end[0] - beyond)
            there = i64(lanes) if among is None else tirx.min(i64(among), i64(lanes))
            smaller = self.vectors.packed_others(keys, bound, keys, among)
            if among is None:
                I.buffer_store(target.buffer, smaller, [emit.run(target.at(front), lanes)])
            else:
                self.vectors.store(target.buffer, target.at(front), smaller, there - beyond)
            if among is None and self.vectors.keeps_others:
                # There is room for whole vectors at either end, and this one ends with the larger.
                at = target.at(end[0] - lanes)
                I.buffer_store(target.buffer, smaller, [emit.run(at, lanes)])
            else:
                larger = self.vectors.packed(keys, bound, keys, among)
                self.vectors.store(target.buffer, target.at(back), larger, beyond)
            I.buffer_store(count, front + (there - beyond), [0])
            I.buffer_store(end, back, [0])

        with serial(tirx.floordiv(size, i64(block)) - 2):
            if within:
                # The end with less room is read.
                at_left = left[0] - count[0] < end[0] - right[0]
                first = I.Bind(tirx.Select(at_left, left[0], right[0] - block))
                step = I.Bind(tirx.Select(at_left, i64(block), i64(0)))
                I.buffer_store(left, left[0] + step, [0])
                I.buffer_store(right, right[0] - (block - step), [0])
                fetched = [(place, left, 1), (place, right, -1)]
            else:
                first = I.Bind(left[0])
                I.buffer_store(left, first + block, [0])
                fetched = [(place, left, 1), (target, count, 1), (target, end, -1)]
            for stream, cell, side in fetched:
                for n in range(_BLOCK):
                    at = stream.at(cell[0] + side * (_AHEAD_BYTES // self.bytes + n * lanes))
                    emit.prefetch(stream.buffer, at)
            vectors = [place.vector(self.vectors, first + n * lanes) for n in range(_BLOCK)]
            for keys in vectors:
                move(keys, None)
        rest = I.Bind(ahead + block)
        with serial(emit.ceil_div(rest, lanes)) as n:
            keys = I.Bind(kept[emit.run(n * lanes, lanes)])
            move(keys, rest - n * lanes)

    @property
    def bytes(self) -> int:
        """The size of a key."""
        return self.keys.width // 8
