"""PyTorch's operators that IREE's front end computes wrongly or ends at, by others that it takes.

A function of the table takes an operator's arguments, and gives what it gives; where these are
harmless, by that operator itself.  Replaced nodes are traced anew, once: what a function calls
stays as it is.
"""

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.base.torch_bits import BITS
from tvm_iree_ext.frontends.torch.base.torch_decomposed import in_places
from tvm_iree_ext.frontends.torch.base.torch_loops import graphs_of
from tvm_iree_ext.frontends.torch.base.torch_unsigned import to_dtype
from tvm_iree_ext.frontends.torch.linear_algebra.torch_linear_algebra import LINEAR_ALGEBRA
from tvm_iree_ext.frontends.torch.linear_algebra.torch_spectra import SPECTRA
from tvm_iree_ext.frontends.torch.operators.torch_activations import ACTIVATIONS
from tvm_iree_ext.frontends.torch.operators.torch_bags import BAGS, tell_length
from tvm_iree_ext.frontends.torch.operators.torch_complex import COMPLEX, complex_of
from tvm_iree_ext.frontends.torch.operators.torch_composites import in_parts
from tvm_iree_ext.frontends.torch.operators.torch_copies import COPIES, of_rank_0
from tvm_iree_ext.frontends.torch.operators.torch_distances import DISTANCES
from tvm_iree_ext.frontends.torch.operators.torch_divisions import DIVISIONS
from tvm_iree_ext.frontends.torch.operators.torch_floats import FLOATS
from tvm_iree_ext.frontends.torch.operators.torch_groups import FOREIGN, GROUPS
from tvm_iree_ext.frontends.torch.operators.torch_images import IMAGES
from tvm_iree_ext.frontends.torch.operators.torch_masks import MASKS
from tvm_iree_ext.frontends.torch.operators.torch_norms import NORMS, group_norm_forward
from tvm_iree_ext.frontends.torch.operators.torch_orders import ORDERS
from tvm_iree_ext.frontends.torch.operators.torch_pools import POOLS
from tvm_iree_ext.frontends.torch.operators.torch_scatters import SCATTERS
from tvm_iree_ext.frontends.torch.operators.torch_spellings import spell_out
from tvm_iree_ext.frontends.torch.operators.torch_statistics import STATISTICS
from tvm_iree_ext.frontends.torch.operators.torch_taken import is_taken
from tvm_iree_ext.frontends.torch.operators.torch_transforms import TRANSFORMS
from tvm_iree_ext.frontends.torch.operators.torch_unknown import unknown
from tvm_iree_ext.frontends.torch.operators.torch_views import VIEWS, is_foreign, tell_extent
from tvm_iree_ext.frontends.torch.operators.torch_widths import is_narrow, widened
from tvm_iree_ext.frontends.torch.special_functions.torch_bessel import BESSEL
from tvm_iree_ext.frontends.torch.special_functions.torch_errors import ERRORS
from tvm_iree_ext.frontends.torch.special_functions.torch_gamma import GAMMA
from tvm_iree_ext.frontends.torch.special_functions.torch_incomplete_gamma import INCOMPLETE_GAMMA
from tvm_iree_ext.frontends.torch.special_functions.torch_polynomials import POLYNOMIALS

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = {
    **ACTIVATIONS,
    **BAGS,
    **BESSEL,
    **BITS,
    **COMPLEX,
    **COPIES,
    **DISTANCES,
    **DIVISIONS,
    **ERRORS,
    **FLOATS,
    **GAMMA,
    **GROUPS,
    **IMAGES,
    **INCOMPLETE_GAMMA,
    **LINEAR_ALGEBRA,
    **MASKS,
    **NORMS,
    **ORDERS,
    **POLYNOMIALS,
    **POOLS,
    **SCATTERS,
    **SPECTRA,
    **STATISTICS,
    **TRANSFORMS,
}
_STATEMENTS = (
    aten._assert_tensor_metadata.default,  # of types that IREE takes for others
    aten._linalg_check_errors.default,  # of what data says
)
_LINE = re.compile(r'File "([^"\n]+)", line (\d+)')


