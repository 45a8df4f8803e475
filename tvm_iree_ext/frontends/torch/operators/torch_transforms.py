"""PyTorch's Fourier transforms, by the one that IREE's front end takes.

That is ``rfft`` of known extents: of real numbers, whose second half is the first one's mirror,
conjugated.  A complex line is two real ones.  Of extents that a call tells, the transform of the
rows of 1 is the matrix to multiply by.
"""

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError

aten = torch.ops.aten
Pair = tuple[Any, Any]
_REAL_LINE = aten.fft_rfft.default  # what IREE takes


def is_foreign(node: Any) -> bool:
    """Whether a node is a transform that PyTorch makes of the three, or has open extents."""
    if node.target is not _REAL_LINE:
        return str(node.target).startswith("aten.fft_")
    return not all(isinstance(one, int) for one in node.args[0].meta["val"].shape)


def _half(x: Any) -> Pair:
    """The first half of the transform of real numbers along the last axis."""
    length = x.shape[-1]
    if not isinstance(length, int):
        raise MlirError("fft: along an axis whose extent a call tells; a number is supported")
    if all(isinstance(one, int) for one in x.shape):
        found = torch.fft.rfft(x)
        return found.real, found.imag
    matrix = torch.fft.rfft(torch.eye(length, dtype=x.dtype))
    return torch.matmul(x, matrix.real), torch.matmul(x, matrix.imag)


def _mirrored(half: Pair, length: int) -> Pair:
    """All of a transform, by its half; along the last axis."""
    count = (length - 1) // 2
    real, imag = half
    return (
        torch.cat((real, real.narrow(-1, 1, count).flip(-1)), -1),
        torch.cat((imag, -imag.narrow(-1, 1, count).flip(-1)), -1),
    )


def _line(real: Any, imag: Any, dim: int, sign: int) -> Pair:
    """The transform along a dim; ``sign`` is that of the exponent."""
    real, imag = (one.movedim(dim, -1) for one in (real, imag))
    length = real.shape[-1]
    (a, b), (c, d) = (_mirrored(_half(one), length) for one in (real, imag))
    pair = (a - d, b + c) if sign < 0 else (a + d, c - b)
    return pair[0].movedim(-1, dim), pair[1].movedim(-1, dim)


def _scaled(pair: Pair, lengths: Sequence[int], normalization: int) -> Pair:
    count = prod(lengths)
    factor = (1.0, 1 / sqrt(count), 1 / count)[normalization]
    return pair if normalization == 0 else (pair[0] * factor, pair[1] * factor)


def complex_to_complex(x: Any, dims: Sequence[int], normalization: int, forward: bool) -> Any:
    """``_fft_c2c``."""
    pair = x.real, x.imag
    for dim in dims:
        pair = _line(*pair, dim, -1 if forward else 1)
    return torch.complex(*_scaled(pair, [x.shape[dim] for dim in dims], normalization))


def real_to_complex(x: Any, dims: Sequence[int], normalization: int, onesided: bool) -> Any:
    """``_fft_r2c``."""
    *others, last = dims
    pair = _half(x.movedim(last, -1))
    if not onesided:
        pair = _mirrored(pair, x.shape[last])
    pair = pair[0].movedim(-1, last), pair[1].movedim(-1, last)
    for dim in others:
        pair = _line(*pair, dim, -1)
    return torch.complex(*_scaled(pair, [x.shape[dim] for dim in dims], normalization))


def complex_to_real(x: Any, dims: Sequence[int], normalization: int, length: int) -> Any:
    """``_fft_c2r``: what lies behind the half is its mirror, conjugated."""
    *others, last = dims
    pair = x.real, x.imag
    for dim in others:
        pair = _line(*pair, dim, 1)
    half = pair[0].movedim(last, -1), pair[1].movedim(last, -1)
    real, imag = (one.movedim(-1, last) for one in _mirrored(half, length))
    lengths = [*(x.shape[dim] for dim in others), length]
    return _scaled(_line(real, imag, last, 1), lengths, normalization)[0]


TRANSFORMS: dict[Any, Callable[..., Any]] = {
    aten._fft_c2c.default: complex_to_complex,
    aten._fft_r2c.default: real_to_complex,
    aten._fft_c2r.default: complex_to_real,
}
