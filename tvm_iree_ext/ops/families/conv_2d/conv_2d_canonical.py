"""The canonical TensorIR of a convolution: blocks ``sums, result``."""

from __future__ import annotations

from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.tir import number_words
from tvm_iree_ext.tir.tir_expressions import convert, i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx


@emits_canonical
def canonical_conv_2d(op: Conv2d, parameters: Parameters) -> None:
    """The direct form."""
    source, taps, result = (parameters.buffers[name] for name in ("input", "filter", "result"))
    dtype = op.compute_dtype

    def placed(n: ir.Expr, y: ir.Expr, x: ir.Expr, channel: ir.Expr) -> tuple[ir.Expr, ...]:
        return (n, y, x, channel) if op.channels_last else (n, channel, y, x)

    rows, columns = (source.shape[axis] for axis in ((1, 2) if op.channels_last else (2, 3)))
    with I.sblock("root"):
        sums = I.sblock_alloc_buffer(list(result.shape), dtype)
        inner = [i64(extent) for extent in (*op.kernel, op.group_channels)]
        with I.grid(*result.shape, *inner) as loops, I.sblock("sums"):
            at = [I.axis.spatial(e, i) for e, i in zip(result.shape, loops[:4], strict=True)]
            kh, kw, c = (I.axis.reduce(e, i) for e, i in zip(inner, loops[4:], strict=True))
            n, y, x, f = at if op.channels_last else (at[0], at[2], at[3], at[1])
            with I.init():
                I.buffer_store(sums, tirx.const(0, dtype), at)
            row = y * op.strides[0] + kh * op.dilations[0] - op.padding[0][0]
            column = x * op.strides[1] + kw * op.dilations[1] - op.padding[1][0]
            channel = tirx.floordiv(f, i64(max(1, op.group_filters))) * op.group_channels + c
            inside = tirx.all(row >= 0, row < rows, column >= 0, column < columns)
            value = tirx.if_then_else(
                inside, source[placed(n, row, column, channel)], tirx.const(0, op.dtype)
            )
            place: tuple[ir.Expr, ...] = (kh, kw, c, f) if op.channels_last else (f, c, kh, kw)
            if op.filter_panels is not None:
                width = i64(op.filter_panels)
                place = (tirx.floordiv(f, width), kh, kw, c, tirx.floormod(f, width))
            factors = [
                number_words.decoded(one, op.nibbles) if op.nibbles else one
                for one in (value, taps[place])
            ]
            term = convert(factors[0], dtype) * convert(factors[1], dtype)
            I.buffer_store(sums, sums[tuple(at)] + term, at)
        with I.grid(*result.shape) as loops, I.sblock("result"):
            at = [I.axis.spatial(e, i) for e, i in zip(result.shape, loops, strict=True)]
            value = sums[tuple(at)]
            if op.epilogue is not None:
                rest = []
                for name, seen in zip(op.others, op.epilogue.parameters[1:], strict=True):
                    axes = op.maps[name].axes
                    seen_at = tuple(at[axis[0]] if axis else i64(0) for axis in axes)
                    element = parameters.buffers[name][seen_at]
                    rest.append(convert(element, str(seen.ty.dtype)))
                value = op.epilogue(value, *rest)
            I.buffer_store(result, convert(value, op.result_dtype), at)
