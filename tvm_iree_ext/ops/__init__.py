"""The ops of the dialects: checks, result types, canonical PrimFuncs.

Those of ``iree_vector_ext`` are in :mod:`.vector_ext`.
"""

from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.ops.arg_compare import arg_compare
from tvm_iree_ext.ops.attention import attention, online_attention
from tvm_iree_ext.ops.contraction import contraction, matmul
from tvm_iree_ext.ops.conv_2d import conv_2d
from tvm_iree_ext.ops.custom_op import IteratorType, custom_op
from tvm_iree_ext.ops.exp_reduction import exp_reduction
from tvm_iree_ext.ops.fft import fft
from tvm_iree_ext.ops.fft_transform import fft_transform
from tvm_iree_ext.ops.gather import gather
from tvm_iree_ext.ops.grouped_matmul import grouped_matmul
from tvm_iree_ext.ops.im2col import im2col
from tvm_iree_ext.ops.mapped import map_load, map_store
from tvm_iree_ext.ops.pack import pack, unpack
from tvm_iree_ext.ops.scan import scan
from tvm_iree_ext.ops.scatter import scatter
from tvm_iree_ext.ops.sort import sort
from tvm_iree_ext.ops.topk import topk
from tvm_iree_ext.ops.topk_v2 import topk_v2
from tvm_iree_ext.ops.winograd import (
    winograd_filter_transform,
    winograd_input_transform,
    winograd_output_transform,
)
from tvm_iree_ext.signature import TensorType

__all__ = [
    "IteratorType",
    "TensorType",
    "arg_compare",
    "attention",
    "contraction",
    "conv_2d",
    "custom_op",
    "exp_reduction",
    "fft",
    "fft_transform",
    "gather",
    "grouped_matmul",
    "im2col",
    "map_load",
    "map_store",
    "matmul",
    "online_attention",
    "pack",
    "scan",
    "scatter",
    "sort",
    "topk",
    "topk_v2",
    "unpack",
    "vector_ext",
    "winograd_filter_transform",
    "winograd_input_transform",
    "winograd_output_transform",
]
