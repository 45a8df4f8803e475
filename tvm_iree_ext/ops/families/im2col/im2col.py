"""``iree_linalg_ext.im2col``: the windows of a convolution as rows of a matrix.

Dims of the result, in canonical order batch, M and K, make lines of positions, and each line has
sizes, by which a position is delinearized into coordinates of the image:

    position = sum over the line's dims of (offset + place) * stride
    coordinates = delinearize(position, sizes)
    input[dim] = sum over all coordinates of dim of coordinate * step - input_pad_low[dim]

with a step of 1 for batch dims, the convolution's stride for the coordinates of M, and those of K a
dilation, or 1 for channels.  In the dialect's older form all M dims are one line and so are all K
dims, with strides (``m_strides=[32, 1]`` is M = 32 * m_0 + m_1) and with the sizes of all windows.
In the newer one each dim is a line of its own, with sizes that are given (``output_sizes``).

K's coordinates are the input's dims but batch in the input's order, (kh, kw, c) for NHWC and
(c, kh, kw) for NCHW, or that which ``input_k_perm`` says.  Axis ``i`` of the result is canonical
dim ``output_perm[i]``.  What lies outside the sizes, outside the image, or in the result's own
padding is ``pad_value``; without one, where the dialect leaves it undefined, zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tvm_iree_ext.base.signature import Extent, Operand, Shape, Signature, TensorType
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.padding import Padding, padding_json

NAME = "iree_linalg_ext.im2col"
PAD_VALUE = "pad_value"


@dataclass(frozen=True)
class Im2colLine:
    """Axes of the result that make one position, and the coordinates that it is taken apart into.

    ``axes`` (with ``offsets`` and ``strides``) are the result's; ``sizes`` have the coordinates'
    extents, ``dims`` the input's dims that they move along and ``steps`` by how much.  Numbers may
    be names, and sizes arithmetic, of extents and of numbers given at call time.
    """

    axes: tuple[int, ...]
    offsets: Shape
    strides: Shape
    sizes: Shape
    dims: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Im2col(UncountedOp):
    """The windows of an image as a matrix; made by :func:`.im2col_constructor.im2col`.

    ``lines`` are in canonical order.  Pads are (low, high), with a number or a name for each axis.
    ``is_strided`` says that the attributes are those of the older form.
    """

    input: TensorType
    output: TensorType
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    kernel_size: Shape
    batch_pos: tuple[int, ...]
    m_pos: tuple[int, ...]
    k_pos: tuple[int, ...]
    input_k_perm: tuple[int, ...]
    output_perm: tuple[int, ...]
    lines: tuple[Im2colLine, ...]
    input_pads: tuple[Shape, Shape]
    output_pads: tuple[Shape, Shape]
    padding: Padding | None
    is_strided: bool
    name: str = NAME

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """The names of the numbers given at call time, but for a padding's."""
        linear = self._by_kind("offsets", "strides") if self.is_strided else self._in_order()
        every = (*self.kernel_size, *linear, *sum((*self.input_pads, *self.output_pads), ()))
        names = dict.fromkeys(e for e in every if isinstance(e, str) and e.isidentifier())
        return tuple(name for name in names if name not in self.input.shape)

    def _by_kind(self, *kinds: str) -> Shape:
        return tuple(e for line in self.lines for kind in kinds for e in getattr(line, kind))

    def _in_order(self) -> Shape:
        """Offsets of all lines before sizes of all, as the newer form lists them."""
        return (*self._by_kind("offsets"), *self._by_kind("sizes"))

    @cached_property
    def signature(self) -> Signature:
        """``input, [numbers given at call time], [pad_value], result``."""
        source, result = self.input, self.output
        passed = [Operand(name, (), "int64", "scalar") for name in self.scalars]
        if self.padding == "operand":
            passed.append(Operand(PAD_VALUE, (), source.dtype, "scalar"))
        return Signature(
            (
                Operand("input", source.shape, source.dtype, least=self._least()),
                *passed,
                Operand("result", result.shape, result.dtype, "result", over=source.shape),
            )
        )

    def _least(self) -> Shape:
        """Least extents of the input, where they are not known before: a window's, of all of it."""
        least = [0] * len(self.input.shape)
        for dim, size, dilation in zip(self.m_pos, self.kernel_size, self.dilations, strict=True):
            pads = [side[dim] for side in self.input_pads]
            if isinstance(self.input.shape[dim], int) or not known((size, *pads)):
                continue
            if self.windows_of(dim) in self._by_kind("sizes"):
                spread = 1 + (int(size) - 1) * dilation
                least[dim] = max(0, spread - sum(map(int, pads)))
        return tuple(least) if any(least) else ()

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's: of the older form, or of the newer one."""
        found: dict[str, Any] = {
            name: list(getattr(self, name))
            for name in ("strides", "dilations", "kernel_size", "batch_pos", "m_pos", "k_pos")
        }
        if self.is_strided:
            for letter, line in zip("mk", self.lines[len(self.batch_pos) :], strict=True):
                found[f"{letter}_offset"] = list(line.offsets)
                found[f"{letter}_strides"] = list(line.strides)
            return found
        found["offsets"] = list(self._by_kind("offsets"))
        found["output_sizes"] = [list(line.sizes) for line in self.lines]
        found["input_k_perm"] = list(self.input_k_perm)
        found["output_perm"] = list(self.output_perm)
        for side, pads in (("input", self.input_pads), ("output", self.output_pads)):
            if any(pad != 0 for pad in (*pads[0], *pads[1])):
                found[f"{side}_pad_low"], found[f"{side}_pad_high"] = map(list, pads)
        if self.padding is not None:
            found[PAD_VALUE] = padding_json(self.padding)
        return found

    def windows(self, extents: Sequence[Any]) -> list[Any]:
        """The convolution's output extents, from the extents of an image without padding.

        For a ``kernel_size`` of numbers.
        """
        of_dim = zip(self.m_pos, self.strides, self.dilations, self.kernel_size, strict=True)
        return [
            (extents[dim] - (1 + (int(kernel) - 1) * dilation)) // stride + 1
            for dim, stride, dilation, kernel in of_dim
        ]

    def padded(self, dim: int) -> Extent:
        """The extent of the padded image along a dim."""
        return total(self.input.shape[dim], *(side[dim] for side in self.input_pads))

    def windows_of(self, dim: int) -> Extent:
        """How many windows there are along a dim of ``m_pos``: a number, or arithmetic."""
        at = self.m_pos.index(dim)
        kernel, stride, dilation = self.kernel_size[at], self.strides[at], self.dilations[at]
        extent = self.padded(dim)
        if isinstance(kernel, int):
            spread = 1 + (kernel - 1) * dilation
            if isinstance(extent, int):
                return (extent - spread) // stride + 1
            found = f"(({extent} - {spread}) // {stride} + 1)"
        else:
            found = f"(({extent} - 1 - ({kernel} - 1) * {dilation}) // {stride} + 1)"
        # What a call gives may have no window at all.
        pads = [side[dim] for side in self.input_pads]
        return found if known((kernel, *pads)) else f"max({found}, 0)"

    def window_size(self, dim: int) -> Extent:
        """The extent that K has along a dim: of the kernel, or of all channels."""
        if dim not in self.m_pos:
            return self.padded(dim)
        kernel = self.kernel_size[self.m_pos.index(dim)]
        return kernel if isinstance(kernel, int) else f"max({kernel}, 0)"

    def divisor(self, size: Extent) -> Extent:
        """What to divide by for a size: at least 1, where a call might say 0."""
        if isinstance(size, int):
            return max(size, 1)
        extents = {extent for extent in self.input.shape if isinstance(extent, str)}
        return size if names(size) <= extents else f"max({size}, 1)"

    @cached_property
    def within(self) -> tuple[bool, ...]:
        """For each line, whether all its positions are within its sizes, for certain."""
        return tuple(map(self._is_within, self.lines))

    def _is_within(self, line: Im2colLine) -> bool:
        extents = tuple(self.output.shape[axis] for axis in line.axes)
        pads = [[side[axis] for axis in line.axes] for side in self.output_pads]
        is_first = (len(extents), line.offsets, pads[0]) == (1, (0,), [0])
        if is_first and extents[0] == product(line.sizes):
            return True
        every = (*extents, *line.offsets, *line.strides, *line.sizes, *pads[0], *pads[1])
        if not known(every) or any(int(offset) < 0 for offset in line.offsets):
            return False
        terms = zip(line.offsets, extents, line.strides, *pads, strict=True)
        last = sum((o + e - low - high - 1) * s for o, e, s, low, high in terms)
        return last < prod(map(int, line.sizes))

    @cached_property
    def inside(self) -> tuple[bool, ...]:
        """For each dim of the input, whether what is within the sizes is in it, for certain."""
        return tuple(map(self._is_inside, range(len(self.input.shape))))

    def _is_inside(self, dim: int) -> bool:
        if any(side[dim] != 0 for side in self.input_pads):
            return False
        extent = self.input.shape[dim]
        parts = [
            (size, step)
            for line in self.lines
            for size, to, step in zip(line.sizes, line.dims, line.steps, strict=True)
            if to == dim
        ]
        if known((extent, *(size for size, _ in parts))):
            return sum((int(size) - 1) * step for size, step in parts) < int(extent)
        if dim not in self.m_pos:
            return parts == [(extent, 1)]
        kernel = self.kernel_size[self.m_pos.index(dim)]
        sizes = [size for size, _ in parts]
        return isinstance(kernel, int) and sizes == [self.windows_of(dim), kernel]


def known(values: Sequence[Extent]) -> bool:
    """Whether all are numbers."""
    return all(isinstance(value, int) for value in values)


def names(extent: Extent) -> set[str]:
    """The names in an extent, but for those of functions."""
    found = re.findall(r"[^\W\d]\w*", str(extent))
    return {name for name in found if name not in ("ceildiv", "max", "min")}


def total(*extents: Extent) -> Extent:
    """The sum of extents: a number, or arithmetic."""
    number = sum(extent for extent in extents if isinstance(extent, int))
    texts = [extent for extent in extents if isinstance(extent, str)]
    if not texts:
        return number
    if number:
        texts.append(str(number))
    return texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"


def product(extents: Sequence[Extent]) -> Extent:
    """The product of extents: a number, or arithmetic."""
    number, texts = 1, []
    for extent in extents:
        if isinstance(extent, int):
            number *= extent
        else:
            texts.append(extent)
    return " * ".join([*texts, *([str(number)] if number != 1 else [])]) if texts else number
