"""The canonical TensorIR of im2col: one block, over the result."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_iree_ext.ops.base.padding import padding_expr
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.im2col.im2col import PAD_VALUE, Im2col
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


def _delinearized(flat: ir.Expr, divisors: Sequence[ir.Expr]) -> list[ir.Expr]:
    """Coordinates, the last one fastest; the first one is not reduced."""
    found: list[ir.Expr] = []
    for divisor in reversed(divisors):
        found.insert(0, tirx.floormod(flat, divisor))
        flat = tirx.floordiv(flat, divisor)
    return [flat, *found]


@emits_canonical
def canonical_im2col(op: Im2col, parameters: Parameters) -> None:
    """One block, over the result."""
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    number = parameters.number
    with I.sblock("root"), I.grid(*result.shape) as loops, I.sblock("im2col"):
        at = [I.axis.spatial(e, i) for e, i in zip(result.shape, loops, strict=True)]
        tests: list[ir.Expr] = []
        for axis, (low, high) in enumerate(zip(*op.output_pads, strict=True)):
            if low != 0:
                tests.append(at[axis] >= number(low))
            if high != 0:
                tests.append(at[axis] < result.shape[axis] - number(high))
        index: list[ir.Expr] = [i64(0)] * len(op.input.shape)
        for line, within in zip(op.lines, op.within, strict=True):
            flat: ir.Expr = i64(0)
            for axis, offset, stride in zip(line.axes, line.offsets, line.strides, strict=True):
                place = number(offset) + at[axis] - number(op.output_pads[0][axis])
                flat = flat + place * number(stride)
            divisors = [number(op.divisor(size)) for size in line.sizes[1:]]
            coordinates = _delinearized(flat, divisors)
            if not within:
                # Only the first coordinate is not reduced: it alone can exceed its size.
                tests += [flat >= 0, coordinates[0] < number(line.sizes[0])]
            for dim, step, coordinate in zip(line.dims, line.steps, coordinates, strict=True):
                index[dim] = index[dim] + coordinate * step
        for dim, inside in enumerate(op.inside):
            index[dim] = index[dim] - number(op.input_pads[0][dim])
            if not inside:
                tests += [index[dim] >= 0, index[dim] < source.shape[dim]]
        value: ir.Expr = source[tuple(index)]
        if tests:
            passed = parameters.scalars.get(PAD_VALUE)
            otherwise = padding_expr(op.padding, passed, op.input.dtype)
            value = tirx.if_then_else(tirx.all(*tests), value, otherwise)
        I.buffer_store(result, value, at)
