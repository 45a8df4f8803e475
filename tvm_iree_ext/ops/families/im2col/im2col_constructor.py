"""What makes an im2col, and checks it: its two forms become lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Shape, TensorType, shape_text
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents
from tvm_iree_ext.ops.base.padding import Number, check_padding
from tvm_iree_ext.ops.families.im2col.im2col import (
    NAME,
    PAD_VALUE,
    Im2col,
    Im2colLine,
    known,
    product,
    total,
)

_DTYPES = dtypes.ELEMENTS
_MOST = 1 << 31  # of a stride, a dilation, a size
_FARTHEST = 1 << 62  # of an offset
_RESERVED = ("input", "result", PAD_VALUE)


def im2col(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    kernel_size: Sequence[Extent],
    batch_pos: Sequence[int],
    m_pos: Sequence[int],
    k_pos: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    m_offset: Sequence[Extent] | None = None,
    m_strides: Sequence[Extent] | None = None,
    k_offset: Sequence[Extent] | None = None,
    k_strides: Sequence[Extent] | None = None,
    offsets: Sequence[Extent] | None = None,
    output_sizes: Sequence[Sequence[Extent]] | None = None,
    input_k_perm: Sequence[int] | None = None,
    output_perm: Sequence[int] | None = None,
    input_pad_low: Sequence[Extent] | None = None,
    input_pad_high: Sequence[Extent] | None = None,
    output_pad_low: Sequence[Extent] | None = None,
    output_pad_high: Sequence[Extent] | None = None,
    pad_value: Number | np.generic | Literal["operand"] | None = None,
    dtype: str = "float32",
) -> Im2col:
    """Gather convolution windows into rows: ``output[batch..., M..., K...]``.

    Numbers may be names: of extents of ``input``, or of numbers that a call takes after ``input``.
    ``m_offset``, ``m_strides``, ``k_offset`` and ``k_strides`` are the dialect's older form; all
    that follows them is the newer one's.

    Args:
        input: a shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_shape: the result's; by default all of it, where that follows from the input.
            The value of a name that ``input`` lacks is that of the array given as ``out``.
        kernel_size, strides, dilations: of the convolution, one for each of ``m_pos``; strides
            and dilations are 1 by default.
        batch_pos, m_pos, k_pos: the input's batch, window and channel dims; ``m_pos`` increases.
        m_offset, m_strides, k_offset, k_strides: the position in M and in K of an element of the
            result, by default that of one M dim and one K dim from 0 on.
        offsets: where the result begins, for each of its dims in the order batch, M, K.
        output_sizes: the extents of the coordinates that each of these dims stands for: of one
            for each of ``batch_pos``, of ``m_pos``, and then of the window's dims.  By default
            one dim for all M, and one for all K.
        input_k_perm: the order in which K goes over the input's dims but batch.
        output_perm: which of the dims batch, M, K each axis of the result is.
        input_pad_low, input_pad_high: elements of ``pad_value`` around the input.
        output_pad_low, output_pad_high: elements of ``pad_value`` around the result, within its
            shape, by its axes.
        pad_value: a number, 0 by default, or ``"operand"`` for one passed at call time.

    Raises:
        OpError: for a rank, extent, dtype, dim, permutation, or length of a list that does not fit.
    """
    kind = named_extents(as_tensor(NAME, "input", input, dtype, _DTYPES, least=0), "d")
    older: dict[str, Any] = {
        "m_offset": m_offset,
        "m_strides": m_strides,
        "k_offset": k_offset,
        "k_strides": k_strides,
    }
    newer: dict[str, Any] = {
        "offsets": offsets,
        "output_sizes": output_sizes,
        "input_k_perm": input_k_perm,
        "output_perm": output_perm,
        "input_pad_low": input_pad_low,
        "input_pad_high": input_pad_high,
        "output_pad_low": output_pad_low,
        "output_pad_high": output_pad_high,
        PAD_VALUE: pad_value,
    }
    given = [[name for name in form if form[name] is not None] for form in (older, newer)]
    if all(given):
        raise OpError(
            f"{NAME}: {given[0][0]} is of the older form, and {given[1][0]} of the newer one;"
            " expected one of them"
        )
    kernel_size = _listed("kernel_size", kernel_size)
    ones = (1,) * len(kernel_size)
    strides = ones if strides is None else _listed("strides", strides)
    dilations = ones if dilations is None else _listed("dilations", dilations)
    batch_pos, m_pos, k_pos = (
        _listed(name, dims)
        for name, dims in (("batch_pos", batch_pos), ("m_pos", m_pos), ("k_pos", k_pos))
    )
    rank = len(kind.shape)
    _check_dims(rank, batch_pos, m_pos, k_pos)
    _check_windows(kind.shape, len(m_pos), kernel_size, strides, dilations)
    inner = len(m_pos) + len(k_pos)
    # Of the image alone, first: its sizes are the defaults of what follows.
    image = Im2col(
        input=kind,
        output=kind,
        strides=strides,
        dilations=dilations,
        kernel_size=kernel_size,
        batch_pos=batch_pos,
        m_pos=m_pos,
        k_pos=k_pos,
        input_k_perm=_permutation("input_k_perm", input_k_perm, inner),
        output_perm=(),
        lines=(),
        input_pads=_pads("input", input_pad_low, input_pad_high, rank, kind.shape),
        output_pads=((), ()),
        padding=None
        if pad_value is None
        else check_padding(NAME, PAD_VALUE, pad_value, kind.dtype),
        is_strided=not given[1],
    )
    if image.is_strided:
        linear = _linear(older, kind.shape)
        whole = linear["m_offset"] == (0,) and linear["k_offset"] == (0,)
        lines = _strided_lines(image, linear)
    else:
        sizes = _sizes(image, output_sizes)
        starts = _offsets(offsets, len(sizes), kind.shape)
        whole = starts == (0,) * len(sizes) and all(_follows(kind.shape, s) for s in sizes)
        lines = _lines(image, starts, sizes)
    if image.is_strided or output_sizes is None:
        _check_spans(image)
        whole = whole and known((*kernel_size, *image.input_pads[0], *image.input_pads[1]))
    dims = sum(len(line.axes) for line in lines)
    order = _permutation("output_perm", output_perm, dims)
    placed = [replace(line, axes=tuple(order.index(axis) for axis in line.axes)) for line in lines]
    pads = _pads("output", output_pad_low, output_pad_high, dims, kind.shape)
    op = replace(image, lines=tuple(placed), output_perm=order, output_pads=pads)
    shape = _output_shape(op, output_shape, whole)
    return replace(op, output=TensorType(shape, kind.dtype))


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    """The entries of a list, with NumPy's integers as Python's."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise OpError(f"{NAME}: {name} is {values!r}; expected a list")
    return tuple(one.item() if isinstance(one, np.integer) else one for one in values)


