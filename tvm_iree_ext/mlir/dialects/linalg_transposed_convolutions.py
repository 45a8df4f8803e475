"""Transposed convolutions: ``linalg``'s convolutions of images with zeros between the pixels.

Front ends insert an image into zeros with strides and convolve that.  Of the products most have a
factor 0.  Where the image begins at pixel ``o`` and its pixels are ``s`` apart, pixel ``s q + a``
of the result is the sum of

    image[q - o // s + t] * taps[s t + o % s - a],  t = 0, 1, ...

So each of the ``s`` phases ``a`` is a convolution of the image itself with every ``s``-th tap, and
all of them are one with ``s`` times as many filters, whose results are interleaved.  Pixels are
counted from some before the first, such that ``o % s`` is ``s - 1``: then each phase has
``ceil(taps / s)`` taps, from the same pixel on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.elements import Expr
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, AnyTensor, Empty, is_zero, plain
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, type_of
from tvm_iree_ext.mlir.dialects.tensor_dialect import moved, reshaped
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Layout


@dataclass(frozen=True)
class SpreadAxis:
    """Rows or columns: extents of image, filter and result, where the image begins, its stride."""

    image: int
    taps: int
    result: int
    first: int = 0
    stride: int = 1

    @property
    def skipped(self) -> int:
        """The pixels that are counted before the first of the result."""
        return (self.stride - 1 - self.first) % self.stride

    @property
    def taps_of_phase(self) -> int:
        """The taps of the phase that has most."""
        return -(-self.taps // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros before and behind the image."""
        before = (self.first + self.skipped) // self.stride
        pixels = -(-(self.result + self.skipped) // self.stride)
        return before, max(pixels + self.taps_of_phase - 1 - self.image - before, 0)


def transposed_convolution(
    scope: Scope,
    layout: Layout,
    operands: Sequence[AnyTensor],
    rows: SpreadAxis,
    columns: SpreadAxis,
) -> AnyTensor | None:
    """The convolution of an image without the zeros between its pixels.

    ``operands`` are the image, the filter, and what the result begins with, in the layout of the
    registry's op.
    """
    image, taps, begun = operands
    if not is_zero(begun) and begun.element.name not in ("float32", "float64"):
        return None  # it would be added to what is rounded already
    last = layout == "NHWC"
    own = _taps_of_phases(scope, taps, last, rows, columns)
    try:
        made = ops.conv_2d(
            type_of(scope, image),
            type_of(scope, own),
            layout=layout,
            padding=(rows.padding, columns.padding),
            algorithm="im2col",  # as of any convolution of a program
            result_dtype=begun.element.storage[0],
        )
    except OpError:
        return None
    shape = list(image.shape)
    sizes = made.signature.results[0].shape
    for axis in (1, 2, 3):
        shape[axis] = sizes[axis]
    (sums,) = call_op(
        scope,
        made,
        {"input": image, "filter": own},
        [Empty(tuple(shape), begun.element)],
    )
    if not isinstance(sums, TENSORS):
        raise Unsupported("a convolution without a tensor")
    return _interleaved(scope, sums, begun, last, rows, columns)


def _taps_of_phases(
    scope: Scope, taps: AnyTensor, last: bool, rows: SpreadAxis, columns: SpreadAxis
) -> AnyTensor:
    """The filter whose filters are those of each phase, by rows, columns and the given ones."""
    filters, channels = (taps.shape[axis] for axis in ((3, 2) if last else (0, 1)))
    phases = (rows.stride, columns.stride, filters)
    spatial = (rows.taps_of_phase, columns.taps_of_phase)

    def part(kernel: PrimFuncBuilder, at: Sequence[Expr]) -> list[Expr]:
        t, u, c, a, b, f = at if last else (*at[4:], at[3], *at[:3])
        inside: Expr = tirx.const(True, "bool")
        places = []
        for axis, phase, tap in ((rows, a, t), (columns, b, u)):
            number = tap * axis.stride + axis.stride - 1 - phase
            inside = tirx.all(inside, number >= 0, number < axis.taps)
            places.append(tirx.max(tirx.min(number, axis.taps - 1), 0))
        found = kernel.copied(taps, [*places, c, f] if last else [f, c, *places])
        return [tirx.if_then_else(inside, one, tirx.const(0, str(one.ty.dtype))) for one in found]

    shape = (*spatial, channels, *phases) if last else (*phases, channels, *spatial)
    made = moved(scope, "phases", [taps], shape, taps.element, part)
    joined = rows.stride * columns.stride * int(plain(filters))
    return reshaped(
        scope, made, (*spatial, channels, joined) if last else (joined, channels, *spatial)
    )


def _interleaved(
    scope: Scope,
    sums: AnyTensor,
    begun: AnyTensor,
    last: bool,
    rows: SpreadAxis,
    columns: SpreadAxis,
) -> AnyTensor:
    """The pixels of all phases in their order, added to what the result begins with."""
    filters = begun.shape[3 if last else 1]
    phases = (rows.stride, columns.stride, filters)
    sizes = tuple(sums.shape[axis] for axis in ((1, 2) if last else (2, 3)))
    images = sums.shape[0]
    apart = reshaped(scope, sums, (images, *sizes, *phases) if last else (images, *phases, *sizes))

    def part(kernel: PrimFuncBuilder, at: Sequence[Expr]) -> list[Expr]:
        n, y, x, f = at if last else (at[0], at[2], at[3], at[1])
        (q, a), (r, b) = (
            (
                tirx.floordiv(p + axis.skipped, axis.stride),
                tirx.floormod(p + axis.skipped, axis.stride),
            )
            for p, axis in ((y, rows), (x, columns))
        )
        found = kernel.copied(apart, [n, q, r, a, b, f] if last else [n, a, b, f, q, r])
        if is_zero(begun):
            return found
        return [
            one + other for one, other in zip(found, kernel.copied(begun, list(at)), strict=True)
        ]

    return moved(scope, "interleave", [apart, begun], begun.shape, begun.element, part)
