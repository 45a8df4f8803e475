"""Building blocks for kernels written with TIR's IRBuilder.

Kernels whose algorithm differs from the canonical one (flash attention, sorts, scans) are emitted
as plain loops: Python runs when the kernel is built, so lists, helpers and unrolled tiles are
ordinary Python.  An expression is computed anew wherever it is used: one that is costly, or whose
operands change in between, is bound to a variable first (``I.Bind``), though not in long chains,
which TVM expands again while it simplifies.  All indices are int64; TVM narrows them where it can
prove that they fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.codegen.cpu.prefetch_levels import NEAREST, PREFETCH, SECOND, UNDECIDED
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.tir.tir_expressions import Expr, Index, cast, i64, known, run
from tvm_iree_ext.tir.tir_expressions import splat as splat  # kernels take it from here

_UNROLLED_PIECES = 16
LINE_BYTES = 64

At: TypeAlias = Mapping[int, Index]
"""A point of the iteration space: the value of each dim."""


def serial(stop: Index, start: Index = 0) -> Any:
    """A loop over int64 indices."""
    return I.serial(i64(start), i64(stop))


def vector_loop(lanes: int) -> Any:
    """A loop that becomes vector instructions; its body is written for one lane."""
    return I.vectorized(i64(0), i64(lanes))


def scratch(shape: Sequence[Index], dtype: str) -> Any:
    """Memory of one task: from the runtime's per-thread pool, 64-byte aligned."""
    return I.alloc_buffer([i64(e) for e in shape], dtype, scope="global", align=64)


def registers(count: int, dtype: str) -> Any:
    """A tile that LLVM keeps in registers: every index must be a constant after unrolling."""
    return I.alloc_buffer([count], dtype, scope="local")


def flat(buffer: Any) -> Any:
    """The same memory as one axis, so that a vector may go along any axis."""
    dtype = str(buffer.dtype)
    count = product([known(e) or e for e in buffer.shape])
    return I.decl_buffer([i64(count)], dtype, data=buffer.data, align=item_bytes(dtype))


def flat_words(buffer: Any) -> Any:
    """The same memory as one axis of unsigned integers: data that are moved, whatever they are.

    A vector may then go along any axis, every bit pattern is kept, and no type needs lowering.
    """
    size = item_bytes(str(buffer.dtype))
    count = product([known(e) or e for e in buffer.shape])
    return I.decl_buffer([i64(count)], f"uint{size * 8}", data=buffer.data, align=size)


