"""Nodes of a graph that IREE's front end takes as they are, though not all of their operator.

Where a graph holds no others it need not be traced anew, which is a third of an export's time.
"""

from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_unsigned import ENDING, WRAPPING
from tvm_iree_ext.frontends.torch.operators.torch_complex import FUNCTIONS
from tvm_iree_ext.frontends.torch.operators.torch_copies import REDUCTIONS
from tvm_iree_ext.frontends.torch.operators.torch_pools import OF_AXES, RANKS
from tvm_iree_ext.frontends.torch.operators.torch_scatters import OF_NUMBERS

aten = torch.ops.aten


def is_taken(node: Any) -> bool:
    """Whether a node of the table of other operators is harmless by its arguments."""
    test = _TAKEN.get(node.target)
    return test is not None and test(node)


def _argument(node: Any, place: int, name: str) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)


def _operand_type(node: Any) -> torch.dtype:
    kind: torch.dtype = node.args[0].meta["val"].dtype
    return kind


def _is_unmasked(attention: Any) -> bool:
    mask = _argument(attention, 3, "attn_mask")
    return mask is None and _operand_type(attention) is not torch.float64


def _is_exact(gelu: Any) -> bool:
    return _argument(gelu, 1, "approximate") != "tanh"


def _is_wide(conversion: Any) -> bool:
    given, result = _operand_type(conversion), conversion.meta["val"].dtype
    if given in ENDING or result in ENDING or given.is_complex or result.is_complex:
        return False
    return not (given.is_floating_point and result in WRAPPING)


def _is_real(function: Any) -> bool:
    return not _operand_type(function).is_complex


def _is_of_two(operator: Any) -> bool:
    a, b = operator.args[:2]
    return a is not b or not _operand_type(operator).is_floating_point


def _is_no_root(power: Any) -> bool:
    kind = _operand_type(power)
    if not (kind.is_floating_point or kind.is_complex):
        return not isinstance(power.args[1], int)
    return power.args[1] not in (0.5, -0.5) or kind.is_complex


def _is_no_integer(operator: Any) -> bool:
    kind: torch.dtype = operator.meta["val"].dtype
    return kind.is_floating_point or kind.is_complex


def _has_axes(reduction: Any) -> bool:
    return len(reduction.args[0].meta["val"].shape) > 0


def _is_no_mask(scatter: Any) -> bool:
    return _operand_type(scatter) is not torch.bool


def _is_batch(pool: Any) -> bool:
    return len(pool.args[0].meta["val"].shape) == RANKS[pool.target] + 2


_TAKEN: dict[Any, Callable[[Any], bool]] = {
    **dict.fromkeys(REDUCTIONS, _has_axes),
    aten.bincount.default: lambda node: _operand_type(node) is torch.int64,
    aten.eq.Tensor: _is_of_two,
    aten.neg.default: _is_no_integer,
    aten.sub.Tensor: _is_of_two,
    aten.pow.Tensor_Scalar: _is_no_root,
    aten.pow.Tensor_Tensor: _is_no_integer,
    aten.pow.Scalar: _is_no_integer,
    aten.scaled_dot_product_attention.default: _is_unmasked,
    aten.gelu.default: _is_exact,
    torch.ops.prims.convert_element_type.default: _is_wide,
    **dict.fromkeys(RANKS, _is_batch),
    **dict.fromkeys(OF_AXES, _has_axes),
    **dict.fromkeys(OF_NUMBERS, _is_no_mask),
    aten.nonzero.default: _has_axes,
    **{getattr(aten, name).default: _is_real for name in FUNCTIONS},
}
