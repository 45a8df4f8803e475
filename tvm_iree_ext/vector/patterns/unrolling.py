"""Unrolling to native shapes: an op on a big vector becomes ops on its pieces.

before:  d = contract a[4x4], b[4x4], c[4x4]                          native (m, n, k) = (1, 4, 1)
after:   for m in 0..3:  t = slice c[m, 0:4]
             for k in 0..3:  t = contract slice a[m, k], slice b[k, 0:4], t       (1x1, 1x4 -> 1x4)
             d = insert t into d at [m, 0]                     (all straight-line code)

A native shape need not divide: the last piece of a dim is then smaller.  Pieces along the
reduction dims are a chain, each the start of the next; all others are independent.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import VectorType
from tvm_iree_ext.vector.ops.contract import PARALLEL
from tvm_iree_ext.vector.ops.transfer import mask_dims
from tvm_iree_ext.vector.patterns.canonicalization import FOLDS, settle
from tvm_iree_ext.vector.patterns.native import NativeShape, shape_of
from tvm_iree_ext.vector.patterns.rewriter import Pattern, again, is_elementwise, sweep
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and sizes of a piece."""


def unroll(program: VectorProgram, native_shape: NativeShape) -> VectorProgram:
    """Cut ops into pieces of the shapes that a target has, and let the pieces meet.

    Args:
        program: vectorized.
        native_shape: of an op the shape of its pieces, or None to leave it; what is cut is said by
            :func:`.native.shape_of`.

    Raises:
        VectorError: E_NO_NATIVE_SHAPE for a shape of another rank, or with an extent below 1.
    """
    changed = program.clone()
    sweep(changed, unroll_op(native_shape))
    settle(changed, *FOLDS)
    changed.verify()
    return changed


def unroll_op(native_shape: NativeShape) -> Pattern:
    """The pattern: one op."""

    def pattern(op: Operation, b: Builder) -> bool:
        shape = shape_of(op)
        native = None if shape is None else native_shape(op)
        if shape is None or native is None or tuple(native) == shape:
            return False
        if len(native) != len(shape) or min(native) < 1:
            raise op.error(
                "E_NO_NATIVE_SHAPE",
                f"the native shape is {list(native)}; expected {len(shape)} extents from 1",
            )
        if all(n >= s for n, s in zip(native, shape, strict=True)):
            return False
        cut = _CUTS.get(op.name, _elementwise if is_elementwise(op) else None)
        if cut is None:
            return False
        made = cut(op, b, shape, tuple(native))
        if op.results:
            assert made is not None
            op.replace_by(made)
        else:
            op.erase()
        return True

    return pattern


def pieces(shape: Sequence[int], native: Sequence[int]) -> Iterator[Box]:
    """The pieces of a shape in row-major order."""
    for offsets in product(*(range(0, s, n) for s, n in zip(shape, native, strict=True))):
        triples = zip(shape, native, offsets, strict=True)
        yield offsets, tuple(min(n, s - o) for s, n, o in triples)


def _slice(b: Builder, value: Value, offsets: Sequence[int], sizes: Sequence[int]) -> Value:
    """A piece of a vector; a scalar is the same for all pieces."""
    if not value.is_vector or not value.shape:
        return value
    return b.extract_strided_slice(value, offsets, sizes)


def _assembled(
    b: Builder, op: Operation, boxes: Iterator[Box], piece: Callable[[Box], Value]
) -> Value:
    """The result of an op from its pieces."""
    result = b.constant(0, op.result.type) if isinstance(op.result.type, VectorType) else None
    for box in boxes:
        made = piece(box)
        result = made if result is None else b.insert_strided_slice(made, result, box[0])
    assert result is not None
    return result


