"""PyTorch's operators on floats of 16 bits, by the same ones on float32, rounded once at the end.

So PyTorch computes them.  IREE's front end brings each to several steps, and rounds every step's
result to 16 bits: a sum of 768 such numbers has three digits less.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

_NARROW = (torch.float16, torch.bfloat16)

_NORMS = """layer_norm native_layer_norm group_norm native_group_norm batch_norm instance_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training rms_norm _fused_rms_norm renorm
    softmax _softmax log_softmax _log_softmax _safe_softmax logsumexp logcumsumexp"""
_ACTIVATIONS = """gelu silu sigmoid tanh mish softplus elu celu selu hardswish hardsigmoid glu
    leaky_relu logit log_sigmoid log_sigmoid_forward"""
_REDUCTIONS = """sum nansum mean var std var_mean std_mean prod norm linalg_vector_norm trace
    cumsum cumprod"""
_IMAGES = """avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d upsample_linear1d
    upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d grid_sampler grid_sampler_2d
    grid_sampler_3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"""
_MATRICES = "matrix_exp linalg_matrix_exp addbmm"
_LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy cross_entropy_loss
    binary_cross_entropy_with_logits nll_loss kl_div cdist _cdist_forward dist cosine_similarity
    pairwise_distance"""
_OF_EACH_ELEMENT = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square pow
    sin cos tan sinh cosh asin acos atan asinh acosh atanh atan2 erf erfc erfinv sinc
    xlogy logaddexp logaddexp2 hypot addcmul addcdiv lerp"""
_WIDENED = frozenset(
    " ".join(
        (_NORMS, _ACTIVATIONS, _REDUCTIONS, _IMAGES, _MATRICES, _LOSSES, _OF_EACH_ELEMENT)
    ).split()
)
_WITH_NUMBERS = frozenset(("add", "sub", "rsub", "mul", "div"))
"""Rounded once as they are, unless they take a number that is none of 16 bits."""


def is_narrow(node: Any) -> bool:
    """Whether a node of a graph computes in 16 bits what PyTorch computes in float32."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name not in _WIDENED and name not in _WITH_NUMBERS:
        return False
    values = [one.meta.get("val") for one in node.all_input_nodes]
    kinds = {one.dtype for one in values if isinstance(one, torch.Tensor)} & {*_NARROW}
    if name in _WITH_NUMBERS:
        result = node.meta["val"].dtype
        numbers = [*node.args, *node.kwargs.values()]
        return result in kinds and any(_is_rounded(one, result) for one in numbers)
    return bool(kinds)


def _is_rounded(value: Any, kind: torch.dtype) -> bool:
    """Whether a number is none of a type's."""
    return isinstance(value, int | float) and torch.tensor(value, dtype=kind).item() != value


def widened(operator: Callable[..., Any], node: Any) -> Callable[..., Any]:
    """What does an operator's work in float32, and gives the types that the node gives."""
    kinds = [getattr(one, "dtype", None) for one in _pytree.tree_leaves(node.meta["val"])]

    def wide(one: Any) -> Any:
        if isinstance(one, torch.Tensor) and one.dtype in _NARROW:
            return one.float()
        return torch.float32 if isinstance(one, torch.dtype) and one in _NARROW else one

    def as_given(one: Any, kind: Any) -> Any:
        return one.to(kind) if kind in _NARROW else one

    def in_float32(*arguments: Any, **named: Any) -> Any:
        arguments, named = _pytree.tree_map(wide, (arguments, named))
        leaves, form = _pytree.tree_flatten(operator(*arguments, **named))
        return _pytree.tree_unflatten(list(map(as_given, leaves, kinds)), form)

    return in_float32
