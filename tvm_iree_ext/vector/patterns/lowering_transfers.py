"""Lowering transfers to loads and stores of one register.

before                               after
permuted map                         in memory's order, and a transpose
broadcast dims                       a smaller read, and a broadcast
rank above 1                         a 1-D transfer for each row; where a row may lie outside, under
                                     a condition
1-D that may lie outside             a lane mask ``0 <= i + iota < extent``; or a condition for each
                                     lane
1-D along another dim than the last  one element after the other
1-D of a buffer, in bounds           load, store, maskedload, maskedstore

Of a tensor the 1-D transfer in bounds stays, with its mask: it is the load or store.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import BufferType, VectorType, vector
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.folding import fold_constants
from tvm_iree_ext.vector.patterns.rewriter import Pattern, again
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

LANES, CONDITIONS = "lanes", "conditions"
MASKS = (LANES, CONDITIONS)


def lower_transfers(program: VectorProgram, masks: str = LANES) -> VectorProgram:
    """Replace transfers of more than one register, or that may lie outside.

    Args:
        program: any.
        masks: how a register that may lie outside is read and written: ``lanes`` for hardware that
            masks lanes, ``conditions`` for one element after the other.
    """
    if masks not in MASKS:
        raise ValueError(f"masks is {masks!r}; expected one of {', '.join(MASKS)}")
    return settled(program, fold_constants, lower_read(masks), lower_write(masks))


def _order(map: AffineMap) -> list[int]:
    """The vector's dims in memory's order."""
    return sorted(range(len(map.used)), key=lambda p: map.used[p])


def _is_register(op: Operation, memory: Value, masks: str) -> bool:
    """Whether a 1-D transfer is one register's, contiguous in memory."""
    map, type = op.attributes["permutation_map"], memory.type
    is_strided = isinstance(type, BufferType) and type.strides is not None and type.strides[-1] != 1
    is_masked = bool(op.group("mask")) or not op.attributes["in_bounds"][0]
    return map.is_minor_identity and not is_strided and not (is_masked and masks == CONDITIONS)


def _lane_mask(op: Operation, b: Builder, memory: Value, lanes: int) -> Value | None:
    """Mask of the live lanes of a 1-D transfer; None where all are."""
    mask = op.optional("mask")
    if op.attributes["in_bounds"][0]:
        return mask
    dim = op.attributes["permutation_map"].dims[0]
    steps = b.constant(np.arange(lanes), vector((lanes,), "i64"))
    inside = _is_inside(b, op.group("indices")[dim], steps, memory, dim)
    return inside if mask is None else b.elementwise("andi", inside, mask)


def _is_inside(b: Builder, start: Value, steps: Value, memory: Value, dim: int) -> Value:
    """Whether positions, steps behind start, are in a dim of memory.

    As unsigned numbers those below 0 are large.  They are i64, since an index is taken never to
    overflow, and where a program is called with its start, that may.
    """
    at, extent = (b.convert(one, "i64") for one in (start, b.dim(memory, dim)))
    if steps.is_vector:
        at, extent = (b.splat(one, steps.shape) for one in (at, extent))
    return b.compare("ult", b.arithmetic("add", at, steps), extent)


def _lane_condition(op: Operation, b: Builder, memory: Value, lane: int) -> Value | None:
    """Whether one lane of a 1-D transfer is live; None where it is."""
    found = None
    if not op.attributes["in_bounds"][0]:
        dim = op.attributes["permutation_map"].dims[0]
        start = op.group("indices")[dim]
        found = _is_inside(b, start, b.constant(lane, "i64"), memory, dim)
    for mask in op.group("mask"):
        one = b.extract(mask, [lane])
        found = one if found is None else b.elementwise("andi", found, one)
    return found


def _moved(b: Builder, indices: Sequence[Value], dim: int, by: int) -> list[Value]:
    at = list(indices)
    at[dim] = b.arithmetic("add", at[dim], by)
    return at


def _row_masks(op: Operation, b: Builder, n: int) -> list[Value]:
    return [b.extract(mask, [n]) for mask in op.group("mask")]


