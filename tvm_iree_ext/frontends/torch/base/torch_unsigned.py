"""Conversions to and from narrow and unsigned integers, as PyTorch has them.

IREE's compiler ends at those of uint16 and uint64, whose bits are looked at as those of the
integers with sign of the same width.
"""

from typing import Any

import torch

ENDING = (torch.uint16, torch.uint64)
"""Types that end IREE's compiler where they are converted."""
WRAPPING = (torch.uint8, torch.int8, torch.int16, torch.uint32)
"""Types to which floats beyond them wrap, as IREE's do not."""
_HALF = 1 << 63
_LEAST = -_HALF


def to_dtype(x: Any, dtype: torch.dtype) -> Any:
    """``x.to(dtype)`` of real numbers; what is beyond an integer type wraps."""
    if x.dtype is dtype:
        return x
    if x.is_floating_point() and dtype in (torch.uint16, *WRAPPING):
        x = x.to(torch.int64)
    if x.dtype is torch.uint16:
        x = x.view(torch.int16).to(torch.int32) & 0xFFFF
    elif x.dtype is torch.uint64:
        x = _of_words(x.view(torch.int64), dtype)
    if dtype is torch.uint16:
        return x.to(torch.int16).view(torch.uint16)
    if dtype is torch.uint64:
        return _words(x).view(torch.uint64)
    return x.to(dtype)


def _of_words(bits: Any, dtype: torch.dtype) -> Any:
    """Of 64 bits the number as a float, rounded once; as an integer what is left of it."""
    if not dtype.is_floating_point:
        return bits
    half = ((bits >> 1) & (_HALF - 1)) | (bits & 1)  # the last bit tells of those that are gone
    return torch.where(bits < 0, half.to(dtype) * 2, bits.to(dtype))


def _words(x: Any) -> Any:
    """The 64 bits of numbers, those from half of the range on less half."""
    if not x.is_floating_point():
        return x.to(torch.int64)
    half = float(_HALF)
    is_large = x >= half
    rest = torch.where(is_large, x - half, x).to(torch.int64)
    return torch.where(is_large, rest ^ _LEAST, rest)
