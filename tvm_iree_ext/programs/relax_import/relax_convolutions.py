"""Convolutions of Relax as the registry's op.

    1-D    images of one row
    2-D    as they are
    3-D    images whose channels are those of all planes of a window

What the op does not take, such as layouts by blocks of channels, has TVM's loops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, relax, te, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.relax_import.relax_ops import (
    Lower,
    OpCalls,
    by_default,
    operand_types,
    shaped,
)

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Window:
    """How a convolution goes along its spatial axes."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: Pads
    groups: int

    @staticmethod
    def of(call: relax.Call) -> "Window":
        """That of a call."""
        held = call.attrs
        strides, dilations, padding = (
            tuple(map(int, one)) for one in (held.strides, held.dilation, held.padding)
        )
        count = len(padding) // 2
        sides = tuple(zip(padding[:count], padding[count:], strict=True))
        return Window(strides, dilations, sides, int(held.groups))

    def image(self) -> "Window":
        """The same along rows and columns: a single row without, and none of the planes."""
        if len(self.strides) == 1:
            return Window((1, *self.strides), (1, *self.dilations), ((0, 0), *self.padding),
                          self.groups)  # fmt: skip
        return Window(self.strides[-2:], self.dilations[-2:], self.padding[-2:], self.groups)


class Convolutions:
    """What ``LegalizeOps`` makes of convolutions, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {
            "relax.nn.conv1d": self._convolution,
            "relax.nn.conv2d": self._convolution,
            "relax.nn.conv3d": self._convolution,
        }

    def _convolution(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        held = call.attrs
        layout, taps = str(held.data_layout), str(held.kernel_layout)
        rank = len(call.args[0].ty.shape.values)
        if str(held.out_layout) not in ("", layout) or len(layout) != rank or len(taps) != rank:
            return by_default(builder, call)
        try:
            return _Lowering(builder, call, self._calls).of(layout, taps)
        except OpError:
            return by_default(builder, call)


class _Lowering:
    """A convolution while it is lowered."""

    def __init__(self, builder: relax.BlockBuilder, call: relax.Call, calls: OpCalls) -> None:
        self._builder, self._call, self._calls = builder, call, calls
        self._window = Window.of(call)

    def of(self, layout: str, taps: str) -> ir.Expr:
        """The result; OpError where the registry's op does not take it."""
        image, kernel = self._call.args
        if len(layout) == 5:
            return self._volume(image, layout, kernel, taps)
        wanted, ordered = ("NHWC", "HWIO") if layout[-1] == "C" else ("NCHW", "OIHW")
        if len(layout) == 3:
            at = wanted.index("H")
            image = self._with_axis(image, at)
            kernel = self._with_axis(self._ordered(kernel, taps, ordered.replace("H", "")),
                                     ordered.index("H"))  # fmt: skip
        else:
            kernel = self._ordered(kernel, taps, ordered)
        made = self._image(image, kernel, wanted)
        return self._shaped(made, self._call.ty.shape.values)

    def _image(self, image: Any, kernel: Any, layout: Any) -> Any:
        op = image_convolution(
            image.ty, kernel.ty, layout, self._window.image(), str(self._call.ty.dtype)
        )
        extents = list(self._call.ty.shape.values)
        if len(extents) == 3:
            extents.insert(layout.index("H"), tirx.const(1, "int64"))
        kind = relax.TensorType(extents, str(self._call.ty.dtype))
        return self._calls(self._builder, op, [image, kernel], [kind])[0]

    def _volume(self, volume: Any, layout: str, kernel: Any, taps: str) -> Any:
        """By images whose channels are those of a window's planes."""
        window = self._window
        if window.groups != 1:
            raise OpError("relax.nn.conv3d: groups of volumes have plain loops")
        kernel = self._ordered(kernel, taps, "HWDIO")
        height, width, depth, channels, filters = kernel.ty.shape.values
        result = dict(zip(layout, self._call.ty.shape.values, strict=True))
        extents = dict(zip(layout, volume.ty.shape.values, strict=True))
        stride, dilation, (before, _) = window.strides[0], window.dilations[0], window.padding[0]

        def windows(of: te.Tensor) -> te.Tensor:
            def part(n: Any, o: Any, y: Any, x: Any, d: Any, c: Any) -> Any:
                plane = o * stride + d * dilation - before
                by = {"N": n, "D": plane, "H": y, "W": x, "C": c}
                inside = tirx.all(plane >= 0, plane < extents["D"])
                value = of(*(by[one] for one in layout))
                return tirx.if_then_else(inside, value, tirx.const(0, of.dtype))

            shape = [result["N"], result["D"], extents["H"], extents["W"], depth, channels]
            return te.compute(shape, part, name="windows")

        images = self._builder.emit_te(windows, volume)
        planes = [result["N"] * result["D"], extents["H"], extents["W"], depth * channels]
        images = self._shaped(images, planes)
        kernel = self._shaped(kernel, [height, width, depth * channels, filters])
        op = image_convolution(
            images.ty, kernel.ty, "NHWC", window.image(), str(self._call.ty.dtype)
        )
        kind = relax.TensorType(
            [planes[0], result["H"], result["W"], filters], str(self._call.ty.dtype)
        )
        (made,) = self._calls(self._builder, op, [images, kernel], [kind])
        made = self._shaped(made, [result[one] for one in "NDHWC"])
        return self._ordered(made, "NDHWC", layout)

    def _with_axis(self, value: Any, at: int) -> Any:
        """A tensor with an axis of extent 1 more."""
        shape = list(value.ty.shape.values)
        return self._shaped(value, [*shape[:at], tirx.const(1, "int64"), *shape[at:]])

    def _ordered(self, value: Any, axes: str, order: str) -> Any:
        """A tensor with its axes in another order."""
        return ordered_axes(self._builder, value, axes, order)

    def _shaped(self, value: Any, shape: Sequence[Any]) -> Any:
        return shaped(self._builder, value, shape)


def ordered_axes(builder: relax.BlockBuilder, value: Any, axes: str, order: str) -> Any:
    """A tensor whose axes have letters, with them in another order.

    Raises:
        OpError: where the letters are not the same.
    """
    if sorted(axes) != sorted(order):
        raise OpError(f"a convolution's operand has axes {axes}; expected those of {order}")
    if axes == order:
        return value
    return builder.emit(relax.op.permute_dims(value, [axes.index(one) for one in order]))


def image_convolution(
    image: relax.TensorType, kernel: relax.TensorType, layout: Any, window: Window, dtype: str
) -> Op:
    """The registry's op for images and filters of these types.

    Raises:
        OpError: where it does not take them.
    """
    seen, taps = operand_types([image, kernel])
    (top, bottom), (left, right) = window.padding
    return ops.conv_2d(
        seen,
        taps,
        layout=layout,
        strides=(window.strides[0], window.strides[1]),
        dilations=(window.dilations[0], window.dilations[1]),
        padding=((top, bottom), (left, right)),
        groups=window.groups,
        algorithm="im2col",  # Winograd's rounding is more than a program's own sums have
        result_dtype=dtype,
    )
