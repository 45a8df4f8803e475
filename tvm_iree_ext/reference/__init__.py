"""What each op means, in NumPy: slow and obvious."""

from tvm_iree_ext.reference.attention import attention, online_attention

__all__ = ["attention", "online_attention"]
