"""What each op means, in NumPy: slow and obvious."""

from tvm_iree_ext.reference.attention import attention, online_attention
from tvm_iree_ext.reference.fft import fft, fft_transform
from tvm_iree_ext.reference.pack import pack, unpack

__all__ = [
    "attention",
    "fft",
    "fft_transform",
    "online_attention",
    "pack",
    "unpack",
]
