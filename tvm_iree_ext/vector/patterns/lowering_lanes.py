"""Lowering to 1-D vectors: elementwise ops and broadcasts row by row, slices of one register.

n-D elementwise op      ->  one op for each row
n-D broadcast           ->  rows; of a scalar, a splat
1-D slice               ->  shuffle [offset, offset + 1, ..]
1-D insertion           ->  the value widened by a shuffle, and a shuffle that chooses
gather, scatter         ->  without hardware for it, for each lane: if mask: load or store
"""

from collections.abc import Callable, Sequence
from itertools import product

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.folding import fold_constants
from tvm_iree_ext.vector.patterns.rewriter import again, is_elementwise
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def lower_rows(program: VectorProgram) -> VectorProgram:
    """Replace elementwise ops and broadcasts on n-D vectors by ops on rows."""
    return settled(program, fold_constants, lower_elementwise, lower_broadcast)


def lower_elementwise(op: Operation, b: Builder) -> bool:
    """The pattern: an elementwise op on vectors of more than one dim."""
    if not is_elementwise(op) or op.result.rank < 2:
        return False

    def row(place: Sequence[int]) -> Value:
        operands = [b.extract(v, place) if v.is_vector else v for v in op.operands]
        return again(b, op, operands).result

    op.replace_by(_of_rows(b, op, row))
    return True


def lower_broadcast(op: Operation, b: Builder) -> bool:
    """The pattern: a broadcast; to 1-D, of a scalar or of one lane, it is a splat."""
    if op.name not in ("vector.broadcast", "vector.splat"):
        return False
    source, shape = op.operand("source"), op.result.shape
    if len(shape) < 2:
        if op.name == "vector.splat" or not shape:
            return False
        one = b.extract(source, [0]) if source.is_vector else source
        op.replace_by(b.splat(one, shape))
        return True
    lead = len(shape) - source.rank

    def row(place: Sequence[int]) -> Value:
        if not source.is_vector:
            return b.splat(source, shape[-1:])
        within = [
            0 if extent == 1 else at
            for at, extent in zip(place[lead:], source.shape[:-1], strict=True)
        ]
        part = b.extract(source, within) if within else source
        return part if part.shape == shape[-1:] else b.broadcast(part, shape[-1:])

    op.replace_by(_of_rows(b, op, row))
    return True


def _of_rows(b: Builder, op: Operation, row: Callable[[Sequence[int]], Value]) -> Value:
    result = b.constant(0, op.result.type)
    for place in product(*(range(extent) for extent in op.result.shape[:-1])):
        result = b.insert_at(row(place), result, place)
    return result


def lower_slices(program: VectorProgram) -> VectorProgram:
    """Replace strided slices of one register by shuffles."""
    return settled(program, fold_constants, lower_extract_slice, lower_insert_slice)


def lower_extract_slice(op: Operation, b: Builder) -> bool:
    """The pattern: extract_strided_slice of a 1-D vector."""
    if op.name != "vector.extract_strided_slice" or op.operand("vector").rank != 1:
        return False
    vector, (offset,), (size,) = op.operand("vector"), op.attributes["offsets"], op.result.shape
    op.replace_by(b.shuffle(vector, vector, range(offset, offset + size)))
    return True


def lower_insert_slice(op: Operation, b: Builder) -> bool:
    """The pattern: insert_strided_slice into a 1-D vector."""
    if op.name != "vector.insert_strided_slice" or op.operand("dest").rank != 1:
        return False
    value, dest = op.operands
    (offset,), (size,), (lanes,) = op.attributes["offsets"], value.shape, dest.shape
    if size == 1:
        op.replace_by(b.insert_at(b.extract(value, [0]), dest, [offset]))
        return True
    wide = b.shuffle(value, value, [min(lane, size - 1) for lane in range(lanes)])
    chosen = [
        lanes + lane - offset if offset <= lane < offset + size else lane for lane in range(lanes)
    ]
    op.replace_by(b.shuffle(dest, wide, chosen))
    return True


def lower_gathers(program: VectorProgram) -> VectorProgram:
    """Replace gathers and scatters by loads and stores of elements, for hardware without them."""
    return settled(program, fold_constants, lower_gather, lower_scatter)


def lower_gather(op: Operation, b: Builder) -> bool:
    """The pattern: a gather, of any shape.

    before:  r = gather m[o] [i], mask, pass_thru
    after:   for each lane:  r[lane] = if mask[lane]: m[o + i[lane]]  else: pass_thru[lane]
    """
    if op.name != "vector.gather":
        return False
    base, mask, pass_thru = (op.operand(name) for name in ("base", "mask", "pass_thru"))
    result = pass_thru
    for lane in product(*(range(extent) for extent in op.result.shape)):

        def load(lane: Sequence[int] = lane) -> Value:
            return b.load_element(base, _place(op, b, lane))

        def keep(lane: Sequence[int] = lane) -> Value:
            return b.extract(pass_thru, lane)

        one = b.if_(b.extract(mask, lane), load, keep)[0]
        result = b.insert_at(one, result, lane)
    op.replace_by(result)
    return True


def lower_scatter(op: Operation, b: Builder) -> bool:
    """The pattern: a scatter; lanes are stored in order, so that the last of equal places wins."""
    if op.name != "vector.scatter":
        return False
    base, mask, value = (op.operand(name) for name in ("base", "mask", "value"))
    for lane in product(*(range(extent) for extent in value.shape)):

        def store(lane: Sequence[int] = lane) -> None:
            b.store_element(b.extract(value, lane), base, _place(op, b, lane))

        b.if_(b.extract(mask, lane), store)
    op.erase()
    return True


def _place(op: Operation, b: Builder, lane: Sequence[int]) -> list[Value]:
    """The index of a lane's element: offsets and displacement as one number, then dim by dim."""
    base = op.operand("base")
    flat = b.convert(b.extract(op.operand("indices"), lane), "index")
    offsets = op.group("offsets")
    if base.rank == 1:
        return [b.arithmetic("add", offsets[0], flat)]
    start: Value = offsets[0]
    for dim in range(1, base.rank):
        start = b.arithmetic("add", b.arithmetic("mul", start, b.dim(base, dim)), offsets[dim])
    flat = b.arithmetic("add", start, flat)
    at: list[Value] = []
    for dim in reversed(range(1, base.rank)):
        extent = b.dim(base, dim)
        at.insert(0, b.elementwise("remsi", flat, extent))
        flat = b.elementwise("divsi", flat, extent)
    return [flat, *at]
