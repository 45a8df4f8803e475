"""PyTorch's operators on narrow numbers, by the same ones on wider numbers.

Floats of 16 bits are computed as float32 and rounded once at the end, as in PyTorch: IREE's front
end brings each operator to several steps, and rounds every step's result to 16 bits: a sum of 768
such numbers has three digits less.

Unsigned integers are computed as integers with sign that hold them: the front end takes them for
ones with sign, by which 200 of uint8 divided by 2 is -28.  What only moves numbers, compares their
bits or converts them is right as it is.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from tvm_iree_ext.frontends.torch.base.torch_unsigned import to_dtype

_NARROW = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
_UNSIGNED = {torch.uint8: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
_WIDER = _NARROW | _UNSIGNED | {torch.int8: torch.int32}

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
_WHOLE = """abs neg sign sgn add sub rsub mul div true_divide floor_divide remainder fmod gcd lcm
    float_power heaviside copysign ldexp relu maximum minimum fmax fmin clamp clamp_min clamp_max
    where isin bitwise_left_shift bitwise_right_shift __lshift__ __rshift__
    mm bmm addmm addmv baddbmm mv dot vdot addr outer linear matmul cross
    max min amax amin aminmax argmax argmin any all cummax cummin diff
    sort msort argsort topk kthvalue median nanmedian mode searchsorted bucketize bincount
    unique _unique2 unique_consecutive unique_dim scatter_add scatter_reduce index_add index_reduce
    max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"""
_COMPUTED = _WIDENED | frozenset(_WHOLE.split())
"""Operators that compute with integers, beside those on floats, which are given integers, too."""
_OF_BYTES = ("max", "min", "floor_divide", "remainder", "pow", "where", "mm", "bmm", "addmm")
"""Operators that the front end does not take of int8."""
_DIVISIONS = ("floor_divide", "remainder", "fmod")
"""By a number that is of the tensor's type before: -3 is 253 of uint8."""
_WITH_NUMBERS = frozenset(("add", "sub", "rsub", "mul", "div"))
"""Rounded once as they are, unless they take a number that is none of 16 bits."""


def is_narrow(node: Any) -> bool:
    """Whether a node of a graph computes in 16 bits what PyTorch computes in float32, or takes
    unsigned integers that IREE's front end takes for others."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    if name not in _COMPUTED:
        return False
    values = [one.meta.get("val") for one in node.all_input_nodes]
    came = {one.dtype for one in values if isinstance(one, torch.Tensor)}
    if came & {*_UNSIGNED} or (name in _OF_BYTES and torch.int8 in came):
        return True
    kinds = came & {*_NARROW}
    if name not in _WIDENED and name not in _WITH_NUMBERS:
        return False
    if name in _WITH_NUMBERS:
        result = node.meta["val"].dtype
        numbers = [*node.args, *node.kwargs.values()]
        return result in kinds and any(_is_rounded(one, result) for one in numbers)
    return bool(kinds)


def _is_rounded(value: Any, kind: torch.dtype) -> bool:
    """Whether a number is none of a type's."""
    return isinstance(value, int | float) and torch.tensor(value, dtype=kind).item() != value


def _wrapped(value: Any, kind: torch.dtype) -> Any:
    """A number as an unsigned type holds it."""
    return value % (torch.iinfo(kind).max + 1) if isinstance(value, int) else value


def widened(operator: Callable[..., Any], node: Any) -> Callable[..., Any]:
    """What does an operator's work in wider types, and gives the types that the node gives."""
    kinds = [getattr(one, "dtype", None) for one in _pytree.tree_leaves(node.meta["val"])]
    name = node.target.overloadpacket.__name__ if hasattr(node.target, "overloadpacket") else ""

    def wide(one: Any) -> Any:
        if isinstance(one, torch.Tensor) and one.dtype in _WIDER:
            return to_dtype(one, _WIDER[one.dtype])
        return _WIDER.get(one, one) if isinstance(one, torch.dtype) else one

    def as_given(one: Any, kind: Any) -> Any:
        return one if kind is None else to_dtype(one, kind)

    def in_wide(*arguments: Any, **named: Any) -> Any:
        if name in _DIVISIONS and kinds[0] in _UNSIGNED:
            arguments = tuple(_wrapped(one, kinds[0]) for one in arguments)
        arguments, named = _pytree.tree_map(wide, (arguments, named))
        leaves, form = _pytree.tree_flatten(operator(*arguments, **named))
        return _pytree.tree_unflatten(list(map(as_given, leaves, kinds)), form)

    return in_wide
