"""Which calls of TensorIR are pure: what they give follows from their arguments alone."""

from tvm import ir

_PURE = 1  # of TVM's CallEffectKind; what is above reads or writes a state


def is_pure(call: ir.Call) -> bool:
    """Whether a call does nothing and gives the same each time, as far as TVM tells.

    What is no operator of TVM's, or one that tells nothing, might do anything.
    """
    effect = call.op.get_attr("TCallEffectKind") if isinstance(call.op, ir.Op) else None
    return effect is not None and int(effect) <= _PURE
