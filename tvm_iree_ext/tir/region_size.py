"""The limit on the size of a region's expression."""

from __future__ import annotations

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.scalar_text import MOST_PARTS
from tvm_iree_ext.tir.tvm_modules import ir, tirx

_OPERANDS = ("a", "b", "condition", "true_value", "false_value", "value", "base", "stride")


def check_size(op: str, body: ir.Expr) -> None:
    """Raise OpError for more than :data:`.MOST_PARTS` operations and operands.

    Each use of a value counts, since all that follows writes it out, and nothing here recurses:
    TVM's own walks end the process on chains of some ten thousand.
    """
    rest, count = [body], 0
    while rest:
        node = rest.pop()
        count += 1
        if count > MOST_PARTS:
            raise OpError(
                f"{op}: region has more than {MOST_PARTS} operations and operands; expected fewer,"
                " each use of a value counted"
            )
        if isinstance(node, tirx.Var | tirx.IntImm | tirx.FloatImm):
            continue
        operands = [getattr(node, name, None) for name in _OPERANDS]
        operands += [*node.args] if isinstance(node, ir.Call) else []
        rest += [one for one in operands if isinstance(one, ir.Expr)]
