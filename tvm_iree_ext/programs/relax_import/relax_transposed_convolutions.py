"""Transposed convolutions of Relax as the registry's op, without zeros between the pixels.

See :mod:`~tvm_iree_ext.mlir.dialects.linalg_transposed_convolutions`: a convolution of the image
itself with a filter for each phase of the strides, whose results are interleaved.
"""

from collections.abc import Mapping
from typing import Any

from tvm import ir, relax, te, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.mlir.dialects.linalg_transposed_convolutions import SpreadAxis
from tvm_iree_ext.programs.relax_import.relax_ops import (
    Lower,
    OpCalls,
    by_default,
    operand_types,
    shaped,
)
from tvm_iree_ext.tir.tir_expressions import known

_LAYOUTS = {("NCW", "IOW"), ("NCHW", "IOHW")}


class TransposedConvolutions:
    """What ``LegalizeOps`` makes of transposed convolutions, by ``calls`` of ops."""

    def __init__(self, calls: OpCalls) -> None:
        self._calls = calls

    def lowered(self) -> Mapping[str, Lower]:
        """How each operator of Relax is lowered, by its name."""
        return {
            "relax.nn.conv1d_transpose": self._transposed,
            "relax.nn.conv2d_transpose": self._transposed,
        }

    def _transposed(self, builder: relax.BlockBuilder, call: relax.Call) -> ir.Expr:
        axes = _axes(call)
        if axes is None:
            return by_default(builder, call)
        image, taps = call.args
        rows, columns = axes
        phases = builder.emit_te(lambda of: _taps_of_phases(of, rows, columns), taps)
        a, b, filters, *others = phases.ty.shape.values
        own = shaped(builder, phases, [a * b * filters, *others])
        extents = list(image.ty.shape.values)
        image = shaped(builder, image, [*extents[:2], *(_number(x.image) for x in axes)])
        seen, kernel = operand_types([image.ty, own.ty])
        try:
            op = ops.conv_2d(
                seen,
                kernel,
                layout="NCHW",
                padding=(rows.padding, columns.padding),
                algorithm="im2col",  # as of any convolution of a program
                result_dtype=str(call.ty.dtype),
            )
        except OpError:
            return by_default(builder, call)
        sizes = [_number(int(one)) for one in op.signature.results[0].shape[2:]]
        kind = relax.TensorType([extents[0], a * b * filters, *sizes], str(call.ty.dtype))
        (sums,) = self._calls(builder, op, [image, own], [kind])
        apart = shaped(builder, sums, [extents[0], a, b, filters, *sizes])
        made = builder.emit_te(lambda of: _interleaved(of, rows, columns), apart)
        return shaped(builder, made, call.ty.shape.values)


def _axes(call: relax.Call) -> tuple[SpreadAxis, SpreadAxis] | None:
    """Rows and columns of a call; None for one that the registry's op does not compute."""
    held = call.attrs
    if (str(held.data_layout), str(held.kernel_layout)) not in _LAYOUTS or int(held.groups) != 1:
        return None
    if any(int(one) != 1 for one in held.dilation):
        return None
    image, taps, result = (list(map(known, one.ty.shape.values[2:])) for one in (*call.args, call))
    strides, before = list(map(int, held.strides)), list(map(int, held.padding))
    found = [SpreadAxis(1, 1, 1)] if len(strides) == 1 else []
    for at, stride in enumerate(strides):
        extents = image[at], taps[at], result[at]
        if any(one is None or one == 0 for one in extents):
            return None
        pixels, width, pixels_out = (int(one) for one in extents if one is not None)
        found.append(SpreadAxis(pixels, width, pixels_out, width - 1 - before[at], stride))
    rows, columns = found
    return rows, columns


def _taps_of_phases(taps: te.Tensor, rows: SpreadAxis, columns: SpreadAxis) -> te.Tensor:
    """The filter of each phase: by phases of rows and columns, filters, channels, places."""
    channels, filters = taps.shape[:2]

    def part(a: Any, b: Any, f: Any, c: Any, t: Any, u: Any) -> Any:
        inside: Any = tirx.const(True, "bool")
        places = []
        for axis, phase, tap in ((rows, a, t), (columns, b, u)):
            # A transposed convolution's own taps go backwards.
            number = tap * axis.stride + axis.stride - 1 - phase
            inside = tirx.all(inside, number >= 0, number < axis.taps)
            places.append(axis.taps - 1 - tirx.max(tirx.min(number, axis.taps - 1), 0))
        value = taps(c, f, *places[-(len(taps.shape) - 2) :])
        return tirx.if_then_else(inside, value, tirx.const(0, taps.dtype))

    spatial = (rows.taps_of_phase, columns.taps_of_phase)
    shape = [rows.stride, columns.stride, filters, channels, *spatial]
    return te.compute([_number(one) for one in shape], part, name="phases")


def _interleaved(sums: te.Tensor, rows: SpreadAxis, columns: SpreadAxis) -> te.Tensor:
    """The pixels of all phases in their order."""

    def part(n: Any, f: Any, y: Any, x: Any) -> Any:
        (q, a), (r, b) = (
            (
                tirx.floordiv(p + axis.skipped, axis.stride),
                tirx.floormod(p + axis.skipped, axis.stride),
            )
            for p, axis in ((y, rows), (x, columns))
        )
        return sums(n, a, b, f, q, r)

    shape = [sums.shape[0], sums.shape[3], rows.result, columns.result]
    return te.compute([_number(one) for one in shape], part, name="interleave")


def _number(extent: Any) -> Any:
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent
