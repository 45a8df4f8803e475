"""The product of two matrix tiles that lie in scratch, with the sums in registers.

    c[rows, columns] (+)= a[rows, depth] * b[depth, columns]

Rows of ``a`` are read as scalars, some of them side by side; ``b`` is held as panels: ``width``
columns of it, all of depth, then the next ones, so that a panel is one run of memory.  A caller
takes a part of depth that keeps in the caches what is read again, and adds up the parts: a panel
for each block of rows (:func:`depth_tile`), or, rows first, all panels for each few rows, which
then stay in the first cache.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.products.register_product import (
    Either,
    MultiplyAdd,
    has_room_for_pairs,
    multiply_tile,
)
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known, serial
from tvm_iree_ext.targets.cpu import CpuFeatures

# The most vectors of columns in a register tile, by vector registers.  More save loads of scalars;
# fewer leave rows, each of which hides the latency of one more multiply-add.
_VECTORS = {16: 2, 32: 4}

# The same of half vectors.  GFLOP/s on Zen 4 of 3136 x 64 by 64 x 40: in tiles of 5 rows x 5 half
# vectors 112, of 6 x 4 107, of 8 x 3 105; of 8 x 3 whole vectors, half a one of them empty, 94.
_HALF_VECTORS = {16: 2, 32: 5}

# Vectors of columns that count as many: whole panels of any tile.
_MANY_VECTORS = 12

# Cycles from a multiply-add to the next one of the same sum, and how much longer is about as long.
_LATENCY = 4
_ABOUT = 1.02

SAME_SET_BYTES = 1 << 12
"""Places so far apart are in the same set of the first cache.

That has 64 sets of lines of 64 bytes on each model of ``cpu_models.json``: with 8 ways 32 KiB, with
12 ways 48 KiB.
"""

SAME_SETS_BYTES = SAME_SET_BYTES // 4
"""Places so far apart, or a multiple, have 4 sets of the first cache at most."""

LONGEST = 512
"""How many products are added up one after the other: a longer chain would lose more."""

EXACT_DEPTH = 1024
"""How many products of two int8 numbers, each at most 2^14, float32 adds up without rounding."""


@dataclass(frozen=True)
class RegisterTile:
    """Rows times vectors of columns whose sums are in registers."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class ColumnVectors:
    """Vectors along columns, and the most of them in a register tile."""

    lanes: int
    most: int


