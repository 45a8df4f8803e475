"""Images with more channels than they have: a pixel's are read at once, where that pays."""

from math import prod

from tvm import DataType
from tvm.target import Target

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import by_lanes
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.padded_operands import TILE, copy_us, saved_us
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import gpu_chip

_TYPICAL = 1 << 17  # pixels, where they are known at call time
_LEAST_US = 3.0  # of another kernel


def more_channels(op: Conv2d) -> int | None:
    """Channels of a pixel that are whole accesses; None where its own are, or it has no row."""
    if not op.channels_last or op.groups != 1:
        return None
    own, access = op.group_channels, 8 * WIDEST_ACCESS_BYTES // DataType(op.dtype).bits
    found = 1 << (own - 1).bit_length() if own < access else -(-own // access) * access
    return None if found == own else found


def channels_that_pay(op: Conv2d, shape: MatmulShape, target: Target) -> int | None:
    """Channels to which an image is copied in less time than that saves; None where it is not."""
    types = (shape.lhs_dtype, shape.rhs_dtype, shape.result_dtype)
    if (channels := more_channels(op)) is None or by_lanes(types, target):
        return None
    chip, bits, own = gpu_chip(target), DataType(op.dtype).bits, op.group_channels
    taps, pixels = prod(op.kernel), shape.m or _TYPICAL
    narrow, wide = vector_elements(bits, own), vector_elements(bits, channels)
    read = pixels * taps * (own / narrow - channels / wide)
    image = prod(extent for extent in op.image[:3] if isinstance(extent, int))
    moved = image * (own + channels) * bits / 8
    tiles = -(-pixels // TILE) * -(-op.group_filters // TILE)
    gain = saved_us(chip, read, op.group_filters, tiles) - copy_us(chip, moved)
    return channels if gain > _LEAST_US else None
