"""Parts of memory: slices, other shapes of the same elements, and elements that strides lead to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.elements import Expr
from tvm_iree_ext.mlir.base.ir_values import (
    AnyTensor,
    Empty,
    Number,
    Scalar,
    Shape,
    Splat,
    Symbol,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import INDEX, Place, at_places, moved, reshaped
from tvm_iree_ext.mlir.dialects.tensor_slices import extracted, inserted
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.memory import MemoryPart
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.scalars.arith import on_index


@dataclass(frozen=True, eq=False)
class SlicePart(MemoryPart):
    """``memref.subview``: the numbers are offsets, then strides; axes not ``kept`` are of one."""

    kept: tuple[int, ...] = ()

    def read(self, scope: Scope, whole: AnyTensor) -> AnyTensor:
        """The slice."""
        return extracted(scope, whole, *self._slice(), self.kept)

    def written(self, scope: Scope, whole: AnyTensor, value: AnyTensor) -> AnyTensor:
        """The whole with the slice in its place."""
        return inserted(scope, value, whole, *self._slice(), self.kept)

    def _slice(self) -> tuple[Sequence[Scalar], Sequence[Any], Sequence[Scalar]]:
        rank = len(self.numbers) // 2
        sizes = [
            self.shape[self.kept.index(axis)] if axis in self.kept else 1 for axis in range(rank)
        ]
        return self.numbers[:rank], sizes, self.numbers[rank:]


@dataclass(frozen=True, eq=False)
class ShapePart(MemoryPart):
    """All elements, in row-major order, in another shape; or the same one, told otherwise."""

    def read(self, scope: Scope, whole: AnyTensor) -> AnyTensor:
        """The elements in this shape."""
        return self._as(scope, whole, self.shape)

    def written(self, scope: Scope, whole: AnyTensor, value: AnyTensor) -> AnyTensor:
        """The elements in the shape of the whole."""
        return self._as(scope, value, whole.shape)

    def _as(self, scope: Scope, value: AnyTensor, shape: Shape) -> AnyTensor:
        if len(value.shape) == len(shape):
            return as_shape(scope, value, shape)
        return reshaped(scope, value, shape)


@dataclass(frozen=True, eq=False)
class OrderPart(MemoryPart):
    """``memref.transpose``: axis ``axes[i]`` of the whole is axis i."""

    axes: tuple[int, ...] = ()

    def read(self, scope: Scope, whole: AnyTensor) -> AnyTensor:
        """The elements in this order."""
        return _transposed(scope, whole, self.axes)

    def written(self, scope: Scope, whole: AnyTensor, value: AnyTensor) -> AnyTensor:
        """The elements in the order of the whole."""
        return _transposed(scope, value, [self.axes.index(axis) for axis in range(len(self.axes))])


def _transposed(scope: Scope, value: AnyTensor, axes: Sequence[int]) -> AnyTensor:
    shape = tuple(value.shape[axis] for axis in axes)
    if isinstance(value, Splat):
        return Splat(shape, value.element, value.scalar)
    if isinstance(value, Empty):
        return Empty(shape, value.element)

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        return kernel.copied(value, [at[axes.index(axis)] for axis in range(len(axes))])

    return moved(scope, "memref.transpose", [value], shape, value.element, part)


@dataclass(frozen=True, eq=False)
class StridedPart(MemoryPart):
    """Elements of a line: the numbers are the place of the first one, and how far axes step.

    ``is_inside`` says that a call has them inside of the line, where none is read or written
    elsewhere.
    """

    is_inside: bool = field(default=False, kw_only=True)

    def read(self, scope: Scope, whole: AnyTensor) -> AnyTensor:
        """The elements."""
        shape = tuple(map(scope.simple, self.shape))
        if isinstance(whole, Splat):
            return Splat(shape, whole.element, whole.scalar)
        if isinstance(whole, Empty):
            return Empty(shape, whole.element)

        def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
            place = [self._place(kernel, at)]
            return kernel.copied(whole, place) if self.is_inside else kernel.clamped(whole, place)

        reads = [whole, *self._read_numbers()]
        return moved(scope, "memref.strided", reads, shape, whole.element, part)

    def written(self, scope: Scope, whole: AnyTensor, value: AnyTensor) -> AnyTensor:
        """The line with these elements."""
        extents = [Symbol(INDEX, one) for one in value.shape if not isinstance(plain(one), int)]
        reads = [value, whole, *self._read_numbers(), *extents]
        outputs = [(whole.shape, whole.element)]
        kernel = PrimFuncBuilder(scope, "memref.store", reads, outputs, OPAQUE)
        zero = tirx.const(0, "int64")

        def each(at: Any) -> None:
            places = at_places(at)
            place = self._place(kernel, places)
            parts = kernel.copied(value, places)
            if not self.is_inside:
                inside = tirx.And(zero <= place, place < kernel.extent(whole.shape[0]))
                near = tirx.max(tirx.min(place, kernel.extent(whole.shape[0]) - 1), zero)
                held = kernel.stored_parts(0, [near])
                parts = [tirx.if_then_else(inside, a, b) for a, b in zip(parts, held, strict=True)]
                place = near
            kernel.put(0, parts, [place])

        with kernel:
            kernel.block(
                "before",
                whole.shape,
                lambda at: kernel.put(0, kernel.copied(whole, at_places(at)), at_places(at)),
            )
            kernel.block("store", value.shape, each)
        return kernel.results[0]

    def _read_numbers(self) -> Sequence[Value]:
        """The numbers, before which the layout gives those that it has."""
        return self.numbers if self.layout is None else [self.layout, *self.numbers]

    def _place(self, kernel: PrimFuncBuilder, at: Place) -> Expr:
        place, *steps = (kernel.scalar(one) for one in self.numbers)
        for index, step in zip(at, steps, strict=True):
            if self.is_inside:
                place = place + index * step
            else:
                away = on_index(kernel.context, "mul", index, step)
                place = on_index(kernel.context, "add", place, away)
        return place


def as_line(scope: Scope, shape: Shape) -> MemoryPart:
    """All of a tensor of a shape as one line."""
    return ShapePart((scope.simple(prod(shape)),))


def as_number(one: Any) -> Scalar:
    """A number, or arithmetic on extents, as a scalar."""
    one = plain(one)
    return Number(INDEX, one) if isinstance(one, int) else Symbol(INDEX, one)
