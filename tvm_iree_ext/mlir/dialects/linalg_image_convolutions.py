"""Convolutions of images by the registry's op: its operands, its padding, its result."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, AnyTensor, Value, plain
from tvm_iree_ext.mlir.dialects.linalg_contractions import PlainLoops
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, type_of
from tvm_iree_ext.mlir.dialects.tensor_dialect import reshaped
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op


def image_convolution(
    scope: Scope,
    tensors: tuple[AnyTensor, AnyTensor, AnyTensor],
    begins_with_zero: bool,
    groups: Any,
    **how: Any,
) -> tuple[Op, dict[str, Value]]:
    """The op of image, filter and what sums begin with, which lie as its layout has them."""
    seen, kernel, begun = tensors
    given: dict[str, Any] = {}
    if not begins_with_zero:
        given = {"operands": [type_of(scope, begun)], "epilogue": lambda sums, init: sums + init}
    try:
        made = ops.conv_2d(
            type_of(scope, seen),
            type_of(scope, kernel),
            groups=plain(groups),
            algorithm="im2col",  # Winograd's rounding is more than a program's own sums have
            result_dtype=begun.element.storage[0],
            **how,
            **given,
        )
    except OpError as error:
        raise PlainLoops(str(error)) from error
    return made, {"input": seen, "filter": kernel, "operand0": begun}


def called(
    scope: Scope, made: Op, operands: Mapping[str, Value], begun: AnyTensor, out: AnyTensor
) -> list[Value]:
    """The result of an op, by the shape of the convolution's."""
    pairs = zip(made.signature.results[0].shape, map(plain, begun.shape), strict=True)
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        raise PlainLoops("the image is larger than the result needs")
    (value,) = call_op(scope, made, operands, [begun])
    if not isinstance(value, TENSORS):
        raise Unsupported("a convolution without a tensor")
    return [reshaped(scope, value, out.shape)]


def before_padding(
    scope: Scope, image: AnyTensor, letters: str
) -> tuple[AnyTensor, str, dict[str, tuple[int, int]]]:
    """The image before it was padded, its axes, and their padding; itself where it was not."""
    spatial = [letter for letter in letters if letter in "dhw"]
    _, whole = scope.function.views.get(id(image), (image, image))
    padded = scope.function.padded.get(id(whole))
    if padded is not None:
        _, source, pads = padded
        axes = letters if len(pads) == len(letters) else letters.replace("g", "")
        by = dict(zip(axes, pads, strict=False))
        if len(axes) == len(pads) and all(by[one] == (0, 0) for one in axes if one not in spatial):
            return source, axes, {one: by[one] for one in spatial}
    return image, letters, dict.fromkeys(spatial, (0, 0))


def flat_numbers(op: form.ParsedOperation, name: str) -> Sequence[int]:
    """An attribute's numbers; 1 where there is none."""
    given = op.attributes.get(name)
    return [int(one) for one in given.values.reshape(-1)] if isinstance(given, form.Dense) else [1]
