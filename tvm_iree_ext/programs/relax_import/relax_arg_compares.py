"""Relax's argmax and argmin as the registry's op, which goes along its lines in vectors."""

from collections.abc import Mapping
from math import prod

from tvm import ir, relax, tirx, topi

from tvm_iree_ext.base.dtypes import INTEGERS
from tvm_iree_ext.base.signature import Default
from tvm_iree_ext.ops.base.natural_inits import highest, lowest
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.families.arg_compare.arg_compare import NAN_FIRST, arg_compare
from tvm_iree_ext.programs.relax_import.relax_ops import (
    Lower,
    OpCalls,
    axis_of,
    by_default,
    operand_types,
    shaped,
)


class ArgCompares:
    """What ``LegalizeOps`` makes of argmax and argmin, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {"relax.argmax": self._place(">"), "relax.argmin": self._place("<")}

    def _place(self, region: str) -> Lower:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
            x, axis, dtype = call.args[0], 0, str(call.ty.dtype)
            if str(x.ty.dtype) == "bool" or dtype not in INDEX_DTYPES:
                return by_default(builder, call)
            extents = list(x.ty.shape.values)
            if call.attrs.axis is None:
                extents = [prod(extents)]
                x = shaped(builder, x, extents)
            else:
                axis = axis_of(call)
            kind = operand_types([x.ty])[0]
            wins = region if kind.dtype in INTEGERS else NAN_FIRST[region]
            op = arg_compare(kind, wins, dimension=axis, index_base=0, index_dtype=dtype)
            worst = lowest(kind.dtype) if region == ">" else highest(kind.dtype)
            line = extents[:axis] + extents[axis + 1 :]
            types = [relax.TensorType(line, str(kind)) for kind in (x.ty.dtype, dtype)]
            inits = [
                builder.emit_te(topi.full, line, str(one.dtype), _number(value, str(one.dtype)))
                for one, value in zip(types, (worst, 0), strict=True)
            ]
            _, place = self._calls(builder, op, [x, *inits], types)
            return shaped(builder, place, call.ty.shape.values) if call.attrs.keepdims else place

        return lower


def _number(value: Default, dtype: str) -> ir.Expr:
    return tirx.const(float(value) if isinstance(value, str) else value, dtype)
