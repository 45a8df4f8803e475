"""Dropping leading unit dims: what the hardware takes has none.

before:  v = read m[r, 0] : 1x4;  w = v - u : 1x4;  contract 1x1, 1x4, 1x4 over (m, n, k)
after:   v = read m[r, 0] : 4;    w = v - u : 4;    contract 1, 1x4, 4 over (n, k)

Between ops that were changed and others, unit dims are put on by broadcast and taken off by
extract; where both were changed these cancel.  It comes before hoisting: a loop that carries n-D
vectors stops the patterns that follow.
"""

from collections.abc import Callable

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ops.contract import PARALLEL
from tvm_iree_ext.vector.ops.transfer import mask_dims
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.folding import fold_constants
from tvm_iree_ext.vector.patterns.glue import without_units
from tvm_iree_ext.vector.patterns.rewriter import again, is_elementwise, rebuilt
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def drop_unit_dims(program: VectorProgram) -> VectorProgram:
    """Drop leading dims of extent 1 from transfers, contractions, elementwise ops and loops."""
    return settled(program, fold_constants, drop_unit_dims_of_op)


def drop_unit_dims_of_op(op: Operation, b: Builder) -> bool:
    """The pattern: one op."""
    change = _elementwise if is_elementwise(op) else _CHANGES.get(op.name)
    return change is not None and change(op, b)


def _units(shape: tuple[int, ...], at_most: int | None = None) -> int:
    """How many leading extents are 1, but not all of them."""
    count = 0
    while count < len(shape) - 1 and shape[count] == 1:
        count += 1
    return count if at_most is None else min(count, at_most)


def _with_units(b: Builder, value: Value, op: Operation) -> Value:
    return b.broadcast(value, op.result.shape)


def _elementwise(op: Operation, b: Builder) -> bool:
    count = _units(op.result.shape)
    if not count:
        return False
    operands = [without_units(b, v, count) if v.is_vector else v for v in op.operands]
    op.replace_by(_with_units(b, again(b, op, operands).result, op))
    return True


def _droppable(op: Operation, shape: tuple[int, ...]) -> int:
    """Leading unit dims of a transfer; one that may lie outside keeps its check."""
    map, in_bounds = op.attributes["permutation_map"], op.attributes["in_bounds"]
    count = 0
    while count < _units(shape) and (in_bounds[count] or map.dims[count] is None):
        count += 1
    return count


def _reduced(op: Operation, b: Builder, count: int) -> tuple[dict[str, object], list[Value]]:
    """Attributes and mask of a transfer without its first dims."""
    map: AffineMap = op.attributes["permutation_map"]
    attributes = {
        "permutation_map": AffineMap(map.num_dims, map.results[count:]),
        "in_bounds": tuple(op.attributes["in_bounds"][count:]),
    }
    mask = op.group("mask")
    if mask:
        kept = [e for e, p in zip(mask[0].shape, mask_dims(map), strict=True) if p >= count]
        mask = [b.shape_cast(mask[0], kept) if tuple(kept) != mask[0].shape else mask[0]]
    return attributes, mask


def _read(op: Operation, b: Builder) -> bool:
    count = _droppable(op, op.result.shape)
    if not count:
        return False
    attributes, mask = _reduced(op, b, count)
    operands = [op.operand("source"), *op.group("indices"), op.operand("padding"), *mask]
    made = again(b, op, operands, **attributes, shape=op.result.shape[count:])
    op.replace_by(_with_units(b, made.result, op))
    return True


def _write(op: Operation, b: Builder) -> bool:
    vector = op.operand("vector")
    count = _droppable(op, vector.shape)
    if not count:
        return False
    attributes, mask = _reduced(op, b, count)
    operands = [without_units(b, vector, count), op.operand("dest"), *op.group("indices"), *mask]
    op.replace_by(*again(b, op, operands, **attributes).results)
    return True


def _contract(op: Operation, b: Builder) -> bool:
    """Drop the dim that leads acc, where it is 1 and leads every operand in which it occurs."""
    maps, iterators = op.attributes["indexing_maps"], op.attributes["iterator_types"]
    acc = op.operand("acc")
    if not acc.is_vector or not _units(acc.shape):
        return False
    dim = maps[2].used[0]
    for map, value in zip(maps, op.operands, strict=True):
        if dim in map.used and (map.used[0] != dim or value.rank < 2):
            return False
    operands = [
        without_units(b, value, 1) if dim in map.used else value
        for map, value in zip(maps, op.operands, strict=True)
    ]
    assert iterators[dim] == PARALLEL
    made = again(
        b,
        op,
        operands,
        indexing_maps=tuple(map.without([dim]) for map in maps),
        iterator_types=tuple(it for d, it in enumerate(iterators) if d != dim),
    )
    op.replace_by(_with_units(b, made.result, op))
    return True


def _extract_slice(op: Operation, b: Builder) -> bool:
    vector = op.operand("vector")
    offsets, sizes = (tuple(op.attributes[name]) for name in ("offsets", "sizes"))
    count = _units(vector.shape)
    if not count:
        return False
    part = b.extract_strided_slice(without_units(b, vector, count), offsets[count:], sizes[count:])
    op.replace_by(_with_units(b, part, op))
    return True


def _insert_slice(op: Operation, b: Builder) -> bool:
    value, dest = op.operands
    count = _units(dest.shape)
    if not count:
        return False
    fewer = max(0, count - (dest.rank - value.rank))
    part = b.insert_strided_slice(
        without_units(b, value, fewer),
        without_units(b, dest, count),
        op.attributes["offsets"][count:],
    )
    op.replace_by(_with_units(b, part, op))
    return True


def _loop(op: Operation, b: Builder) -> bool:
    """A loop carries vectors without leading unit dims."""
    block = op.body
    counts = [_units(v.shape) if v.is_vector else 0 for v in block.carried]
    if not any(counts):
        return False
    inits = [without_units(b, v, n) for v, n in zip(op.group("inits"), counts, strict=True)]
    inside = Builder(b.entry, block.operations[0])
    old = block.carried
    fresh = [block.add_argument(init.type, one.hint) for init, one in zip(inits, old, strict=True)]
    for argument, made, count in zip(old, fresh, counts, strict=True):
        argument.replace_by(inside.broadcast(made, argument.shape) if count else made)
    end = Builder(b.entry, block.terminator)
    pairs = zip(block.terminator.operands, counts, strict=True)
    loop = rebuilt(b, op, inits, [without_units(end, v, n) for v, n in pairs], old)
    for result, made, count in zip(op.results, loop.results, counts, strict=True):
        result.replace_by(b.broadcast(made, result.shape) if count else made)
    op.erase()
    return True


_CHANGES: dict[str, Callable[[Operation, Builder], bool]] = {
    "vector.transfer_read": _read,
    "vector.transfer_write": _write,
    "vector.contract": _contract,
    "vector.extract_strided_slice": _extract_slice,
    "vector.insert_strided_slice": _insert_slice,
    "scf.for": _loop,
}
