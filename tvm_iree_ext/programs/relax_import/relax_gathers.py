"""Relax's take and gather_nd as the registry's gather, which moves whole slices."""

from collections.abc import Mapping
from typing import Any

from tvm import ir, relax, te, tirx, topi

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.ops.families.slices.gather import gather
from tvm_iree_ext.programs.relax_import.relax_ops import (
    Lower,
    OpCalls,
    axis_of,
    by_default,
    check_numbers,
    operand_types,
    shaped,
)


class Gathers:
    """What ``LegalizeOps`` makes of gathers of slices, by ``calls`` of ops.

    An index out of range, with which TVM's own loops would read any memory, gives zeros in the op.
    """

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {"relax.take": self._take, "relax.gather_nd": self._gather_nd}

    def _take(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        source, indices = call.args
        mode = str(call.attrs.mode)
        if mode not in ("fast", "clip") or not isinstance(indices.ty, relax.TensorType):
            return by_default(builder, call)
        axis = 0 if call.attrs.axis is None else axis_of(call)
        extents = list(source.ty.shape.values)
        if mode == "clip":
            wide = builder.emit(relax.op.astype(indices, "int64"))
            indices = builder.emit_te(topi.clip, wide, 0, extents[axis] - 1)
        made = None
        if all(isinstance(one, tirx.IntImm) and int(one) == 1 for one in extents[:axis]):
            slices = shaped(builder, source, extents[axis:]) if axis else source
            made = self._gathered(builder, slices, _with_depth(builder, indices), 1)
        if made is None:
            return builder.call_te(_taken, source, indices, axis, primfunc_name_hint="take")
        return shaped(builder, made, call.ty.shape.values) if axis else made

    def _gather_nd(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        source, indices = call.args
        depth = indices.ty.shape.values[-1]
        made = None
        if int(call.attrs.batch_dims) == 0 and isinstance(depth, tirx.IntImm):
            made = self._gathered(builder, source, indices, int(depth))
        return by_default(builder, call) if made is None else made

    def _gathered(
        self, builder: relax.BlockBuilder, source: Any, indices: Any, depth: int
    ) -> ir.Expr | None:
        """The slices that indices of the first ``depth`` axes address; None for a type unknown."""
        try:
            op = gather(*operand_types([source.ty, indices.ty]), dimension_map=tuple(range(depth)))
            check_numbers(op)
        except OpError:  # such as 8-bit floats
            return None
        extents = [*indices.ty.shape.values, *source.ty.shape.values[depth:]]
        if op.slices.depth_dim:
            del extents[len(op.slices.batch)]
        kind = relax.TensorType(extents, str(source.ty.dtype))
        return self._calls(builder, op, [source, indices], [kind])[0]


def _with_depth(builder: relax.BlockBuilder, indices: Any) -> Any:
    """Indices of one component, so that the op does not take a last extent of 1 for their depth."""
    extents = list(indices.ty.shape.values)
    if extents and isinstance(extents[-1], tirx.IntImm) and int(extents[-1]) != 1:
        return indices
    return shaped(builder, indices, [*extents, 1])


def _taken(source: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    """Elements along an axis, as loops; TVM's own print a warning that is no user's to mend."""
    rank = len(indices.shape)

    def element(*at: Any) -> Any:
        place = indices(*at[axis : axis + rank])
        return source(*at[:axis], place, *at[axis + rank :])

    return te.compute(
        [*source.shape[:axis], *indices.shape, *source.shape[axis + 1 :]], element, name="taken"
    )
