"""What the exponent of a complex power of float64 is rounded by: two calls until code is made.

``a^b`` is the exponential of ``b log a``, whose error grows with that number's size.  Code for CPUs
and for AMD's GPUs computes the exponent with more digits, and has what it is more than its float64.
Elsewhere that is taken for 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_iree_ext.tir.pure_operators import pure_operator
from tvm_iree_ext.tir.tvm_modules import ir, tirx

if TYPE_CHECKING:
    Expr: TypeAlias = ir.Expr
    Parts: TypeAlias = tuple[ir.Expr, ir.Expr]

SIZE_REST, TURN_REST = "tvm_iree_ext.power_size_rest", "tvm_iree_ext.power_turn_rest"
"""The operators, of the parts of a and of b and a part of ``b log a``: the real and the other."""


def power_rests(a: Parts, b: Parts, exponent: Parts) -> Parts:
    """What the parts of ``b log a`` are more than those of ``exponent``."""
    size, turn = exponent
    meaning = "What a part of b log a, of complex numbers, is more than a float64."
    size_rest, turn_rest = (pure_operator(name, meaning) for name in (SIZE_REST, TURN_REST))
    return (
        ir.Call(size_rest, [*a, *b, size], ret_ty=size.ty),
        ir.Call(turn_rest, [*a, *b, turn], ret_ty=turn.ty),
    )


def is_power_rest(node: Any) -> bool:
    """Whether a node is one of the calls."""
    return getattr(getattr(node, "op", None), "name", "") in (SIZE_REST, TURN_REST)


def without_rest(call: ir.Call) -> Expr:
    """The 0 that a call is taken for, in as many lanes."""
    lanes = int(call.ty.dtype.lanes)
    zero = tirx.const(0.0, "float64")
    return tirx.Broadcast(zero, lanes) if lanes > 1 else zero
