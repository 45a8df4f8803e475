"""Masks added to attention's scores: rows in the lanes of a vector, keys side by side in memory."""

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, known, serial
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands

_HALF, _WORD = "uint16", "uint32"


def load_mask(
    operands: AttentionOperands,
    rows: Sequence[At],
    first_key: Expr,
    keys: Index,
    use: Callable[[Expr, int, Expr], None],
) -> None:
    """``use(key, i, added)`` for each of the keys from one on, counted from there.

    ``added`` is what the mask adds at the rows, and ``i`` the key's place among those that are
    transposed at once.
    """
    view, dims, lanes = operands.views["mask"], operands.op.dims["k2"], len(rows)
    contiguous = known(view.along(dims)) != 0
    done: Index = 0
    if contiguous and view.dtype == "bfloat16":
        done = _load_pairs(operands, rows, first_key, keys, use)
    blocks = emit.divide(i64(keys) - done, lanes)[0] if contiguous else i64(0)
    with serial(emit.held_index(blocks)) as block:
        first = I.Bind(done + block * lanes)
        at = operands.key_at(first_key + first)
        values = [operands.mask_value(view.load({**row, **at}, view.loaded, lanes)) for row in rows]
        for i, value in enumerate(emit.transpose(values)):
            use(first + i, i, value)
    added = emit.registers(lanes, operands.op.compute_dtype)
    with serial(keys, done + blocks * lanes) as key:
        for lane, row in enumerate(rows):
            element = view.load({**row, **operands.key_at(first_key + key)}, view.loaded)
            I.buffer_store(added, operands.mask_value(element), [lane])
        use(key, 0, added[emit.run(0, lanes)])


def _load_pairs(
    operands: AttentionOperands,
    rows: Sequence[At],
    first_key: Expr,
    keys: Index,
    use: Callable[[Expr, int, Expr], None],
) -> Index:
    """The same for two neighbours in a word, which take one transpose; how many keys that were."""
    lanes, view, dtype = len(rows), operands.views["mask"], operands.op.compute_dtype
    raw = I.decl_buffer(list(view.buffer.shape), _HALF, data=view.buffer.data, align=2)
    halves = OperandView(raw, view.map, view.space)
    blocks = emit.held_index(emit.divide(keys, 2 * lanes)[0])
    with serial(blocks) as block:
        first = I.Bind(block * (2 * lanes))
        at = operands.key_at(first_key + first)
        words = [
            tirx.reinterpret(f"{_WORD}x{lanes}", halves.load({**row, **at}, _HALF, 2 * lanes))
            for row in rows
        ]
        for pair, word in enumerate(map(I.Bind, emit.transpose(words))):
            low = word << emit.splat(tirx.const(16, _WORD), lanes)
            high = word & emit.splat(tirx.const(0xFFFF0000, _WORD), lanes)
            for i, bits in ((2 * pair, low), (2 * pair + 1, high)):
                value = emit.cast(tirx.reinterpret(f"float32x{lanes}", bits), dtype)
                use(first + i, i, operands.mask_value(value))
    return blocks * (2 * lanes)


def fetch_mask(operands: AttentionOperands, row: At, first_key: Expr, keys: int) -> None:
    """Have a row's mask of the keys from one on fetched to the second cache.

    Rows are far from each other, and more than the hardware follows.
    """
    view, dims = operands.views["mask"], operands.op.dims["k2"]
    if known(view.along(dims)) == 0:
        return
    for key in emit.line_starts(keys, view.dtype):
        at = {**row, **operands.key_at(first_key + key)}
        emit.prefetch(view.buffer, *view.index(at), nearest=False)
