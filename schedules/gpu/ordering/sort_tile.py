"""Elements of lines in shared memory while a workgroup sorts them, and how they are compared.

What a comparator looks at lies there as it lies in memory, with the *place* that each element had
in its line.  Places make every comparison tell: of equal elements the one that stood first goes
first, so networks, which know nothing of ties, sort stably.  What no element is has no place and
goes last.  Networks only exchange: whatever the comparator says, the result is a permutation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.comparators import goes_before, is_nan, plain_order, region_dtype
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Index, i64
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.tir.tir_expressions import Expr, cast

PLACE_BITS = 31
NO_PLACE = (1 << PLACE_BITS) - 1
PLACE_BYTES = 4


def compared(region: Region) -> list[int]:
    """The operands that a comparator looks at."""
    found: set[Any] = set()
    tvm_ffi.structural_walk(region.body, (ir.Var, found.add))
    return sorted({at // 2 for at, one in enumerate(region.parameters) if one in found})


def seen(word: Expr, dtype: str) -> Expr:
    """The element of a type that a word is, as a comparator sees it."""
    if dtype == "bool":
        return tirx.Cast("int8", word)
    if dtype == "bfloat16":
        return tirx.reinterpret("float32", tirx.Cast("uint32", word) << tirx.const(16, "uint32"))
    element = word if str(word.ty.dtype) == dtype else tirx.reinterpret(dtype, word)
    return cast(element, region_dtype(dtype))


def word_type(dtype: str) -> str:
    """The unsigned integer as wide as an element."""
    return f"uint{8 * item_bytes(dtype)}"


class SortOrder:
    """The order of two elements: their words are compared, then their places."""

    dtypes: Sequence[str]
    operands: Sequence[int]

    @property
    def word_types(self) -> list[str]:
        """Types of the words that are compared."""
        return [word_type(self.dtypes[operand]) for operand in self.operands]

    def after(self, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
        """Whether ``right`` must go before ``left``, each the words of an element."""
        raise NotImplementedError

    def swaps(self, left: Sequence[Expr], here: Expr, right: Sequence[Expr], there: Expr) -> Expr:
        """Whether the element of the place ``there`` goes before that of ``here``."""
        # Bits, not conditions: in C each of these would branch.
        tied = tirx.bitwise_and(tirx.Not(self.after(right, left)), there < here)
        none = tirx.const(NO_PLACE, "int32")
        swapped = tirx.bitwise_or(here == none, tirx.bitwise_or(self.after(left, right), tied))
        return tirx.bitwise_and(there != none, swapped)


@dataclass(frozen=True)
class RegionOrder(SortOrder):
    """A comparator over elements as words: those of the operands that it looks at.

    Attributes:
        region: the comparator.
        dtypes: of all operands.
        operands: those that it looks at.
    """

    region: Region
    dtypes: Sequence[str]
    operands: Sequence[int]

    def after(self, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
        """Whether ``right`` must go before ``left``, each the words of an element.

        Of a plain comparison a NaN goes last, so that it is an order even then.
        """
        one, other = self._filled(left), self._filled(right)
        swapped = goes_before(self.region, one, other)
        plain = plain_order(self.region)
        if plain is None:
            return swapped
        a, b = one[plain.operand], other[plain.operand]
        if not str(a.ty.dtype).startswith("float"):
            return swapped
        return tirx.bitwise_or(swapped, tirx.bitwise_and(is_nan(a), tirx.Not(is_nan(b))))

    def _filled(self, words: Sequence[Expr]) -> list[Expr]:
        """Values of all operands; 0 for those that are not looked at."""
        known = dict(zip(self.operands, words, strict=True))
        return [
            seen(known[at], dtype) if at in known else tirx.const(0, region_dtype(dtype))
            for at, dtype in enumerate(self.dtypes)
        ]


class SortTile:
    """``size`` elements in shared memory, as lines of ``length`` (powers of two), while emitted.

    Args:
        order: of the elements.
        size: elements, a power of two.
        length: of a line in the tile, a power of two.
        lane: this lane's number in the workgroup.
        lanes: how many there are.
        side_by_side: whether lines lie side by side, rather than one behind another.
    """

    def __init__(
        self,
        order: SortOrder,
        size: int,
        length: int,
        lane: Expr,
        lanes: int,
        *,
        side_by_side: bool = False,
    ) -> None:
        self.order, self.size, self.length = order, size, length
        self.lane, self.lanes, self.side_by_side = lane, lanes, side_by_side
        self.lines = size // length
        self.words = [self._memory(f"key{at}", dtype) for at, dtype in enumerate(order.word_types)]
        self.places = self._memory("places", "int32")

    def _memory(self, name: str, dtype: str) -> Any:
        buffer = I.alloc_buffer((self.size,), dtype, scope="shared")
        IRBuilder.name(name, buffer)
        return buffer

    @contextmanager
    def each(self) -> Iterator[tuple[Expr, Expr, Expr]]:
        """For each element of a lane: its line in the tile, its position there, where it is.

        Neighbouring lanes have neighbouring positions, or lines where these lie side by side.
        """
        with self._shared(self.size) as number:
            if self.side_by_side:
                yield number % self.lines, number // self.lines, number
            else:
                yield number // self.length, number % self.length, number

    @contextmanager
    def _shared(self, count: int) -> Iterator[Expr]:
        """Each lane's share of so many things."""
        each = -(-count // self.lanes)
        with I.serial(0, each) as turn:
            number = I.Bind(turn * self.lanes + self.lane)
            if count % self.lanes == 0:
                yield number
            else:
                with I.If(number < count), I.Then():
                    yield number

    def put(self, at: Expr, words: Sequence[Expr], place: Expr) -> None:
        """Write an element."""
        for memory, word in zip(self.words, words, strict=True):
            I.buffer_store(memory, word, [at])
        I.buffer_store(self.places, place, [at])

    def put_none(self, at: Expr) -> None:
        """Write that there is no element."""
        none = [tirx.const(0, str(memory.dtype)) for memory in self.words]
        self.put(at, none, tirx.const(NO_PLACE, "int32"))

    def sort(self) -> None:
        """Sort every line, by a bitonic network of exchanges that all go one way."""
        wait()
        bits = self.length.bit_length() - 1
        with I.serial(0, bits) as level:
            # Two sorted runs, the second read backwards, are one that rises and falls.
            span = tirx.const(2, "int32") << level
            with self._shared(self.size // 2) as number:
                line, pair = self._pair(number)
                half = I.Bind(pair & ((span >> 1) - 1))
                low = I.Bind(((pair - half) << 1) + half)
                self._exchange(line, low, low - half + (span - 1 - half))
            wait()
            self._fall(level)

    def merge(self) -> None:
        """Sort every line of which a part rises, and the rest falls."""
        wait()
        self._fall(tirx.const(self.length.bit_length() - 1, "int32"))

    def _fall(self, levels: Expr) -> None:
        with I.serial(0, levels) as down:
            half_bits = levels - 1 - down
            with self._shared(self.size // 2) as number:
                line, pair = self._pair(number)
                half = I.Bind(pair & ((tirx.const(1, "int32") << half_bits) - 1))
                low = I.Bind(((pair - half) << 1) + half)
                self._exchange(line, low, low + (tirx.const(1, "int32") << half_bits))
            wait()

    def _pair(self, number: Expr) -> tuple[Expr, Expr]:
        pairs = self.length // 2
        if self.side_by_side:
            return number % self.lines, I.Bind(number // self.lines)
        return number // pairs, I.Bind(number % pairs)

    def at(self, line: Expr, position: Expr) -> Expr:
        """Index of an element."""
        if self.side_by_side:
            return position * self.lines + line
        return line * self.length + position

    def _exchange(self, line: Expr, first: Expr, second: Expr) -> None:
        low, high = I.Bind(self.at(line, first)), I.Bind(self.at(line, second))
        left = [held(memory[low]) for memory in self.words]
        right = [held(memory[high]) for memory in self.words]
        here, there = held(self.places[low]), held(self.places[high])
        with I.If(self.order.swaps(left, here, right, there)), I.Then():
            self.put(low, right, there)
            self.put(high, left, here)


def line_position(line: Index, position: Index, length: Index, inner: Index) -> Expr:
    """Index in an operand of an element of a line: lines are counted through all other dims."""
    if emit.known(inner) == 1:
        return i64(line) * i64(length) + i64(position)
    outer, beside = emit.divide(line, inner)
    return (outer * i64(length) + i64(position)) * i64(inner) + beside
