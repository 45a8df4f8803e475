"""The rounding of float32 to bfloat16 as a call: a single expression, which takes its number once.

What it stands for takes the number three times.  A chain of such expressions would grow threefold
at each, and a number that is stored first makes a block of two statements, which TVM does not fuse.
So programs hold the call until code is made: then the number is bound to a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_iree_ext.tir.pure_operators import pure_operator
from tvm_iree_ext.tir.tvm_modules import ir, tirx

BFLOAT16_BITS = "tvm_iree_ext.bfloat16_bits"
"""The operator: of float32, the nearest bfloat16 (ties to even; a NaN stays one) as uint16."""

_QUIET_NAN = 0x7FC0


def bfloat16_bits(value: ir.Expr) -> ir.Expr:
    """The call for a float32, or for a vector of them."""
    operator = pure_operator(BFLOAT16_BITS, "Rounds float32 to the bits of bfloat16.")
    return ir.Call(operator, [value], ret_ty=_like(value, "uint16").ty)


def is_rounding(node: Any) -> bool:
    """Whether a node is the call."""
    return getattr(getattr(node, "op", None), "name", "") == BFLOAT16_BITS


def before_widening(node: Any) -> ir.Expr | None:
    """What a float32 was that ``tir_expressions.cast`` made of bfloat16; None for all others.

    It is of bfloat16, or the call itself, where that gave the word.
    """
    match node:
        case ir.Call(args=[tirx.LShift(a=tirx.Cast(value=ir.Call() as word))]) if (
            str(node.ty.dtype) == "float32"
        ):
            return word if is_rounding(word) else word.args[0]
    return None


def expanded(single: ir.Expr, share: Callable[[ir.Expr], ir.Expr] = lambda value: value) -> ir.Expr:
    """What the call stands for; ``share`` makes what is used more than once cheap to repeat."""

    def const(number: int) -> ir.Expr:
        return _like(single, "uint32", number)

    single = share(single)
    wide = share(tirx.reinterpret(const(0).ty, single))
    rounded = (wide + const(0x7FFF) + ((wide >> const(16)) & const(1))) >> const(16)
    chosen = tirx.Select(tirx.isnan(single), const(_QUIET_NAN), rounded)
    return tirx.Cast(_like(single, "uint16").ty, chosen)


def _like(value: ir.Expr, dtype: str, number: int = 0) -> ir.Expr:
    """A number of a type, in as many lanes as a value has."""
    lanes = int(value.ty.dtype.lanes)
    scalar = tirx.const(number, dtype)
    return tirx.Broadcast(scalar, lanes) if lanes > 1 else scalar
