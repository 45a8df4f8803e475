"""Slices of tensors: ``tensor.extract_slice`` and ``tensor.insert_slice``."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Expr
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Empty,
    Number,
    Scalar,
    Shape,
    Splat,
    Tensor,
    Value,
    is_zero,
    plain,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, as_extent, guarded, mixed, moved
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import on_index, tensor_kind


def kept_axes(sizes: Sequence[Any], shape: Sequence[int | None]) -> list[int]:
    """The axes that a slice of this shape has, which may leave out some of extent 1."""
    kept: list[int] = []
    surplus = len(sizes) - len(shape)
    for axis, size in enumerate(sizes):
        wanted = shape[len(kept)] if len(kept) < len(shape) else -1
        if surplus and plain(size) == 1 and wanted != 1:
            surplus -= 1
            continue
        kept.append(axis)
    while len(kept) > len(shape):  # of several of extent 1, the last are left out
        kept.remove(max(axis for axis in kept if plain(sizes[axis]) == 1))
    return kept


def slice_of(
    scope: Scope, op: form.ParsedOperation, groups: Sequence[Sequence[form.ParsedValue]]
) -> tuple[list[Scalar], list[Any], list[Scalar]]:
    """The offsets, sizes and strides of a slice, of an operation and its groups of operands."""
    offsets = mixed(scope, op.attributes["static_offsets"], groups[0])
    sizes = mixed(scope, op.attributes["static_sizes"], groups[1])
    strides = mixed(scope, op.attributes["static_strides"], groups[2])
    return offsets, [as_extent(scope, one, "the size of a slice") for one in sizes], strides


def _check_inside(offsets: Any, sizes: Any, strides: Any, shape: Shape) -> None:
    for axis, (offset, size, stride, own) in enumerate(
        zip(offsets, sizes, strides, shape, strict=True)
    ):
        numbers = isinstance(offset, Number) and isinstance(stride, Number)
        if not numbers or not isinstance(size, int) or not isinstance(plain(own), int):
            continue
        first, step = int(offset.value), int(stride.value)
        if size and not (0 <= first < own and 0 <= first + (size - 1) * step < own):
            raise Unsupported(f"a slice beyond the extent {own} of axis {axis}")


def _extract_slice(scope: Scope, op: form.ParsedOperation) -> Value:
    (source,), *groups = op.groups()
    offsets, sizes, strides = slice_of(scope, op, groups)
    kept = kept_axes(sizes, tensor_kind(op.results[0]).shape)
    return extracted(scope, scope.any_tensor(source), offsets, sizes, strides, kept)


def extracted(
    scope: Scope,
    value: AnyTensor,
    offsets: Sequence[Scalar],
    sizes: Sequence[Any],
    strides: Sequence[Scalar],
    kept: Sequence[int],
) -> AnyTensor:
    """A slice of a tensor, with those of its axes that are ``kept``."""
    _check_inside(offsets, sizes, strides, value.shape)
    shape = tuple(sizes[axis] for axis in kept)
    if isinstance(value, Splat):
        return Splat(shape, value.element, value.scalar)
    if isinstance(value, Empty):
        return Empty(shape, value.element)
    if len(shape) == len(value.shape) and _is_all(scope, offsets, sizes, strides, value.shape):
        return value

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        inner = dict(zip(kept, at, strict=True))
        place = []
        for axis, (offset, stride) in enumerate(zip(offsets, strides, strict=True)):
            start = kernel.scalar(offset)
            step = kernel.scalar(stride)
            if axis in inner:
                away = on_index(kernel.context, "mul", inner[axis], step)
                start = on_index(kernel.context, "add", start, away)
            place.append(start)
        return kernel.clamped(value, place)

    reads = [value, *offsets, *strides]
    return moved(scope, "tensor.extract_slice", reads, shape, value.element, part)


def _is_all(
    scope: Scope,
    offsets: Sequence[Scalar],
    sizes: Sequence[Any],
    strides: Sequence[Scalar],
    shape: Shape,
) -> bool:
    """Whether a slice is certainly all of a tensor."""
    return all(
        _numbers(offset, stride) == (0, 1) and scope.same(size, own)
        for offset, stride, size, own in zip(offsets, strides, sizes, shape, strict=True)
    )


def _insert_slice(scope: Scope, op: form.ParsedOperation) -> Value:
    (source,), (target,), *groups = op.groups()
    value, into = scope.any_tensor(source), scope.any_tensor(target)
    offsets, sizes, strides = slice_of(scope, op, groups)
    kept = kept_axes(sizes, tensor_kind(source).shape)
    value = as_shape(scope, value, tuple(sizes[axis] for axis in kept))
    if id(op) in scope.function.in_place and isinstance(into, Tensor):
        _check_inside(offsets, sizes, strides, into.shape)
        written = _written(scope, value, into, offsets, strides, kept)
        if written is not None:
            return written
    return inserted(scope, value, into, offsets, sizes, strides, kept)


def inserted(
    scope: Scope,
    value: AnyTensor,
    into: AnyTensor,
    offsets: Sequence[Scalar],
    sizes: Sequence[Any],
    strides: Sequence[Scalar],
    kept: Sequence[int],
) -> AnyTensor:
    """A tensor with another in place of a slice of it, whose ``kept`` axes that has."""
    _check_inside(offsets, sizes, strides, into.shape)
    zero = tirx.const(0, "int64")

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        condition: Expr | None = None
        place = []
        for axis, (index, offset, stride) in enumerate(zip(at, offsets, strides, strict=True)):
            start, step = kernel.scalar(offset), kernel.scalar(stride)
            away = on_index(kernel.context, "sub", index, start)
            if isinstance(step, tirx.IntImm) and int(step) == 1:
                own, tests = away, []
            else:
                safe = tirx.max(step, tirx.const(1, "int64"))
                own = tirx.floordiv(away, safe)
                tests = [tirx.EQ(tirx.floormod(away, safe), zero)]
            begins, ends = _reaches(scope, offset, stride, (sizes[axis], into.shape[axis]))
            tests += [] if begins else [zero <= own]
            tests += [] if ends else [own < kernel.extent(sizes[axis])]
            for one in tests:
                condition = one if condition is None else tirx.And(condition, one)
            if axis in kept:
                place.append(own)
        before = kernel.copied(into, at)
        if condition is None:
            return kernel.copied(value, place)
        return guarded(kernel, condition, value, place, before)

    reads = [value, into, *offsets, *strides]
    made = moved(scope, "tensor.insert_slice", reads, into.shape, into.element, part)
    if is_zero(into) and len(kept) == len(into.shape):
        places = [_numbers(*pair) for pair in zip(offsets, strides, strict=True)]
        if None not in places:
            scope.function.spread[id(made)] = made, value, places
    return made


def _reaches(
    scope: Scope, offset: Scalar, stride: Scalar, sizes: tuple[Any, Any]
) -> tuple[bool, bool]:
    """Whether no element of an axis lies before a slice's first, and none behind its last."""
    numbers = _numbers(offset, stride)
    if numbers is None or numbers[0] < 0 or numbers[1] < 1:
        return False, False
    start, step = numbers
    size, extent = sizes
    if (start, step) == (0, 1) and scope.same(size, extent):
        return True, True
    if not isinstance(size, int) or not isinstance(extent, int):
        return start == 0, False
    return start == 0, (extent - 1 - start) // step < size


