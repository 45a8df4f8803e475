"""References of the ops in NumPy: slow and obvious."""

from tvm_iree_ext.reference import block_scaled
from tvm_iree_ext.reference.arg_compare import arg_compare
from tvm_iree_ext.reference.attention import attention, log_sum_exp, of_pages, online_attention
from tvm_iree_ext.reference.contraction import contraction, prologue_factors
from tvm_iree_ext.reference.conv_2d import conv_2d
from tvm_iree_ext.reference.custom_op import custom_op
from tvm_iree_ext.reference.distribution import to_simd, to_simt
from tvm_iree_ext.reference.exp_reduction import exp_reduction
from tvm_iree_ext.reference.fft import fft, fft_transform
from tvm_iree_ext.reference.grouped_matmul import grouped_matmul
from tvm_iree_ext.reference.im2col import im2col, im2col_of_sizes
from tvm_iree_ext.reference.mapped import map_load, map_store
from tvm_iree_ext.reference.pack import pack, unpack
from tvm_iree_ext.reference.scan import scan
from tvm_iree_ext.reference.slices import gather, scatter
from tvm_iree_ext.reference.sort import sort
from tvm_iree_ext.reference.topk import topk, topk_v2
from tvm_iree_ext.reference.transfer import transfer_gather, transfer_scatter
from tvm_iree_ext.reference.winograd import filter_transform, input_transform, output_transform

__all__ = [
    "arg_compare",
    "attention",
    "block_scaled",
    "contraction",
    "conv_2d",
    "custom_op",
    "exp_reduction",
    "fft",
    "fft_transform",
    "filter_transform",
    "gather",
    "grouped_matmul",
    "im2col",
    "im2col_of_sizes",
    "input_transform",
    "log_sum_exp",
    "map_load",
    "map_store",
    "of_pages",
    "online_attention",
    "output_transform",
    "pack",
    "prologue_factors",
    "scan",
    "scatter",
    "sort",
    "to_simd",
    "to_simt",
    "topk",
    "topk_v2",
    "transfer_gather",
    "transfer_scatter",
    "unpack",
]
