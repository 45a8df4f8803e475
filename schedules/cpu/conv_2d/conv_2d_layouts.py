"""How images and filters lie best, for whoever may choose.

Vectors hold filters where channels are last, and pixels where they are first.  Measured on Zen 4,
one thread, float32, moves of image and result counted (microseconds first, last):

    64 -> 64 at 56x56, 3x3           2125   2163       depthwise 32 at 112x112        296   168
    512 -> 512 at 7x7, 3x3           5267   2364       depthwise 960 at 7x7            88    42
    64 -> 128 at 56x56, stride 2     1440   1091       128 in 32 groups at 28x28      148   230
    8 -> 8 at 64x64, 5x5              167    156       1 -> 1 at 256x256               65   150
"""

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import product_dtype
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_rule import CpuConv2d, is_depthwise
from tvm_iree_ext.targets.cpu import cpu_features


def prefers_channels_last(op: Conv2d, target: Target) -> bool:
    """Whether a convolution is faster so: half a vector of filters in a group, or depthwise."""
    if op.groups > 1 and op.group_channels == 1:
        return True
    lanes = cpu_features(target).lanes(item_bytes(product_dtype(op)) * 8)
    return 2 * op.group_filters >= lanes


def constant_panels(op: Conv2d, target: Target) -> int | None:
    """The columns of a panel of a filter that never changes; None where it stays as it is.

    Those of the register tile: whole panels of every group, in the type of products.
    """
    is_packed = op.channels_last and op.algorithm == "im2col" and not is_depthwise(op)
    if not is_packed or op.filter_panels is not None or op.dtype != product_dtype(op):
        return None
    width = CpuConv2d().usual(op, target).tile.width
    return width if op.group_filters and op.group_filters % width == 0 else None
