"""Attention of Relax as the registry's op: TVM's loops write out all scores."""

from collections.abc import Mapping
from typing import Any

from tvm import ir, relax

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.relax_import.relax_ops import Lower, OpCalls, by_default, operand_types


class Attentions:
    """What ``LegalizeOps`` makes of attention, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {"relax.nn.attention": self._attention, "relax.nn.attention_bias": self._attention}

    def _attention(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        try:
            op = _attention(call)
        except OpError:
            return by_default(builder, call)
        return self._calls(builder, op, list(call.args), [call.ty])[0]


def _attention(call: relax.Call) -> Op:
    """The op of a call; OpError where it has none."""
    held = call.attrs
    if held.window_size is not None:
        raise OpError("relax.nn.attention: which keys a window has is nowhere said")
    query, key, value, *biases = operand_types([one.ty for one in call.args])
    given: dict[str, Any] = {"mask": biases[0]} if biases else {}
    rows, keys = query.shape[1], key.shape[1]
    if held.causal_mask == "TopLeft":
        given["causal"] = "upper_left"
    elif held.causal_mask == "BottomRight":
        # TVM shifts the diagonal by the difference's absolute value.
        if isinstance(rows, int) and isinstance(keys, int) and rows > keys:
            given["window"] = (None, rows - keys)
        else:
            given["causal"] = "lower_right"
    scale = None if held.scale is None else float(held.scale)
    return ops.attention(
        query,
        key,
        value,
        layout="bshd",
        scale=scale,
        output_dtype=str(call.ty.dtype),
        **given,
    )
