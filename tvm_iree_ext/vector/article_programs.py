"""Matrix product and convolution as structured ops on tensors: the two programs of the article.

>>> from tvm_iree_ext.vector import article_programs
>>> [op.name for op in article_programs.dot().walk() if op.name.startswith("linalg.")]
['linalg.fill', 'linalg.matmul', 'linalg.generic', 'linalg.yield']
"""

from collections.abc import Sequence

from tvm_iree_ext.vector.ir.vector_types import tensor
from tvm_iree_ext.vector.programs.builder import program
from tvm_iree_ext.vector.programs.vector_program import VectorProgram


def dot(m: int = 128, n: int = 64, k: int = 256, dtype: str = "f32") -> VectorProgram:
    """``c = a @ b;  d = c - sub``: a[m, k], b[k, n], sub[m, n]."""
    with program("dot") as b:
        lhs = b.argument("a", tensor((m, k), dtype))
        rhs = b.argument("b", tensor((k, n), dtype))
        sub = b.argument("sub", tensor((m, n), dtype))
        zero = b.fill(0, b.empty((m, n), dtype))
        c = b.matmul(lhs, rhs, zero)
        b.returns(d=b.generic([c, sub], [b.empty((m, n), dtype)], lambda x, y, _: x - y)[0])
    return b.program


def conv(
    image: Sequence[int] = (1, 224, 224, 3),
    features: int = 32,
    *,
    kernel: Sequence[int] = (3, 3),
    stride: int = 2,
    pad: Sequence[Sequence[int]] = ((0, 1), (0, 1)),
    dtype: str = "f32",
) -> VectorProgram:
    """``conv_2d(pad(image), filter) - sub``: image[n, h, w, c], filter[fh, fw, c, features].

    Args:
        image: extents of the image.
        features: channels of the result.
        kernel: height and width of the filter.
        stride: of both spatial dims.
        pad: low and high zeros of height and width.
        dtype: of the elements.
    """
    batch, *size, channels = image
    lows, highs = ([0, *(one[n] for one in pad), 0] for n in (0, 1))
    out = [
        (extent + sum(around) - window) // stride + 1
        for extent, around, window in zip(size, pad, kernel, strict=True)
    ]
    shape = (batch, *out, features)
    with program("conv") as b:
        source = b.argument("image", tensor(image, dtype))
        filter = b.argument("filter", tensor((*kernel, channels, features), dtype))
        sub = b.argument("sub", tensor(shape, dtype))
        padded = b.pad(source, lows, highs)
        zero = b.fill(0, b.empty(shape, dtype))
        c = b.conv_2d(padded, filter, zero, strides=(stride, stride))
        b.returns(d=b.generic([c, sub], [b.empty(shape, dtype)], lambda x, y, _: x - y)[0])
    return b.program
