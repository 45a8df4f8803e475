"""The ops of the dialects: checks, result types, canonical PrimFuncs.

Those of ``iree_vector_ext`` are in :mod:`.vector_ext`.
"""

from types import FunctionType
from typing import TYPE_CHECKING, Any

from tvm_iree_ext.base.other_names import OTHER_NAMES
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.base.suggestions import did_you_mean, suggesting
from tvm_iree_ext.ops import vector_ext
from tvm_iree_ext.ops.base.region_scalars import region
from tvm_iree_ext.ops.families.arg_compare.arg_compare import arg_compare
from tvm_iree_ext.ops.families.attention.attention import attention, online_attention
from tvm_iree_ext.ops.families.contraction.contraction import contraction, matmul
from tvm_iree_ext.ops.families.conv_2d.conv_2d_constructor import conv_2d
from tvm_iree_ext.ops.families.custom_op import custom_op_tiles as tiles
from tvm_iree_ext.ops.families.custom_op.custom_op import IteratorType, custom_op
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import exp_reduction
from tvm_iree_ext.ops.families.fft.fft import fft
from tvm_iree_ext.ops.families.fft.fft_transform import fft_transform
from tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul import grouped_matmul
from tvm_iree_ext.ops.families.im2col.im2col_constructor import im2col
from tvm_iree_ext.ops.families.mapped.mapped import map_load, map_store
from tvm_iree_ext.ops.families.pack import pack, unpack
from tvm_iree_ext.ops.families.scan import scan
from tvm_iree_ext.ops.families.slices.gather import gather
from tvm_iree_ext.ops.families.slices.scatter import scatter
from tvm_iree_ext.ops.families.sort import sort
from tvm_iree_ext.ops.families.topk.topk import topk
from tvm_iree_ext.ops.families.topk.topk_v2 import topk_v2
from tvm_iree_ext.ops.families.winograd.winograd import (
    winograd_filter_transform,
    winograd_input_transform,
    winograd_output_transform,
)

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
    "region",
    "scan",
    "scatter",
    "sort",
    "tiles",
    "topk",
    "topk_v2",
    "unpack",
    "vector_ext",
    "winograd_filter_transform",
    "winograd_input_transform",
    "winograd_output_transform",
]

_MEANT = {**OTHER_NAMES, "gemm": "matmul"}


if not TYPE_CHECKING:  # a checker would take any name for one of this module
    for _name in __all__:
        if isinstance(globals()[_name], FunctionType):
            globals()[_name] = suggesting(globals()[_name])
            globals()[_name].__module__ = __name__  # where pickle finds it
    del _name

    def __getattr__(name: str) -> Any:
        """Nothing; says which name may have been meant.

        Raises:
            AttributeError: always.
        """
        hint = did_you_mean(name, __all__, _MEANT)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    return sorted(__all__)