def replaced(program: Any) -> Any:
    """An exported program without the operators of the table.

    Raises:
        MlirError: for an operator that no other stands for, in one sentence with its line.
    """
    program = in_parts(program, TABLE)
    graphs = graphs_of(program)
    for graph in graphs:
        for statement in _STATEMENTS:
            for node in graph.find_nodes(op="call_function", target=statement):
                graph.erase_node(node)
        for node in graph.find_nodes(op="call_function", target=aten.sym_storage_offset.default):
            if isinstance(node.meta["val"], int):
                node.replace_all_uses_with(node.meta["val"])
        spell_out(graph)
    nodes = [node for graph in graphs for node in graph.nodes if is_replaced(node)]
    for node in nodes:
        if _is_empty(node):
            node.target = _nothing(node.meta["val"])
            continue
        if node.target in BAGS:
            tell_length(node)
        elif node.target in VIEWS:
            tell_extent(node)
        is_wide = not is_narrow(node)
        other = None if is_taken(node) else _other(node.target)
        by = other or VIEWS.get(node.target, node.target)
        node.target = by if is_wide else widened(by, node)
    if not nodes:
        return program
    try:
        if not in_places(program, unknown(), nodes):
            allow_other_strides(graphs)
            program = program.run_decompositions(unknown())
    except MlirError as error:
        reason, _, trace = str(error).partition("\n\nWhile executing")
        raise MlirError(": ".join([*user_lines(trace)[-1:], reason])) from None
    for graph in graphs_of(program):
        spell_out(graph)
    return program


def is_replaced(node: Any) -> bool:
    """Whether other operators stand in the place of a node."""
    has_other = _other(node.target) is not None
    is_other = has_other and not is_taken(node)
    is_unknown = not has_other and node.target in unknown()
    return is_other or is_unknown or is_foreign(node) or is_narrow(node) or _is_empty(node)


def _other(target: Any) -> Callable[..., Any] | None:
    """What stands for an operator, of PyTorch's or of a package that need not be there."""
    return TABLE.get(target) or FOREIGN.get(str(target))


def user_lines(trace: str) -> list[str]:
    """The places in a stack trace of Python, the innermost last: ``file:line``."""
    return [":".join(found) for found in _LINE.findall(trace)]


def _is_empty(node: Any) -> bool:
    """Whether a node gives a tensor without elements: some such ends IREE's compiler."""
    value = node.meta.get("val")
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    return any(isinstance(one, int) and one == 0 for one in value.shape) and all(
        isinstance(one, int) for one in value.shape
    )


