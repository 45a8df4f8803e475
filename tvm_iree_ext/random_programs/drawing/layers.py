"""Layers of neural networks, by the simpler operations."""

from collections.abc import Sequence

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp, apply
from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited, exactly
from tvm_iree_ext.random_programs.drawing.web import Type


def _apply(op: str, *values: BoundedArray, **attributes: object) -> BoundedArray:
    return apply(op, values, attributes)


def _binary(function: str, a: BoundedArray, b: BoundedArray) -> BoundedArray:
    return _apply("binary", a, b, function=function)


def _number(value: float, like: BoundedArray) -> BoundedArray:
    return exactly(np.full(like.data.shape, value), like.dtype)


def _spread(value: BoundedArray, axis: int, like: BoundedArray) -> BoundedArray:
    """A reduction's result along the axis that it has not."""
    axes = [a for a in range(like.data.ndim) if a != axis]
    return _apply("broadcast", value, shape=list(like.data.shape), axes=axes)


def _draw_softmax(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.is_float and t.rank > 0 and t.size > 0)
    return [number], {"axis": int(draft.rng.integers(0, draft.type(number).rank))}


def _softmax(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    axis = attributes["axis"]
    largest = _spread(_apply("reduce", value, kind="max", axes=[axis]), axis, value)
    powers = _apply("unary", _binary("sub", value, largest), function="exp")
    total = _spread(_apply("reduce", powers, kind="add", axes=[axis]), axis, value)
    return _binary("div", powers, total)


def _draw_layer_norm(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.is_float and t.rank > 0 and t.size > 0 and t.shape[-1] > 2)
    type = draft.type(number)
    return [number, *(draft.like(Type(type.dtype, type.shape[-1:])) for _ in range(2))], {}


def _layer_norm(values: Sequence[BoundedArray], _: Attributes) -> BoundedArray:
    value, scale, shift = values
    axis = value.data.ndim - 1
    count = exactly(np.full(value.data.shape[:-1], value.data.shape[-1]), value.dtype)

    def mean(of: BoundedArray) -> BoundedArray:
        return _binary("div", _apply("reduce", of, kind="add", axes=[axis]), count)

    centred = _binary("sub", value, _spread(mean(value), axis, value))
    variance = mean(_binary("mul", centred, centred))
    inverse = _apply("unary", _binary("add", variance, _number(1e-5, variance)), function="rsqrt")
    normal = _binary("mul", centred, _spread(inverse, axis, value))
    shape = list(value.data.shape)
    wide = [_apply("broadcast", one, shape=shape, axes=[axis]) for one in (scale, shift)]
    return _binary("add", _binary("mul", normal, wide[0]), wide[1])


def _draw_activation(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.is_float)
    return [number], {"function": draft.one_of(["relu", "silu"])}


def _activation(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    (value,) = values
    if attributes["function"] == "relu":
        return _binary("max", value, _number(0.0, value))
    return _binary("mul", value, _apply("unary", value, function="logistic"))


def _draw_conv(draft: Draft) -> Drawn:
    number = draft.pick(lambda t: t.is_float and t.rank == 4 and min(t.shape) > 0)
    _, channels, height, width = draft.type(number).shape
    size = [int(draft.rng.integers(1, min(extent, 3) + 1)) for extent in (height, width)]
    out = int(draft.rng.integers(1, 6))
    weight = draft.like(Type(draft.type(number).dtype, (out, channels, *size)))
    return [number, weight], {"stride": draft.one_of([1, 1, 2]), "padding": draft.one_of([0, 1])}


def _conv(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    """Convolve images NCHW with weights OIHW: windows, then one product."""
    image, weight = values
    if image.dtype not in FLOATS or image.data.ndim != 4 or weight.data.ndim != 4:
        raise Unsuited("a convolution of other ranks")
    more, step = attributes["padding"], attributes["stride"]

    def windows(array: np.ndarray) -> np.ndarray:
        wide = np.pad(array, [(0, 0), (0, 0), (more, more), (more, more)])
        seen = np.lib.stride_tricks.sliding_window_view(wide, weight.data.shape[2:], (2, 3))
        return seen[:, :, ::step, ::step].copy()

    seen = BoundedArray(image.dtype, windows(image.data), windows(image.error))
    rows = _apply("transpose", seen, permutation=[0, 2, 3, 1, 4, 5])
    shape = rows.data.shape
    flat = _apply("reshape", rows, shape=[*shape[:3], int(np.prod(shape[3:]))])
    kernel = _apply(
        "reshape", weight, shape=[shape_0 := len(weight.data), weight.data.size // shape_0]
    )
    found = _apply("dot", flat, kernel, batch=[], contract=[[3, 1]], dtype=image.dtype)
    return _apply("transpose", found, permutation=[0, 3, 1, 2])


OPS = (
    WebOp("softmax", _draw_softmax, _softmax, 1.0),
    WebOp("layer_norm", _draw_layer_norm, _layer_norm, 1.0),
    WebOp("activation", _draw_activation, _activation, 1.0),
    WebOp("conv", _draw_conv, _conv, 1.0),
)
