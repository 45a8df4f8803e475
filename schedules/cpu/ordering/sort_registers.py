"""Sorting what lies in a few vectors, all in registers.

Elements are sorted in each lane first, by Batcher's exchanges of vectors; what then lies in several
lanes is merged: runs of 2, 4, 8, ... lanes.  A vector comparison compares the elements of two
vectors, never those of two lanes.  The rank of an element is a number whose bits are those of its
vector's number and of its lane; elements that differ in one bit are compared where that is a bit of
the vector's number, and where it is one of the lane, two vectors of each pair first exchange half
of their lanes, which makes the two bits change places.  That costs two shuffles for a pair of
vectors, and the bit that is given up is the one that is needed last.

Work: for v vectors of l lanes log2(vl)^2 / 2 comparisons of v / 2 pairs, and some
log2(l)^2 * v shuffles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.ordering.batcher_network import batcher
from tvm_iree_ext.schedules.emit import Expr


@dataclass
class _Vector:
    """A vector, and the lanes in which the largest number stands for what is not there.

    Which they are does not depend on the data; where it is all lanes, the tile is not used.
    """

    tile: Any
    lacking: frozenset[int]


class RegisterSort:
    """Sorts ``tiles``, vectors of ``lanes`` unsigned integers, of which ``largest`` is the largest.

    Any number of tiles: what lacks to a power of two of them is hardly worked on.
    """

    def __init__(self, tiles: Sequence[Any], lanes: int, largest: Expr) -> None:
        self.count, self.lanes = len(tiles), lanes
        self.dtype = str(largest.ty.dtype)
        # AVX2 compares no unsigned numbers of 64 bits: they are made signed ones in the same order.
        signed = self.dtype == "uint64" and lanes == 4
        self.sign = (
            tirx.reinterpret(self.dtype, tirx.const(-(1 << 63), "int64")) if signed else None
        )
        self.largest = emit.splat(largest if self.sign is None else largest ^ self.sign, lanes)
        self.whole, self.all = emit.run(0, lanes), frozenset(range(lanes))
        first = (len(tiles) - 1).bit_length()
        self.tiles = tiles
        self.vectors = [_Vector(tile, frozenset()) for tile in tiles]
        self.vectors += [_Vector(None, self.all) for _ in range((1 << first) - len(tiles))]
        self.bits = list(range(first))
        """Bit of the rank that each bit of a vector's number is."""
        self.lane_bits = list(range(first, first + lanes.bit_length() - 1))
        """The same of a lane."""

    def emit(self) -> list[Any]:
        """The tiles in order, once they are sorted."""
        self.flip(self.tiles)
        for left, right in batcher(len(self.vectors)):
            self.exchange(left, right)
        # The bits by which elements are compared, those of one merge after those of another.
        merges = range(len(self.bits) + 1, len(self.bits) + len(self.lane_bits) + 1)
        compared = [(bit, merge) for merge in merges for bit in reversed(range(merge))]
        for step, (bit, merge) in enumerate(compared):
            later = [later for later, _ in compared[step + 1 :]]
            is_first = bit == merge - 1
            if bit not in self.bits:
                last = max(self.bits, key=lambda b: (_next_use(b, later), -b))
                self.swap_bits(bit, last, is_first)
            self.compare(bit, is_first)
        ordered = self.in_order()
        self.flip(ordered)
        return ordered

    def flip(self, tiles: Sequence[Any]) -> None:
        """Make unsigned numbers signed ones in the same order, or back."""
        if self.sign is None:
            return
        sign = emit.splat(self.sign, self.lanes)
        for tile in tiles:
            I.buffer_store(tile, tile[self.whole] ^ sign, [self.whole])

    def as_type(self, dtype: str, number: Expr) -> Expr:
        """A vector whose numbers are signed ones, as such, or back."""
        return number if self.sign is None else tirx.reinterpret(f"{dtype}x{self.lanes}", number)

    def exchange(self, left: int, right: int) -> None:
        """The smaller elements of two vectors go left."""
        low, high = self.vectors[left], self.vectors[right]
        if high.lacking == self.all:
            return
        if low.lacking == self.all:
            self.vectors[left], self.vectors[right] = high, low
            return
        one, other = (
            I.Bind(self.as_type("int64", vector.tile[self.whole])) for vector in (low, high)
        )
        for vector, number in ((low, tirx.min(one, other)), (high, tirx.max(one, other))):
            I.buffer_store(vector.tile, self.as_type(self.dtype, number), [self.whole])
        low.lacking, high.lacking = low.lacking & high.lacking, low.lacking | high.lacking

    def compare(self, bit: int, backwards: bool) -> None:
        """Compare elements whose ranks differ in a bit; ``backwards``, in all lower bits, too.

        That is how a merge begins: two sorted runs become two bitonic ones, all elements of the
        first smaller than those of the second.
        """
        step = 1 << self.bits.index(bit)
        mirror = sum(1 << place for place, b in enumerate(self.bits) if b < bit) if backwards else 0
        vectors = list(self.vectors)
        for row in range(len(vectors)):
            if not row & step:
                partner = (row | step) ^ mirror
                self.exchange(row, partner)
                vectors[row], vectors[row | step] = self.vectors[row], self.vectors[partner]
        self.vectors = vectors

    def swap_bits(self, bit: int, other: int, backwards: bool) -> None:
        """Make ``bit``, one of the lanes', one of the vectors' numbers in place of ``other``.

        Where ``backwards``, the elements of which it is set are mirrored in all lower lane bits.
        """
        place, step = self.lane_bits.index(bit), 1 << self.bits.index(other)
        self.lane_bits[place] = other
        self.bits[self.bits.index(other)] = bit
        lower = [1 << p for p, b in enumerate(self.lane_bits) if b < bit]
        mirror = sum(lower) if backwards else 0
        self.shuffle_pairs(step, 1 << place, lambda lane: lane, lambda lane: lane ^ mirror)

    def shuffle_pairs(
        self,
        step: int,
        half: int,
        low_lane: Callable[[int], int],
        high_lane: Callable[[int], int],
    ) -> None:
        """Exchange the lanes with ``half`` of a vector and those without it of the next one.

        Then each lane takes what is in the one that ``low_lane`` and ``high_lane`` name.
        """
        lanes = range(self.lanes)
        low = [lane if not lane & half else self.lanes + lane - half for lane in lanes]
        high = [lane + half if not lane & half else self.lanes + lane for lane in lanes]
        orders = [low[low_lane(i)] for i in lanes], [high[high_lane(i)] for i in lanes]
        for row in range(len(self.vectors)):
            if not row & step:
                pair = self.vectors[row], self.vectors[row | step]
                values = [
                    self.largest if vector.lacking == self.all else I.Bind(vector.tile[self.whole])
                    for vector in pair
                ]
                lacking = pair[0].lacking | {self.lanes + lane for lane in pair[1].lacking}
                for vector, order in zip(pair, orders, strict=True):
                    vector.lacking = frozenset(i for i in lanes if order[i] in lacking)
                    if vector.lacking == self.all:
                        continue
                    if vector.tile is None:
                        vector.tile = emit.registers(self.lanes, self.dtype)
                    I.buffer_store(vector.tile, tirx.Shuffle(values, order), [self.whole])

    def in_order(self) -> list[Any]:
        """Lanes and tiles by rank."""
        depth = len(self.lane_bits)
        while low := [b for b in self.bits if b < depth]:
            high = next(b for b in self.lane_bits if b >= depth)
            place, step = self.lane_bits.index(high), 1 << self.bits.index(low[0])
            self.lane_bits[place] = low[0]
            self.bits[self.bits.index(low[0])] = high
            came = list(self.lane_bits)

            def sorted_lane(lane: int, came: list[int] = came, last: bool = len(low) == 1) -> int:
                if not last:
                    return lane
                return sum((lane >> bit & 1) << place for place, bit in enumerate(came))

            self.shuffle_pairs(step, 1 << place, sorted_lane, sorted_lane)
        numbers = [
            sum((row >> place & 1) << (bit - depth) for place, bit in enumerate(self.bits))
            for row in range(len(self.vectors))
        ]
        ranked = dict(zip(numbers, self.vectors, strict=True))
        return [ranked[number].tile for number in range(self.count)]


def _next_use(bit: int, later: Sequence[int]) -> int:
    return later.index(bit) if bit in later else len(later)