def _nothing(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: torch.zeros(value.shape, dtype=value.dtype)


def allow_other_strides(graphs: Sequence[Any]) -> None:
    """Make views such that copy where they must: what is traced anew may have other strides."""
    for graph in graphs:
        for node in graph.find_nodes(op="call_function", target=aten.view.default):
            node.target = aten.reshape.default


def replaced_early(program: Any) -> Any:
    """The same program, for the tracing in which its operators become simpler ones.

    What is replaced here needs none of its own; its parts must be no operators of that tracing's.
    """
    for node in program.graph.nodes:
        if node.target is aten.gelu.default and not (is_taken(node) or is_narrow(node)):
            node.target = gelu
        elif node.target is aten.native_group_norm.default:
            is_wide = not is_narrow(node)
            node.target = group_norm_forward if is_wide else widened(group_norm_forward, node)
    return program


def _of(*operators: Any) -> Callable[[Any], Any]:
    def enter(function: Any) -> Any:
        TABLE.update(dict.fromkeys(operators, function))
        return function

    return enter


def _by_pytorch(*operators: Any) -> None:
    """Take PyTorch's own decompositions."""
    for operator in operators:
        TABLE[operator] = torch._decomp.decomposition_table[operator]


_by_pytorch(
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.default,
    aten._upsample_nearest_exact3d.vec,
    aten.max_unpool2d.default,
    aten.max_unpool3d.default,
)


@_of(aten.roll.default)
def roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """By any number of places; IREE takes those within the extent."""
    if not dims:
        return roll(x.reshape(-1), shifts, (0,)).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        extent = x.shape[dim]
        if not isinstance(extent, int):
            x = x.index_select(dim, torch.remainder(torch.arange(extent) - shift, extent))
        elif extent:
            start = -shift % extent
            parts = x.narrow(dim, start, extent - start), x.narrow(dim, 0, start)
            x = torch.cat(parts, dim)
    return x


@_of(aten.maximum.default)
def maximum(a: Any, b: Any) -> Any:
    """IREE's gives the other for NaN."""
    if not torch.result_type(a, b).is_floating_point:
        return torch.maximum(a, b)
    return torch.where((a > b) | a.isnan(), a, b)


@_of(aten.minimum.default)
def minimum(a: Any, b: Any) -> Any:
    """Likewise."""
    if not torch.result_type(a, b).is_floating_point:
        return torch.minimum(a, b)
    return torch.where((a < b) | a.isnan(), a, b)


@_of(aten.neg.default)
def negated(x: Any) -> Any:
    """IREE's of an integer passes through floats, and is bounded."""
    is_number = x.is_floating_point() or x.is_complex()
    return torch.neg(x) if is_number else torch.zeros_like(x) - x


def _place_of(operator: Any) -> Callable[..., Any]:
    def place(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        """IREE's passes over NaN, the first of which PyTorch takes for the extreme."""
        if not x.dim():
            return torch.zeros((), dtype=torch.int64)
        if x.dtype is torch.bool:  # whose only bit would be a sign
            x = torch.where(x, 1, 0)
        found = operator(x, dim, keepdim)
        if not x.is_floating_point():
            return found
        unordered = x.isnan().to(torch.int32)
        first = torch.argmax(unordered, dim, keepdim)
        most = unordered.amax() if dim is None else unordered.amax(dim, keepdim)
        return torch.where(most > 0, first, found)

    return place


argmax, argmin = map(_place_of, (torch.argmax, torch.argmin))
TABLE.update({aten.argmax.default: argmax, aten.argmin.default: argmin})


@_of(aten.max.dim)
def max_along(x: Any, dim: int, keepdim: bool = False) -> Any:
    """Likewise."""
    return of_rank_0(aten.amax.default)(x, [dim], keepdim), argmax(x, dim, keepdim)


@_of(aten.min.dim)
def min_along(x: Any, dim: int, keepdim: bool = False) -> Any:
    """Likewise."""
    return of_rank_0(aten.amin.default)(x, [dim], keepdim), argmin(x, dim, keepdim)


def _bounded(x: Any, low: Any, high: Any) -> Any:
    """``x`` within bounds; NaN where one of the three is NaN."""
    for bound, nearer in ((low, maximum), (high, minimum)):
        if bound is None:
            continue
        if not isinstance(bound, torch.Tensor):
            x = x.to(torch.result_type(x, bound))
            bound = torch.full((), bound, dtype=x.dtype)
        x = nearer(x, bound)
    return x


@_of(aten.clamp.default, aten.clamp.Tensor)
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """IREE's gives a bound for NaN."""
    return _bounded(x, low, high) if x.is_floating_point() else torch.clamp(x, low, high)


@_of(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(x: Any, low: Any) -> Any:
    """Likewise."""
    return clamp(x, low)


@_of(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(x: Any, high: Any) -> Any:
    """Likewise."""
    return clamp(x, None, high)


@_of(aten.hardtanh.default)
def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    """Likewise."""
    if not x.is_floating_point():
        low, high = int(low), int(high)
    return clamp(x, low, high)


@_of(aten.relu6.default)
def relu6(x: Any) -> Any:
    """Likewise."""
    return clamp(x, 0, 6)


@_of(aten.threshold.default)
def threshold(x: Any, bound: float, value: float) -> Any:
    """IREE's gives the value for NaN."""
    return torch.where(x <= bound, torch.full((), value, dtype=x.dtype), x)


@_of(aten.pad.default)
def pad(x: Any, amounts: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """Amounts below 0 crop, which IREE does not take: what is left goes around in a circle."""
    if not any(amount < 0 for amount in amounts if isinstance(amount, int)):
        return F.pad(x, amounts, mode, value)
    added = [max(one, 0) for one in amounts]
    if mode in ("constant", "circular"):
        return F.pad(_cropped(x, amounts), added, mode, value)
    return _cropped(F.pad(x, added, mode), amounts)


def _cropped(x: Any, amounts: Sequence[int]) -> Any:
    """A tensor less the amounts below 0."""
    for place in range(0, len(amounts), 2):
        axis = -1 - place // 2
        before, after = (min(one, 0) for one in amounts[place : place + 2])
        x = x.narrow(axis, -before, x.shape[axis] + before + after)
    return x


@_of(aten.constant_pad_nd.default)
def constant_pad(x: Any, amounts: Sequence[int], value: float = 0) -> Any:
    """Likewise."""
    return pad(x, amounts, "constant", value)


@_of(aten.log_sigmoid.default)
def log_sigmoid(x: Any) -> Any:
    """IREE's takes exp(-x), which overflows."""
    return torch.minimum(x, torch.zeros_like(x)) - torch.log1p(torch.exp(-x.abs()))


@_of(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(x: Any) -> Any:
    """Likewise; the second result is for the backward pass alone."""
    return log_sigmoid(x), x.new_zeros(0)


@_of(aten.gelu.default)
def gelu(x: Any, approximate: str = "none") -> Any:
    """By tanh as a sigmoid: ``(1 + tanh(u)) / 2`` keeps no digit where tanh is near -1."""
    if approximate != "tanh":
        return F.gelu(x, approximate=approximate)
    twice = 1.5957691216057308 * (x + 0.044715 * x * x * x)  # 2 sqrt(2 / pi)
    return x * torch.sigmoid(twice)


@_of(aten.batch_norm.default)
def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, *rest: Any
) -> Any:
    """One multiplication and addition, as PyTorch does it: of constants, all else is constant."""
    momentum, epsilon, faster = rest
    if training or mean is None or variance is None:
        return aten.batch_norm.default(
            x, weight, bias, mean, variance, training, momentum, epsilon, faster
        )
    scale = (variance + epsilon).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (1, -1, *[1] * (x.dim() - 2))
    return x * scale.reshape(shape) + shift.reshape(shape)


@_of(aten._native_batch_norm_legit_no_training.default)
def batch_norm_forward(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> Any:
    """Likewise; the other results are for the backward pass alone."""
    result = batch_norm(x, weight, bias, mean, variance, False, momentum, epsilon, False)
    return result, x.new_zeros(0), x.new_zeros(0)


@_of(aten.scaled_dot_product_attention.default)
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    **named: Any,
) -> Any:
    """IREE's sums in float32, and gives NaN for a row that a mask leaves nothing of."""
    if q.dtype is torch.float64:
        products = aten._scaled_dot_product_attention_math
        found = products(q, k, v, mask, dropout, is_causal, **named)[0]
    else:
        found = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, **named)
    if mask is None:
        return found
    is_there = mask if mask.dtype is torch.bool else mask != -torch.inf
    return torch.where(is_there.any(-1, keepdim=True), found, torch.zeros((), dtype=q.dtype))


def _running(x: Any, dim: int, meet: Callable[[Any, Any], Any]) -> Any:
    """What lies 1, 2, 4, ... before is met."""
    step = 1
    while x.dim() and step < x.shape[dim]:
        first, earlier, later = (
            x.narrow(dim, 0, step),
            x.narrow(dim, 0, x.shape[dim] - step),
            x.narrow(dim, step, x.shape[dim] - step),
        )
        x = torch.cat((first, meet(earlier, later)), dim)
        step *= 2
    return x


@_of(aten.logcumsumexp.default)
def logcumsumexp(x: Any, dim: int) -> Any:
    """IREE's takes exp of the numbers as they are."""
    return _running(x, dim, _log_of_sum)


@_of(aten.cumprod.default)
def cumprod(x: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """IREE's front end does not take all of it."""
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() or x.is_complex() else torch.int64
    if x.dtype is torch.bool and dtype is not torch.bool:
        x = torch.where(x, 1, 0)
    found = _running(x.to(dtype), dim, torch.mul)
    return found.clone()


@_of(aten.addbmm.default)
def addbmm(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """IREE's front end takes no numbers beside 1; what is 0 times infinity is left out."""
    found = torch.bmm(a, b).sum(0)
    if not x.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    found = found if alpha == 1 else found * alpha
    if beta == 0:
        return found.expand(torch.broadcast_shapes(x.shape, found.shape)).clone()
    return found + (x if beta == 1 else x * beta)


@_of(aten.resize_as.default)
def resize_as(x: Any, other: Any, **named: Any) -> Any:
    """A reshape, where there are as many elements."""
    if prod(x.shape) != prod(other.shape):
        raise MlirError(
            f"resize_as: {prod(x.shape)} elements as {prod(other.shape)}; as many are supported"
        )
    return x.reshape(other.shape)


def _log_of_sum(a: Any, b: Any) -> Any:
    least, most = minimum(a, b), maximum(a, b)
    added = most + torch.log1p(torch.exp(least - most))
    return torch.where((a == b) & a.isinf(), a, added)


@_of(aten.to.dtype, aten._to_copy.default, torch.ops.prims.convert_element_type.default)
def converted(x: Any, dtype: Any = None, *rest: Any, **named: Any) -> Any:
    """Floats beyond a narrow integer type wrap, as they do in PyTorch."""
    dtype = dtype or x.dtype
    if dtype.is_complex:
        return complex_of(x, dtype)
    if x.is_complex():
        x = x.real
    return to_dtype(x, dtype)
