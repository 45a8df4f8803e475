"""Operations of ``memref`` and ``bufferization``: memory taken, parts of it, elements, copies."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    TENSORS,
    AnyTensor,
    Buffer,
    Empty,
    Memref,
    Number,
    Scalar,
    Shape,
    Splat,
    Symbol,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects import tensor_dialect
from tvm_iree_ext.mlir.dialects.constants import constant_value
from tvm_iree_ext.mlir.dialects.memory_parts import (
    OrderPart,
    ShapePart,
    SlicePart,
    StridedPart,
    as_line,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import INDEX, as_extent
from tvm_iree_ext.mlir.dialects.tensor_slices import kept_axes, slice_of
from tvm_iree_ext.mlir.importing import memory
from tvm_iree_ext.mlir.importing.emitted_values import as_shape, extent_of
from tvm_iree_ext.mlir.importing.memory import part_of
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form

GLOBAL = "memref.global"


def memref_kind(value: form.ParsedValue) -> form.ParsedMemrefType:
    """The type of a value that is a memref of numbers.

    Raises:
        Unsupported: for another, and for elements that are not computed with.
    """
    kind = value.type
    if not isinstance(kind, form.ParsedMemrefType):
        raise Unsupported(f"{value.name} is of the type {kind}; a ranked memref is supported")
    if not kind.dtype:
        raise Unsupported(f"{value.name}: {kind.why}")
    return kind


def memref(scope: Scope, value: form.ParsedValue) -> Memref:
    """A value that is a memref.

    Raises:
        Unsupported: for another.
    """
    memref_kind(value)
    found = scope.value(value)
    if not isinstance(found, Memref):
        raise Unsupported(f"{value.name} is no memref that is computed with")
    return found


def _of(scope: Scope, value: form.ParsedValue, held: Value) -> Scope:
    """The scope, in which a value is another."""
    inside = Scope(scope.function, scope.depth, scope.calling, outer=scope)
    inside.define(value, held)
    return inside


def _alloc(scope: Scope, op: form.ParsedOperation) -> Value:
    kind = memref_kind(op.results[0])
    sizes, *symbols = op.groups()
    if any(symbols):
        raise Unsupported("a layout with symbols")
    given = iter(sizes)
    shape = tuple(
        one if one is not None else extent_of(scope, scope.scalar(next(given)))
        for one in kind.shape
    )
    return Memref(Buffer(Empty(shape, element(kind.dtype))), shape)


def _nothing(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    return []


def _same(scope: Scope, op: form.ParsedOperation) -> Value:
    return memref(scope, op.operands[0])


def _subview(scope: Scope, op: form.ParsedOperation) -> Value:
    (source,), *groups = op.groups()
    whole = memref(scope, source)
    offsets, sizes, strides = slice_of(scope, op, groups)
    kept = kept_axes(sizes, memref_kind(op.results[0]).shape)
    shape = tuple(sizes[axis] for axis in kept)
    return part_of(whole, SlicePart(shape, (*offsets, *strides), kept=tuple(kept)))


def _cast(scope: Scope, op: form.ParsedOperation) -> Value:
    whole, kind = memref(scope, op.operands[0]), memref_kind(op.results[0])
    shape = tuple(
        own if wanted is None else wanted
        for own, wanted in zip(whole.shape, kind.shape, strict=True)
    )
    for own, wanted in zip(whole.shape, shape, strict=True):
        if isinstance(own, int) and isinstance(wanted, int) and own != wanted:
            raise Unsupported(f"an extent of {own} where {wanted} is due")
        scope.function.settle(own, wanted)
    return part_of(whole, ShapePart(tuple(map(scope.simple, shape))))


def _reshaped(name: str) -> Callable[[Scope, form.ParsedOperation], Value]:
    """What the operation on tensors makes of the shape."""

    def handler(scope: Scope, op: form.ParsedOperation) -> Value:
        whole = memref(scope, op.operands[0])
        memref_kind(op.results[0])
        inside = _of(scope, op.operands[0], Empty(whole.shape, whole.element))
        made = tensor_dialect.TENSORS[name](inside, op)
        return part_of(whole, ShapePart(_shape(made)))

    return handler


def _transpose(scope: Scope, op: form.ParsedOperation) -> Value:
    whole = memref(scope, op.operands[0])
    axes = tuple(one.value for one in op.attributes["permutation"].results)
    return part_of(whole, OrderPart(tuple(whole.shape[axis] for axis in axes), axes=axes))


def _reinterpret_cast(scope: Scope, op: form.ParsedOperation) -> Value:
    (source,), *groups = op.groups()
    given = memref(scope, source)
    offsets, sizes, strides = slice_of(scope, op, groups)
    if any(not isinstance(part, ShapePart) for part in given.parts):
        raise Unsupported("of a part of memory; of all that was allocated or given it is supported")
    held = given.buffer.held
    whole = Memref(given.buffer, held.shape)
    line = part_of(whole, as_line(scope, held.shape))
    _check_reach(plain(line.shape[0]), list(map(plain, sizes)), (*offsets, *strides))
    return part_of(line, StridedPart(tuple(sizes), (*offsets, *strides)))


def _check_reach(count: Any, sizes: Sequence[Any], numbers: Sequence[Scalar]) -> None:
    """Refuse elements outside of a line of ``count``, where all is known; others are left out."""
    known = [int(one.value) for one in numbers if isinstance(one, Number)]
    if len(known) < len(numbers) or not all(isinstance(one, int) for one in (count, *sizes)):
        return
    offset, *strides = known
    steps = [stride * (size - 1) for stride, size in zip(strides, sizes, strict=True)]
    first, last = (offset + sum(bound(0, step) for step in steps) for bound in (min, max))
    if 0 not in sizes and (first < 0 or last >= count):
        raise Unsupported(f"of elements {first} to {last} of memory of {count}")


def _dim(scope: Scope, op: form.ParsedOperation) -> Value:
    whole, axis = memref(scope, op.operands[0]), scope.number(op.operands[1])
    if axis is None or not 0 <= int(axis) < len(whole.shape):
        raise Unsupported("the extent of an axis that is no constant, or is not there")
    one = plain(whole.shape[int(axis)])
    return Number(INDEX, one) if isinstance(one, int) else Symbol(INDEX, one)


def _rank(scope: Scope, op: form.ParsedOperation) -> Value:
    return Number(INDEX, len(memref(scope, op.operands[0]).shape))


def _load(scope: Scope, op: form.ParsedOperation) -> Value:
    inside = _of(scope, op.operands[0], memory.read(scope, memref(scope, op.operands[0])))
    extract = form.ParsedOperation("tensor.extract", op.operands, op.results, {}, [], op.location)
    found: Value = tensor_dialect.TENSORS["tensor.extract"](inside, extract)
    return found


def _store(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    value, target, *indices = op.operands
    whole, scalar = memref(scope, target), scope.scalar(value)
    places = tuple(scope.scalar(index) for index in indices)
    ones: tuple[Scalar, ...] = (Number(INDEX, 1),) * len(places)
    memory.write(
        scope, part_of(whole, SlicePart((), (*places, *ones))), Splat((), whole.element, scalar)
    )
    return []


def _copy(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    source, target = (memref(scope, one) for one in op.operands)
    memory.write(scope, target, memory.read(scope, source))
    return []


def _clone(scope: Scope, op: form.ParsedOperation) -> Value:
    return _holding(memory.read(scope, memref(scope, op.operands[0])))


def _holding(held: AnyTensor, constant: str = "") -> Memref:
    """New memory that holds a tensor."""
    return Memref(Buffer(held, constant=constant), held.shape)


def _get_global(scope: Scope, op: form.ParsedOperation) -> Value:
    name = str(op.attributes["name"])
    declared = scope.program.globals.get(name)
    kind = memref_kind(op.results[0])
    if declared is None or declared.name != GLOBAL:
        raise Unsupported(f"gets @{name}, which is no memref.global of this module")
    value = declared.attributes.get("initial_value")
    if "constant" not in declared.attributes or value is None:
        raise Unsupported(
            f"gets @{name}, which is no constant; state between calls is a util.global"
        )
    cached = scope.program.constants.get(name)
    if cached is None:
        cached = scope.program.constants[name] = constant_value(value, kind.tensor)
    assert isinstance(cached, TENSORS)
    return _holding(cached, f"@{name}")


def _to_tensor(scope: Scope, op: form.ParsedOperation) -> Value:
    return memory.read(scope, memref(scope, op.operands[0]))


def _to_buffer(scope: Scope, op: form.ParsedOperation) -> Value:
    memref_kind(op.results[0])
    return _holding(scope.any_tensor(op.operands[0]))


def _materialize(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    value, target = scope.any_tensor(op.operands[0]), scope.value(op.operands[1])
    if isinstance(target, Memref):
        memory.write(scope, memref(scope, op.operands[1]), value)
        return []
    return [as_shape(scope, value, _shape(target))]


def _shape(value: Value) -> Shape:
    if isinstance(value, TENSORS):
        return value.shape
    raise Unsupported("materialized in what is neither a tensor nor a memref")


def _alloc_tensor(scope: Scope, op: form.ParsedOperation) -> Value:
    sizes, copied, *_ = op.groups()
    if copied:
        return scope.any_tensor(copied[0])
    kind = op.results[0].type
    assert isinstance(kind, form.ParsedTensorType)
    given = iter(sizes)
    shape = tuple(
        one if one is not None else as_extent(scope, scope.scalar(next(given)), "an extent")
        for one in kind.shape
    )
    return Empty(shape, element(kind.dtype))


MEMREF = {
    "bufferization.alloc_tensor": _alloc_tensor,
    "bufferization.clone": _clone,
    "bufferization.dealloc_tensor": _nothing,
    "bufferization.materialize_in_destination": _materialize,
    "bufferization.to_buffer": _to_buffer,
    "bufferization.to_tensor": _to_tensor,
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.assume_alignment": _same,
    "memref.cast": _cast,
    "memref.collapse_shape": _reshaped("tensor.collapse_shape"),
    "memref.copy": _copy,
    "memref.dealloc": _nothing,
    "memref.dim": _dim,
    "memref.expand_shape": _reshaped("tensor.expand_shape"),
    "memref.get_global": _get_global,
    "memref.load": _load,
    "memref.memory_space_cast": _same,
    "memref.rank": _rank,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.store": _store,
    "memref.subview": _subview,
    "memref.transpose": _transpose,
}
