"""Two-dimensional convolution, composed of im2col or of the Winograd transforms.

    sums[n, y, x, f] = sum over kh, kw, c of
        image[n, y * s + kh * d - top, x * s + kw * d - left, group(f) * C / groups + c]
        * filter[kh, kw, c, f]
    result = epilogue(sums, operand0, operand1, ...)

with zeros past the image; without an epilogue the result is the sums.  By im2col they are the
product of the windows, as rows of a matrix, with the filter; by Winograd input_transform,
filter_transform, one product for each position of a tile, and output_transform.  The dialect has
these parts and leaves their composition to a compiler.  Sums are in float32, or float64 for such
operands, and rounded once; those of int8, int4 and uint4 are int32.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.ops.families.im2col.im2col import Im2col
from tvm_iree_ext.ops.families.im2col.im2col_constructor import im2col
from tvm_iree_ext.ops.families.winograd.winograd import (
    Winograd,
    winograd_filter_transform,
    winograd_input_transform,
    winograd_output_transform,
)

Algorithm = Literal["im2col", "winograd"]
Layout = Literal["NHWC", "NCHW"]
Pair = tuple[int, int]

WHOLE = ("int8", *dtypes.INTEGERS4)
"""The integers that are multiplied."""


@dataclass(frozen=True, eq=False)
class Conv2d(Op):
    """A convolution; made by :func:`.conv_2d_constructor.conv_2d`, which checks it.

    ``image`` is (N, H, W, C), whatever the layout; ``kernel``, ``strides``, ``dilations`` and
    ``padding`` go by rows and columns.  ``others`` are the operands of the epilogue, ``operand0``
    and so on, and ``maps`` has the axes of the result that each goes along.  With
    ``filter_panels`` the filter is panels of so many columns of F.  ``nibbles`` is the type of
    4 bits of which the elements of the op over words are.
    """

    image: tuple[Extent, Extent, Extent, int]
    kernel: Pair
    filters: int
    dtype: str
    layout: Layout
    strides: Pair
    dilations: Pair
    padding: tuple[Pair, Pair]
    groups: int
    algorithm: Algorithm
    output_tile_size: int | None
    result_dtype: str
    others: Mapping[str, TensorType] = field(default_factory=dict)
    maps: Mapping[str, IndexingMap] = field(default_factory=dict)
    epilogue: Region | None = None
    filter_panels: int | None = None
    nibbles: str = ""

    name = "tvm_iree_ext.conv_2d"

    own_numbers = frozenset(dtypes.FLOATS8)

    @cached_property
    def in_words(self) -> Op:
        """The op over the words of integers of 4 bits."""
        if self.dtype not in dtypes.INTEGERS4:
            return self
        return replace(self, dtype=dtypes.word_dtype(self.dtype), nibbles=self.dtype)

    @property
    def channels_last(self) -> bool:
        """NHWC with HWCF; else NCHW with FCHW."""
        return self.layout == "NHWC"

    @property
    def group_channels(self) -> int:
        """Channels that a filter sees."""
        return self.image[3] // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def depth(self) -> int:
        """How many products make an element of the result."""
        return self.kernel[0] * self.kernel[1] * self.group_channels

    @property
    def is_whole(self) -> bool:
        """Whether products are of integers."""
        return bool(self.nibbles) or self.dtype in WHOLE

    @property
    def compute_dtype(self) -> str:
        """The type of sums."""
        if self.is_whole:
            return "int32"
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def spread(self) -> Pair:
        """The rows and columns that a window spans."""
        kernel, dilations = self.kernel, self.dilations
        return (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1

    @property
    def output(self) -> tuple[Extent, Extent, Extent, int]:
        """The result as (N, H, W, F)."""
        rows, columns = (
            _windows(self.image[1 + d], sum(self.padding[d]) - self.spread[d], self.strides[d])
            for d in range(2)
        )
        return self.image[0], rows, columns, self.filters

    def output_size(self, rows: Any, columns: Any) -> tuple[Any, Any]:
        """The rows and columns of the result, for the values of the image's."""
        extents: list[Any] = [1] * len(self.columns.input.shape)
        sizes = zip(self.columns.m_pos, (rows, columns), self.padding, strict=True)
        for dim, extent, pads in sizes:
            extents[dim] = extent + sum(pads)
        high, wide = self.columns.windows(extents)
        return high, wide

    @cached_property
    def columns(self) -> Im2col:
        """The matrix of the padded image's windows, of which each group's filter is a factor.

        Groups are one more batch dim, beside the channels.
        """
        n, *sizes = self.image[:3]
        rows, columns = (
            extent + sum(pads) if isinstance(extent, int) else "?"
            for extent, pads in zip(sizes, self.padding, strict=True)
        )
        groups = () if self.groups == 1 else (self.groups,)
        channels = (*groups, self.group_channels)
        last = self.channels_last
        shape = (n, rows, columns, *channels) if last else (n, *channels, rows, columns)
        first = 3 if last else 1  # of the dims of groups and channels
        return im2col(
            shape,
            kernel_size=self.kernel,
            strides=self.strides,
            dilations=self.dilations,
            batch_pos=(0, *range(first, first + len(groups))),
            m_pos=(1, 2) if last else (1 + len(channels), 2 + len(channels)),
            k_pos=(first + len(groups),),
            dtype=self.dtype,
        )

    @cached_property
    def transforms(self) -> dict[str, Winograd]:
        """The Winograd transforms by kind, for images of the same layout; none by im2col."""
        r = self.output_tile_size
        if r is None:
            return {}
        i = r + self.kernel[0] - 1
        last = self.channels_last
        image = (1, 2) if last else (2, 3)
        _, taps, *_ = self.signature.operands
        return {
            "input": winograd_input_transform(
                self.in_layout(("?", "?", "?", self.image[3])),
                output_tile_size=r,
                image_dimensions=image,
                dtype=self.dtype,
            ),
            "filter": winograd_filter_transform(
                taps.shape,
                output_tile_size=r,
                kernel_dimensions=(0, 1) if last else (2, 3),
                dtype=self.dtype,
            ),
            "output": winograd_output_transform(
                (i, i, "?", "?", "?", self.filters),
                output_tile_size=r,
                image_dimensions=image,
                dtype=self.compute_dtype,
            ),
        }

    @cached_property
    def signature(self) -> Signature:
        """``input, filter, operand0, ..., result``."""
        names = any(isinstance(extent, str) for extent in self.image)
        least = tuple(
            max(0, spread - sum(pads))
            for spread, pads in zip(self.spread, self.padding, strict=True)
        )
        rows, columns = self.kernel
        taps: tuple[int, ...] = (rows, columns, self.group_channels, self.filters)
        if not self.channels_last:
            taps = (taps[3], taps[2], rows, columns)
        elif self.filter_panels is not None:
            width = self.filter_panels
            taps = (self.filters // width, *taps[:3], width)
        return Signature(
            (
                Operand(
                    "input",
                    self.in_layout(self.image),
                    self.dtype,
                    least=self.in_layout((0, *least, 0)) if names else (),
                ),
                Operand(
                    "filter",
                    taps,
                    self.dtype,
                ),
                *(Operand(name, kind.shape, kind.dtype) for name, kind in self.others.items()),
                Operand(
                    "result",
                    self.in_layout(self.output),
                    self.result_dtype,
                    "result",
                    over=self.image[1:],
                ),
            )
        )

    def in_layout(self, plane: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """(N, H, W, C) in the layout of the op."""
        return plane if self.channels_last else (plane[0], plane[3], plane[1], plane[2])

    @property
    def attributes(self) -> dict[str, Any]:
        """All of them, the algorithm as it was chosen."""
        found: dict[str, Any] = {
            "layout": self.layout,
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "padding": [list(pads) for pads in self.padding],
            "groups": self.groups,
            "algorithm": self.algorithm,
        }
        if self.output_tile_size is not None:
            found["output_tile_size"] = self.output_tile_size
        if self.filter_panels is not None:
            found["filter_panels"] = self.filter_panels
        if self.epilogue is not None:
            found["epilogue"] = self.epilogue.text
        if self.nibbles:
            found["nibbles"] = self.nibbles
        return found

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two per multiply-add of the direct form."""
        count = 1
        for extent in self.output:
            count *= resolve(extent, extents)
        return 2 * count * self.depth


def _windows(extent: Extent, room: int, stride: int) -> Extent:
    """How many windows lie in an extent; ``room`` is the padding less the window."""
    if isinstance(extent, int):
        return (extent + room) // stride + 1
    if stride == 1:
        room += 1
    text = extent if room == 0 else f"{extent} {'+' if room > 0 else '-'} {abs(room)}"
    return text if stride == 1 else f"({text}) // {stride} + 1"
