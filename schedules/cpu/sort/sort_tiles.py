"""Few keys sorted in registers, and stored as elements.

Keys alone are sorted as they are.  Where something goes with them, what is sorted is a key and its
number in the tile, in one integer: the number settles ties and says what goes with the key.  The
integer is as wide as a key where the keys of a tile differ by so little that there is room for a
number, as most do that partitions have made neighbours; otherwise it is twice as wide.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.emit.lane_compress import Compress
from tvm_iree_ext.schedules.cpu.ordering.sort_keys import KeyPlace, Keys
from tvm_iree_ext.schedules.cpu.ordering.sort_registers import RegisterSort
from tvm_iree_ext.schedules.emit import Expr

# Into so many sizes, or some more, tiles are divided.
_SIZES = 4

At = Callable[[Callable[[KeyPlace], None]], None]
"""Runs code for the place where the keys of a tile are."""


class KeyTiles:
    """Tiles of up to ``rows`` vectors of keys."""

    def __init__(self, keys: Keys, vectors: Compress, rows: int) -> None:
        self.keys, self.vectors, self.lanes = keys, vectors, vectors.lanes
        self.whole = emit.run(0, vectors.lanes)
        self.rows = rows
        self.most = rows * vectors.lanes
        """How many keys a tile holds."""

    def declare(self) -> None:
        """Take the scratch of one task."""

    def holds(self, size: Expr, least: Expr, greatest: Expr) -> Expr:
        """Whether a tile holds ``size`` keys that lie between two."""
        return size <= self.most

    def sort(self, at: At, target: KeyPlace, size: Expr, least: Expr, greatest: Expr) -> None:
        """Sort the keys of a part, which lie between two, in the smallest tile that holds them."""
        self.choose(self.rows, size, lambda *rows: self.sort_rows(at, target, size, *rows))

    def choose(self, most: int, size: Expr, sort: Callable[[int, int], None]) -> None:
        """``sort(rows, filled)`` of the smallest tile of up to ``most`` vectors that will do.

        ``filled`` of its vectors are: the others are for smaller parts.
        """
        step = max(most // _SIZES, 2)
        sizes = [*range(step, most, step), most]
        tiles = list(zip(sizes, [0, *sizes[:-1]], strict=True))

        def choose(tiles: Sequence[tuple[int, int]]) -> None:
            if len(tiles) == 1:
                sort(*tiles[0])
                return
            half = len(tiles) // 2
            with I.If(size <= tiles[half - 1][0] * self.lanes):
                with I.Then():
                    choose(tiles[:half])
                with I.Else():
                    choose(tiles[half:])

        choose(tiles)

    def load(self, place: KeyPlace, row: int, size: Expr, filled: int) -> Expr:
        """A vector of a tile, with the largest key where there is no other."""
        first = row * self.lanes
        if row < filled:
            return place.vector(self.vectors, first)
        return place.last_vector(self.vectors, first, size - first)

    def store(self, place: KeyPlace, row: int, words: Expr, size: Expr, filled: int) -> None:
        """Store a vector of a tile."""
        first = row * self.lanes
        if row < filled:
            I.buffer_store(place.buffer, words, [emit.run(place.at(first), self.lanes)])
        else:
            self.vectors.store(place.buffer, place.at(first), words, size - first)

    def sort_rows(self, at: At, target: KeyPlace, size: Expr, rows: int, filled: int) -> None:
        """Sort a tile of so many vectors."""
        tiles = [emit.registers(self.lanes, self.keys.unsigned) for _ in range(rows)]

        def load(place: KeyPlace) -> None:
            for row, tile in enumerate(tiles):
                I.buffer_store(tile, self.load(place, row, size, filled), [self.whole])

        at(load)
        for row, tile in enumerate(RegisterSort(tiles, self.lanes, self.keys.ones).emit()):
            elements = I.Bind(self.keys.element(tile[self.whole]))
            self.store(target, row, elements, size, filled)


class PairTiles(KeyTiles):
    """Tiles of up to ``rows`` vectors of keys, with what is beside them; half of them if wide."""

    def __init__(self, keys: Keys, vectors: Compress, rows: int) -> None:
        super().__init__(keys, vectors, rows)
        self.number_bits = (self.most - 1).bit_length()
        self.wide = Keys(f"uint{2 * keys.width}", descending=False)
        self.beside: Any = None

    def declare(self) -> None:
        """Take the scratch of one task: what is beside the keys of a tile."""
        # The numbers of places past the last pair, which are read, too, have all bits.
        self.beside = emit.scratch([1 << self.number_bits], self.keys.unsigned)

    def holds(self, size: Expr, least: Expr, greatest: Expr) -> Expr:
        """Whether a tile holds ``size`` keys that lie between two."""
        few = size <= self.rows // 2 * self.lanes
        return tirx.any(few, tirx.all(size <= self.most, self.has_room(least, greatest)))

    def has_room(self, least: Expr, greatest: Expr) -> Expr:
        """Whether there is room for a number beside what keys exceed ``least`` by."""
        room = self.keys.number(self.keys.width - self.number_bits)
        return ((greatest - least) >> room) == self.keys.number(0)

    def sort(self, at: At, target: KeyPlace, size: Expr, least: Expr, greatest: Expr) -> None:
        """Sort the keys of a part, which lie between two, in the smallest tile that holds them."""
        with I.If(self.has_room(least, greatest)):
            with I.Then():
                self.choose(
                    self.rows, size, lambda *rows: self.sort_narrow(at, target, size, least, *rows)
                )
            with I.Else():
                self.choose(
                    self.rows // 2, size, lambda *rows: self.sort_wide(at, target, size, *rows)
                )

    def numbers(self, row: int) -> Expr:
        """The numbers of the keys of a vector."""
        first = tirx.Ramp(tirx.const(row * self.lanes, "int32"), tirx.const(1, "int32"), self.lanes)
        return tirx.reinterpret(f"{self.keys.unsigned}x{self.lanes}", first)

    def splat(self, value: Expr) -> Expr:
        """A number in all lanes."""
        return emit.splat(value, self.lanes)

    def load_beside(self, place: KeyPlace, row: int, size: Expr, filled: int) -> None:
        """Keep what is beside the keys of a vector, since it is overwritten."""
        assert place.beside is not None
        words = self.load(place.beside, row, size, filled)
        I.buffer_store(self.beside, words, [emit.run(row * self.lanes, self.lanes)])

    def store_pairs(
        self, target: KeyPlace, row: int, keys: Expr, numbers: Expr, size: Expr, filled: int
    ) -> None:
        """Store keys as elements, and what was beside those of some numbers."""
        assert target.beside is not None
        self.store(target, row, I.Bind(self.keys.element(keys)), size, filled)
        self.store(target.beside, row, self.vectors.gather(self.beside, numbers), size, filled)

    def sort_narrow(
        self, at: At, target: KeyPlace, size: Expr, least: Expr, rows: int, filled: int
    ) -> None:
        """Sort a tile of so many vectors: what keys exceed ``least`` by, above their numbers."""
        tiles = [emit.registers(self.lanes, self.keys.unsigned) for _ in range(rows)]
        bits = self.splat(self.keys.number(self.number_bits))
        first = self.splat(least)

        def load(place: KeyPlace) -> None:
            for row, tile in enumerate(tiles):
                keys = self.load(place, row, size, filled)
                words = ((keys - first) << bits) | self.numbers(row)
                if row >= filled:
                    count = self.splat(tirx.Cast(self.keys.unsigned, size))
                    ones = self.splat(self.keys.ones)
                    words = tirx.Select(self.numbers(row) < count, words, ones)
                I.buffer_store(tile, words, [self.whole])
                self.load_beside(place, row, size, filled)

        at(load)
        mask = self.splat(self.keys.number((1 << self.number_bits) - 1))
        for row, tile in enumerate(RegisterSort(tiles, self.lanes, self.keys.ones).emit()):
            words = I.Bind(tile[self.whole])
            keys = I.Bind((words >> bits) + first)
            self.store_pairs(target, row, keys, I.Bind(words & mask), size, filled)

    def sort_wide(self, at: At, target: KeyPlace, size: Expr, rows: int, filled: int) -> None:
        """Sort a tile of so many vectors of keys, each above its number in a wider integer."""
        half, wide = self.lanes // 2, f"{self.wide.unsigned}x{self.lanes // 2}"
        tiles = [emit.registers(half, self.wide.unsigned) for _ in range(2 * rows)]

        def load(place: KeyPlace) -> None:
            for row in range(rows):
                pair = [self.numbers(row), self.load(place, row, size, filled)]
                for side in range(2):
                    lanes = range(side * half, (side + 1) * half)
                    order = [n * self.lanes + lane for lane in lanes for n in range(2)]
                    words = tirx.reinterpret(wide, tirx.Shuffle(pair, order))
                    I.buffer_store(tiles[2 * row + side], words, [emit.run(0, half)])
                self.load_beside(place, row, size, filled)

        at(load)
        narrow = f"{self.keys.unsigned}x{self.lanes}"
        ordered = RegisterSort(tiles, half, self.wide.ones).emit()
        for row in range(rows):
            pair = [
                I.Bind(tirx.reinterpret(narrow, tile[emit.run(0, half)]))
                for tile in ordered[2 * row : 2 * row + 2]
            ]
            numbers, keys = (
                I.Bind(tirx.Shuffle(pair, list(range(side, 2 * self.lanes, 2))))
                for side in range(2)
            )
            self.store_pairs(target, row, keys, numbers, size, filled)