def in_vectors(length: Index, lanes: int, piece: Callable[[Index, int], None]) -> None:
    """``piece(place, lanes)`` for all of a run: in vectors, then in what is left over.

    What is left of a length that is known goes in vectors of half the lanes and so on.
    """
    exact = known(length)
    blocks = i64(exact // lanes) if exact is not None else tirx.floordiv(length, i64(lanes))
    unrolled = exact is not None and exact // lanes <= _UNROLLED_PIECES
    with (I.unroll if unrolled else I.serial)(i64(0), blocks) as block:
        piece(block * lanes, lanes)
    if exact is None:
        with serial(length, blocks * lanes) as place:
            piece(place, 1)
        return
    at, lanes = exact // lanes * lanes, lanes // 2
    while at < exact:
        if exact - at >= lanes:
            piece(at, lanes)
            at += lanes
        else:
            lanes //= 2


def copied(length: Index, lanes: int, piece: Callable[[Index, int], None]) -> None:
    """``piece(place, lanes)`` for all of a run, of which vectors may overlap."""
    if known(length) is not None:
        in_vectors(length, lanes, piece)
        return
    whole = I.Bind(tirx.truncdiv(i64(length) + (lanes - 1), i64(lanes)))
    with I.If(i64(length) >= lanes):
        with I.Then(), serial(whole) as index:
            piece(I.Bind(tirx.min(index * lanes, i64(length) - lanes)), lanes)
        with I.Else(), serial(length) as place:
            piece(place, 1)


def flat_index(index: Sequence[Index], shape: Sequence[Index]) -> Expr:
    """The row-major position of an index."""
    flat: Expr = i64(0)
    for at, extent in zip(index, shape, strict=True):
        flat = flat * i64(extent) + i64(at)
    return flat


def prefetch(buffer: Any, *index: Index, nearest: bool | None = None, write: bool = False) -> None:
    """Have the cache line of an element fetched, to be read or written; the index may lie outside.

    Into all caches (``nearest``), or all but the nearest, for what is far ahead: a core waits for
    fewer lines of the nearest.  What is read and may be either, the target decides.
    """
    undecided = NEAREST if write else UNDECIDED
    kept = {True: NEAREST, False: SECOND, None: undecided}[nearest]
    data = 1  # not code
    numbers = [tirx.const(value, "int32") for value in (int(write), kept, data)]
    place = tirx.address_of(buffer[tuple(map(i64, index))])
    I.evaluate(tirx.call_llvm_intrin("void", PREFETCH, place, *numbers))


def line_starts(count: int, dtype: str) -> list[int]:
    """Elements of a run, wherever it begins, of which each of its cache lines has one."""
    return [*range(0, count - 1, LINE_BYTES // item_bytes(dtype)), count - 1]


def copy_run(target: Any, to: Index, source: Any, start: Index, count: Index) -> None:
    """``count`` elements of one flat buffer to another of the same type, by the C library.

    It knows how large the caches are, and writes past them what they cannot hold.
    """
    size = i64(count) * i64(item_bytes(str(target.dtype)))
    places = [tirx.address_of(b[i64(at)]) for b, at in ((target, to), (source, start))]
    call = tirx.call_llvm_intrin(
        "void", "llvm.memcpy.p0.p0.i64", *places, size, tirx.const(False, "bool")
    )
    I.evaluate(call)


def copy_row(target: Any, to: Index, source: Any, start: Index, count: Index, ahead: Index) -> None:
    """``count`` elements of one flat buffer to another of the same type, and those ahead fetched.

    For rows at places that nothing foresees: ``ahead`` is where one of the next begins.  The C
    library's copy would wait for the first lines of each.
    """
    lanes = LINE_BYTES // item_bytes(str(target.dtype))
    length = known(count)
    blocks = i64(length // lanes) if length is not None else tirx.floordiv(count, i64(lanes))
    with serial(blocks) as block:
        prefetch(source, i64(ahead) + block * lanes)
        piece = source[run(i64(start) + block * lanes, lanes)]
        I.buffer_store(target, piece, [run(i64(to) + block * lanes, lanes)])
    with serial(count, blocks * lanes) as place:
        I.buffer_store(target, source[i64(start) + place], [i64(to) + place])


def ceil_div(a: Index, b: int) -> Index:
    """``a / b``, rounded up."""
    number = known(a)
    return -(-number // b) if number is not None else tirx.floordiv(a + (b - 1), i64(b))


def divide(a: Index, b: Index) -> tuple[Expr, Expr]:
    """Quotient and remainder of indices, which are never negative."""
    a, b = i64(a), i64(b)
    if known(b) is None:
        # Rounding down would cost a comparison of signs.
        return tirx.truncdiv(a, b), tirx.truncmod(a, b)
    return tirx.floordiv(a, b), tirx.floormod(a, b)


def held_index(value: Index) -> Index:
    """The same value, computed once from here on.

    Through a buffer: TVM's simplifier puts what a variable stands for in its place, and takes
    seconds over minima of minima of extents.
    """
    if known(value) is not None:
        return value
    cell = registers(1, "int64")
    I.buffer_store(cell, i64(value), [i64(0)])
    return I.Bind(cell[i64(0)])


def bound(at: At) -> At:
    """The same point, each value computed once from here on."""
    return {dim: value if known(value) is not None else I.Bind(value) for dim, value in at.items()}


def smaller(a: Index, b: Index) -> Index:
    """The smaller of two, at build time where both are known."""
    x, y = known(a), known(b)
    return min(x, y) if x is not None and y is not None else tirx.min(i64(a), i64(b))


def larger(a: Index, b: Index) -> Index:
    """The larger of two, at build time where both are known."""
    x, y = known(a), known(b)
    return max(x, y) if x is not None and y is not None else tirx.max(i64(a), i64(b))


def part(block: Index, whole: Index, first: Expr) -> Index:
    """How much of a block from ``first`` on there is: all of it, where blocks divide the whole."""
    size, count = known(block), known(whole)
    if size and count is not None and count % size == 0:
        return size
    return held_index(smaller(block, i64(whole) - first))


def larger_float(a: Expr, b: Expr) -> Expr:
    """The larger of two floats; ``a`` where either is NaN: one compare and select."""
    return tirx.Select(b > a, b, a)


def larger_or_nan(a: Expr, b: Expr) -> Expr:
    """The larger of two floats; NaN where either is."""
    # Not ``b != b``: TVM takes that for false.
    return tirx.Select(b > a, b, tirx.Select(tirx.isnan(b), b, a))


def total(values: Sequence[Index]) -> Index:
    """The sum, as a number where all are known."""
    result: Index = sum(v for v in values if isinstance(v, int))
    for value in values:
        if not isinstance(value, int):
            result = value if known(result) == 0 else value + i64(result)
    return result


def row_major(shape: Sequence[Index]) -> list[Index]:
    """How far a step along each axis moves in memory."""
    return [product(shape[axis + 1 :]) for axis in range(len(shape))]


def product(extents: Sequence[Index]) -> Index:
    """The product, as a number where all are known."""
    result: Index = prod(e for e in extents if isinstance(e, int))
    for extent in extents:
        if not isinstance(extent, int):
            result = extent * i64(result)
    return result


@dataclass(frozen=True)
class Space:
    """The iteration space of an op: the extent of each dim, as a number or an expression."""

    extents: tuple[Index, ...]

    @staticmethod
    def of(extents: Sequence[Extent], symbols: Mapping[str, tirx.Var]) -> "Space":
        """The space of an op's extents."""
        return Space(tuple(symbols[e] if isinstance(e, str) else e for e in extents))

    def count(self, dims: Sequence[int]) -> Index:
        """The number of points that some dims span."""
        return product([self.extents[dim] for dim in dims])

    def spread(self, flat: Index, dims: Sequence[int]) -> dict[int, Index]:
        """The values of ``dims`` at a row-major position."""
        at: dict[int, Index] = {}
        for dim in reversed(dims[1:]):
            extent = self.extents[dim]
            if known(extent) == 1:
                at[dim] = 0
            else:
                flat, at[dim] = divide(flat, extent)
        if dims:
            at[dims[0]] = flat
        return at


@dataclass(frozen=True)
class View:
    """An operand that is read and written by iteration dims, through its indexing map."""

    buffer: Any
    map: IndexingMap
    space: Space

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self.buffer.dtype)

    @property
    def loaded(self) -> str:
        """The type in which elements come: a bool as int8."""
        return "int8" if self.dtype == "bool" else self.dtype

    def along(self, dims: Sequence[int]) -> Index:
        """How many of the flat positions of ``dims`` from 0 on can be read as vectors.

        All of a single dim, when it is the contiguous one; none otherwise.
        """
        last = next((axis for axis in reversed(self.map.axes) if axis), (-1,))[-1]
        return self.space.count(dims) if len(dims) == 1 and last == dims[0] else 0

    def index(self, at: At, lanes: int = 1) -> list[Expr]:
        """The buffer's indices at a point; with ``lanes``, of a run along the last axis."""
        indices: list[Expr] = []
        for axis in self.map.axes:
            flat: Index = 0
            for dim in axis:
                step = at[dim]
                extent = i64(self.space.extents[dim])
                flat = step if isinstance(flat, int) else flat * extent + i64(step)
            indices.append(i64(flat))
        if lanes > 1:
            indices[-1] = run(indices[-1], lanes)
        return indices

    def load(self, at: At, dtype: str, lanes: int = 1) -> Expr:
        """The element, or run of elements, at a point, converted to ``dtype``."""
        return cast(cast(self.buffer[tuple(self.index(at, lanes))], self.loaded), dtype)

    def store(self, at: At, value: Expr, lanes: int = 1) -> None:
        """Write an element or run, converted to the buffer's type."""
        I.buffer_store(self.buffer, cast(value, self.dtype), self.index(at, lanes))


def transpose(vectors: Sequence[Expr]) -> list[Expr]:
    """The columns of a square tile given by its rows, in registers.

    log2(n) rounds of exchanges between rows d apart: lane l of row i goes to lane i of row l.
    """
    n = len(vectors)
    rows = list(vectors)
    distance = 1
    while distance < n:
        low = [lane if not lane & distance else n + lane - distance for lane in range(n)]
        high = [lane + distance if not lane & distance else n + lane for lane in range(n)]
        rows = [I.Bind(row) for row in rows]
        for i in range(n):
            if not i & distance:
                pair = [rows[i], rows[i + distance]]
                rows[i], rows[i + distance] = (tirx.Shuffle(pair, order) for order in (low, high))
        distance *= 2
    return rows


def interleaved(rows: Sequence[Expr], lanes: int) -> list[Expr]:
    """The columns of a power of two of rows of ``lanes``, in vectors, one after the other.

    log2(n) rounds: in each, the elements of one half of the rows go between those of the other.
    """
    count, vectors = len(rows), list(rows)
    order = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
    for _ in range(count.bit_length() - 1):
        vectors = [I.Bind(vector) for vector in vectors]
        vectors = [
            tirx.Shuffle([vectors[i], vectors[i + count // 2]], order[side : side + lanes])
            for i in range(count // 2)
            for side in (0, lanes)
        ]
    return vectors


def move_transposed(
    target: Any, targets: Sequence[Index], source: Any, sources: Sequence[Index]
) -> None:
    """A square of flat buffers: element j of run i goes to element i of run j; runs by starts."""
    lanes = len(sources)
    square = transpose([source[run(start, lanes)] for start in sources])
    for start, value in zip(targets, square, strict=True):
        I.buffer_store(target, value, [run(start, lanes)])


def load_transposed(
    target: Any,
    view: View,
    rows: Sequence[At],
    column: Callable[[Index], At],
    columns: Index,
    vector_columns: Index,
    *,
    convert: Callable[[Expr], Expr],
    line_base: Index = 0,
    lane_base: Index = 0,
) -> None:
    """``target[c, l] = convert(view[rows[l], column(c)])`` for c below ``columns``.

    Lines and lanes of ``target`` count from ``line_base`` and ``lane_base``.

    ``convert`` takes an element, or a vector of them, to the type of ``target``.  Of the columns,
    ``vector_columns`` from 0 on lie next to each other in memory.
    """
    lanes = len(rows)
    blocks = tirx.floordiv(i64(vector_columns), i64(lanes))
    static = known(vector_columns)
    if static is not None:
        blocks = i64(static // lanes)
    with serial(blocks) as block:
        first = column(block * lanes)
        values = [convert(view.load({**row, **first}, view.loaded, lanes)) for row in rows]
        for j, value in enumerate(transpose(values)):
            I.buffer_store(target, value, [line_base + block * lanes + j, run(lane_base, lanes)])
    with serial(columns, blocks * lanes) as c:
        for lane, row in enumerate(rows):
            value = convert(view.load({**row, **column(c)}, view.loaded))
            I.buffer_store(target, value, [line_base + c, i64(lane_base) + lane])


def store_transposed(
    view: View,
    rows: Sequence[At],
    column: Callable[[Index], At],
    columns: int,
    vector_columns: int,
    *,
    vector: Callable[[Index], Expr],
    element: Callable[[Index, int], Expr],
) -> None:
    """``view[rows[l], column(c)] = element(c, l)`` for c below ``columns``.

    ``vector(c)`` is the same for all lanes at once.  Of the columns, ``vector_columns`` from 0 on
    lie next to each other in memory.
    """
    lanes = len(rows)
    blocks = vector_columns // lanes
    with serial(blocks) as block:
        values = transpose([vector(block * lanes + j) for j in range(lanes)])
        for row, value in zip(rows, values, strict=True):
            view.store({**row, **column(block * lanes)}, value, lanes)
    with serial(columns, blocks * lanes) as c:
        for lane, row in enumerate(rows):
            view.store({**row, **column(c)}, element(c, lane))
