"""A function that writes a tensor with its axes in another order, or as it is."""

from collections.abc import Sequence
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes


def move_function(
    shape: Sequence[Any], dtype: str, order: Sequence[int], name: str = "move"
) -> tirx.PrimFunc:
    """``target[..., at[order[i]], ...] = source[at]``.

    Extents that are no numbers are the function's own, found at the call.
    """
    extents = [
        tirx.const(int(e), "int64") if isinstance(e, tirx.IntImm) else tirx.Var(f"n{axis}", "int64")
        for axis, e in enumerate(shape)
    ]
    places = [extents[axis] for axis in order]
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name(name)
        I.func_attr({"tirx.noalias": True})
        align = item_bytes(dtype)
        source = I.arg("source", I.buffer(extents, dtype, align=align))
        target = I.arg("target", I.buffer(places, dtype, align=align))
        with I.sblock("root"), I.grid(*(places or [tirx.const(1, "int64")])) as loops:
            listed = [loops] if isinstance(loops, ir.Var) else list(loops)
            with I.sblock(name):
                at = [I.axis.spatial(e, v) for e, v in zip(places, listed, strict=False)]
                if not at:
                    I.axis.spatial(tirx.const(1, "int64"), listed[0])
                by = dict(zip(order, at, strict=True))
                read = tuple(by[axis] for axis in range(len(order)))
                I.buffer_store(target, source[read], at)
    return builder.get()
