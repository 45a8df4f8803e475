"""Convolutions by warpgroups, where a chip has them: NHWC, one group."""

from math import prod

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_operands import ConvOperands
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.warpgroup_kernel import warpgroup_matmul
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import warpgroup_numbers
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows, fitting_box

_ROWS = 64  # of an instruction


def conv_windows(op: Conv2d) -> ConvWindows | None:
    """The windows as boxes of the image; None where they are no boxes, or extents are not known.

    Where each pixel is a window the images are one row of pixels.
    """
    batch, *image = op.image
    output = op.output[1:3]
    known = all(isinstance(extent, int) for extent in (*image, *output))
    if not op.channels_last or op.groups != 1 or not known:
        return None
    count = batch if isinstance(batch, int) else None
    padding = tuple(before for before, _ in op.padding)
    plane = prod(int(extent) for extent in output)
    padded = any(pad for pads in op.padding for pad in pads)
    pointwise = prod(op.kernel) == 1 and op.strides == (1, 1) and not padded
    if pointwise and count is not None:
        row = (1, 1, count * plane, int(image[2]))
        return ConvWindows(row, (1, count * plane), (1, 1), (1, 1), (0, 0), (1, 1, _ROWS))
    high, wide, channels = map(int, image)
    places = tuple(map(int, output))
    box = fitting_box(count, places, _ROWS)
    image_shape = (count, high, wide, channels)
    return ConvWindows(image_shape, places, op.kernel, op.dilations, padding, box, op.strides)


def lower_by_warpgroups(
    op: Conv2d, shape: MatmulShape, operands: ConvOperands, target: Target, check: ConfigCheck
) -> tirx.PrimFunc:
    """The func of the op.

    Raises:
        ScheduleError: where the windows are no boxes, or the numbers do not fit.
    """
    windows = conv_windows(op)
    check.need(
        windows is not None,
        "warpgroups take images in NHWC of known rows and columns, and one group",
    )
    small = operands.index_dtype == "int32" or isinstance(op.image[0], str)
    check.need(small, "warpgroups take arrays of less than 2**31 elements")
    return warpgroup_matmul(shape, target, warpgroup_numbers(check), operands, windows)
