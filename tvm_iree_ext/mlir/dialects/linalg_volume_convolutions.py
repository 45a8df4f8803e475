"""Convolutions of volumes as convolutions of images.

The channels of an image are those of all planes that a window takes in:

    images[(n, o), h, w, (d, c)] = volume[n, c, o * stride + d * dilation - padding, h, w]
    result[n, f, o, h, w]        = conv_2d(images, filter[h, w, (d, c), f])[(n, o), h, w, f]

Planes are written once for each that a window has, beside as many products as there are places in
a window's plane, times filters.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Value, is_zero
from tvm_iree_ext.mlir.dialects.linalg_image_convolutions import (
    before_padding,
    called,
    image_convolution,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, guarded, moved, reshaped
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.scope import Scope

Extents = dict[str, Any]


def volume_convolution(
    scope: Scope,
    name: str,
    letters: tuple[str, str, str],
    tensors: tuple[AnyTensor, AnyTensor, AnyTensor],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[Value]:
    """The result for a volume, a filter and what sums begin with, whose axes have letters.

    Raises:
        PlainLoops: where the registry's op does not take it.
    """
    image, taps, out = tensors
    source, axes, pads = before_padding(scope, image, letters[0])
    steps = strides[0], dilations[0], pads["d"][0]
    of_taps = dict(zip(letters[1], taps.shape, strict=True))
    of_out = dict(zip(letters[2], out.shape, strict=True))
    extents = {**dict(zip(axes, source.shape, strict=True)), "o": of_out["d"], "d": of_taps["d"]}
    windows = _windows(scope, name, source, axes, extents, steps)
    images = _joined(scope, windows, [extents[one] for one in "nohwdc"], (2, 1, 1, 2))
    kernel = _ordered(scope, name, taps, letters[1], "hwdcf")
    kernel = _joined(scope, kernel, [of_taps[one] for one in "hwdcf"], (1, 1, 2, 1))
    begun = _ordered(scope, name, out, letters[2], "ndhwf")
    shape = tuple(of_out[one] for one in "ndhwf")
    begun = _joined(scope, begun, shape, (2, 1, 1, 1))
    made, operands = image_convolution(
        scope,
        (images, kernel, begun),
        is_zero(out),
        1,
        layout="NHWC",
        strides=_of_pixels(strides),
        dilations=_of_pixels(dilations),
        padding=(pads["h"], pads["w"]),
    )
    (value,) = called(scope, made, operands, begun, begun)
    assert isinstance(value, AnyTensor)
    return [_ordered(scope, name, reshaped(scope, value, shape), "ndhwf", letters[2])]


def _of_pixels(numbers: Sequence[int]) -> tuple[int, int]:
    """An attribute's numbers for rows and columns; one number is for all axes."""
    return (numbers[-2], numbers[-1]) if len(numbers) > 1 else (numbers[0], numbers[0])


def _windows(
    scope: Scope,
    name: str,
    volume: AnyTensor,
    axes: str,
    extents: Extents,
    steps: tuple[int, int, int],
) -> AnyTensor:
    """The planes of each window, one behind the other; zeros outside of the volume."""
    stride, dilation, padding = steps
    planes = volume.shape[axes.index("d")]

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Any]:
        by = dict(zip("nohwdc", at, strict=True))
        plane = by["o"] * stride + by["d"] * dilation - padding
        place = [plane if one == "d" else by[one] for one in axes]
        if not padding and not _may_end_outside(extents, planes, steps):
            return kernel.copied(volume, place)
        inside = tirx.And(plane >= 0, plane < kernel.extent(planes))
        zero = kernel.as_parts(volume.element.constant(0), volume.element)
        return guarded(kernel, inside, volume, place, zero)

    shape = tuple(extents[one] for one in "nohwdc")
    return moved(scope, name, [volume], shape, volume.element, part)


def _may_end_outside(extents: Extents, planes: Any, steps: tuple[int, int, int]) -> bool:
    """Whether the last window may have planes behind the volume."""
    stride, dilation, padding = steps
    if not all(isinstance(one, int) for one in (extents["o"], extents["d"], planes)):
        return True
    last = (extents["o"] - 1) * stride + (extents["d"] - 1) * dilation - padding
    return bool(last >= planes)


def _ordered(scope: Scope, name: str, value: AnyTensor, axes: str, order: str) -> AnyTensor:
    """A tensor with its axes in another order."""
    if axes == order:
        return value
    shape = tuple(value.shape[axes.index(one)] for one in order)
    if is_zero(value):
        return reshaped(scope, value, shape)
    return moved(
        scope,
        name,
        [value],
        shape,
        value.element,
        lambda kernel, at: kernel.copied(value, [at[order.index(one)] for one in axes]),
    )


def _joined(
    scope: Scope, value: AnyTensor, extents: Sequence[Any], groups: Sequence[int]
) -> AnyTensor:
    """A tensor with runs of axes joined: so many each."""
    shape, first = [], 0
    for count in groups:
        joined: Any = 1
        for extent in extents[first : first + count]:
            joined = extent if isinstance(joined, int) and joined == 1 else joined * extent
        shape.append(scope.simple(joined))
        first += count
    return reshaped(scope, value, tuple(shape))
