"""Folds: an op on the result of another becomes an op on what that one was made of.

Slices and extracts find what was inserted, broadcast or moved; inverse changes of shape cancel.
Each function is a pattern for :func:`.rewriter.rewrite`.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from tvm_iree_ext.vector.ir.core import Operation, Value, is_index
from tvm_iree_ext.vector.ir.vector_types import VectorType, numpy_type
from tvm_iree_ext.vector.ops.tensors import sizes_of
from tvm_iree_ext.vector.programs.builder import Builder

_FOLDED = ("vector.", "arith.", "math.")
_SCALED = ("arith.addi", "arith.subi", "arith.muli")


def fold_constants(op: Operation, b: Builder) -> bool:
    """Compute at once what is made of constants."""
    if not op.name.startswith(_FOLDED) or not op.operands or len(op.results) != 1:
        return False
    if any(value.op is None or value.op.name != "arith.constant" for value in op.operands):
        return False
    arrays = [value.op.attributes["value"] for value in op.operands if value.op is not None]
    made = np.asarray(op.definition.evaluate(op, arrays, None)[0])  # type: ignore[arg-type]
    op.replace_by(b.constant(made.astype(numpy_type(op.result.dtype)), op.result.type))
    return True


def fold_positions(op: Operation, b: Builder) -> bool:
    """``(x + 1) + 2`` is ``x + 3``; sums with 0 and products with 0 and 1 vanish."""
    if op.name not in _SCALED or not is_index(op.result):
        return False
    lhs, rhs = op.operands
    if lhs.constant is not None and rhs.constant is not None:
        return fold_constants(op, b)
    if lhs.constant is not None and op.name != "arith.subi":
        op.operands = [rhs, lhs]
        return True
    by = rhs.constant
    if by is None:
        return False
    if by == 0 and op.name == "arith.muli":
        op.replace_by(rhs)
        return True
    if by == (1 if op.name == "arith.muli" else 0):
        op.replace_by(lhs)
        return True
    inner = lhs.op
    signs = {"arith.addi": 1, "arith.subi": -1}
    if op.name not in signs or inner is None or inner.name not in signs:
        return False
    if inner.operands[1].constant is None:
        return False
    total = signs[inner.name] * inner.operands[1].constant + signs[op.name] * by
    op.replace_by(b.arithmetic("add", inner.operands[0], total))
    return True


def fold_single_trips(op: Operation, b: Builder) -> bool:
    """An index that takes the value 0 alone is 0."""
    if op.name != "scf.forall":
        return False
    changed = False
    for index, bound in zip(op.body.indices, op.group("bounds"), strict=True):
        if bound.constant == 1 and index.users:
            index.replace_by(b.index(0))
            changed = True
    return changed


def fold_extents(op: Operation, b: Builder) -> bool:
    """An extent of a tensor that is cut or made here is the size that was given."""
    if op.name != "tensor.dim":
        return False
    made = op.operand("base").op
    if made is None or made.name not in ("tensor.extract_slice", "tensor.empty"):
        return False
    op.replace_by(b.index(sizes_of(made)[op.attributes["axis"]]))
    return True


def fold_branches(op: Operation, b: Builder) -> bool:
    """A condition that is known leaves one body."""
    if op.name != "scf.if" or op.operand("condition").constant is None:
        return False
    taken = op.regions[0 if op.operand("condition").constant else 1]
    yields = taken.terminator.operands
    for inner in taken.operations[:-1]:
        inner.move_before(op)
    op.replace_by(*yields)
    return True


def _box(op: Operation) -> tuple[list[int], list[int]]:
    """Offsets and sizes of an extract_strided_slice, for all dims."""
    shape = op.operand("vector").shape
    offsets, sizes = list(op.attributes["offsets"]), list(op.attributes["sizes"])
    return offsets + [0] * (len(shape) - len(offsets)), sizes + list(shape[len(sizes) :])


def _inserted_box(op: Operation) -> tuple[list[int], list[int]]:
    """Offsets and sizes, in dest's dims, of what an insert or insert_strided_slice puts there."""
    value, dest = op.operand("value"), op.operand("dest")
    if op.name == "vector.insert":
        position = list(op.attributes["position"])
        rest = list(dest.shape[len(position) :])
        return position + [0] * len(rest), [1] * len(position) + rest
    return list(op.attributes["offsets"]), [1] * (dest.rank - value.rank) + list(value.shape)