def column_vectors(
    features: CpuFeatures, item_bytes: int, columns: int | None, least: int = 1
) -> ColumnVectors:
    """The vectors for so many columns, None where they are many, of at least ``least`` lanes.

    Narrower ones where all columns fit in half a vector.  Where a CPU works on vectors in halves,
    an odd number of halves are vectors of their own: as many of them are computed in a cycle, and
    none is empty.
    """
    whole, most = features.lanes(item_bytes * 8), _VECTORS[features.vector_registers]
    if columns is None:
        return ColumnVectors(whole, most)
    lanes = whole
    while lanes // 2 >= max(columns, least):
        lanes //= 2
    half = lanes // 2
    if features.in_halves and lanes == whole and half >= least and -(-columns // half) % 2:
        return ColumnVectors(half, _HALF_VECTORS[features.vector_registers])
    return ColumnVectors(lanes, most)


def register_tile(
    features: CpuFeatures,
    along: ColumnVectors,
    rows: int | None,
    columns: int | None,
    most_rows: int | None = None,
) -> RegisterTile:
    """The tile for a product of so many rows and columns, None where they are many.

    All but one register hold sums and a row of ``b``, or two of them, where LLVM loads the next one
    early; rows are as even as they can be, and at most ``most_rows``.  Of the tiles that take about
    as long, the one that has the most vectors.
    """
    registers, lanes = features.vector_registers, along.lanes
    needed = -(-columns // lanes) if columns is not None else _MANY_VECTORS
    tiles = []
    for vectors in range(min(needed, along.most), 0, -1):
        high = min((registers - 1 - vectors) // vectors, most_rows or registers)
        while vectors < _VECTORS[registers] and not has_room_for_pairs(high, vectors):
            high -= 1
        if rows is not None:
            high = -(-rows // -(-rows // min(high, rows)))
        tiles.append(RegisterTile(high, vectors, lanes))
    costs = [row_cycles(tile, rows, needed) for tile in tiles]
    return next(t for t, c in zip(tiles, costs, strict=True) if c <= min(costs) * _ABOUT)


def whole_tile(features: CpuFeatures, lanes: int, rows: int, columns: int) -> RegisterTile:
    """The tile for a product of so many rows, the last of which take a whole tile, too."""
    registers, needed = features.vector_registers, -(-columns // lanes)
    tiles = [
        RegisterTile(high, vectors, lanes)
        for vectors in range(min(needed, _VECTORS[registers]), 0, -1)
        for high in range((registers - 1 - vectors) // vectors, 0, -1)
    ]

    def cost(tile: RegisterTile) -> tuple[float, int]:
        computed = -(-rows // tile.rows) * tile.rows
        return computed * row_cycles(tile, None, needed), -tile.rows * tile.vectors

    return min(tiles, key=cost)


def row_cycles(tile: RegisterTile, rows: int | None, vectors: int) -> float:
    """Cycles of a step of depth, for each row, with so many vectors of columns.

    Two multiply-adds and two loads a cycle, each multiply-add after the one before of its sum.  So
    a last panel of one vector, or a last tile of one row, may cost more than narrower tiles do.
    """

    def cycles(high: int) -> float:
        widths = [tile.vectors] * (vectors // tile.vectors) + [vectors % tile.vectors]
        return sum(max(high * w / 2, (high + w) / 2, _LATENCY) for w in widths if w)

    if rows is None:
        return cycles(tile.rows) / tile.rows
    whole, rest = divmod(rows, tile.rows)
    return (whole * cycles(tile.rows) + (cycles(rest) if rest else 0)) / rows


def few_rows_tile(features: CpuFeatures, lanes: int, rows: int, columns: int) -> RegisterTile:
    """The tile where ``b`` is read once, or as few times as can be: as many rows as fit."""
    registers = features.vector_registers - 1
    most = registers // 3
    high = -(-rows // -(-rows // most))
    vectors = min(registers // (high + 1), _VECTORS[registers + 1], -(-columns // lanes))
    return RegisterTile(high, vectors, lanes)


def depth_tile(features: CpuFeatures, tile: RegisterTile, item_bytes: int) -> int:
    """How much of depth to multiply at once.

    A panel is read from the second cache, once for each block of rows, and shares that with what
    the rows are packed to.
    """
    return min(features.second_cache_bytes // 16 // (tile.width * item_bytes), LONGEST)


def panels(columns: int, tile: RegisterTile) -> list[tuple[int, int, int]]:
    """The panels of a static number of columns: first column, how many panels, their vectors."""
    vectors = -(-columns // tile.lanes)
    whole, rest = divmod(vectors, tile.vectors)
    found = [(0, whole, tile.vectors)] if whole else []
    return [*found, (whole * tile.width, 1, rest)] if rest else found


Beside = Callable[[Expr, Expr, int, Expr], None]
"""``beside(row, column, vectors, k)``, for a tile of rows and a panel of vectors of columns."""


def multiply_panels(
    tile: RegisterTile,
    *,
    rows: Index,
    columns: Index,
    depth: Index,
    dtype: str,
    a: Callable[[Expr, Expr], Expr],
    b: Callable[[Expr, int, Expr, int], Expr],
    start: Callable[[Expr, Expr], Expr],
    finish: Callable[[Expr, Expr, Expr], None] | Either,
    add: MultiplyAdd | None = None,
    first: Callable[[Expr], None] | None = None,
    beside: Beside | None = None,
) -> None:
    """Multiply; every vector of columns is whole, and a number of rows that is not known is, too.

    Args:
        a: ``a(row, k)``, a scalar.
        b: ``b(first, vectors, k, j)``: vector j of the panel that begins at column ``first``.
        start: ``start(row, column)``: what a vector of sums begins with.
        finish: ``finish(row, column, value)`` takes it.
        add: ``add(sums, b, a)`` where ``sums + b * a`` would be wrong.
        first: ``first(row)`` is done before the rows of a tile that begins there, whose products
            with all panels follow; without it, products of a panel with all rows do.
        beside: ``beside(row, column, vectors, k)`` goes on beside each k of a tile's products.
    """

    def block(row: Expr, height: int, column: Expr, vectors: int) -> None:
        def takes(finish: Callable[[Expr, Expr, Expr], None]) -> Callable[[int, int, Expr], None]:
            return lambda i, j, value: finish(row + i, column + j * tile.lanes, value)

        multiply_tile(
            rows=height,
            vectors=vectors,
            lanes=tile.lanes,
            depth=depth,
            dtype=dtype,
            x=lambda k, j: b(column, vectors, k, j),
            y=lambda i, k: a(row + i, k),
            start=lambda i, j: start(row + i, column + j * tile.lanes),
            finish=Either.placed(finish, takes),
            add=add,
            beside=None if beside is None else lambda k: beside(row, column, vectors, k),
        )

    each_block(tile, rows, columns, block, first)


def each_block(
    tile: RegisterTile,
    rows: Index,
    columns: Index,
    block: Callable[[Expr, int, Expr, int], None],
    first: Callable[[Expr], None] | None = None,
) -> None:
    """``block(row, height, column, vectors)`` for the register tiles, panel by panel.

    With ``first`` rows by rows, and ``first(row)`` before them.
    """
    exact, count = known(columns), known(rows)
    if exact is not None:
        parts = [(i64(begin), i64(n), vectors) for begin, n, vectors in panels(exact, tile)]
    else:
        parts = [(i64(0), i64(emit.ceil_div(columns, tile.width)), tile.vectors)]

    def each_panel(body: Callable[[Expr, int], None]) -> None:
        for begin, panel_count, vectors in parts:
            with serial(panel_count) as panel:
                body(begin + panel * (vectors * tile.lanes), vectors)

    def each_row(body: Callable[[Expr, int], None]) -> None:
        whole = count // tile.rows if count is not None else emit.ceil_div(rows, tile.rows)
        with serial(whole) as index:
            body(index * tile.rows, tile.rows)
        if count is not None and count % tile.rows:
            body(i64(count // tile.rows * tile.rows), count % tile.rows)

    if first is None:
        each_panel(lambda at, vectors: each_row(lambda row, high: block(row, high, at, vectors)))
        return

    def of_rows(row: Expr, high: int) -> None:
        first(row)
        each_panel(lambda at, vectors: block(row, high, at, vectors))

    each_row(of_rows)


def zeros(dtype: str, lanes: int) -> Expr:
    """A vector of zeros."""
    return emit.splat(tirx.const(0, dtype), lanes)


@dataclass(frozen=True)
class Sums:
    """The sums of a task, in scratch: rows of vectors.

    Those of a block of depth, of type ``dtype``, are added to those of the blocks before, unless
    there is only one.  Each block begins with zeros: one chain of additions, as long as depth,
    would lose more.
    """

    buffer: Any
    stride: int
    lanes: int
    dtype: str
    single: bool

    @property
    def held(self) -> str:
        """The type of sums."""
        return str(self.buffer.dtype)

    def at(self, row: Expr, column: Expr) -> Expr:
        """The positions of a vector."""
        return emit.run(row * self.stride + column, self.lanes)

    def clear(self, rows: Index, vectors: Index) -> None:
        """Begin with zeros, where there is more than one block."""
        if self.single:
            return
        with serial(rows) as row, serial(vectors) as vector:
            I.buffer_store(
                self.buffer, zeros(self.held, self.lanes), [self.at(row, vector * self.lanes)]
            )

    def start(self, row: Expr, column: Expr) -> Expr:
        """Initial vector of products in registers."""
        return zeros(self.dtype, self.lanes)

    def finish(self, row: Expr, column: Expr, value: Expr) -> None:
        """Take a vector of sums."""
        at, value = self.at(row, column), emit.cast(value, self.held)
        if not self.single:
            value = value + self.buffer[at]
        I.buffer_store(self.buffer, value, [at])


def odd_lines(count: int, item_bytes: int) -> int:
    """At least so many elements, in an odd number of cache lines: rows then share no cache set."""
    lines = -(-count * item_bytes // 64)
    return (lines | 1) * 64 // item_bytes
