"""Copies of boxes by the lanes of a warpgroup, swizzled as the descriptors of ``wgmma`` say.

A row of a box is a row of atoms, whose 16-byte columns are exchanged by the row's number; beyond
the matrix are zeros.  The tensor memory unit does the same by itself (:mod:`.intrin.mbarrier`).
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier
from tvm_iree_ext.layout.nested import Ints

_WARPGROUP = 128
_LINE = 16  # bytes


def swizzled(row: Any, byte: Any, row_bytes: int) -> Any:
    """The place in a box of a row's byte: its 16-byte column, exchanged by the row's number."""
    columns = row_bytes // _LINE
    if columns == 1:
        return row * row_bytes + byte
    turn = row // (128 // row_bytes) % columns
    return row * row_bytes + (byte // _LINE ^ turn) * _LINE + byte % _LINE


def copy_lines(
    source: Any, at: Sequence[Any], extents: Ints, memory: Any, target: Any, row_bytes: int,
    lane: Any, run: int,
) -> None:  # fmt: skip
    """By ``cp.async``, ``run`` bytes at once: they are inside the matrix, or all outside.

    Args:
        source: the matrix.
        at: the box's first row and column in it, after the group if it has several.
        extents: of the box.
        memory: shared memory, as words of 8 bytes.
        target: the first byte of the box there.
        row_bytes: of the box.
        lane: of 128.
        run: 4, 8 or 16 bytes.
    """
    size = str(source.dtype)
    each = run * 8 // _bits(size)
    per_row = extents[1] // each
    view = _bytes(memory)
    with I.unroll(-(-extents[0] * per_row // _WARPGROUP)) as turn:
        number = turn * _WARPGROUP + lane
        row, column = number // per_row, number % per_row * each
        place = target + swizzled(row, number % per_row * run, row_bytes)
        index = [*at[:-2], at[-2] + row, at[-1] + column]
        inside = _inside(index, source)
        kept = tirx.Select(inside, tirx.const(run, "uint32"), tirx.const(0, "uint32"))
        index = [tirx.Select(inside, i, tirx.const(0, "int32")) for i in index]
        cache = "cg" if run == _LINE else "ca"
        call = T.ptx[f"cp.async.{cache}.shared.global"]
        I.evaluate(call(T.address_of(view[place]), T.address_of(source[tuple(index)]), run, kept))


def copy_elements(
    source: Any, at: Sequence[Any], extents: Ints, memory: Any, target: Any, row_bytes: int,
    lane: Any,
) -> None:  # fmt: skip
    """Element by element, as :func:`copy_lines`."""
    size = _bits(str(source.dtype)) // 8
    view = I.decl_buffer(
        (int(memory.shape[0]) * mbarrier.BYTES // size,), str(source.dtype), data=memory.data,
        scope="shared.dyn",
    )  # fmt: skip
    with I.serial(0, -(-extents[0] * extents[1] // _WARPGROUP)) as turn:
        number = turn * _WARPGROUP + lane
        row, column = number // extents[1], number % extents[1]
        place = target + swizzled(row, column * size, row_bytes)
        index = [*at[:-2], at[-2] + row, at[-1] + column]
        zero = tirx.const(0, str(source.dtype))
        value = tirx.if_then_else(_inside(index, source), source[tuple(index)], zero)
        I.buffer_store(view, value, [place // size])


def _bytes(memory: Any) -> Any:
    size = int(memory.shape[0]) * mbarrier.BYTES
    return I.decl_buffer((size,), "uint8", data=memory.data, scope="shared.dyn")


def _bits(dtype: str) -> int:
    return int(tirx.const(0, dtype).ty.dtype.bits)


def _inside(index: Sequence[Any], source: Any) -> Any:
    pairs = list(zip(index, source.shape, strict=True))[-2:]
    return tirx.And(*(i < extent for i, extent in pairs))