def _numbers(offset: Scalar, stride: Scalar) -> tuple[int, int] | None:
    """Where a slice begins and how far its elements are apart; None where a call says."""
    if isinstance(offset, Number) and isinstance(stride, Number):
        return int(offset.value), int(stride.value)
    return None


def _written(
    scope: Scope,
    value: AnyTensor,
    into: Tensor,
    offsets: Sequence[Any],
    strides: Sequence[Any],
    kept: Sequence[int],
) -> Value | None:
    """The tensor with the slice written where it lies; None where it may end outside."""
    ways = [getattr(stride, "value", None) for stride in strides]
    sizes = [
        value.shape[kept.index(axis)] if axis in kept else 1 for axis in range(len(into.shape))
    ]
    if any(way != 1 for way in ways) or not all(isinstance(plain(one), int) for one in sizes):
        return None
    if value.element != into.element or not all(isinstance(plain(e), int) for e in into.shape):
        return None
    reads = [value, into, *offsets]
    outputs = [(into.shape, into.element)]
    kernel = PrimFuncBuilder(scope, "insert", reads, outputs, OPAQUE, in_place=into)

    def each(at: Mapping[int, Any]) -> None:
        place = []
        for axis, offset in enumerate(offsets):
            start = kernel.scalar(offset)
            if not kernel.context.fits(start, 0, plain(into.shape[axis]) - plain(sizes[axis])):
                raise _Outside
            place.append(start + at[axis])
        own = [at[axis] for axis in kept]
        kernel.put(0, kernel.copied(value, own), place)

    try:
        with kernel:
            kernel.block("insert", sizes, each)
    except _Outside:
        return None
    return kernel.results[0]


class _Outside(Exception):
    """Raised for a slice that may end outside."""


SLICES = {
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
}
