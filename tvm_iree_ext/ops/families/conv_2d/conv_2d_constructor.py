"""The checked constructor of a convolution: it picks the algorithm and adds the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType, shape_text
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents, whole_number
from tvm_iree_ext.ops.base.regions import PlainRegion
from tvm_iree_ext.ops.families.conv_2d.conv_2d import WHOLE, Algorithm, Conv2d, Layout, Pair
from tvm_iree_ext.ops.families.conv_2d.conv_2d_algorithm import choose_algorithm
from tvm_iree_ext.ops.families.conv_2d.conv_2d_epilogue import with_epilogue
from tvm_iree_ext.ops.families.winograd.winograd_matrices import OUTPUT_TILES

_NAME = Conv2d.name
_DTYPES = (*dtypes.FLOATS, *dtypes.FLOATS8, *WHOLE)
_FASTEST = "fastest"


def conv_2d(
    input: OperandLike,
    filter: OperandLike,
    operands: Sequence[OperandLike] = (),
    *,
    layout: Layout = "NHWC",
    strides: int | tuple[int, int] = 1,
    dilations: int | tuple[int, int] = 1,
    padding: int | tuple[Any, Any] = 0,
    groups: int = 1,
    algorithm: Algorithm | Literal["fastest"] | None = None,
    output_tile_size: int | None = None,
    epilogue: PlainRegion | None = None,
    dtype: str = "float32",
    result_dtype: str | None = None,
    filter_panels: int | None = None,
) -> Conv2d:
    """Convolve (correlate, as networks do) images with filters.

    Args:
        input: (N, H, W, C), or (N, C, H, W) with ``layout="NCHW"``: a shape (of ``dtype``),
            :class:`TensorType`, or anything with ``shape`` and ``dtype``.  N, H and W are numbers,
            names of extents known at call time, or ``"?"``.
        filter: (KH, KW, C / groups, F), or (F, C / groups, KH, KW) with ``layout="NCHW"``: numbers.
        operands: what the epilogue takes beside the sum.  Their axes are the result's last ones;
            where an extent is 1, or an axis is not there, one element goes for all.
        strides, dilations: of rows and columns; one number is both.
        padding: zeros around the image: a number, (rows, columns), or
            ((top, bottom), (left, right)).
        groups: filters of group g see its C / groups channels alone; as many as channels: a
            depthwise convolution.
        algorithm: ``"im2col"``; ``"winograd"``; ``"fastest"``, the one that is likely to be
            faster; or None, im2col unless there is an ``output_tile_size``.  Winograd is for
            numbers that are finite and not near the largest: an infinite element makes NaN of all
            results of the tiles that read it, and transforms overflow before their results do.
        output_tile_size: of Winograd: 2, 4 or 6; None for the faster of 2 and 4.
        epilogue: takes the sum as ``arg0`` and an element of each of ``operands`` as ``arg1`` and
            so on; yields the element of the result.  Floats come in the type of sums (float32
            where sums are int32), integers below int32 as int32.  It yields the type of sums, or
            float32 where sums are int32 and the result is a float.
        dtype: element type of operands given as bare shapes: a float type, or by im2col floats
            of 8 bits, and int8, int4 and uint4 with sums of int32.
        result_dtype: by default that of the operands, float32 where they are floats of 8 bits, and
            int32 where they are integers.
        filter_panels: columns of a panel of a filter that was laid out beforehand, a divisor of
            F / groups: (F / filter_panels, KH, KW, C / groups, filter_panels) of (KH, KW,
            C / groups, F), in float32 or float64, by ``layout="NHWC"`` and
            ``algorithm="im2col"``.

    Returns:
        The op.  Its kernel takes input and filter, then ``operands``.

    Raises:
        OpError: for a rank, extent, dtype, attribute or region that does not fit.
    """
    for name, value, allowed in (
        ("layout", layout, get_args(Layout)),
        ("algorithm", algorithm, (*get_args(Algorithm), _FASTEST, None)),
    ):
        if value not in allowed:
            known = ", ".join(map(repr, allowed))
            hint = did_you_mean(value, [one for one in allowed if one])
            raise OpError(f"{_NAME}: {name} is {value!r}; expected one of {known}{hint}")
    image = named_extents(_operand("input", input, dtype), "d")
    if filter_panels is None:
        taps = _operand("filter", filter, dtype)
    else:
        taps = _of_panels(filter, filter_panels, layout, algorithm, dtype)
    if image.dtype != taps.dtype:
        raise OpError(f"{_NAME}: filter has dtype {taps.dtype}; expected {image.dtype} as input")
    last = layout == "NHWC"
    n, h, w, c = (image.shape[axis] for axis in ((0, 1, 2, 3) if last else (0, 2, 3, 1)))
    if isinstance(c, str):
        raise OpError(f"{_NAME}: input's channels are {c!r}; expected a number")
    for axis, extent in enumerate(taps.shape):
        if isinstance(extent, str):
            raise OpError(f"{_NAME}: filter axis {axis} is {extent!r}; expected a number")
    rows, columns, seen, filters = (
        int(taps.shape[axis]) for axis in ((0, 1, 2, 3) if last else (2, 3, 1, 0))
    )
    if not rows * columns:
        raise OpError(f"{_NAME}: filter has {rows} x {columns} taps; expected one at least")
    groups = _number("groups", groups, 1)
    if c % groups or filters % groups:
        raise OpError(
            f"{_NAME}: groups is {groups}; expected a divisor of {c} channels and {filters} filters"
        )
    if seen * groups != c:
        raise OpError(
            f"{_NAME}: filter has {seen} channels; expected {c // groups}: the input has {c}, in"
            f" {groups} groups"
        )
    op = Conv2d(
        image=(n, h, w, c),
        kernel=(rows, columns),
        filters=filters,
        dtype=image.dtype,
        layout=layout,
        strides=_pair("strides", strides, 1),
        dilations=_pair("dilations", dilations, 1),
        padding=_padding(padding),
        groups=groups,
        algorithm="im2col",
        output_tile_size=None,
        result_dtype=image.dtype,
    )
    if image.dtype not in dtypes.FLOATS:
        op = replace(op, result_dtype=op.compute_dtype)
    for what, extent, pads, spread in zip(
        ("rows", "columns"), (h, w), op.padding, op.spread, strict=True
    ):
        if isinstance(extent, int) and extent + sum(pads) < spread:
            raise OpError(
                f"{_NAME}: input has {extent} {what}, {extent + sum(pads)} with padding;"
                f" the window spans {spread}"
            )
    op = _with_algorithm(op, algorithm, output_tile_size)
    if filter_panels is not None:
        if op.dtype != op.compute_dtype:
            raise OpError(
                f"{_NAME}: filter_panels is {filter_panels} with {op.dtype}; expected float32 or"
                " float64"
            )
        if op.group_filters % filter_panels:
            raise OpError(
                f"{_NAME}: filter_panels is {filter_panels}; expected a divisor of"
                f" {op.group_filters}, the filters of a group"
            )
        op = replace(op, filter_panels=filter_panels)
    return with_epilogue(op, operands, epilogue, dtype, result_dtype)


def _with_algorithm(op: Conv2d, algorithm: str | None, tile: int | None) -> Conv2d:
    """The op with an algorithm that can compute it."""
    if tile is not None and (algorithm == "im2col" or tile not in OUTPUT_TILES):
        expected = "None with im2col" if algorithm == "im2col" else "2, 4 or 6, or None"
        raise OpError(f"{_NAME}: output_tile_size is {tile!r}; expected {expected}")
    obstacle = _winograd_obstacle(op)
    if algorithm == "winograd" and obstacle:
        raise OpError(
            f"{_NAME}: winograd takes kernels of 3 x 3 without strides or dilations, and"
            f" floats; {obstacle}"
        )
    if algorithm == "im2col" or obstacle or algorithm is tile is None:
        if tile is not None:
            raise OpError(
                f"{_NAME}: output_tile_size is {tile!r}; by im2col, since {obstacle}, there is none"
            )
        return op
    sizes = (tile,) if tile is not None else (2, 4)
    chosen = choose_algorithm(op, sizes, forced=algorithm == "winograd" or tile is not None)
    if chosen is None:
        return op
    return replace(op, algorithm="winograd", output_tile_size=chosen)


def _winograd_obstacle(op: Conv2d) -> str:
    """Why Winograd cannot compute it; empty when it can."""
    if op.kernel != (3, 3):
        return f"the kernel is {op.kernel[0]} x {op.kernel[1]}"
    for name, value in (("strides", op.strides), ("dilations", op.dilations)):
        if value != (1, 1):
            return f"{name} are {list(value)}"
    return "" if op.dtype in dtypes.FLOATS else f"the operands are {op.dtype}"


def _operand(name: str, operand: OperandLike, dtype: str) -> TensorType:
    kind = as_tensor(_NAME, name, operand, dtype, _DTYPES, least=0)
    if len(kind.shape) != 4:
        raise OpError(f"{_NAME}: {name} has rank {len(kind.shape)}; expected 4")
    return kind


def _of_panels(
    operand: OperandLike, panels: object, layout: str, algorithm: str | None, dtype: str
) -> TensorType:
    """The filter that panels are of, as (KH, KW, C / groups, F)."""
    width = _number("filter_panels", panels, 1)
    if layout != "NHWC" or algorithm not in ("im2col", None):
        raise OpError(
            f"{_NAME}: filter_panels is {width} with layout {layout!r} and algorithm"
            f" {algorithm!r}; expected 'NHWC' and 'im2col'"
        )
    kind = as_tensor(_NAME, "filter", operand, dtype, _DTYPES, least=0)
    if len(kind.shape) != 5 or kind.shape[4] != width or not isinstance(kind.shape[0], int):
        raise OpError(
            f"{_NAME}: filter is {shape_text(kind.shape)}; expected (F / {width}, KH, KW,"
            f" C / groups, {width}), numbers"
        )
    return TensorType((*kind.shape[1:4], kind.shape[0] * width), kind.dtype)


def _number(name: str, value: object, least: int) -> int:
    number = whole_number(value)
    if number is None or number < least:
        raise OpError(f"{_NAME}: {name} is {value!r}; expected a number from {least}")
    return number


def _pair(name: str, value: object, least: int) -> Pair:
    """A number for rows and one for columns."""
    values = tuple(value) if isinstance(value, list | tuple) else (value, value)
    numbers = tuple(whole_number(one) for one in values)
    if len(numbers) != 2 or any(number is None or number < least for number in numbers):
        raise OpError(f"{_NAME}: {name} is {value!r}; expected one or two numbers from {least}")
    return numbers  # type: ignore[return-value]


def _padding(value: object) -> tuple[Pair, Pair]:
    """((top, bottom), (left, right))."""
    sides = tuple(value) if isinstance(value, list | tuple) else (value, value)
    if len(sides) != 2:
        raise OpError(
            f"{_NAME}: padding is {value!r}; expected a number, (rows, columns) or"
            " ((top, bottom), (left, right))"
        )
    return _pair("padding", sides[0], 0), _pair("padding", sides[1], 0)
