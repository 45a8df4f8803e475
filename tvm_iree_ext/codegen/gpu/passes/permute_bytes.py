"""Gather elements of 8 and 16 bits from registers by permuting the bytes of words.

A tile that is transposed on its way to shared memory is read from registers by columns:

    tile[...] = registers[Ramp(3, stride=16, lanes=8)]        element 3 of each of 8 rows

Compilers move such elements one by one.  Both vendors have an instruction that picks any four of
eight bytes: a word of two elements of 16 bits is one of it, a word of four bytes is two, of which
the first serves both columns of a pair.
"""

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.intrin.byte_permutations import permuted
from tvm_iree_ext.tir.function_body import with_body

_WORD_BITS = 32


@tirx.transform.prim_func_pass(opt_level=0)
def permute_bytes(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Rewrite strided vector loads of narrow elements of ``local`` buffers.

    Runs where loops over registers are unrolled, so that places are numbers.
    """
    kind = func.attrs["target"].kind.name
    return with_body(
        func, tvm_ffi.structural_map(func.body, (TensorLoad, lambda load: _gathered(load, kind)))
    )


def _gathered(load: Any, kind: str) -> Any:
    index = load.indices[-1]
    bits = DataType(str(load.source.dtype)).bits * DataType(str(load.source.dtype)).lanes
    if not isinstance(index, tirx.Ramp) or bits not in (8, 16) or load.source.scope() != "local":
        return load
    numbers = (index.base, index.stride, index.lanes)
    if len(load.indices) > 1 or not all(isinstance(n, (int, tirx.IntImm)) for n in numbers):
        return load
    first, stride, count = map(int, numbers)
    per_word = _WORD_BITS // bits
    if stride < 2 or stride % per_word or count % per_word:
        return load
    column = first % per_word
    rows = [_word(load.source, first - column + row * stride, per_word) for row in range(count)]
    pick = _column_of_halves if bits == 16 else _column_of_bytes
    words = [pick(rows[at : at + per_word], column, kind) for at in range(0, count, per_word)]
    value = words[0] if len(words) == 1 else tirx.Shuffle(words, list(range(len(words))))
    return tirx.reinterpret(str(load.ty.dtype), value)


def _word(buffer: Any, first: int, count: int) -> Any:
    start = tirx.const(first, "int32")
    elements = tirx.BufferLoad(buffer, [tirx.Ramp(start, tirx.const(1, "int32"), count)])
    return tirx.reinterpret("int32", elements)


def _column_of_halves(rows: Sequence[Any], column: int, kind: str) -> Any:
    low = 2 * column
    return permuted((rows[0], rows[1]), (low, low + 1, 4 + low, 5 + low), kind)


def _column_of_bytes(rows: Sequence[Any], column: int, kind: str) -> Any:
    """Through words of two columns, ``[row 0, row 1, row 0, row 1]``, which the other shares."""
    low = column // 2 * 2
    pairs = [
        permuted((rows[at], rows[at + 1]), (low, 4 + low, low + 1, 5 + low), kind) for at in (0, 2)
    ]
    own = column % 2 * 2
    return permuted((pairs[0], pairs[1]), (own, own + 1, 4 + own, 5 + own), kind)
