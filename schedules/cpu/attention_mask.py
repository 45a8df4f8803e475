"""What a mask adds to scores, for rows in the lanes of a vector; keys of a mask lie together."""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.attention_operands import AttentionOperands
from tvm_iree_ext.schedules.emit import At, Expr, Index, View, i64, known, serial

_HALF, _WORD = "uint16", "uint32"


def load_mask(
    operands: AttentionOperands,
    target: Any,
    lane_base: Index,
    rows: Sequence[At],
    ahead: Sequence[At],
    first_key: Expr,
    keys: Index,
) -> None:
    """``target[k2, lane_base + l]`` = what the mask adds at row l, of the keys from one on.

    The same of rows ``ahead`` is fetched: they are far from each other, and so not foreseen.
    """
    view, dims = operands.views["mask"], operands.op.dims["k2"]
    contiguous = known(view.along(dims)) != 0
    done: Index = 0
    if contiguous and view.dtype == "bfloat16":
        done = _load_pairs(operands, target, lane_base, rows, ahead, first_key, keys)
    rest = emit.held_index(i64(keys) - done)
    emit.load_transposed(
        target,
        view,
        rows,
        lambda c: operands.key_at(first_key + done + c),
        rest,
        rest if contiguous else 0,
        line_base=done,
        lane_base=lane_base,
        convert=operands.mask_value,
    )


def _load_pairs(
    operands: AttentionOperands,
    target: Any,
    lane_base: Index,
    rows: Sequence[At],
    ahead: Sequence[At],
    first_key: Expr,
    keys: Index,
) -> Index:
    """The same for two neighbours in a word, which take one transpose; how many keys that were."""
    lanes, view, dtype = len(rows), operands.views["mask"], operands.op.compute_dtype
    raw = I.decl_buffer(list(view.buffer.shape), _HALF, data=view.buffer.data, align=2)
    halves = View(raw, view.map, view.space)
    blocks = emit.held_index(emit.divide(keys, 2 * lanes)[0])
    with serial(blocks) as block:
        first = I.Bind(block * (2 * lanes))
        at = operands.key_at(first_key + first)
        words = [
            tirx.reinterpret(f"{_WORD}x{lanes}", halves.load({**row, **at}, _HALF, 2 * lanes))
            for row in rows
        ]
        for row in ahead:
            emit.prefetch(view.buffer, *view.index({**row, **at}), nearest=False)
        for pair, word in enumerate(map(I.Bind, emit.transpose(words))):
            low = word << emit.splat(tirx.const(16, _WORD), lanes)
            high = word & emit.splat(tirx.const(0xFFFF0000, _WORD), lanes)
            for key, bits in ((2 * pair, low), (2 * pair + 1, high)):
                value = emit.cast(tirx.reinterpret(f"float32x{lanes}", bits), dtype)
                place = [first + key, emit.run(lane_base, lanes)]
                I.buffer_store(target, operands.mask_value(value), place)
    return blocks * (2 * lanes)
