"""What operators of ONNX are by others, where ONNX has no definition that front ends take.

Each is asked for after a front end has refused the operator, or is known to compute it wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_integers import INTEGER_REWRITES
from tvm_iree_ext.frontends.onnx.onnx_quantized import (
    dequantize,
    quantize,
    rewrite_conv_integer,
    rewrite_qlinear_matmul,
)
from tvm_iree_ext.frontends.onnx.onnx_recurrent import rewrite_gru, rewrite_lstm, rewrite_rnn
from tvm_iree_ext.frontends.onnx.onnx_resize import rewrite_resize
from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Rewrite,
    Values,
    Writer,
    given,
)
from tvm_iree_ext.frontends.onnx.onnx_unique import rewrite_unique
from tvm_iree_ext.frontends.onnx.onnx_unrolled import rewrite_loop, rewrite_scan

_LARGEST_DFT = 4096
_LARGEST_MATRIX = 16


def _cast_like(node: Any, values: Values, write: Writer) -> None:
    said, kind = Attributes(node), values.kind(node.input[1])
    options = {} if said("saturate") is None else {"saturate": said("saturate")}
    write.give(write("Cast", node.input[0], to=kind, **options))


def _lp_normalization(node: Any, values: Values, write: Writer) -> None:
    said, x = Attributes(node), node.input[0]
    axes = write.constant([said("axis", -1)], "i8")
    norm = write("ReduceL1" if said("p", 2) == 1 else "ReduceL2", x, axes, keepdims=1)
    one = write("CastLike", write.constant(1, "f4"), norm)
    zero = write("CastLike", write.constant(0, "f4"), norm)
    write.give(write("Div", x, write("Where", write("Equal", norm, zero), one, norm)))


def _pad_wrapped(node: Any, values: Values, write: Writer) -> None:
    """By the places that each axis is read at, which go round."""
    x = node.input[0]
    if Attributes(node).text("mode") != "wrap":
        raise NotRewritten("a padding by numbers or by mirrors")
    extents = values.extents(x)
    pads = values.constant(node.input[1])
    named = given(node, 3)
    axes = values.constant(named) if named else np.arange(len(extents))
    for place, axis in enumerate(axes):
        before, after = int(pads[place]), int(pads[place + len(axes)])
        extent = extents[axis]
        if before == after == 0:
            continue
        if not extent:
            raise NotRewritten("a padding by what is empty, or of an extent that is not known")
        kept = np.arange(max(-before, 0), extent - max(-after, 0))  # what is not cropped
        if not len(kept):
            raise NotRewritten("a padding that crops all")
        where = kept[np.arange(-max(before, 0), len(kept) + max(after, 0)) % len(kept)]
        x = write("Gather", x, write.constant(where, "i8"), axis=int(axis) % len(extents))
    write.give(x)


def _cum_prod(node: Any, values: Values, write: Writer) -> None:
    """By doubling: after step k an element is the product of 2^k."""
    said, x = Attributes(node), node.input[0]
    shape, rank = values.shape(x), values.rank(x)
    axis = int(values.constant(node.input[1]).item()) % rank
    backward = bool(said("reverse", 0))

    def slice_of(name: str, start: int, end: int) -> str:
        bounds = (write.constant([one], "i8") for one in (start, end, axis))
        return write("Slice", name, *bounds)

    def shifted(name: str, by: int) -> str:
        extents = [by if place == axis else extent for place, extent in enumerate(shape)]
        one = write("CastLike", write.constant(np.ones(extents, "f4")), x)
        length = shape[axis]
        if backward:
            return write("Concat", slice_of(name, by, length), one, axis=axis)
        return write("Concat", one, slice_of(name, 0, length - by), axis=axis)

    product = x
    if said("exclusive", 0) and shape[axis] > 0:
        product = shifted(product, 1)
    step = 1
    while step < shape[axis]:
        product = write("Mul", product, shifted(product, step))
        step *= 2
    write.give(product)


def _det(node: Any, values: Values, write: Writer) -> None:
    """By elimination, with the largest of a column as pivot."""
    x = node.input[0]
    shape = values.shape(x)
    size = shape[-1]
    if size > _LARGEST_MATRIX:
        raise NotRewritten(f"a determinant of {size} rows")
    rest = write("Reshape", x, write.constant([math.prod(shape[:-2]), size, size], "i8"))
    zero = write("CastLike", write.constant(0, "f4"), x)
    one = write("CastLike", write.constant(1, "f4"), x)
    minus = write("CastLike", write.constant(-1, "f4"), x)
    last = write.constant([2], "i8")
    rows = write.constant([1], "i8")
    found = ""
    for left in range(size, 0, -1):
        first = write("Slice", rest, write.constant([0], "i8"), rows, last)  # its first column
        place = write("ArgMax", write("Abs", first), axis=1, keepdims=1)
        numbers = write.constant(np.arange(left).reshape(1, left, 1), "i8")
        chosen = write("Equal", numbers, place)
        line = write("ReduceSum", write("Where", chosen, rest, zero), rows, keepdims=1)
        pivot = write("Slice", line, write.constant([0], "i8"), rows, last)
        swapped = write("Equal", place, write.constant([[[0]]], "i8"))
        factor = write("Mul", pivot, write("Where", swapped, one, minus))
        found = write("Mul", found, factor) if found else factor
        if left == 1:
            break
        top = write("Slice", rest, write.constant([0], "i8"), rows, rows)
        others = write("Where", chosen, top, rest)
        bounds = write.constant([1, 1], "i8"), write.constant([left, left], "i8")
        axes = write.constant([1, 2], "i8")
        lower = write("Slice", others, *bounds, axes)
        column = write(
            "Slice", others, write.constant([1, 0], "i8"), write.constant([left, 1], "i8"), axes
        )
        along = write("Slice", line, rows, write.constant([left], "i8"), last)
        safe = write("Where", write("Equal", pivot, zero), one, pivot)
        rest = write("Sub", lower, write("Mul", write("Div", column, safe), along))
    write.give(write("Reshape", found, write.constant(shape[:-2], "i8")))


def _dft(node: Any, values: Values, write: Writer) -> None:
    """By a product with the matrix of roots of unity."""
    import onnx

    said, x = Attributes(node), node.input[0]
    shape, rank = values.shape(x), values.rank(x)
    axis = said("axis", None)
    if axis is None:
        axis = int(values.constant(node.input[2]).item()) if given(node, 2) else -2
    axis %= rank
    onesided, inverse = said("onesided", 0), said("inverse", 0)
    length = shape[axis]
    wanted = int(values.constant(node.input[1]).item()) if given(node, 1) else length
    is_real = shape[-1] == 1
    if onesided and inverse:
        wanted = wanted if given(node, 1) else 2 * (length - 1)
    if max(length, wanted) > _LARGEST_DFT:
        raise NotRewritten(f"a transform of {max(length, wanted)} numbers")
    kind = values.kind(x)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    bins = wanted // 2 + 1 if onesided and not inverse else wanted
    taken = min(length, wanted // 2 + 1 if onesided and inverse else wanted)
    places = np.outer(np.arange(taken), np.arange(bins)) % wanted
    angles = 2 * np.pi * places / wanted * (1 if inverse else -1)
    cosines, sines = np.cos(angles), np.sin(angles)
    if inverse:
        scale = np.full((taken, 1), 1 / wanted)
        if onesided:  # the other half are conjugates
            scale[1 : (wanted + 1) // 2] *= 2
        cosines, sines = cosines * scale, sines * scale
    order = [place for place in range(rank - 1) if place != axis] + [axis]

    def part(number: int) -> str:
        bounds = (write.constant([one], "i8") for one in (number, number + 1, rank - 1))
        one = write("Slice", x, *bounds)
        bounds = (write.constant([one], "i8") for one in (0, taken, axis))
        one = write("Slice", one, *bounds)
        flat = write("Squeeze", one, write.constant([rank - 1], "i8"))
        return write("Transpose", flat, perm=order)

    cosine, sine = (write.constant(one.astype(dtype)) for one in (cosines, sines))
    real = part(0)
    parts = [write("MatMul", real, cosine), write("MatMul", real, sine)]
    if not is_real:
        imaginary = part(1)
        parts[0] = write("Sub", parts[0], write("MatMul", imaginary, sine))
        parts[1] = write("Add", parts[1], write("MatMul", imaginary, cosine))
    if onesided and inverse:
        parts = parts[:1]
    back = [order.index(place) for place in range(rank - 1)]
    last = write.constant([rank - 1], "i8")
    turned = [write("Unsqueeze", write("Transpose", one, perm=back), last) for one in parts]
    write.give(write("Concat", *turned, axis=rank - 1) if len(turned) > 1 else turned[0])


def _col2im(node: Any, values: Values, write: Writer) -> None:
    """By a transposed convolution, each of whose filters puts one element in its place."""
    said, x = Attributes(node), node.input[0]
    image = [int(one) for one in values.constant(node.input[1])]
    block = [int(one) for one in values.constant(node.input[2])]
    axes, area = len(image), math.prod(block)
    batch, lines, _ = values.shape(x)
    dilations = list(said("dilations", [1] * axes))
    strides = list(said("strides", [1] * axes))
    pads = list(said("pads", [0] * (2 * axes)))
    spread = [dilations[i] * (block[i] - 1) + 1 for i in range(axes)]
    padded = [image[i] + pads[i] + pads[i + axes] for i in range(axes)]
    counts = [(padded[i] - spread[i]) // strides[i] + 1 for i in range(axes)]
    left = [padded[i] - ((counts[i] - 1) * strides[i] + spread[i]) for i in range(axes)]
    channels = lines // area
    columns = write("Reshape", x, write.constant([batch * channels, area, *counts], "i8"))
    filters = np.eye(area).reshape(area, 1, *block)
    weight = write("CastLike", write.constant(filters.astype("f4")), x)
    whole = write(
        "ConvTranspose", columns, weight, strides=strides, dilations=dilations,
        kernel_shape=block, pads=[0] * (2 * axes), output_padding=left,
    )  # fmt: skip
    if any(pads):
        starts = write.constant(pads[:axes], "i8")
        ends = write.constant([pads[i] + image[i] for i in range(axes)], "i8")
        whole = write("Slice", whole, starts, ends, write.constant(range(2, 2 + axes), "i8"))
    write.give(write("Reshape", whole, write.constant([batch, channels, *image], "i8")))


def _binarizer(node: Any, values: Values, write: Writer) -> None:
    x, threshold = node.input[0], write.constant(Attributes(node)("threshold", 0.0), "f4")
    above = write("Greater", x, write("CastLike", threshold, x))
    write.give(write("CastLike", above, x))


def _array_features(node: Any, values: Values, write: Writer) -> None:
    places = write("Reshape", node.input[1], write.constant([-1], "i8"))
    write.give(write("Gather", node.input[0], places, axis=values.rank(node.input[0]) - 1))


def _label_encoder(node: Any, values: Values, write: Writer) -> None:
    """By comparing with each key, the last first."""
    import onnx

    said = Attributes(node)

    def array(what: str) -> np.ndarray:
        for end, dtype in (("int64s", "i8"), ("floats", "f4")):
            if (found := said(f"{what}_{end}")) is not None:
                return np.array(found, dtype)
        tensor = said(f"{what}_tensor")
        if tensor is None or tensor.data_type == onnx.TensorProto.STRING:
            raise NotRewritten("strings")
        return np.asarray(onnx.numpy_helper.to_array(tensor))

    keys, found = array("keys"), array("values")
    default = said("default_tensor")
    if default is not None:
        rest = np.asarray(onnx.numpy_helper.to_array(default)).reshape(())
    elif found.dtype.kind == "f":
        rest = np.array(said("default_float", -0.0), found.dtype)
    else:
        rest = np.array(said("default_int64", -1), found.dtype)
    result = write.constant(rest.astype(found.dtype))
    for key, value in reversed([*zip(keys, found, strict=True)]):
        x = node.input[0]
        same = write("IsNaN", x) if key != key else write("Equal", x, write.constant(key))
        result = write("Where", same, write.constant(value), result)
    write.give(result)


def _compress(node: Any, values: Values, write: Writer) -> None:
    said, (x, condition) = Attributes(node), node.input
    axis = said("axis")
    if axis is None:
        x, axis = write("Reshape", x, write.constant([-1], "i8")), 0
    flat = write("Reshape", condition, write.constant([-1], "i8"))
    places = write("Squeeze", write("NonZero", flat), write.constant([0], "i8"))
    write.give(write("Gather", x, places, axis=axis))


def _tensor_scatter(node: Any, values: Values, write: Writer) -> None:
    """A cache whose elements from a place on are new: each looks whether it is one of these."""
    said, (cache, update) = Attributes(node), node.input[:2]
    shape, rank = values.shape(cache), values.rank(cache)
    axis, count = said("axis", -2) % rank, values.shape(update)[said("axis", -2)]
    length = shape[axis]
    line = [length if place == axis else 1 for place in range(rank)]
    places = write.constant(np.arange(length).reshape(line), "i8")
    if begin := given(node, 2):  # one for each batch
        first = write("Reshape", begin, write.constant([-1, *[1] * (rank - 1)], "i8"))
        places = write("Sub", places, first)
    if said.text("mode", "linear") == "circular":
        wrapped = write("Add", places, write.constant(length, "i8"))
        is_below = write("Less", places, write.constant(0, "i8"))
        places = write("Where", is_below, wrapped, places)
    zero, last = (write.constant(one, "i8") for one in (0, count - 1))
    is_new = write("And", write("GreaterOrEqual", places, zero), write("LessOrEqual", places, last))
    inside = write("Where", is_new, places, zero)
    chosen = write("Expand", inside, write.constant(shape, "i8"))
    fresh = write("GatherElements", update, chosen, axis=axis)
    write.give(write("Where", is_new, fresh, cache))


REWRITES: Mapping[str, Rewrite] = {
    **INTEGER_REWRITES,
    "ArrayFeatureExtractor": _array_features,
    "Binarizer": _binarizer,
    "CastLike": _cast_like,
    "Col2Im": _col2im,
    "Compress": _compress,
    "ConvInteger": rewrite_conv_integer,
    "CumProd": _cum_prod,
    "DFT": _dft,
    "DequantizeLinear": dequantize,
    "Det": _det,
    "GRU": rewrite_gru,
    "LSTM": rewrite_lstm,
    "LabelEncoder": _label_encoder,
    "Loop": rewrite_loop,
    "LpNormalization": _lp_normalization,
    "Pad": _pad_wrapped,
    "QLinearMatMul": rewrite_qlinear_matmul,
    "QuantizeLinear": quantize,
    "RNN": rewrite_rnn,
    "Resize": rewrite_resize,
    "Scan": rewrite_scan,
    "TensorScatter": _tensor_scatter,
    "Unique": rewrite_unique,
}
"""Operators, and what writes each."""
