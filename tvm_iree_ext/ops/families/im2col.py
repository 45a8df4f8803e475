"""``iree_linalg_ext.im2col``: the windows of a convolution as rows of a matrix.

For output index (b..., m..., k...):

    M = sum_i (m_offset[i] + m_i) * m_strides[i]      K = sum_i (k_offset[i] + k_i) * k_strides[i]
    mc = delinearize(M, the convolution's output extents)
    kc = delinearize(K, the window: of the input's dims but batch, in input order,
                        kernel_size for those of m_pos and the extent for those of k_pos)
    output[b, m, k] = input[b,  mc * stride + kc * dilation at m_pos,  kc at k_pos]

So K runs over (kh, kw, c) for NHWC and over (c, kh, kw) for NCHW.  Offsets and strides make tiles
and expanded dims: ``m_strides=[32, 1]`` is M = 32 * m_0 + m_1.  The dialect leaves reads outside
the input undefined; here they give zero.  Its operand for the result's type is a shape here, by
default that of all windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Shape, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

_NAME = "iree_linalg_ext.im2col"
_DTYPES = dtypes.FLOATS + dtypes.INTEGERS


@dataclass(frozen=True, eq=False)
class Im2col(UncountedOp):
    """The windows of an image as a matrix; made by :func:`im2col`, which checks it.

    Offsets and strides of M and K are numbers, or names of numbers given at call time.
    """

    input: TensorType
    output: TensorType
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    kernel_size: tuple[int, ...]
    m_offset: Shape
    m_strides: Shape
    k_offset: Shape
    k_strides: Shape
    batch_pos: tuple[int, ...]
    m_pos: tuple[int, ...]
    k_pos: tuple[int, ...]
    name: str = _NAME

    @property
    def window_dims(self) -> tuple[int, ...]:
        """The input's dims that K runs over, outermost first."""
        return tuple(sorted((*self.m_pos, *self.k_pos)))

    @property
    def batch_rank(self) -> int:
        """How many axes of the output are batch."""
        return len(self.batch_pos)

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The names of the numbers given at call time."""
        every = (*self.m_offset, *self.m_strides, *self.k_offset, *self.k_strides)
        return tuple(dict.fromkeys(name for name in every if isinstance(name, str)))

    @cached_property
    def signature(self) -> Signature:
        """``input, [numbers given at call time], result``."""
        return Signature(
            (
                Operand("input", self.input.shape, self.input.dtype, least=self._least()),
                *(Operand(name, (), "int64", "scalar") for name in self.scalars),
                Operand(
                    "result", self.output.shape, self.output.dtype, "result", over=self.input.shape
                ),
            )
        )

    def _least(self) -> Shape:
        """Least extents of the input, where they are not known before."""
        if all(isinstance(self.input.shape[dim], int) for dim in self.m_pos):
            return ()
        spans = dict(zip(self.m_pos, self.kernel_size, strict=True))
        dilation = dict(zip(self.m_pos, self.dilations, strict=True))
        return tuple(
            1 + (spans[dim] - 1) * dilation[dim] if dim in spans else 0
            for dim in range(len(self.input.shape))
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's."""
        return {
            name: list(getattr(self, name))
            for name in (
                *("strides", "dilations", "kernel_size", "m_offset", "m_strides"),
                *("k_offset", "k_strides", "batch_pos", "m_pos", "k_pos"),
            )
        }

    def windows(self, extents: Sequence[Any]) -> list[Any]:
        """The convolution's output extents, from the extents of the input."""
        of_dim = zip(self.m_pos, self.strides, self.dilations, self.kernel_size, strict=True)
        return [
            (extents[dim] - (1 + (kernel - 1) * dilation)) // stride + 1
            for dim, stride, dilation, kernel in of_dim
        ]

    def window(self, extents: Sequence[Any]) -> list[Any]:
        """The extents that K runs over, by :attr:`window_dims`."""
        kernel = dict(zip(self.m_pos, self.kernel_size, strict=True))
        return [kernel.get(dim, extents[dim]) for dim in self.window_dims]

    @property
    def covers_all(self) -> bool:
        """Whether the result is that of all windows, as a matrix for each batch point."""
        return (self.m_offset, self.k_offset) == ((0,), (0,)) and self.output.shape == _whole(self)


