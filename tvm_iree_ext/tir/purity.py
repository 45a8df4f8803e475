"""Purity of TensorIR calls: whether the value follows from the arguments alone.

Also guards: calls that compute one of two arguments, and nothing of the other.
"""

from __future__ import annotations

from tvm_iree_ext.tir.tvm_modules import ir

_IF_THEN_ELSE = "prim.if_then_else"  # a name of its own: most are of ``tirx``
_PURE = 1  # of TVM's CallEffectKind; what is above reads or writes a state


def is_pure(call: ir.Call) -> bool:
    """Whether a call does nothing and gives the same each time, as far as TVM tells.

    What is no operator of TVM's, or one that tells nothing, might do anything.
    """
    effect = call.op.get_attr("TCallEffectKind") if isinstance(call.op, ir.Op) else None
    return effect is not None and int(effect) <= _PURE


def is_guard(value: object) -> bool:
    """Whether a value is a call that computes one of two values, and nothing of the other."""
    return (
        isinstance(value, ir.Call)
        and isinstance(value.op, ir.Op)
        and value.op.name == _IF_THEN_ELSE
    )
