"""Relax's scatter_nd as the registry's op: TVM's own loops are in order, and cross their memory."""

from collections.abc import Mapping

from tvm import ir, relax, tirx

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.families.slices.scatter import scatter
from tvm_iree_ext.programs.relax_import.relax_ops import (
    Lower,
    OpCalls,
    by_default,
    check_numbers,
    operand_types,
)

_REGIONS = {"update": "arg0", **{name: name for name in ("add", "mul", "min", "max")}}


class Scatters:
    """What ``LegalizeOps`` makes of scatters of slices, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {"relax.scatter_nd": self._scatter}

    def _scatter(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        data, indices, updates = call.args
        depth = indices.ty.shape.values[-1]
        if not isinstance(depth, tirx.IntImm):
            return by_default(builder, call)
        types = operand_types([updates.ty, indices.ty, data.ty])
        try:
            op = scatter(
                *types,
                dimension_map=tuple(range(int(depth))),
                unique_indices=False,
                region=_REGIONS[str(call.attrs.reduction)],
            )
            check_numbers(op)
        except OpError:  # such as a type that it does not take
            return by_default(builder, call)
        return self._calls(builder, op, [updates, indices, data], [data.ty])[0]
