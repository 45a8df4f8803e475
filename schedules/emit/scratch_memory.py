"""Memory of emitted kernels: scratch, register tiles, flat views, prefetches, copies."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.cpu.prefetch_levels import NEAREST, PREFETCH, SECOND, UNDECIDED
from tvm_iree_ext.schedules.emit.index_arithmetic import product, smaller
from tvm_iree_ext.schedules.emit.vector_loops import serial
from tvm_iree_ext.tir.tir_expressions import Expr, Index, i64, known, run

LINE_BYTES = 64
"""What a line of a CPU's cache has: of every x86-64 processor, and of Arm's own cores.

A constant, not a field of a target: others are only Apple's, of 128, and A64FX's, of 256, for which
kernels fetch a line several times.
"""


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


def part(block: Index, whole: Index, first: Expr) -> Index:
    """How much of a block from ``first`` on there is: all of it, where blocks divide the whole."""
    size, count = known(block), known(whole)
    if size and count is not None and count % size == 0:
        return size
    return held_index(smaller(block, i64(whole) - first))
