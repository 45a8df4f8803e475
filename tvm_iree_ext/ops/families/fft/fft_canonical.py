"""The canonical TensorIR of a butterfly stage and of whole Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


@emits_canonical
def canonical_stage(op: Fft, parameters: Parameters) -> None:
    """The PrimFunc: a block ``butterfly`` over the rows' dims, blocks and positions in a block."""
    *outer, length = parameters["real"].shape
    if isinstance(op.stage, int):
        half = i64(2 ** (op.stage - 1))
    else:
        half = i64(1) << (parameters["stage"] - i64(1))

    def load(name: str, *at: ir.Expr) -> ir.Expr:
        return convert(parameters[name][at], op.compute_dtype)

    def store(name: str, value: ir.Expr, at: list[ir.Expr]) -> None:
        I.buffer_store(parameters[name], convert(value, op.dtype), at)

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


# Sums of as many terms as the transform is long, in one order: float32 would lose digits that
# an algorithm of log n steps keeps.
_EXACT = "float64"


@emits_canonical
def canonical_transform(op: FftTransform, parameters: Parameters) -> None:
    """The PrimFunc: blocks ``part_real, sum_real, result_real``, and the same of imag."""
    buffers = parameters.buffers
    results = [o for o in op.signature.operands if o.role == "result"]
    shape = list(buffers["result_real"].shape)
    zero, order = tirx.const(0.0, _EXACT), tirx.const(op.length, "int64")
    run = tirx.const(math.isqrt(op.length), "int64")

    def load(name: str, at: list[ir.Expr], j: ir.Expr) -> ir.Expr:
        """Element j of the whole input: without an imaginary part, or with half of a spectrum."""
        if name not in buffers:
            return zero
        mirrored = op.kind == "complex_to_real"
        stored = tirx.Select(j * 2 > order, order - j, j) if mirrored else j
        place = [*at[: op.axis], stored, *at[op.axis + 1 :]]
        value = buffers[name][tuple(place)]
        value = convert(value, _EXACT)
        if mirrored and name == "imag":
            real_only = tirx.any(j == 0, j * 2 == order)
            value = tirx.Select(real_only, zero, tirx.Select(j * 2 > order, zero - value, value))
        return value

    with I.sblock("root"):
        for operand in results:
            part = operand.name.removeprefix("result_")
            # In parts, so that errors of rounding do not grow with the length.
            parts = I.sblock_alloc_buffer([*shape, tirx.ceildiv(order, run)], _EXACT)
            total = I.sblock_alloc_buffer(shape, _EXACT)
            with I.grid(*parts.shape, run) as loops, I.sblock(f"part_{part}"):
                *outer, inner = loops
                at = [I.axis.spatial(e, loop) for e, loop in zip(parts.shape, outer, strict=True)]
                j = at[-1] * run + I.axis.reduce(run, inner)
                with I.init():
                    I.buffer_store(parts, zero, at)
                exponent = tirx.floormod(at[op.axis] * j, order)
                # In half a turn to either side: the smaller the angle, the better its cosine.
                exponent = tirx.Select(exponent * 2 > order, exponent - order, exponent)
                angle = tirx.Cast(_EXACT, exponent) * tirx.const(
                    (2.0 if op.inverse else -2.0) * math.pi / op.length, _EXACT
                )
                # Past the end an element that there is, times nothing.
                k = tirx.min(j, order - 1)
                x, y = load("real", at[:-1], k), load("imag", at[:-1], k)
                cosine, sine = tirx.cos(angle), tirx.sin(angle)
                term = x * cosine - y * sine if part == "real" else x * sine + y * cosine
                term = tirx.Select(j < order, term, zero)
                I.buffer_store(parts, parts[tuple(at)] + term, at)
            with I.grid(*parts.shape) as loops, I.sblock(f"sum_{part}"):
                *outer, inner = loops
                at = [I.axis.spatial(e, loop) for e, loop in zip(shape, outer, strict=True)]
                i = I.axis.reduce(parts.shape[-1], inner)
                with I.init():
                    I.buffer_store(total, zero, at)
                place = (*at, i)
                I.buffer_store(total, total[tuple(at)] + parts[place], at)
            with I.grid(*shape) as loops, I.sblock(operand.name):
                listed = list(loops) if isinstance(loops, Sequence) else [loops]
                at = [I.axis.spatial(e, loop) for e, loop in zip(shape, listed, strict=True)]
                value = total[tuple(at)] * tirx.const(op.scale, _EXACT)
                I.buffer_store(buffers[operand.name], convert(value, op.dtype), at)
