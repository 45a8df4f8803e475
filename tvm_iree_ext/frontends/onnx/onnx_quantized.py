"""ONNX's quantisation of each type, and products of quantised numbers by those of int32."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.frontends.onnx.onnx_narrow import (
    FLOATS,
    RANGES,
    WORDS,
    encoded,
    name_of,
    number_of,
)
from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Values,
    Writer,
    given,
    rounded,
    within,
)


def quantize(node: Any, values: Values, write: Writer) -> None:
    """QuantizeLinear of each type, with scales for all, along an axis, or of blocks."""
    import onnx

    said, (x, scale) = Attributes(node), node.input[:2]
    kinds, zero = onnx.TensorProto, given(node, 2)
    target = values.kind(zero) if zero else said("output_dtype", 0) or kinds.UINT8
    parts = write("Div", write("Cast", x, to=kinds.FLOAT), _spread(node, 1, values, write))
    if (name := name_of(target)) in FLOATS:
        write.give(encoded(parts, kinds.FLOAT, name, said, write))
        return
    if name not in RANGES or values.kind(scale) == kinds.DOUBLE:
        raise NotRewritten(f"quantisation to {name}")
    whole = write("Round", parts)
    if zero:
        whole = write("Add", whole, _spread(node, 2, values, write))
    word = kinds.DataType.Value(WORDS.get(name, name))
    write.give(within(whole, RANGES[name], word, write))


def dequantize(node: Any, values: Values, write: Writer) -> None:
    """DequantizeLinear of each type, with scales as those of :func:`quantize`."""
    import onnx

    x, scale = node.input[:2]
    kinds = onnx.TensorProto
    if values.kind(scale) == kinds.DOUBLE:
        raise NotRewritten("scales of float64")
    numbers = write("Cast", number_of(x, values, write), to=kinds.FLOAT)
    if given(node, 2):
        numbers = write("Sub", numbers, _spread(node, 2, values, write))
    product = write("Mul", numbers, _spread(node, 1, values, write))
    kind = Attributes(node)("output_dtype", 0) or values.kind(scale)
    write.give(write("Cast", product, to=kind))


def _spread(node: Any, place: int, values: Values, write: Writer) -> str:
    """Scales or zero points of a node, in float32 and of a shape that its first input takes."""
    import onnx

    said, name = Attributes(node), node.input[place]
    numbers = write("Cast", number_of(name, values, write), to=onnx.TensorProto.FLOAT)
    rank, own = values.rank(node.input[0]), values.rank(name)
    axis, block = said("axis", 1) % max(rank, 1), said("block_size", 0)
    if own == 1 and rank > 1 and not block:
        extents = [-1 if one == axis else 1 for one in range(rank)]
        return write("Reshape", numbers, write.constant(extents, "i8"))
    if not block:
        return numbers
    extents = list(values.shape(name))
    wide = [*extents[: axis + 1], block, *extents[axis + 1 :]]
    numbers = write("Unsqueeze", numbers, write.constant([axis + 1], "i8"))
    numbers = write("Expand", numbers, write.constant(wide, "i8"))
    extents[axis] *= block
    numbers = write("Reshape", numbers, write.constant(extents, "i8"))
    length = values.shape(node.input[0])[axis]
    return write("Slice", numbers, *(write.constant([one], "i8") for one in (0, length, axis)))


def rewrite_qlinear_matmul(node: Any, values: Values, write: Writer) -> None:
    """The product less both zero points, scaled, rounded to the nearest, and bounded."""
    import onnx

    kinds = onnx.TensorProto
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input

    def of_rows(name: str, kind: int) -> str:
        """A number for all, or one for each row, which then stand in a column."""
        cast = write("Cast", name, to=kind)
        is_line = values.rank(name) == 1
        return write("Unsqueeze", cast, write.constant([-1], "i8")) if is_line else cast

    left = write("Sub", write("Cast", a, to=kinds.INT32), of_rows(a_zero, kinds.INT32))
    right = (write("Cast", one, to=kinds.INT32) for one in (b, b_zero))
    product = write("Cast", write("MatMul", left, write("Sub", *right)), to=kinds.FLOAT)
    scale = write("Mul", of_rows(a_scale, kinds.FLOAT), write("Cast", b_scale, to=kinds.FLOAT))
    scale = write("Div", scale, of_rows(y_scale, kinds.FLOAT))
    found = write("Add", write("Mul", product, scale), of_rows(y_zero, kinds.FLOAT))
    write.give(rounded(found, values.kind(y_zero), write))


def rewrite_conv_integer(node: Any, values: Values, write: Writer) -> None:
    """A convolution of float64, in which sums of products of 8 bits are exact."""
    import onnx

    kinds = onnx.TensorProto
    x, weights = node.input[:2]

    def less(name: str, zero: str, shape: list[int]) -> str:
        wide = write("Cast", name, to=kinds.INT32)
        if zero:
            number = write("Cast", zero, to=kinds.INT32)
            number = write("Reshape", number, write.constant(shape, "i8"))
            wide = write("Sub", wide, number)
        return write("Cast", wide, to=kinds.DOUBLE)

    ones = [1] * (values.rank(x) - 1)
    operands = less(x, given(node, 2), [1, *ones]), less(weights, given(node, 3), [-1, *ones])
    write.give(write("Cast", write("Conv", *operands, **Attributes(node).all()), to=kinds.INT32))
