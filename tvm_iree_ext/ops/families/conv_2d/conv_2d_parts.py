"""What a convolution is composed of: im2col, and the Winograd transforms, as ops of their own."""

from typing import TYPE_CHECKING, Any

from tvm_iree_ext.ops.families.im2col import Im2col, im2col
from tvm_iree_ext.ops.families.winograd.winograd import (
    Winograd,
    winograd_filter_transform,
    winograd_input_transform,
    winograd_output_transform,
)

if TYPE_CHECKING:
    from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d


def columns_of(op: "Conv2d") -> Im2col:
    """The matrix of the image's windows, of which each group's filter is a factor.

    Of the image with its padding; groups are one more batch dim, beside the channels.
    """
    n, *sizes = op.image[:3]
    rows, columns = (
        extent + sum(pads) if isinstance(extent, int) else "?"
        for extent, pads in zip(sizes, op.padding, strict=True)
    )
    groups = () if op.groups == 1 else (op.groups,)
    channels = (*groups, op.group_channels)
    last = op.channels_last
    shape = (n, rows, columns, *channels) if last else (n, *channels, rows, columns)
    first = 3 if last else 1  # of the dims of groups and channels
    return im2col(
        shape,
        kernel_size=op.kernel,
        strides=op.strides,
        dilations=op.dilations,
        batch_pos=(0, *range(first, first + len(groups))),
        m_pos=(1, 2) if last else (1 + len(channels), 2 + len(channels)),
        k_pos=(first + len(groups),),
        dtype=op.dtype,
    )


def windows_of(op: "Conv2d", rows: Any, columns: Any) -> tuple[Any, Any]:
    """The rows and columns of the result, for the values of the image's."""
    by_dim = dict(zip(op.columns.m_pos, zip((rows, columns), op.padding, strict=True), strict=True))
    extents: list[Any] = [1] * len(op.columns.input.shape)
    for dim, (extent, pads) in by_dim.items():
        extents[dim] = extent + sum(pads)
    high, wide = op.columns.windows(extents)
    return high, wide


def transforms_of(op: "Conv2d") -> dict[str, Winograd]:
    """The transforms by kind, of images of the same layout; none without a tile size."""
    r = op.output_tile_size
    if r is None:
        return {}
    i = r + op.kernel[0] - 1
    last = op.channels_last
    image = (1, 2) if last else (2, 3)
    _, taps, *_ = op.signature.operands
    return {
        "input": winograd_input_transform(
            op.in_layout(("?", "?", "?", op.image[3])),
            output_tile_size=r,
            image_dimensions=image,
            dtype=op.dtype,
        ),
        "filter": winograd_filter_transform(
            taps.shape,
            output_tile_size=r,
            kernel_dimensions=(0, 1) if last else (2, 3),
            dtype=op.dtype,
        ),
        "output": winograd_output_transform(
            (i, i, "?", "?", "?", op.filters),
            output_tile_size=r,
            image_dimensions=image,
            dtype=op.compute_dtype,
        ),
    }
