"""ONNX's products of quantised numbers by those of int32, which are exact."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.frontends.onnx_rewriting import Values, Writer, given, rounded


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
    said = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    operands = less(x, given(node, 2), [1, *ones]), less(weights, given(node, 3), [-1, *ones])
    write.give(write("Cast", write("Conv", *operands, **said), to=kinds.INT32))
