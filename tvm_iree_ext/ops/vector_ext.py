"""The ops of the dialect ``iree_vector_ext``.

They stand apart from the other dialects' because two have an ``arg_compare``.
"""

from tvm_iree_ext.ops.families.arg_compare.vector_arg_compare import arg_compare
from tvm_iree_ext.ops.families.distribution.distribution import to_simd, to_simt
from tvm_iree_ext.ops.families.distribution.to_layout import to_layout
from tvm_iree_ext.ops.families.transfer.transfer import transfer_gather, transfer_scatter

__all__ = [
    "arg_compare",
    "to_layout",
    "to_simd",
    "to_simt",
    "transfer_gather",
    "transfer_scatter",
]
