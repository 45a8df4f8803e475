"""Convolutions of ``linalg`` by the registry's op, the padding before them included.

Of one or two dimensions, in groups or not, with whatever their sums begin with.  A letter stands
for each axis: images ``n``, rows ``h`` and columns ``w``, groups ``g``, a group's channels ``c``
and its filters ``f``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import TENSORS, AnyTensor, Value, is_zero, plain
from tvm_iree_ext.mlir.dialects.linalg_contractions import PlainLoops, check_types, product
from tvm_iree_ext.mlir.dialects.linalg_generic import generic
from tvm_iree_ext.mlir.dialects.linalg_transposed_convolutions import (
    SpreadAxis,
    transposed_convolution,
)
from tvm_iree_ext.mlir.dialects.registry_calls import call_op, type_of
from tvm_iree_ext.mlir.dialects.tensor_dialect import moved, reshaped
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Layout

_FORMS = {
    "linalg.conv_1d_ncw_fcw": ("ncw", "fcw", "nfw"),
    "linalg.conv_1d_nwc_wcf": ("nwc", "wcf", "nwf"),
    "linalg.conv_2d_nchw_fchw": ("nchw", "fchw", "nfhw"),
    "linalg.conv_2d_ngchw_fgchw": ("ngchw", "fgchw", "ngfhw"),
    "linalg.conv_2d_ngchw_gfchw": ("ngchw", "gfchw", "ngfhw"),
    "linalg.conv_2d_nhwc_fhwc": ("nhwc", "fhwc", "nhwf"),
    "linalg.conv_2d_nhwc_hwcf": ("nhwc", "hwcf", "nhwf"),
    "linalg.conv_2d_nhwgc_gfhwc": ("nhwgc", "gfhwc", "nhwgf"),
    "linalg.depthwise_conv_1d_ncw_cw": ("ngw", "gw", "ngw"),
    "linalg.depthwise_conv_1d_nwc_wc": ("nwg", "wg", "nwg"),
    "linalg.depthwise_conv_1d_nwc_wcm": ("nwg", "wgf", "nwgf"),
    "linalg.depthwise_conv_2d_nchw_chw": ("nghw", "ghw", "nghw"),
    "linalg.depthwise_conv_2d_nhwc_hwc": ("nhwg", "hwg", "nhwg"),
    "linalg.depthwise_conv_2d_nhwc_hwcm": ("nhwg", "hwgf", "nhwgf"),
}
"""The axes of image, filter and result."""

_ORDERS: Mapping[Layout, tuple[str, str, str]] = {
    "NHWC": ("n h w gc", "h w c gf", "n h w gf"),
    "NCHW": ("n gc h w", "gf c h w", "n gf h w"),
}
"""The same of the registry's op, whose axes are of one letter or of two."""