def im2col(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    kernel_size: Sequence[int],
    batch_pos: Sequence[int],
    m_pos: Sequence[int],
    k_pos: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    m_offset: Sequence[Extent] = (0,),
    m_strides: Sequence[Extent] = (1,),
    k_offset: Sequence[Extent] = (0,),
    k_strides: Sequence[Extent] = (1,),
    dtype: str = "float32",
) -> Im2col:
    """Gather convolution windows into rows: ``output[batch..., M..., K...]``.

    Args:
        input: a shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_shape: the result's; by default, for one M and one K dim without offset, all of it.
            The value of a name that ``input`` lacks is that of the array given as ``out``.
        kernel_size, strides, dilations: of the convolution, one for each of ``m_pos``; strides
            and dilations are 1 by default.
        batch_pos, m_pos, k_pos: the input's batch, window and channel dims; ``m_pos`` increases.
        m_offset, m_strides, k_offset, k_strides: the linear position of an element of the result,
            as above: numbers, or names of numbers that a call takes after ``input``.

    Raises:
        OpError: for a rank, extent, dtype, dim, or length of a list that does not fit.
    """
    kind = named_extents(as_tensor(_NAME, "input", input, dtype, _DTYPES, least=0), "d")
    rank = len(kind.shape)
    kernel_size, m_pos = tuple(kernel_size), tuple(m_pos)
    strides = (1,) * len(kernel_size) if strides is None else tuple(strides)
    dilations = (1,) * len(kernel_size) if dilations is None else tuple(dilations)
    batch_pos, k_pos = tuple(batch_pos), tuple(k_pos)
    _check_dims(rank, batch_pos, m_pos, k_pos)
    if len(kernel_size) != len(m_pos):
        raise OpError(
            f"{_NAME}: kernel_size has {len(kernel_size)} extents; expected one for each of the"
            f" {len(m_pos)} m_pos"
        )
    windows = {"kernel_size": kernel_size, "strides": strides, "dilations": dilations}
    for name, values in windows.items():
        if len(values) != len(kernel_size):
            raise OpError(
                f"{_NAME}: {name} has {len(values)} entries;"
                f" expected {len(kernel_size)} as kernel_size"
            )
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OpError(f"{_NAME}: {name} has {value!r}; expected numbers from 1")
    linear = {
        name: tuple(values)
        for name, values in (
            *(("m_offset", m_offset), ("m_strides", m_strides)),
            *(("k_offset", k_offset), ("k_strides", k_strides)),
        )
    }
    _check_linear(linear, kind.shape)
    op = Im2col(
        input=kind,
        output=kind,
        strides=strides,
        dilations=dilations,
        kernel_size=kernel_size,
        batch_pos=batch_pos,
        m_pos=m_pos,
        k_pos=k_pos,
        m_offset=linear["m_offset"],
        m_strides=linear["m_strides"],
        k_offset=linear["k_offset"],
        k_strides=linear["k_strides"],
    )
    for dim, extent, size, dilation in zip(
        m_pos, (kind.shape[d] for d in m_pos), kernel_size, dilations, strict=True
    ):
        spread = 1 + (size - 1) * dilation
        if isinstance(extent, int) and extent < spread:
            raise OpError(
                f"{_NAME}: input axis {dim} has extent {extent}; the window spans {spread}"
            )
    shape = _output_shape(op, output_shape)
    return replace(op, output=TensorType(shape, kind.dtype))


def _check_dims(
    rank: int, batch_pos: tuple[int, ...], m_pos: tuple[int, ...], k_pos: tuple[int, ...]
) -> None:
    for name, dims in (("batch_pos", batch_pos), ("m_pos", m_pos), ("k_pos", k_pos)):
        for dim in dims:
            if not isinstance(dim, int) or not 0 <= dim < rank:
                raise OpError(f"{_NAME}: {name} has {dim!r}; expected dims from 0 to {rank - 1}")
    every = (*batch_pos, *m_pos, *k_pos)
    if len(set(every)) != len(every):
        raise OpError(f"{_NAME}: batch_pos, m_pos and k_pos share a dim: {list(every)}")
    if len(every) != rank:
        raise OpError(
            f"{_NAME}: input has rank {rank}; expected {len(every)}: {len(batch_pos)} batch_pos,"
            f" {len(m_pos)} m_pos and {len(k_pos)} k_pos"
        )
    if not m_pos:
        raise OpError(f"{_NAME}: m_pos is empty; expected at least one")
    if list(m_pos) != sorted(m_pos):
        raise OpError(f"{_NAME}: m_pos {list(m_pos)} is not in increasing order")


def _check_linear(linear: Mapping[str, tuple[Extent, ...]], shape: Shape) -> None:
    """Offsets and strides of M and K."""
    for letter in "mk":
        offsets, strides = linear[f"{letter}_offset"], linear[f"{letter}_strides"]
        if not offsets:
            raise OpError(f"{_NAME}: {letter}_offset is empty; expected at least one")
        if len(offsets) != len(strides):
            raise OpError(
                f"{_NAME}: {letter}_offset has {len(offsets)} entries"
                f" and {letter}_strides {len(strides)}; expected as many"
            )
        if strides[-1] != 1 or isinstance(strides[-1], bool):
            raise OpError(f"{_NAME}: the last of {letter}_strides is {strides[-1]!r}; expected 1")
    for name, values in linear.items():
        for value in values:
            if isinstance(value, str):
                if not value.isidentifier() or value in shape or value in ("input", "result"):
                    raise OpError(
                        f"{_NAME}: {name} has {value!r}; expected a number, or a name that no"
                        " operand or extent has"
                    )
            elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise OpError(f"{_NAME}: {name} has {value!r}; expected a number from 0 or a name")