def _meet(o: Sequence[int], s: Sequence[int], p: Sequence[int], t: Sequence[int]) -> bool | None:
    """Whether the box (o, s) lies in (p, t): True; beside it: False; neither: None."""
    quads = list(zip(o, s, p, t, strict=True))
    if all(a >= c and a + m <= c + n for a, m, c, n in quads):
        return True
    if any(a >= c + n or c >= a + m for a, m, c, n in quads):
        return False
    return None


_INSERTS = ("vector.insert", "vector.insert_strided_slice")


def fold_slices(op: Operation, b: Builder) -> bool:
    """extract_strided_slice: of a slice, of what was inserted, of a broadcast; the whole is it."""
    if op.name != "vector.extract_strided_slice":
        return False
    source = op.operand("vector")
    offsets, sizes = _box(op)
    if tuple(sizes) == source.shape:
        op.replace_by(source)
        return True
    made = source.op
    if made is None:
        return False
    if made.name == op.name:
        start, _ = _box(made)
        both = [a + c for a, c in zip(offsets, start, strict=True)]
        op.replace_by(b.extract_strided_slice(made.operand("vector"), both, sizes))
        return True
    if made.name in _INSERTS:
        value, dest = made.operand("value"), made.operand("dest")
        start, extent = _inserted_box(made)
        lies = _meet(offsets, sizes, start, extent)
        if lies is False:
            op.replace_by(b.extract_strided_slice(dest, offsets, sizes))
            return True
        if lies and value.is_vector:
            lead = dest.rank - value.rank
            inner = [a - c for a, c in zip(offsets[lead:], start[lead:], strict=True)]
            part = b.extract_strided_slice(value, inner, sizes[lead:])
            op.replace_by(b.broadcast(part, sizes) if lead else part)
            return True
        return False
    if made.name in ("vector.broadcast", "vector.splat"):
        inside = made.operands[0]
        if not inside.is_vector:
            op.replace_by(b.broadcast(inside, sizes))
            return True
        lead = source.rank - inside.rank
        pairs = list(zip(offsets[lead:], sizes[lead:], inside.shape, strict=True))
        inner = [0 if extent == 1 else o for o, _, extent in pairs]
        part = b.extract_strided_slice(inside, inner, [min(s, extent) for _, s, extent in pairs])
        op.replace_by(b.broadcast(part, sizes))
        return True
    return False


def fold_inserts(op: Operation, b: Builder) -> bool:
    """Fold an insert over the whole of a vector to the inserted value."""
    if op.name not in _INSERTS:
        return False
    value, dest = op.operands
    if value.type == dest.type:
        op.replace_by(value)
        return True
    return False


def fold_extracts(op: Operation, b: Builder) -> bool:
    """extract: of a slice, of what was inserted, broadcast, transposed, shuffled or cast."""
    if op.name != "vector.extract":
        return False
    source, position = op.operand("vector"), list(op.attributes["position"])
    if not position:
        op.replace_by(source)
        return True
    made = source.op
    if made is None or not made.operands:
        return False
    found = _extracted(made, op, position, b)
    if found is None:
        return False
    op.replace_by(found)
    return True


def _extracted(made: Operation, op: Operation, position: list[int], b: Builder) -> Value | None:
    source, rest = op.operand("vector"), list(op.result.shape)
    inside = made.operands[0]
    match made.name:
        case "vector.extract":
            return b.extract(inside, [*made.attributes["position"], *position])
        case "vector.extract_strided_slice":
            offsets, sizes = _box(made)
            count = len(position)
            row = b.extract(inside, [a + c for a, c in zip(position, offsets, strict=False)])
            if rest == list(row.shape):
                return row
            return b.extract_strided_slice(row, offsets[count:], sizes[count:])
        case "vector.insert" | "vector.insert_strided_slice":
            return _extracted_from_insert(made, position, rest, b)
        case "vector.broadcast" | "vector.splat":
            lead = source.rank - inside.rank
            within = [
                0 if extent == 1 else at
                for at, extent in zip(position[lead:], inside.shape, strict=False)
            ]
            part = b.extract(inside, within) if within else inside
            if list(part.shape) == rest and part.is_vector == op.result.is_vector:
                return part
            return b.broadcast(part, rest)
        case "vector.transpose":
            permutation = made.attributes["permutation"]
            count = len(position)
            if sorted(permutation[:count]) != list(range(count)):
                return None
            place = [0] * count
            for at, dim in zip(position, permutation, strict=False):
                place[dim] = at
            part = b.extract(inside, place)
            if count == source.rank:
                return part
            return b.transpose(part, [dim - count for dim in permutation[count:]])
        case "vector.shape_cast":
            return _extracted_from_cast(inside, source, position, b)
        case "vector.shuffle":
            index, count = made.attributes["mask"][position[0]], inside.shape[0]
            chosen = inside if index < count else made.operands[1]
            return b.extract(chosen, [index if index < count else index - count, *position[1:]])
    return None


