"""Sorts of Relax as the registry's op: TVM has no loops for them, but calls of its own library."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import ir, relax, te, tirx, topi

from tvm_iree_ext.ops.families.sort import sort
from tvm_iree_ext.programs.relax_import.relax_ops import Lower, OpCalls, operand_types


class Sorts:
    """What ``LegalizeOps`` makes of sorts, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {
            "relax.sort": self._sort,
            "relax.argsort": self._argsort,
            "relax.topk": self._topk,
        }

    def _sort(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        return self._sorted(builder, call.args[:1], call.attrs.axis, call.attrs.descending)[0]

    def _argsort(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        x, axis = call.args[0], call.attrs.axis
        places = _places(builder, x, axis, str(call.attrs.dtype))
        return self._sorted(builder, [x, places], axis, call.attrs.descending)[1]

    def _topk(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        x, held = call.args[0], call.attrs
        operands = [x]
        if held.ret_type != "values":
            operands.append(_places(builder, x, held.axis, str(held.dtype)))
        ordered = self._sorted(builder, operands, held.axis, held.largest)
        count = int(held.k)
        if count > 0:
            axis = held.axis % len(x.ty.shape.values)
            ordered = [
                builder.emit_te(topi.strided_slice, one, [0], [count], [1], [axis])
                for one in ordered
            ]
        return relax.Tuple(ordered) if held.ret_type == "both" else ordered[-1]

    def _sorted(
        self,
        builder: relax.BlockBuilder,
        operands: Sequence[ir.Expr],
        axis: Any,
        descending: bool,
    ) -> list[ir.Expr]:
        """The operands, sorted stably by the first."""
        types = operand_types([one.ty for one in operands])
        dimension = int(axis) % len(types[0].shape)
        op = sort(*types, dimension=dimension, region=">" if descending else "<")
        return self._calls(builder, op, operands, [one.ty for one in operands])


def _places(builder: relax.BlockBuilder, x: ir.Expr, axis: Any, dtype: str) -> ir.Expr:
    """The place of each element along an axis."""

    def places(of: te.Tensor) -> te.Tensor:
        at = int(axis) % len(of.shape)
        return te.compute(of.shape, lambda *i: tirx.Cast(dtype, i[at]), name="places")

    return builder.emit_te(places, x)
