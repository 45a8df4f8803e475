"""``iree_linalg_ext.winograd.input_transform``, ``.filter_transform`` and ``.output_transform``.

With output tiles of r x r, kernels of m x m and input tiles of i x i, i = r + m - 1:

    input_transform:   result[:, :, n, h, w, c] = B^T X B,  X the i x i window at (h * r, w * r)
    filter_transform:  result[:, :, c, f] = G F G^T
    output_transform:  the r x r tile at (h * r, w * r) = A^T O A,  O = input[:, :, n, h, w, c]

so that ``output(input(image) . filter(kernel))``, with products summed over c at each of the i x i
positions, is the convolution (the correlation) of image and kernel.  Windows are continued with
zeros past the image.  With one image or kernel dim, which the dialect has not, there is one product
with the matrix, and tiles have one dim: (i, N, W', C) for (N, W, C).  The dialect has constants for
r = 6 and m = 3; r = 2 and 4, and m = 5 and 7, are added.  The larger i is, the more do rounding
errors grow: by some 100 from i = 4 to i = 12.  Sums are in float32, or float64 for such operands,
and rounded once at the end; the dialect computes in the element type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Shape, Signature, TensorType, shape_text
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, named_extents, whole_number
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.winograd.winograd_matrices import (
    KERNELS,
    OUTPUT_TILES,
    Kind,
    Matrix,
    matrices,
)

_IMAGES = ((1, 2), (2, 3), (1,), (2,))
_KERNEL_DIMS = ((0, 1), (2, 3), (0,), (2,))
_CHANNELS_LAST = ((1, 2), (0, 1), (1,), (0,))


@dataclass(frozen=True, eq=False)
class Winograd(Op):
    """One of the three transforms; made by a function below, which checks it.

    ``dims`` are the image or kernel dims of the operand or result that has them: two, or one.
    """

    name: str
    kind: Kind
    input: TensorType
    output: TensorType
    output_tile_size: int
    kernel_size: int
    dims: tuple[int, ...]

    @property
    def input_tile_size(self) -> int:
        """The extent i of a transformed tile."""
        return self.output_tile_size + self.kernel_size - 1

    @property
    def matrix(self) -> Matrix:
        """Factor of a tile: L, for L X L^T."""
        return matrices(self.output_tile_size, self.kernel_size)[self.kind]

    @property
    def factors(self) -> tuple[Matrix, Matrix]:
        """L and R of L X R^T, by which a tile is transformed; of one dim, L is 1."""
        return self.matrix if len(self.dims) == 2 else ((Fraction(1),),), self.matrix

    def across(self, size: int) -> tuple[int, int]:
        """The rows and columns of what has ``size`` along each dim: of one dim, a row."""
        return (size if len(self.dims) == 2 else 1), size

    @property
    def is_tile(self) -> bool:
        """Whether it is the form of one tile: rank 2, or 1 for one dim."""
        return len(self.input.shape) == len(self.dims)

    @property
    def channels_last(self) -> bool:
        """NHWC, or HWCF for a filter; else NCHW or FCHW."""
        return self.is_tile or self.dims in _CHANNELS_LAST

    @property
    def compute_dtype(self) -> str:
        """The type of products and sums."""
        return "float64" if self.input.dtype == "float64" else "float32"

    @cached_property
    def signature(self) -> Signature:
        """``input, result``."""
        least: Shape = ()
        if self.kind == "input" and any(isinstance(e, str) for e in self.input.shape):
            spatial = () if self.is_tile else self.dims
            least = tuple(
                self.kernel_size if d in spatial else 0 for d in range(len(self.input.shape))
            )
        return Signature(
            (
                Operand("input", self.input.shape, self.input.dtype, least=least),
                Operand("result", self.output.shape, self.output.dtype, "result"),
            )
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's."""
        name = "kernel_dimensions" if self.kind == "filter" else "image_dimensions"
        return {
            "output_tile_size": self.output_tile_size,
            "kernel_size": self.kernel_size,
            name: list(self.dims),
        }

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two per multiply-add of both matrix products of each tile."""
        rows, columns = len(self.matrix), len(self.matrix[0])
        tiles = 1
        tiled = self.input if self.kind == "output" else self.output
        for extent in tiled.shape[len(self.dims) :]:
            tiles *= resolve(extent, extents)
        lines = columns + rows if len(self.dims) == 2 else 1
        return 2 * tiles * rows * columns * lines

    def places(self, parameters: Parameters) -> list[Any]:
        """The extents of tiles: (N, H', W', C), or (C, F) of a filter; none of one tile."""
        tiled = self.input if self.kind == "output" else self.output
        found = [parameters.extent(extent) for extent in tiled.shape[len(self.dims) :]]
        if found and self.kind != "filter" and len(self.dims) == 1:
            found.insert(1, 1)
        return found

    def plane(self, parameters: Parameters) -> tuple[Any, ...]:
        """The image as (batch, rows, columns, channels), whatever its layout."""
        image = self.output if self.kind == "output" else self.input
        shape = [parameters.extent(extent) for extent in image.shape]
        if len(self.dims) == 1:
            shape.insert(-1 if self.is_tile else self.dims[0], 1)
        if self.is_tile:
            return (1, *shape, 1)
        if self.channels_last:
            return tuple(shape)
        return shape[0], shape[2], shape[3], shape[1]


def winograd_input_transform(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    output_tile_size: int = 6,
    kernel_size: int = 3,
    image_dimensions: Sequence[int] = (1, 2),
    dtype: str = "float32",
) -> Winograd:
    """Transform the windows of an image.

    Args:
        input: (N, H, W, C), or (N, C, H, W) for ``image_dimensions=(2, 3)``: a shape (of
            ``dtype``), :class:`TensorType`, or an array.  Of rank 2: one window of at most i x i.
            For ``(1,)`` (N, W, C), for ``(2,)`` (N, C, W), and of rank 1 one window.
        output_shape: the result's, compared with what it must be: (i, i, N, H', W', C), H' being
            (H - m + 1) / r rounded up; of one dim (i, N, W', C).
        output_tile_size, kernel_size: r, which is 2, 4 or 6, and m, which is 3, 5 or 7.

    Raises:
        OpError: for a rank, extent, dtype, size or dims that do not fit.
    """
    op = "iree_linalg_ext.winograd.input_transform"
    _check_sizes(op, output_tile_size, kernel_size)
    dims = _check_dims(op, "image_dimensions", image_dimensions, _IMAGES)
    source = _operand(op, input, dtype, (len(dims), len(dims) + 2))
    r, m = output_tile_size, kernel_size
    tile = (r + m - 1,) * len(dims)
    shape: Shape
    if len(source.shape) == len(dims):
        for axis, extent in enumerate(source.shape):
            if isinstance(extent, int) and extent > tile[0]:
                raise OpError(f"{op}: input axis {axis} has extent {extent}; a tile has {tile[0]}")
            if isinstance(extent, str):
                raise OpError(f"{op}: input axis {axis} is dynamic; a tile's extents are numbers")
            if extent == 0:
                raise OpError(f"{op}: input axis {axis} has extent 0; a tile has some")
        shape = tile
    else:
        for axis in dims:
            extent = source.shape[axis]
            if isinstance(extent, int) and extent < m:
                raise OpError(f"{op}: input axis {axis} has extent {extent}; the kernel has {m}")
        tiles = (_tiles(source.shape[axis], r, m) for axis in dims)
        shape = (*tile, source.shape[0], *tiles, source.shape[_channel(dims)])
    return _made(op, "input", source, shape, output_shape, (r, m), dims)


def winograd_filter_transform(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    output_tile_size: int = 6,
    kernel_size: int = 3,
    kernel_dimensions: Sequence[int] = (0, 1),
    dtype: str = "float32",
) -> Winograd:
    """Transform the kernels of a filter.

    Args:
        input: (m, m, C, F), or (F, C, m, m) for ``kernel_dimensions=(2, 3)``.  Of rank 2: one
            kernel.  For ``(0,)`` (m, C, F), for ``(2,)`` (F, C, m), and of rank 1 one kernel.
        output_shape: compared with what it must be: (i, i, C, F), of one dim (i, C, F).
        output_tile_size, kernel_size: r, which is 2, 4 or 6, and m, which is 3, 5 or 7.

    Raises:
        OpError: for a rank, extent, dtype, size or dims that do not fit.
    """
    op = "iree_linalg_ext.winograd.filter_transform"
    _check_sizes(op, output_tile_size, kernel_size)
    dims = _check_dims(op, "kernel_dimensions", kernel_dimensions, _KERNEL_DIMS)
    source = _operand(op, input, dtype, (len(dims), len(dims) + 2))
    tile = (output_tile_size + kernel_size - 1,) * len(dims)
    spatial = tuple(range(len(dims))) if len(source.shape) == len(dims) else dims
    for axis in spatial:
        if source.shape[axis] != kernel_size:
            raise OpError(
                f"{op}: input axis {axis} has extent {source.shape[axis]};"
                f" expected the kernel_size {kernel_size}"
            )
    rest = [extent for axis, extent in enumerate(source.shape) if axis not in spatial]
    shape = (*tile, *(rest if dims[0] == 0 else reversed(rest)))
    sizes = output_tile_size, kernel_size
    return _made(op, "filter", source, shape, output_shape, sizes, dims)


def winograd_output_transform(
    input: OperandLike,
    output_shape: Sequence[Extent] | None = None,
    *,
    output_tile_size: int = 6,
    kernel_size: int = 3,
    image_dimensions: Sequence[int] = (1, 2),
    dtype: str = "float32",
) -> Winograd:
    """Transform tiles back to an image.

    Args:
        input: (i, i, N, H', W', C), of one dim (i, N, W', C).  Of rank 2, or 1: one tile.
        output_shape: compared with what it must be: (N, r * H', r * W', C), or with
            ``image_dimensions=(2, 3)`` (N, C, r * H', r * W'); with ``(1,)`` (N, r * W', C), with
            ``(2,)`` (N, C, r * W').  A caller crops it.
        output_tile_size, kernel_size: r, which is 2, 4 or 6, and m, which is 3, 5 or 7.

    Raises:
        OpError: for a rank, extent, dtype, size or dims that do not fit.
    """
    op = "iree_linalg_ext.winograd.output_transform"
    _check_sizes(op, output_tile_size, kernel_size)
    dims = _check_dims(op, "image_dimensions", image_dimensions, _IMAGES)
    count = len(dims)
    source = _operand(op, input, dtype, (count, 2 * count + 2))
    r, tile = output_tile_size, output_tile_size + kernel_size - 1
    for axis in range(count):
        if source.shape[axis] != tile:
            raise OpError(
                f"{op}: input axis {axis} has extent {source.shape[axis]}; a tile has {tile}"
            )
    shape: Shape = (r,) * count
    if len(source.shape) > count:
        n, *tiles, c = source.shape[count:]
        pixels = [e * r if isinstance(e, int) else f"{e} * {r}" for e in tiles]
        shape = (n, *pixels, c) if dims[0] == 1 else (n, c, *pixels)
    return _made(op, "output", source, shape, output_shape, (r, kernel_size), dims)


def _check_sizes(op: str, output_tile_size: int, kernel_size: int) -> None:
    if output_tile_size not in OUTPUT_TILES or kernel_size not in KERNELS:
        raise OpError(
            f"{op}: no constants for output_tile_size {output_tile_size} and kernel_size"
            f" {kernel_size}; there are for 2, 4 and 6, and for 3, 5 and 7"
        )


def _check_dims(
    op: str, name: str, dims: Sequence[int], allowed: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    given = tuple(map(whole_number, dims)) if isinstance(dims, Sequence) else ()
    for one in allowed:
        if given == one:
            return one
    pair, single = (" or ".join(str(list(d)) for d in allowed if len(d) == n) for n in (2, 1))
    came = list(dims) if isinstance(dims, Sequence) else dims
    raise OpError(f"{op}: {name} is {came!r}; expected {pair}, or for one dim {single}")


def _operand(op: str, operand: OperandLike, dtype: str, ranks: tuple[int, int]) -> TensorType:
    kind = named_extents(as_tensor(op, "input", operand, dtype, dtypes.FLOATS, least=0), "d")
    if len(kind.shape) not in ranks:
        raise OpError(
            f"{op}: input {shape_text(kind.shape)} has rank {len(kind.shape)};"
            f" expected {ranks[0]} or {ranks[1]}"
        )
    return kind


def _channel(dims: tuple[int, ...]) -> int:
    """The dim of an image's channels."""
    return 1 if dims[0] == 2 else len(dims) + 1


def _tiles(extent: Extent, r: int, m: int) -> Extent:
    """How many tiles of r hold the windows of m of an extent."""
    if isinstance(extent, int):
        return -(-(extent - m + 1) // r)
    return f"ceildiv({extent} - {m - 1}, {r})"


def _made(
    op: str,
    kind: Kind,
    source: TensorType,
    shape: Shape,
    given: Sequence[Extent] | None,
    sizes: tuple[int, int],
    dims: tuple[int, ...],
) -> Winograd:
    if given is not None:
        came = tuple(given)
        pairs = zip(came, shape, strict=False)
        wrong = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if len(came) != len(shape) or wrong:
            raise OpError(f"{op}: output_shape is {shape_text(came)}; expected {shape_text(shape)}")
    return Winograd(op, kind, source, TensorType(shape, source.dtype), *sizes, dims)