def _output_shape(op: Im2col, given: Sequence[Extent] | None) -> Shape:
    batch = tuple(op.input.shape[dim] for dim in op.batch_pos)
    counts = (len(op.m_offset), len(op.k_offset))
    if given is None:
        if counts != (1, 1) or op.m_offset != (0,) or op.k_offset != (0,):
            raise OpError(
                f"{_NAME}: output_shape has no default with several M or K dims, or offsets;"
                " give it"
            )
        return _whole(op)
    shape = named_extents(
        as_tensor(_NAME, "output_shape", tuple(given), op.input.dtype, _DTYPES, least=0),
        "o",
        op.input.shape,
    ).shape
    if len(shape) != len(batch) + sum(counts):
        raise OpError(
            f"{_NAME}: output_shape {shape_text(shape)} has rank {len(shape)}; expected"
            f" {len(batch) + sum(counts)}: {len(batch)} batch, {counts[0]} M and {counts[1]} K dims"
        )
    for axis, (came, want) in enumerate(zip(shape, batch, strict=False)):
        if isinstance(came, int) and isinstance(want, int) and came != want:
            raise OpError(
                f"{_NAME}: output_shape axis {axis} has extent {came}; expected {want} as in"
                f" input axis {op.batch_pos[axis]}"
            )
    return (*batch, *shape[len(batch) :])


def _whole(op: Im2col) -> Shape:
    """The result's shape with one M and one K dim that cover everything."""
    batch = tuple(op.input.shape[dim] for dim in op.batch_pos)
    return (*batch, _product(_windows(op)), _product(op.window(op.input.shape)))


def _windows(op: Im2col) -> list[Extent]:
    """The convolution's output extents: numbers, or texts of arithmetic."""
    found: list[Extent] = []
    of_dim = zip(op.m_pos, op.strides, op.dilations, op.kernel_size, strict=True)
    for dim, stride, dilation, kernel in of_dim:
        extent, spread = op.input.shape[dim], 1 + (kernel - 1) * dilation
        if isinstance(extent, int):
            found.append((extent - spread) // stride + 1)
        else:
            found.append(f"(({extent} - {spread}) // {stride} + 1)")
    return found


def _product(extents: Sequence[Extent]) -> Extent:
    number, texts = 1, []
    for extent in extents:
        if isinstance(extent, int):
            number *= extent
        else:
            texts.append(extent)
    return " * ".join([*texts, *([str(number)] if number != 1 else [])]) if texts else number


@emits_canonical
def canonical_im2col(op: Im2col, parameters: Parameters) -> None:
    """One block, over the result."""
    source, result = parameters.buffers["input"], parameters.buffers["result"]
    batches, ms = op.batch_rank, len(op.m_offset)

    def number(value: Extent) -> ir.Expr:
        if isinstance(value, str):
            return parameters.scalars[value]
        return tirx.const(value, "int64")

    def linear(at: Sequence[ir.Expr], offsets: Shape, strides: Shape) -> ir.Expr:
        total: ir.Expr = tirx.const(0, "int64")
        for position, offset, stride in zip(at, offsets, strides, strict=True):
            total = total + (number(offset) + position) * number(stride)
        return total

    def delinearize(flat: ir.Expr, basis: Sequence[Any]) -> list[ir.Expr]:
        found: list[ir.Expr] = []
        for extent in reversed(basis[1:]):
            if isinstance(extent, tirx.IntImm) and int(extent) == 0:
                extent = tirx.const(1, "int64")  # nothing is read
            found.insert(0, tirx.floormod(flat, extent))
            flat = tirx.floordiv(flat, extent)
        return [flat, *found]

    with I.sblock("root"), I.grid(*result.shape) as loops, I.sblock("im2col"):
        at = [I.axis.spatial(e, i) for e, i in zip(result.shape, loops, strict=True)]
        m = linear(at[batches : batches + ms], op.m_offset, op.m_strides)
        k = linear(at[batches + ms :], op.k_offset, op.k_strides)
        windows, window = op.windows(source.shape), op.window(source.shape)
        corner = delinearize(m, windows)
        inside = dict(zip(op.window_dims, delinearize(k, window), strict=True))
        index = [tirx.const(0, "int64")] * len(op.input.shape)
        for position, dim in zip(at, op.batch_pos, strict=False):
            index[dim] = position
        for dim in op.k_pos:
            index[dim] = inside[dim]
        for i, dim in enumerate(op.m_pos):
            index[dim] = corner[i] * op.strides[i] + inside[dim] * op.dilations[i]
        # Only the first coordinates are not reduced: these alone can lead out of the input.
        tests = [m >= 0, k >= 0, corner[0] < windows[0], inside[op.window_dims[0]] < window[0]]
        value = tirx.if_then_else(
            tirx.all(*tests), source[tuple(index)], tirx.const(0, op.input.dtype)
        )
        I.buffer_store(result, value, at)