def _check_dims(
    rank: int, batch_pos: tuple[int, ...], m_pos: tuple[int, ...], k_pos: tuple[int, ...]
) -> None:
    for name, dims in (("batch_pos", batch_pos), ("m_pos", m_pos), ("k_pos", k_pos)):
        for dim in dims:
            if not isinstance(dim, int) or not 0 <= dim < rank:
                raise OpError(f"{NAME}: {name} has {dim!r}; expected dims from 0 to {rank - 1}")
    every = (*batch_pos, *m_pos, *k_pos)
    if len(set(every)) != len(every):
        raise OpError(f"{NAME}: batch_pos, m_pos and k_pos share a dim: {list(every)}")
    if len(every) != rank:
        raise OpError(
            f"{NAME}: input has rank {rank}; expected {len(every)}: {len(batch_pos)} batch_pos,"
            f" {len(m_pos)} m_pos and {len(k_pos)} k_pos"
        )
    if not m_pos:
        raise OpError(f"{NAME}: m_pos is empty; expected at least one")
    if list(m_pos) != sorted(m_pos):
        raise OpError(f"{NAME}: m_pos {list(m_pos)} is not in increasing order")


def _check_windows(
    shape: Shape, count: int, kernel: Shape, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> None:
    if len(kernel) != count:
        raise OpError(
            f"{NAME}: kernel_size has {len(kernel)} extents; expected one for each of the"
            f" {count} m_pos"
        )
    of_kernel = {"kernel_size": kernel, "strides": strides, "dilations": dilations}
    for name, values in of_kernel.items():
        if len(values) != count:
            raise OpError(
                f"{NAME}: {name} has {len(values)} entries; expected {count} as kernel_size"
            )
        for value in values:
            if name == "kernel_size" and isinstance(value, str):
                _check_name(name, value)
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OpError(f"{NAME}: {name} has {value!r}; expected numbers from 1")
            elif value >= _MOST:
                raise OpError(f"{NAME}: {name} has {value}; expected numbers below 2**31")


def _check_spans(op: Im2col) -> None:
    """That a window fits into the padded image, where that is known."""
    for dim, size, dilation in zip(op.m_pos, op.kernel_size, op.dilations, strict=True):
        extent = op.padded(dim)
        if not isinstance(size, int) or not isinstance(extent, int):
            continue
        spread = 1 + (size - 1) * dilation
        if extent < spread:
            raise OpError(
                f"{NAME}: input axis {dim} has extent {extent}; the window spans {spread}"
            )


def _check_name(where: str, name: str) -> None:
    if not name.isidentifier() or name in _RESERVED:
        raise OpError(f"{NAME}: {where} has {name!r}; expected a number, or a name of one")


def _number(where: str, value: Any, least: int = 0, most: int = _MOST) -> Extent:
    """A number or a name, checked."""
    if isinstance(value, str):
        _check_name(where, value)
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise OpError(f"{NAME}: {where} has {value!r}; expected a number or a name")
    if not least <= value < most:
        raise OpError(f"{NAME}: {where} has {value}; expected a number from {least} to {most - 1}")
    return value


def _permutation(name: str, given: Sequence[int] | None, count: int) -> tuple[int, ...]:
    if given is None:
        return tuple(range(count))
    order = _listed(name, given)
    if not all(isinstance(one, int) for one in order) or sorted(order) != list(range(count)):
        raise OpError(
            f"{NAME}: {name} is {list(order)}; expected a permutation of {list(range(count))}"
        )
    return order


def _pads(
    side: str, low: Sequence[Extent] | None, high: Sequence[Extent] | None, rank: int, shape: Shape
) -> tuple[Shape, Shape]:
    found = []
    for end, values in (("low", low), ("high", high)):
        name = f"{side}_pad_{end}"
        pads = (
            (0,) * rank
            if values is None
            else tuple(_number(name, one) for one in _listed(name, values))
        )
        if len(pads) != rank:
            raise OpError(
                f"{NAME}: {name} has {len(pads)} entries; expected {rank}, one for each axis"
            )
        found.append(pads)
    return found[0], found[1]


def _follows(shape: Shape, sizes: Sequence[Extent]) -> bool:
    """Whether sizes are of numbers and of the input's extents alone."""
    return all(isinstance(e, int) or not e.isidentifier() or e in shape for e in sizes)


def _offsets(given: Sequence[Extent] | None, count: int, shape: Shape) -> Shape:
    if given is None:
        return (0,) * count
    given = _listed("offsets", given)
    offsets = tuple(_number("offsets", one, -_FARTHEST, _FARTHEST) for one in given)
    if len(offsets) != count:
        raise OpError(
            f"{NAME}: offsets has {len(offsets)} entries; expected {count}, as output_sizes"
        )
    for one in offsets:
        if one in shape and isinstance(one, str):
            raise OpError(f"{NAME}: offsets has {one!r}, which is an extent's name")
    return offsets


def _sizes(op: Im2col, given: Sequence[Sequence[Extent]] | None) -> list[Shape]:
    """The sizes of each dim batch, M, K."""
    batches = len(op.batch_pos)
    if given is None:
        ms = tuple(map(op.windows_of, op.m_pos))
        ks = tuple(map(op.window_size, _window_dims(op)))
        return [*((op.padded(dim),) for dim in op.batch_pos), ms, ks]
    groups = [_listed("output_sizes", group) for group in _listed("output_sizes", given)]
    sizes = [tuple(_number("output_sizes", one) for one in group) for group in groups]
    for number, group in enumerate(sizes):
        if len(group) != 1 and (number < batches or not group):
            what = "1, of a batch dim" if number < batches else "at least 1"
            raise OpError(
                f"{NAME}: output_sizes[{number}] has {len(group)} entries; expected {what}"
            )
    ends = _ends(sizes[batches:])
    wanted = len(op.m_pos)
    if len(sizes) < batches or wanted not in ends:
        raise OpError(
            f"{NAME}: output_sizes {[list(one) for one in sizes]} has no dims after the {batches}"
            f" batch dims with the {wanted} coordinates of m_pos"
        )
    within = wanted + len(op.k_pos)
    if ends[-1] - wanted != within:
        raise OpError(
            f"{NAME}: output_sizes has {ends[-1] - wanted} coordinates of K; expected {within},"
            " those of m_pos and of k_pos"
        )
    return sizes


def _ends(groups: Sequence[Shape]) -> list[int]:
    """How many coordinates there are up to the end of each group."""
    found, seen = [], 0
    for group in groups:
        seen += len(group)
        found.append(seen)
    return found


def _window_dims(op: Im2col) -> list[int]:
    """The input's dims that K goes over, outermost first."""
    dims = sorted((*op.m_pos, *op.k_pos))
    return [dims[place] for place in op.input_k_perm]


def _k_steps(op: Im2col, dims: Sequence[int]) -> tuple[int, ...]:
    dilation = dict(zip(op.m_pos, op.dilations, strict=True))
    return tuple(dilation.get(dim, 1) for dim in dims)


def _lines(op: Im2col, offsets: Shape, sizes: Sequence[Shape]) -> list[Im2colLine]:
    """A line for each dim."""
    inner = _window_dims(op)
    dims = [*op.batch_pos, *op.m_pos, *inner]
    steps = [*(1 for _ in op.batch_pos), *op.strides, *_k_steps(op, inner)]
    lines, first = [], 0
    for axis, (offset, group) in enumerate(zip(offsets, sizes, strict=True)):
        own = slice(first, first := first + len(group))
        lines.append(
            Im2colLine((axis,), (offset,), (1,), group, tuple(dims[own]), tuple(steps[own]))
        )
    return lines


def _strided_lines(op: Im2col, linear: Mapping[str, Shape]) -> list[Im2colLine]:
    """A line for all M, and one for all K."""
    *batches, m, k = _lines(op, (0,) * (len(op.batch_pos) + 2), _sizes(op, None))
    lines, first = batches, len(batches)
    for letter, line in (("m", m), ("k", k)):
        offsets, strides = linear[f"{letter}_offset"], linear[f"{letter}_strides"]
        axes = tuple(range(first, first := first + len(offsets)))
        lines.append(replace(line, axes=axes, offsets=offsets, strides=strides))
    return lines


def _linear(older: Mapping[str, Any], shape: Shape) -> dict[str, Shape]:
    """Offsets and strides of M and K, checked."""
    linear = {
        name: (int(name.endswith("strides")),) if values is None else _listed(name, values)
        for name, values in older.items()
    }
    for letter in "mk":
        offsets, strides = linear[f"{letter}_offset"], linear[f"{letter}_strides"]
        if not offsets:
            raise OpError(f"{NAME}: {letter}_offset is empty; expected at least one")
        if len(offsets) != len(strides):
            raise OpError(
                f"{NAME}: {letter}_offset has {len(offsets)} entries"
                f" and {letter}_strides {len(strides)}; expected as many"
            )
        if strides[-1] != 1 or isinstance(strides[-1], bool):
            raise OpError(f"{NAME}: the last of {letter}_strides is {strides[-1]!r}; expected 1")
    for name, values in linear.items():
        for value in values:
            if isinstance(value, str):
                if not value.isidentifier() or value in (*shape, *_RESERVED):
                    raise OpError(
                        f"{NAME}: {name} has {value!r}; expected a number, or a name that no"
                        " operand or extent has"
                    )
            elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise OpError(f"{NAME}: {name} has {value!r}; expected a number from 0 or a name")
    return linear


def _output_shape(op: Im2col, given: Sequence[Extent] | None, whole: bool) -> Shape:
    if given is None:
        single = all(len(line.axes) == 1 for line in op.lines)
        low, high = op.output_pads
        if not whole or not single or not known((*low, *high)):
            raise OpError(
                f"{NAME}: output_shape has no default with several M or K dims of strides,"
                " offsets, or numbers of a call; give it"
            )
        extents = {line.axes[0]: product(line.sizes) for line in op.lines}
        return tuple(
            total(extents[axis], low[axis], high[axis])
            if low[axis] or high[axis]
            else extents[axis]
            for axis in range(len(op.output_perm))
        )
    shape = named_extents(
        as_tensor(NAME, "output_shape", given, op.input.dtype, _DTYPES, least=0),
        "o",
        op.input.shape,
    ).shape
    batches, dims = len(op.batch_pos), len(op.output_perm)
    if len(shape) != dims:
        counts = (batches, *(sum(map(len, part)) for part in _axes_of(op)))
        raise OpError(
            f"{NAME}: output_shape {shape_text(shape)} has rank {len(shape)}; expected"
            f" {dims}: {counts[0]} batch, {counts[1]} M and {counts[2]} K dims"
        )
    for one in shape:
        if one in op.scalars:
            raise OpError(f"{NAME}: output_shape has {one!r}, which a call gives as a number, too")
    if not op.is_strided:
        return shape
    batch = tuple(op.input.shape[dim] for dim in op.batch_pos)
    for axis, (came, want) in enumerate(zip(shape, batch, strict=False)):
        if isinstance(came, int) and isinstance(want, int) and came != want:
            raise OpError(
                f"{NAME}: output_shape axis {axis} has extent {came}; expected {want} as in"
                f" input axis {op.batch_pos[axis]}"
            )
    return (*batch, *shape[batches:])


def _axes_of(op: Im2col) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The axes of the lines of M, and of those of K."""
    rest = op.lines[len(op.batch_pos) :]
    ends = _ends([line.sizes for line in rest])
    split = ends.index(len(op.m_pos)) + 1
    return [line.axes for line in rest[:split]], [line.axes for line in rest[split:]]
