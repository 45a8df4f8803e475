"""Elements as unsigned integers that are smaller the earlier an element goes.

All that differ in any bit are different, so a NaN has its place, too, and keys alone need no stable
sort: those that are alike are the same.  But zeros of either sign are ties; where there is a
negative one, zeros, and what goes with them, are put back in the order in which they came.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.line_elements import SortLine
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial


@dataclass(frozen=True)
class Keys:
    """The keys of elements of ``dtype``, of which the largest go first where ``descending``.

    In lines they are those of ``operand``.
    """

    dtype: str
    descending: bool
    operand: int = 0

    @property
    def width(self) -> int:
        """The bits of a key."""
        return item_bytes(self.dtype) * 8

    @property
    def unsigned(self) -> str:
        """The type of a key."""
        return f"uint{self.width}"

    @property
    def ones(self) -> Expr:
        """The largest key."""
        return self.number((1 << self.width) - 1)

    @property
    def sign(self) -> Expr:
        """The sign bit."""
        return self.number(1 << (self.width - 1))

    def number(self, value: int) -> Expr:
        """A constant."""
        if value < 1 << 63:
            return tirx.const(value, self.unsigned)
        return tirx.reinterpret(self.unsigned, tirx.const(value - (1 << 64), "int64"))

    def words(self, line: SortLine) -> SortLine:
        """A line as it lies in memory, each operand in unsigned integers: of the keys, theirs."""
        return SortLine([emit.flat_words(buffer) for buffer in line.buffers], line.base)

    def key(self, word: Expr) -> Expr:
        """The key of the bits of an element, or of a vector of them."""
        number = self._like(word)
        if self.dtype in FLOATS:
            word = word ^ tirx.Select(
                word >= number(self.sign), number(self.ones), number(self.sign)
            )
        elif self.dtype.startswith("int"):
            word = word ^ number(self.sign)
        return word ^ number(self.ones) if self.descending else word

    def element(self, key: Expr) -> Expr:
        """The bits of the element that a key stands for."""
        number = self._like(key)
        word = key ^ number(self.ones) if self.descending else key
        if self.dtype in FLOATS:
            return word ^ tirx.Select(
                word >= number(self.sign), number(self.sign), number(self.ones)
            )
        return word ^ number(self.sign) if self.dtype.startswith("int") else word

    def _like(self, value: Expr) -> Any:
        lanes = int(value.ty.dtype.lanes)
        return lambda constant: emit.splat(constant, lanes)

    def settle_zeros(self, source: SortLine, target: SortLine, length: Index) -> None:
        """Put the zeros of a sorted line in the order in which they came; both lines are words."""
        if self.dtype not in FLOATS:
            return
        # The keys of the two zeros are neighbours.
        first = self._place_of(target, length, (1 << (self.width - 1)) - 1)
        second = self._place_of(target, length, 1 << (self.width - 1))
        last = I.Bind(tirx.min(second, i64(length) - 1))
        hole = emit.registers(1, "int64")
        with (
            I.If(tirx.all(first < second, self._is_zero(target.load(self.operand, last)))),
            I.Then(),
        ):
            I.buffer_store(hole, first, [0])
            with serial(length) as i:
                is_zero = self._is_zero(source.load(self.operand, i))
                with I.If(is_zero), I.Then():
                    for operand in range(len(source.buffers)):
                        target.store(operand, hole[0], source.load(operand, i))
                    I.buffer_store(hole, hole[0] + 1, [0])

    def _is_zero(self, word: Expr) -> Expr:
        return (word & self.number((1 << (self.width - 1)) - 1)) == self.number(0)

    def _place_of(self, line: SortLine, length: Index, least: int) -> Expr:
        """Position in a sorted line of the first element whose key is ``least`` or more."""
        search = emit.registers(2, "int64")
        low, high = search[0], search[1]
        I.buffer_store(search, i64(0), [0])
        I.buffer_store(search, i64(length), [1])
        with I.While(low < high):
            middle = I.Bind(tirx.floordiv(low + high, i64(2)))
            before = I.Bind(self.key(line.load(self.operand, middle)) < self.number(least))
            I.buffer_store(search, tirx.Select(before, middle + 1, low), [0])
            I.buffer_store(search, tirx.Select(before, high, middle), [1])
        return I.Bind(low)


@dataclass(frozen=True)
class KeyPlace:
    """Words in memory that stand for keys: ``buffer[base + i]``.

    ``fill`` is the word that stands for the largest key.  ``beside`` is where a word is that goes
    with each key, whatever it stands for.
    """

    buffer: Any
    base: Index
    key: Callable[[Expr], Expr]
    fill: Expr
    beside: "KeyPlace | None" = None

    @staticmethod
    def of_keys(keys: Keys, buffer: Any, base: Index = 0) -> "KeyPlace":
        """A place whose words are the keys."""
        return KeyPlace(buffer, base, lambda word: word, keys.ones)

    @staticmethod
    def of_words(keys: Keys, line: SortLine) -> "KeyPlace":
        """A place whose words are elements as they lie in memory."""
        words = line.buffers[keys.operand]
        return KeyPlace(words, line.base, keys.key, keys.element(keys.ones))

    def at(self, i: Index) -> Expr:
        """The index of a word."""
        return i64(self.base) + i64(i)

    def shifted(self, by: Index) -> "KeyPlace":
        """The words from one on."""
        beside = self.beside and self.beside.shifted(by)
        return replace(self, base=self.at(by), beside=beside)

    @property
    def streams(self) -> list["KeyPlace"]:
        """The keys, and what is beside them."""
        return [self, *([self.beside] if self.beside else [])]

    def vector(self, vectors: Compress, i: Index) -> Expr:
        """A vector of keys."""
        return I.Bind(self.key(self.buffer[emit.run(self.at(i), vectors.lanes)]))

    def last_vector(self, vectors: Compress, i: Index, count: Index) -> Expr:
        """A vector of ``count`` keys, and of the largest one behind them."""
        fill = emit.splat(self.fill, vectors.lanes)
        return I.Bind(self.key(vectors.load(self.buffer, self.at(i), fill, count)))