def convolution(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """A convolution by the registry's op; or as plain loops."""
    image, taps, out = (scope.any_tensor(one) for one in op.operands)
    try:
        return _registry_convolution(scope, op, image, taps, out)
    except PlainLoops as why:
        scope.program.fell_back(str(why))
        return generic(scope, op)


def _registry_convolution(
    scope: Scope, op: form.ParsedOperation, image: AnyTensor, taps: AnyTensor, out: AnyTensor
) -> list[Value]:
    if image.element != taps.element:
        kinds = f"{image.element.name} and {taps.element.name}"
        raise PlainLoops(f"image and filter are {kinds}; expected one type")
    check_types((image, taps), out)
    if any(not isinstance(plain(one), int) for one in taps.shape):
        raise PlainLoops("the filter's extents are known in a call only")
    letters = _FORMS[op.name]
    layout: Layout = "NCHW" if letters[0].endswith("w") else "NHWC"
    orders = _ORDERS[layout]
    source, axes, padding = _with_padding(scope, image, letters[0])
    seen = _arranged(scope, source, axes, orders[0])
    kernel = _arranged(scope, _in_order(scope, op, taps, letters[1], orders[1]), *_same(orders[1]))
    begun = _arranged(scope, out, letters[2], orders[2])
    groups = dict(zip(letters[0], image.shape, strict=True)).get("g", 1)
    strides, dilations = _numbers(op, "strides"), _numbers(op, "dilations")
    if strides == dilations == (1, 1):
        transposed = _transposed(scope, image, (kernel, begun), letters[0], layout)
        if transposed is not None:
            return [reshaped(scope, transposed, out.shape)]
    pads = [one for pair in padding for one in pair]
    single = [plain(taps.shape[letters[1].index(one)]) for one in letters[1] if one in "hw"]
    if groups == 1 and strides == (1, 1) and single == [1] * len(single) and not any(pads):
        matrices, factors = _pointwise(scope, (seen, kernel, begun), orders, is_zero(out))
        return _called(scope, matrices, factors, begun, out)
    given: dict[str, Any] = {}
    if not is_zero(out):
        given = {"operands": [type_of(scope, begun)], "epilogue": lambda sums, init: sums + init}
    try:
        made = ops.conv_2d(
            type_of(scope, seen),
            type_of(scope, kernel),
            layout=layout,
            strides=strides,
            dilations=dilations,
            padding=padding,
            groups=plain(groups),
            algorithm="im2col",  # Winograd's rounding is more than a program's own sums have
            result_dtype=out.element.storage[0],
            **given,
        )
    except OpError as error:
        raise PlainLoops(str(error)) from error
    operands: dict[str, Value] = {"input": seen, "filter": kernel, "operand0": begun}
    return _called(scope, made, operands, begun, out)


def _called(
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


def _pointwise(
    scope: Scope,
    tensors: tuple[AnyTensor, AnyTensor, AnyTensor],
    orders: tuple[str, str, str],
    begins_with_zero: bool,
) -> tuple[Op, dict[str, Value]]:
    """A filter of one place as a product of matrices, whose kernels are faster; its operands.

    From 13 to 50 % in six shapes of ResNet-50 and MobileNetV2 (float32, one thread of Zen 4).
    """
    image, kernel, begun = tensors
    of_image, of_kernel, of_result = (one.replace("gc", "c").replace("gf", "f") for one in orders)
    letters = of_kernel.replace(" ", "")
    of_kernel = of_kernel.replace(" h w", "").removeprefix("h w ")
    matrix = _arranged(scope, kernel, letters, of_kernel)
    named = {"image": (image, of_image), "filter": (matrix, of_kernel)}
    # The factor that has the last axis of the result is read in vectors, as rhs.
    first, second = ("filter", "image") if of_image.endswith("w") else ("image", "filter")
    dims = ", ".join("nfhwc")
    maps = [
        f"({dims}) -> ({', '.join(axes.split())})"
        for axes in (named[first][1], named[second][1], of_result)
    ]
    (lhs, _), (rhs, _) = named[first], named[second]
    made = product(scope, (lhs, rhs), maps, begun, begins_with_zero)
    return made, {"lhs": lhs, "rhs": rhs, "init": begun}


def _arranged(scope: Scope, value: AnyTensor, letters: str, order: str) -> AnyTensor:
    """A tensor with the axes of an order: those of two letters joined, one for each that lacks."""
    extents = dict(zip(letters, value.shape, strict=True))
    shape: list[Any] = []
    for axis in order.split():
        extent: Any = 1
        for letter in axis:
            if letter in extents:
                extent = extents[letter] if extent == 1 else extent * extents[letter]
        shape.append(scope.simple(extent))
    return reshaped(scope, value, tuple(shape))


def _same(order: str) -> tuple[str, str]:
    return order.replace(" ", ""), order


def _in_order(
    scope: Scope, op: form.ParsedOperation, taps: AnyTensor, letters: str, order: str
) -> AnyTensor:
    """A filter with every axis of an order, moved where it has them in another."""
    wanted = order.replace(" ", "")
    places = [letters.index(letter) for letter in wanted if letter in letters]
    if places != sorted(places):
        source = taps
        taps = moved(
            scope,
            op.name,
            [source],
            tuple(source.shape[place] for place in places),
            source.element,
            lambda kernel, at: kernel.copied(
                source, [at[places.index(axis)] for axis in range(len(places))]
            ),
        )
    extents = dict(zip(sorted(letters, key=wanted.index), taps.shape, strict=True))
    return reshaped(scope, taps, tuple(extents.get(letter, 1) for letter in wanted))


def _with_padding(
    scope: Scope, image: AnyTensor, letters: str
) -> tuple[AnyTensor, str, tuple[Sequence[int], Sequence[int]]]:
    """The image before it was padded, its axes, and its padding; itself where it was not."""
    _, whole = scope.function.views.get(id(image), (image, image))
    padded = scope.function.padded.get(id(whole))
    if padded is not None:
        _, source, pads = padded
        axes = letters if len(pads) == len(letters) else letters.replace("g", "")
        by = dict(zip(axes, pads, strict=False))
        if len(axes) == len(pads) and all(by[one] == (0, 0) for one in axes if one not in "hw"):
            return source, axes, (by.get("h", (0, 0)), by["w"])
    return image, letters, ((0, 0), (0, 0))


def _transposed(
    scope: Scope,
    image: AnyTensor,
    others: tuple[AnyTensor, AnyTensor],
    letters: str,
    layout: Layout,
) -> AnyTensor | None:
    """The result where the image lies in zeros with strides, by the image alone; else None."""
    spread = scope.function.spread.get(id(image))
    if spread is None or "g" in letters:
        return None
    _, source, places = spread
    where = dict(zip(letters, places, strict=True))
    if where["n"] != (0, 1) or where["c"] != (0, 1) or all(one[1] == 1 for one in places):
        return None
    seen = _arranged(scope, source, letters, _ORDERS[layout][0])
    first = 1 if layout == "NHWC" else 2
    taps_first = 0 if layout == "NHWC" else 2
    axes = []
    for number, letter in enumerate("hw"):
        extents = (
            seen.shape[first + number],
            others[0].shape[taps_first + number],
            others[1].shape[first + number],
        )
        if not all(isinstance(plain(one), int) for one in extents):
            return None
        axes.append(SpreadAxis(*(int(plain(e)) for e in extents), *where.get(letter, (0, 1))))
    return transposed_convolution(scope, layout, (seen, *others), *axes)


def _numbers(op: form.ParsedOperation, name: str) -> tuple[int, int]:
    """An attribute for rows and columns; that of a convolution of one dimension is for columns."""
    given = op.attributes.get(name)
    flat = [int(one) for one in given.values.reshape(-1)] if isinstance(given, form.Dense) else [1]
    rank = len(_FORMS[op.name][0].replace("n", "").replace("g", "").replace("c", ""))
    return (1, flat[0]) if rank == 1 else (flat[0], flat[-1])


CONVOLUTIONS = dict.fromkeys(_FORMS, convolution)