def _elementwise(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value:
    def piece(box: Box) -> Value:
        return again(b, op, [_slice(b, value, *box) for value in op.operands]).result

    return _assembled(b, op, pieces(shape, native), piece)


def _contract(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value:
    maps, iterators = op.attributes["indexing_maps"], op.attributes["iterator_types"]
    parallel = [dim for dim, it in enumerate(iterators) if it == PARALLEL]
    reduced = [dim for dim in range(len(shape)) if dim not in parallel]

    def part(dims: Sequence[int]) -> Iterator[dict[int, tuple[int, int]]]:
        for offsets, sizes in pieces([shape[d] for d in dims], [native[d] for d in dims]):
            yield dict(zip(dims, zip(offsets, sizes, strict=True), strict=True))

    def of(value: Value, map: AffineMap, at: dict[int, tuple[int, int]]) -> Value:
        offsets, sizes = ([at[dim][n] for dim in map.used] for n in (0, 1))
        return _slice(b, value, offsets, sizes)

    lhs, rhs, acc = op.operands
    result = acc if not acc.is_vector else b.constant(0, op.result.type)
    for outer in part(parallel):
        t = of(acc, maps[2], outer)
        for inner in part(reduced):
            at = {**outer, **inner}
            t = again(b, op, [of(lhs, maps[0], at), of(rhs, maps[1], at), t]).result
        if not acc.is_vector:
            return t
        result = b.insert_strided_slice(t, result, [outer[dim][0] for dim in maps[2].used])
    return result


def _multi_reduction(
    op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]
) -> Value:
    source, acc = op.operands
    reduced = op.attributes["reduction_dims"]
    kept = [dim for dim in range(len(shape)) if dim not in reduced]
    result = acc
    # The accumulator of a piece is what pieces before it in the reduced dims have left there.
    for offsets, sizes in pieces(shape, native):
        at, extent = ([one[dim] for dim in kept] for one in (offsets, sizes))
        t = _slice(b, result, at, extent)
        t = again(b, op, [_slice(b, source, offsets, sizes), t]).result
        result = b.insert_strided_slice(t, result, at) if result.is_vector else t
    return result


def _indices(b: Builder, op: Operation, map: AffineMap, offsets: Sequence[int]) -> list[Value]:
    """Start indices of the piece of a transfer: broadcast dims move nothing."""
    at = op.group("indices")
    for dim, offset in zip(map.dims, offsets, strict=True):
        if dim is not None:
            at[dim] = b.arithmetic("add", at[dim], offset)
    return at


def _mask(b: Builder, op: Operation, map: AffineMap, box: Box) -> list[Value]:
    order = mask_dims(map)
    return [_slice(b, one, *([part[p] for p in order] for part in box)) for one in op.group("mask")]


def _read(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value:
    map = op.attributes["permutation_map"]

    def piece(box: Box) -> Value:
        source, padding = op.operand("source"), op.operand("padding")
        operands = [source, *_indices(b, op, map, box[0]), padding, *_mask(b, op, map, box)]
        return again(b, op, operands, shape=box[1]).result

    return _assembled(b, op, pieces(shape, native), piece)


def _write(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value | None:
    map, dest = op.attributes["permutation_map"], op.operand("dest")
    for box in pieces(shape, native):
        part = _slice(b, op.operand("vector"), *box)
        operands = [part, dest, *_indices(b, op, map, box[0]), *_mask(b, op, map, box)]
        made = again(b, op, operands)
        dest = made.result if made.results else dest
    return dest if op.results else None


def _transpose(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value:
    permutation = op.attributes["permutation"]

    def piece(box: Box) -> Value:
        place = [0] * len(shape), [0] * len(shape)
        for number, dim in enumerate(permutation):
            for n in (0, 1):
                place[n][dim] = box[n][number]
        return b.transpose(_slice(b, op.operand("vector"), *place), permutation)

    return _assembled(b, op, pieces(shape, native), piece)


def _broadcast(op: Operation, b: Builder, shape: Sequence[int], native: Sequence[int]) -> Value:
    source = op.operand("source")
    lead = len(shape) - source.rank

    def piece(box: Box) -> Value:
        triples = list(zip(source.shape, box[0][lead:], box[1][lead:], strict=True))
        offsets = [0 if extent == 1 else o for extent, o, _ in triples]
        part = _slice(b, source, offsets, [1 if extent == 1 else s for extent, _, s in triples])
        return b.broadcast(part, box[1])

    return _assembled(b, op, pieces(shape, native), piece)


_CUTS: dict[str, Callable[..., Value | None]] = {
    "vector.contract": _contract,
    "vector.multi_reduction": _multi_reduction,
    "vector.transfer_read": _read,
    "vector.transfer_write": _write,
    "vector.transpose": _transpose,
    "vector.broadcast": _broadcast,
    "vector.splat": _broadcast,
}
