"""The canonical TensorIR of a butterfly stage: one block, of one butterfly."""

import math
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.dtypes import item_bytes

if TYPE_CHECKING:
    from tvm_iree_ext.ops.fft import Fft


def canonical(op: "Fft") -> tirx.PrimFunc:
    """The PrimFunc: a block ``butterfly`` over the rows' dims, blocks and positions in a block."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        _emit(op)
    return builder.get()


def _emit(op: "Fft") -> None:
    symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
    stage: ir.Expr = tirx.const(op.stage if isinstance(op.stage, int) else 0, "int64")
    buffers: dict[str, Any] = {}
    for operand in op.signature.operands:
        if operand.role == "scalar":
            stage = I.arg("stage", tirx.Var("stage", "int64"))
            continue
        shape = [
            symbols[e] if isinstance(e, str) else tirx.const(e, "int64") for e in operand.shape
        ]
        buffer = I.buffer(shape, operand.dtype, align=item_bytes(operand.dtype))
        buffers[operand.name] = I.arg(operand.name, buffer)
    *outer, length = buffers["real"].shape
    one = tirx.const(1, "int64")
    half = (
        tirx.const(2 ** (op.stage - 1), "int64")
        if isinstance(op.stage, int)
        else one << (stage - one)
    )

    def load(name: str, *at: ir.Expr) -> ir.Expr:
        value = buffers[name][at]
        return value if op.dtype == op.compute_dtype else tirx.Cast(op.compute_dtype, value)

    def store(name: str, value: ir.Expr, at: list[ir.Expr]) -> None:
        value = value if op.dtype == op.compute_dtype else tirx.Cast(op.dtype, value)
        I.buffer_store(buffers[name], value, at)

    extents = [*outer, tirx.floordiv(length, half * 2), half]
    with I.sblock("root"), I.grid(*extents) as loops, I.sblock("butterfly"):
        axes = [I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True)]
        *row, block, j = axes
        low = block * (half * 2) + j
        at_u, at_t = [*row, low], [*row, low + half]
        if op.coefficients is not None:
            w_real, w_imag = load("real_coeff", j), load("imag_coeff", j)
        else:
            turn = tirx.const(-math.pi, op.compute_dtype)
            angle = turn * tirx.Cast(op.compute_dtype, j) / tirx.Cast(op.compute_dtype, half)
            w_real, w_imag = tirx.cos(angle), tirx.sin(angle)
        a_real, a_imag = load("real_init", *at_t), load("imag_init", *at_t)
        t_real = w_real * a_real - w_imag * a_imag
        t_imag = w_real * a_imag + w_imag * a_real
        for name, t in (("real", t_real), ("imag", t_imag)):
            u = load(f"{name}_init", *at_u)
            store(name, u + t, at_u)
            store(name, u - t, at_t)