def lower_read(masks: str) -> Pattern:
    """The pattern: one transfer_read."""

    def pattern(op: Operation, b: Builder) -> bool:
        if op.name != "vector.transfer_read" or not op.result.shape:
            return False
        map, source = op.attributes["permutation_map"], op.operand("source")
        made: Value | None
        if None in map.dims:
            made = _read_smaller(op, b)
        elif map.used != tuple(sorted(map.used)):
            made = _read_in_order(op, b)
        elif op.result.rank > 1:
            made = _read_rows(op, b)
        elif not _is_register(op, source, masks):
            made = _read_elements(op, b)
        else:
            made = _read_register(op, b)
        if made is None:
            return False
        op.replace_by(made)
        return True

    return pattern


def _operands(
    op: Operation, source: Value, at: Sequence[Value], mask: Sequence[Value]
) -> list[Value]:
    return [source, *at, op.operand("padding"), *mask]


def _read_smaller(op: Operation, b: Builder) -> Value:
    map, shape = op.attributes["permutation_map"], op.result.shape
    kept = [p for p, dim in enumerate(map.dims) if dim is not None]
    if not kept and not op.group("mask"):
        return b.broadcast(b.load_element(op.operand("source"), op.group("indices")), shape)
    made = again(
        b,
        op,
        op.operands,
        permutation_map=AffineMap.of(map.num_dims, map.used),
        shape=tuple(shape[p] for p in kept),
        in_bounds=tuple(op.attributes["in_bounds"][p] for p in kept),
    ).result
    if kept != list(range(len(shape) - len(kept), len(shape))):
        made = b.shape_cast(made, [e if p in kept else 1 for p, e in enumerate(shape)])
    return b.broadcast(made, shape)


def _read_in_order(op: Operation, b: Builder) -> Value:
    map = op.attributes["permutation_map"]
    order = _order(map)
    made = again(
        b,
        op,
        op.operands,
        permutation_map=AffineMap.of(map.num_dims, sorted(map.used)),
        shape=tuple(op.result.shape[p] for p in order),
        in_bounds=tuple(op.attributes["in_bounds"][p] for p in order),
    )
    return b.transpose(made.result, [order.index(p) for p in range(len(order))])


def _read_rows(op: Operation, b: Builder) -> Value:
    map, source, shape = op.attributes["permutation_map"], op.operand("source"), op.result.shape
    (dim, *_), (is_inside, *in_bounds) = map.dims, op.attributes["in_bounds"]
    result = b.constant(0, op.result.type)
    for n in range(shape[0]):
        at = _moved(b, op.group("indices"), dim, n)

        def row(at: Sequence[Value] = at, n: int = n) -> Value:
            operands = _operands(op, source, at, _row_masks(op, b, n))
            rest = AffineMap(map.num_dims, map.results[1:])
            attributes = {"permutation_map": rest, "in_bounds": tuple(in_bounds)}
            return again(b, op, operands, shape=tuple(shape[1:]), **attributes).result

        if is_inside:
            made = row()
        else:
            start, step = op.group("indices")[dim], b.constant(n, "i64")
            condition = _is_inside(b, start, step, source, dim)
            padding = op.operand("padding")
            made = b.if_(condition, row, partial(_padding, b, padding, shape[1:]))[0]
        result = b.insert_at(made, result, [n])
    return result


def _padding(b: Builder, value: Value, shape: Sequence[int]) -> Value:
    if value.constant is not None:
        return b.constant(value.constant, VectorType(tuple(shape), value.dtype))
    return b.broadcast(value, shape)


def _read_elements(op: Operation, b: Builder) -> Value:
    source, (lanes,) = op.operand("source"), op.result.shape
    (dim,) = op.attributes["permutation_map"].dims
    result = b.constant(0, op.result.type)
    for lane in range(lanes):
        at = _moved(b, op.group("indices"), dim, lane)
        condition = _lane_condition(op, b, source, lane)
        if condition is None:
            one = b.load_element(source, at)
        else:
            load = partial(b.load_element, source, at)
            one = b.if_(condition, load, lambda: op.operand("padding"))[0]
        result = b.insert_at(one, result, [lane])
    return result