def _extracted_from_insert(
    made: Operation, position: list[int], rest: list[int], b: Builder
) -> Value | None:
    value, dest = made.operands
    start, extent = _inserted_box(made)
    offsets = position + [0] * len(rest)
    lies = _meet(offsets, [1] * len(position) + rest, start, extent)
    if lies is False:
        return b.extract(dest, position)
    lead = dest.rank - value.rank
    if not lies or lead > len(position):
        return None
    within = [a - c for a, c in zip(position[lead:], start[lead:], strict=False)]
    row = b.extract(value, within) if within else value
    if list(row.shape) == rest:
        return row
    count = len(within)
    inner = [a - c for a, c in zip(offsets[lead + count :], start[lead + count :], strict=True)]
    return b.extract_strided_slice(row, inner, rest)


def _extracted_from_cast(
    inside: Value, source: Value, position: list[int], b: Builder
) -> Value | None:
    """Extract from before the cast where the rest of the shape is there, too: only names change."""
    rest = source.shape[len(position) :]
    lead = inside.rank - len(rest)
    if lead < 1 or inside.shape[lead:] != rest:
        return None
    flat = int(np.ravel_multi_index(position, source.shape[: len(position)]))
    place = [int(at) for at in np.unravel_index(flat, inside.shape[:lead])]
    return b.extract(inside, place)


def fold_shapes(op: Operation, b: Builder) -> bool:
    """Changes of shape: none at all, two after one another, and inverse ones."""
    if op.name not in ("vector.broadcast", "vector.shape_cast", "vector.transpose"):
        return False
    source = op.operands[0]
    made = source.op
    order = list(op.attributes.get("permutation", ()))
    if source.type == op.result.type and order == sorted(order):
        op.replace_by(source)
        return True
    if made is None:
        return False
    shape = op.result.shape
    if op.name == "vector.broadcast":
        if made.name in ("vector.broadcast", "vector.splat"):
            op.replace_by(b.broadcast(made.operands[0], shape))
            return True
        whole = made.operands[0] if made.name == "vector.extract" else None
        units = _leading_units(op)
        if whole is not None and whole.type == op.result.type and units == len(shape) - source.rank:
            op.replace_by(whole)
            return True
        return False
    if op.name == "vector.shape_cast":
        if made.name == op.name:
            op.replace_by(b.shape_cast(made.operands[0], shape))
            return True
        inside = made.operands[0] if made.operands else None
        if made.name in ("vector.broadcast", "vector.splat") and inside is not None:
            if not inside.is_vector:
                op.replace_by(b.broadcast(inside, shape))
                return True
            if prod(inside.shape) == prod(shape):
                op.replace_by(b.shape_cast(inside, shape))
                return True
        return False
    if made.name == op.name:
        inner, outer = made.attributes["permutation"], op.attributes["permutation"]
        op.replace_by(b.transpose(made.operands[0], [inner[dim] for dim in outer]))
        return True
    if made.name in ("vector.broadcast", "vector.splat") and not made.operands[0].is_vector:
        op.replace_by(b.broadcast(made.operands[0], shape))
        return True
    return False


def _leading_units(op: Operation) -> int:
    """How many leading extents of a broadcast's result are 1 and new."""
    result, count = op.result.shape, 0
    lead = len(result) - op.operands[0].rank
    while count < lead and result[count] == 1:
        count += 1
    return count if isinstance(op.operands[0].type, VectorType) else -1
