"""A convolution whose lanes sum up elements of the result by themselves.

    for element of the result, in its order:
        total = 0
        for kh, kw, channel: if inside: total += window * filter
        result = epilogue(total)

Neighbouring lanes have neighbouring elements.
"""

from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_operands import ConvOperands, conv_shape
from tvm_iree_ext.schedules.gpu.sblocks.elementwise import schedule_elementwise_block
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tir_expressions import convert


def direct_conv_2d(op: Conv2d, target: Target, num_subgroups: int) -> tirx.PrimFunc:
    """The scheduled function of an op, for workgroups of so many subgroups."""
    operands = ConvOperands(op, conv_shape(op, (op.dtype, op.dtype, op.compute_dtype)))
    sch = s_tir.Schedule(_elements(operands))
    schedule_elementwise_block(sch, "element", target, num_subgroups=num_subgroups, run=1)
    return operands.settled(sch.mod["main"])


def _elements(operands: ConvOperands) -> tirx.PrimFunc:
    op = operands.op
    dtype = op.compute_dtype
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands.declare()
        extents = operands.lines()
        with I.sblock("root"), I.grid(*extents) as loops, I.sblock("element"):
            line, place = (I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True))
            group, i, j = operands.element(line, place)
            total = I.sblock_alloc_buffer((1,), dtype, scope="local")
            I.buffer_store(total, tirx.const(0, dtype), [0])
            taps = [operands.index(extent) for extent in (*op.kernel, op.group_channels)]
            with I.grid(*taps) as (kh, kw, c):
                at = {"m": i, "n": j, "k": operands.step(kh, kw, c)}
                inside = [operands.inside(side, at, 1) for side in ("lhs", "rhs")]
                term = _product(operands, group, at, dtype)
                for condition in filter(lambda one: one is not None, inside):
                    term = tirx.if_then_else(condition, term, tirx.const(0, dtype))
                I.buffer_store(total, total[0] + term, [0])
            operands.store(group, i, j, total[0])
    return builder.get()


def _product(operands: ConvOperands, group: Any, at: dict[str, Any], dtype: str) -> Any:
    nibbles = operands.op.nibbles
    loaded = [operands.load(side, group, at) for side in ("lhs", "rhs")]
    first, second = (number_words.decoded(one, nibbles) if nibbles else one for one in loaded)
    return convert(first, dtype) * convert(second, dtype)
