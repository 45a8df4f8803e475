"""One butterfly stage of an FFT on GPUs: a lane for each butterfly."""

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape, for_each
from tvm_iree_ext.schedules.shared.fft.fft_roots import unit_roots
from tvm_iree_ext.tir.tir_expressions import Expr, cast

_PARTS = ("real", "imag")


def butterflies_kernel(op: Fft, shape: WorkgroupShape) -> tirx.PrimFunc:
    """The PrimFunc of ``op``."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        _emit(op, shape)
    return builder.get()


def _emit(op: Fft, shape: WorkgroupShape) -> None:
    parameters = Parameters.declare(op)
    dtype = op.compute_dtype
    extents = [parameters.extent(extent) for extent in op.shape]
    stage = parameters.scalars["stage"] if op.stage == "operand" else i64(op.stage)
    # Of a stage below 1, which there is none, nothing fits.
    bits = tirx.Select(stage >= 1, tirx.min(stage - 1, i64(61)), i64(61))
    half = i64(1) << bits if op.stage == "operand" else i64(1 << (int(op.stage) - 1))
    with I.sblock("root"):
        flat = {name: emit.flat(buffer) for name, buffer in parameters.buffers.items()}
        for name, buffer in flat.items():
            IRBuilder.name(name, buffer)
        total = emit.product(extents)
        with for_each(emit.ceil_div(total, 2), shape) as number:
            block, j = emit.divide(number, half)
            j = I.Bind(j)
            low = I.Bind(block * half * 2 + j)
            # A stage that the line or the coefficients do not have, which only a caller can give,
            # is not computed.
            fits = tirx.And(low + half < i64(total), half * 2 <= i64(extents[-1]))
            if op.coefficients is not None:
                fits = tirx.And(fits, half <= i64(parameters.extent(op.coefficients)))
            with I.If(fits), I.Then():
                _butterfly(op, flat, j, low, I.Bind(low + half), half, dtype)


def _butterfly(
    op: Fft, flat: dict[str, Any], j: Expr, low: Expr, high: Expr, half: Expr, dtype: str
) -> None:
    if op.coefficients is not None:
        w = [held(cast(flat[f"{part}_coeff"][j], dtype)) for part in _PARTS]
    else:
        w = [held(part) for part in unit_roots(j, half * 2, dtype, 1)]
    u = [held(cast(flat[f"{part}_init"][low], dtype)) for part in _PARTS]
    a = [held(cast(flat[f"{part}_init"][high], dtype)) for part in _PARTS]
    t = held(w[0] * a[0] - w[1] * a[1]), held(w[0] * a[1] + w[1] * a[0])
    for place, part in enumerate(_PARTS):
        I.buffer_store(flat[part], cast(u[place] + t[place], op.dtype), [low])
        I.buffer_store(flat[part], cast(u[place] - t[place], op.dtype), [high])
