"""Convolutions of ``linalg`` by the registry's op, the padding before them included.

Of one to three dimensions, in groups or not, with whatever their sums begin with.  A letter stands
for each axis: images ``n``, planes ``d``, rows ``h`` and columns ``w``, groups ``g``, a group's
channels ``c`` and its filters ``f``.
"""

from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.mlir.base.ir_values import AnyTensor, Value, is_zero, plain
from tvm_iree_ext.mlir.dialects.linalg_contractions import (
    PlainLoops,
    as_factor,
    check_types,
    product,
)
from tvm_iree_ext.mlir.dialects.linalg_generic import generic
from tvm_iree_ext.mlir.dialects.linalg_image_convolutions import (
    before_padding,
    called,
    flat_numbers,
    image_convolution,
)
from tvm_iree_ext.mlir.dialects.linalg_transposed_convolutions import (
    SpreadAxis,
    transposed_convolution,
)
from tvm_iree_ext.mlir.dialects.linalg_volume_convolutions import volume_convolution
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
    "linalg.conv_3d_ncdhw_fcdhw": ("ncdhw", "fcdhw", "nfdhw"),
    "linalg.conv_3d_ndhwc_dhwcf": ("ndhwc", "dhwcf", "ndhwf"),
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
    image, taps = as_factor(scope, image), as_factor(scope, taps)
    if any(not isinstance(plain(one), int) for one in taps.shape):
        raise PlainLoops("the filter's extents are known in a call only")
    letters = _FORMS[op.name]
    if "d" in letters[0]:
        steps = [flat_numbers(op, name) for name in ("strides", "dilations")]
        return volume_convolution(scope, op.name, letters, (image, taps, out), *steps)
    layout: Layout = "NCHW" if letters[0].endswith("w") else "NHWC"
    orders = _ORDERS[layout]
    source, axes, pads = before_padding(scope, image, letters[0])
    padding = pads.get("h", (0, 0)), pads["w"]
    seen = _arranged(scope, source, axes, orders[0])
    kernel = _arranged(scope, _in_order(scope, op, taps, letters[1], orders[1]), *_same(orders[1]))
    begun = _arranged(scope, out, letters[2], orders[2])
    groups = dict(zip(letters[0], image.shape, strict=True)).get("g", 1)
    strides, dilations = _numbers(op, "strides"), _numbers(op, "dilations")
    if strides == dilations == (1, 1):
        transposed = _transposed(scope, image, (kernel, begun), letters[0], layout)
        if transposed is not None:
            return [reshaped(scope, transposed, out.shape)]
    single = [plain(taps.shape[letters[1].index(one)]) for one in letters[1] if one in "hw"]
    if (
        groups == 1
        and strides == (1, 1)
        and single == [1] * len(single)
        and padding == ((0, 0), (0, 0))
    ):
        matrices, factors = _pointwise(scope, (seen, kernel, begun), orders, is_zero(out))
        return called(scope, matrices, factors, begun, out)
    how = {"layout": layout, "strides": strides, "dilations": dilations, "padding": padding}
    made, operands = image_convolution(scope, (seen, kernel, begun), is_zero(out), groups, **how)
    return called(scope, made, operands, begun, out)


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
    flat = flat_numbers(op, name)
    rank = len(_FORMS[op.name][0].replace("n", "").replace("g", "").replace("c", ""))
    return (1, flat[0]) if rank == 1 else (flat[0], flat[-1])


CONVOLUTIONS = dict.fromkeys(_FORMS, convolution)