def _read_register(op: Operation, b: Builder) -> Value | None:
    source, shape = op.operand("source"), op.result.shape
    is_buffer = isinstance(source.type, BufferType)
    if not is_buffer and op.attributes["in_bounds"][0]:
        return None
    mask = _lane_mask(op, b, source, shape[0])
    if not is_buffer:
        assert mask is not None
        padding = op.operand("padding")
        return b.transfer_read(
            source, op.group("indices"), shape, padding=padding, in_bounds=[True], mask=mask
        )
    if mask is None:
        return b.load(source, op.group("indices"), shape)
    return b.maskedload(
        source, op.group("indices"), mask, _padding(b, op.operand("padding"), shape)
    )


def lower_write(masks: str) -> Pattern:
    """The pattern: one transfer_write."""

    def pattern(op: Operation, b: Builder) -> bool:
        if op.name != "vector.transfer_write" or not op.operand("vector").shape:
            return False
        map = op.attributes["permutation_map"]
        if map.used != tuple(sorted(map.used)):
            made = _write_in_order(op, b)
        elif op.operand("vector").rank > 1:
            made = _write_rows(op, b)
        elif not _is_register(op, op.operand("dest"), masks):
            made = _write_elements(op, b)
        else:
            return _write_register(op, b)
        op.replace_by(*([made] if op.results else []))
        return True

    return pattern


def _write_in_order(op: Operation, b: Builder) -> Value:
    map = op.attributes["permutation_map"]
    order = _order(map)
    vector = b.transpose(op.operand("vector"), order)
    made = again(
        b,
        op,
        [vector, *op.operands[1:]],
        permutation_map=AffineMap.of(map.num_dims, sorted(map.used)),
        in_bounds=tuple(op.attributes["in_bounds"][p] for p in order),
    )
    return made.results[0] if made.results else vector


def _write_rows(op: Operation, b: Builder) -> Value:
    map, dest, value = op.attributes["permutation_map"], op.operand("dest"), op.operand("vector")
    (dim, *_), (is_inside, *in_bounds) = map.dims, op.attributes["in_bounds"]
    for n in range(value.shape[0]):
        at = _moved(b, op.group("indices"), dim, n)

        def row(at: Sequence[Value] = at, n: int = n, dest: Value = dest) -> Value | None:
            operands = [b.extract(value, [n]), dest, *at, *_row_masks(op, b, n)]
            rest = AffineMap(map.num_dims, map.results[1:])
            attributes = {"permutation_map": rest, "in_bounds": tuple(in_bounds)}
            made = again(b, op, operands, **attributes)
            return made.results[0] if made.results else None

        if is_inside:
            dest = row() or dest
        else:
            start, step = op.group("indices")[dim], b.constant(n, "i64")
            condition = _is_inside(b, start, step, dest, dim)
            dest = _chosen(b, condition, row, dest, bool(op.results))
    return dest


def _chosen(
    b: Builder, condition: Value, write: Callable[[], Value | None], dest: Value, is_tensor: bool
) -> Value:
    """A write under a condition: the memory after it."""
    if is_tensor:
        return b.if_(condition, write, lambda: dest)[0]
    b.if_(condition, write)
    return dest


def _write_elements(op: Operation, b: Builder) -> Value:
    dest, value = op.operand("dest"), op.operand("vector")
    (dim,) = op.attributes["permutation_map"].dims
    for lane in range(value.shape[0]):
        at = _moved(b, op.group("indices"), dim, lane)
        condition = _lane_condition(op, b, dest, lane)

        def element(at: Sequence[Value] = at, lane: int = lane, dest: Value = dest) -> Value | None:
            one = b.extract(value, [lane])
            if not op.results:
                b.store_element(one, dest, at)
                return None
            return b.transfer_write(b.splat(one, (1,)), dest, at, in_bounds=[True])

        if condition is None:
            dest = element() or dest
        else:
            dest = _chosen(b, condition, element, dest, bool(op.results))
    return dest


def _write_register(op: Operation, b: Builder) -> bool:
    dest, value, at = op.operand("dest"), op.operand("vector"), op.group("indices")
    is_buffer = isinstance(dest.type, BufferType)
    if not is_buffer and op.attributes["in_bounds"][0]:
        return False
    mask = _lane_mask(op, b, dest, value.shape[0])
    if not is_buffer:
        assert mask is not None
        made = b.transfer_write(value, dest, at, in_bounds=[True], mask=mask)
        assert made is not None
        op.replace_by(made)
        return True
    if mask is None:
        b.store(value, dest, at)
    else:
        b.maskedstore(value, dest, at, mask)
    op.erase()
    return True
