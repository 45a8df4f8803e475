"""The ops of the dialect ``iree_vector_ext``.

They stand apart from the other dialects' because two have an ``arg_compare``.
"""

from tvm_iree_ext.ops.distribution import to_simd, to_simt
from tvm_iree_ext.ops.to_layout import to_layout
from tvm_iree_ext.ops.transfer import transfer_gather, transfer_scatter
from tvm_iree_ext.ops.vector_arg_compare import arg_compare

__all__ = [
    "arg_compare",
    "to_layout",
    "to_simd",
    "to_simt",
    "transfer_gather",
    "transfer_scatter",
]
