"""Running sums and products of Relax as the registry's op: TVM has calls of its own library."""

from collections.abc import Mapping

from tvm import ir, relax, topi

from tvm_iree_ext.ops.families.scan import scan
from tvm_iree_ext.programs.relax_import.relax_ops import Lower, OpCalls, axis_of, operand_types

_OF_BOOLS = {"add": "or", "mul": "and"}


class Scans:
    """What ``LegalizeOps`` makes of running sums and products, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {"relax.cumsum": self._running("add", 0), "relax.cumprod": self._running("mul", 1)}

    def _running(self, region: str, first: int) -> Lower:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
            x, axis = call.args[0], 0
            if call.attrs.axis is None:
                x = builder.emit(relax.op.reshape(x, call.ty.shape))
            else:
                axis = axis_of(call)
            dtype = str(call.ty.dtype)
            if str(x.ty.dtype) != dtype:
                x = builder.emit_te(topi.cast, x, dtype)
            op = scan(
                operand_types([x.ty])[0],
                _OF_BOOLS[region] if dtype == "bool" else region,
                dimension=axis,
                inclusive=not call.attrs.exclusive,
                reassociate=True,
            )
            extents = list(x.ty.shape.values)
            line = extents[:axis] + extents[axis + 1 :]
            init = builder.emit_te(topi.full, line, dtype, first)
            types = [x.ty, relax.TensorType(line, dtype)]
            return self._calls(builder, op, [x, init], types)[0]

        return lower
