"""What is fastest, im2col or Winograd: the one of fewer vector instructions, about.

    im2col:       a multiply-add for each product of the direct form, and a copy of each window
    winograd, r:  for tiles of i x i, i = r + 2, one for each of i * i * C * F a tile, and about
                  6 for each element that the transforms of image and result make, and 10 for
                  each of the filter's, which is written to memory

r is 2 or 4: 6 saves little more, wastes more at borders, and is taken only when it is asked for.
"""

from collections.abc import Sequence

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d

# What an extent that is known at call time counts as.
_TYPICAL = 64

_TRANSFORM = 6
_FILTER_TRANSFORM = 10

# A filter whose transform takes more is left as it is.
_LARGEST_FILTER_BYTES = 64 << 20


def choose_algorithm(op: Conv2d, sizes: Sequence[int], *, forced: bool) -> int | None:
    """The output tile size, out of ``sizes``, of the Winograd form; None: im2col, if not forced."""
    costs = {r: winograd_cost(op, r) for r in sizes}
    best = min(costs, key=lambda r: costs[r])
    if forced:
        return best
    size = (best + 2) ** 2 * op.group_channels * op.filters * item_bytes(op.compute_dtype)
    return best if costs[best] < im2col_cost(op) and size <= _LARGEST_FILTER_BYTES else None


def im2col_cost(op: Conv2d) -> int:
    """Multiply-adds and copies of the form by im2col."""
    n, rows, columns, filters = (_typical(extent) for extent in op.output)
    return n * rows * columns * op.depth * (filters + op.groups)


def winograd_cost(op: Conv2d, r: int) -> int:
    """Multiply-adds and other operations of the form by Winograd."""
    n, rows, columns, filters = (_typical(extent) for extent in op.output)
    tiles = n * -(-rows // r) * -(-columns // r)
    products = op.group_channels * filters
    transforms = _TRANSFORM * (op.image[3] + filters)
    return (r + 2) ** 2 * (tiles * (products + transforms) + _FILTER_TRANSFORM * products)


def _typical(extent: Extent) -> int:
    return extent if isinstance(extent, int) else _TYPICAL
