"""Dense products of eight rows on AMD's 2:4-sparse instructions.

A sparse instruction multiplies 16 rows of which two of every four elements along K are given; an
index says which two.  Here rows 2r and 2r + 1 of the instruction are one row of the product: even
lanes give the first two of every four elements, odd lanes the last two, and the instruction's two
rows are added.

A lane pair shares a run of K: the even lane holds its first half, the odd lane its second.  So the
instruction must find the two halves of B's run in turn, two elements of each:

    B as it lies in a lane      0 1 2 3 4 5 6 7 | 8 9 10 11 12 13 14 15
    as the instruction takes it 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.targets.mma.mma_kinds import Mma, dtype_bits, tvm_dtype

Load = Callable[[int, int], Any]
"""``load(start, count)``: registers of a fragment, as a vector."""
Store = Callable[[int, int, Any], None]
"""``store(start, count, value)``."""
Call = Callable[[Any, Any, Any, Any], Any]


def takes_bfloat(mma: Mma) -> bool:
    """Whether the intrinsic has bfloat operands: those that gfx950 brought."""
    return mma.a == "bf16" and "gfx942" not in mma.arch


def ir_types(mma: Mma) -> tuple[str, str, str]:
    """The types of A, B and C that the LLVM intrinsic takes, by TVM's names."""
    calls = _calls(mma)
    counts = [mma.operand(side).registers // calls for side in ("lhs", "rhs")]
    element, each = "int32", 1
    if dtype_bits(mma.a) == 16:
        element, each = {"f16": "float16", "bf16": "int16"}[mma.a], 2
        if takes_bfloat(mma):
            element = "bfloat16"
    a, b = (f"{element}x{each * count}" for count in counts)
    return a, b, f"{tvm_dtype(mma.c)}x4"


def multiply(mma: Mma, a: Load, b: Load, load: Load, store: Store, lane: Any, call: Call) -> None:
    """Emit the calls.

    Args:
        mma: a sparse kind.
        a, b: a lane's registers.
        load, store: those of its accumulator, of two rows.
        lane: its id.
        call: the instruction, of A, B, the four values of C's rows, and the index.
    """
    given = mma.operand("lhs").elements_per_lane // _calls(mma)
    index = tirx.Select(lane % 2 == 0, _index(mma, "even"), _index(mma, "odd"))
    dtype = tvm_dtype(mma.c)
    rows = I.alloc_buffer((4,), dtype, scope="local")
    whole = tirx.Ramp(0, tirx.const(1, "int32"), 4)
    for row in range(4):
        I.buffer_store(rows, tirx.const(0, dtype) if row % 2 else load(row // 2, 1), [row])
    for number in range(_calls(mma)):
        left, right = a(number * given, given), _interleaved(mma, b, number)
        I.buffer_store(rows, call(left, right, rows[whole], index), [whole])
    for row in (0, 1):
        store(row, 1, rows[2 * row] + rows[2 * row + 1])


def _interleaved(mma: Mma, b: Load, number: int) -> Any:
    """B's operand of a call: pairs from both halves of the lane's run, in turn."""
    half = mma.operand("lhs").elements_per_lane // 2  # in pairs
    given = half // _calls(mma)
    pair = f"int{2 * dtype_bits(mma.b)}x{2 * half}"
    pairs = tirx.reinterpret(pair, b(0, 4 * half))
    first = range(number * given, (number + 1) * given)
    return tirx.Shuffle([pairs], [part + at for at in first for part in (0, half)])


def _calls(mma: Mma) -> int:
    assert mma.composed_of is not None
    return int(mma.composed_of["count"])


def _index(mma: Mma, parity: str) -> Any:
    """Sparsity index: two of every four elements, as a nibble for each four, all alike."""
    assert mma.sparse_index is not None
    nibble = int(mma.sparse_index[f"{parity}_lane"].split()[0], 16)
    word = nibble * 0x11111111
    return tirx.const(word - (1 << 32) if word >> 31 else word, "int32")
