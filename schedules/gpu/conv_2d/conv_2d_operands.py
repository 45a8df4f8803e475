"""A convolution as products of matrices: the image's windows are read where they lie.

    for group:    sums[pixel, filter] = sum over k of windows[pixel, k] * filters[k, filter]

with k = (kh, kw, channel), the channel the fastest, in NHWC, where the windows are ``lhs``; and
with k = (channel, kh, kw) in NCHW, where the filters are ``lhs`` and pixels are columns.  So the
filter is read in the order of memory, and columns are what the result has side by side.
No matrix of windows is made: an element of it is one of the image, or 0 where the window reaches
past the image.

Of few channels, or a number that is no multiple of an access, the image may be copied first to
more, of zeros, by a kernel of its own: three of float16, each read by itself for each tap, become
four that are read at once.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.nibbles import widened
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape, Prologue
from tvm_iree_ext.schedules.gpu.products.multiplied_types import Types
from tvm_iree_ext.tir.tir_expressions import convert

_ALIGNED_BYTES = 16  # addresses of operands: of the widest access
_MOST_INT32 = (1 << 31) - 1
_MORE_DIMS = 3  # of an index of the image, whose parts take registers


def conv_shape(op: Conv2d, types: Types, channels: int | None = None) -> MatmulShape:
    """The product of matrices of a group.

    ``types`` are what is multiplied, and of sums; ``channels`` those of a copy of the image.
    """
    depth = op.depth if channels is None else prod(op.kernel) * channels
    pixels = _product(op.output[:3])
    plane = _product(op.output[1:3])
    m, n = (pixels, op.group_filters) if op.channels_last else (op.group_filters, pixels)
    if op.channels_last:
        rows = {
            "lhs": channels or op.group_channels,
            "rhs": op.group_filters,
            "result": op.group_filters,
        }
    else:
        # Where each pixel is a window, those of an image lie side by side.
        rows = {
            "lhs": op.depth,
            "rhs": (plane or 1) if _pointwise(op) else 1,
            "result": plane or 1,
        }
    bits = (8 * item_bytes(kind.dtype) for kind in op.others.values())
    return MatmulShape(
        m, n, depth, *types,
        groups=op.groups,
        rows=rows,
        memory={**dict.fromkeys(SIDES, op.dtype), "result": op.result_dtype},
        epilogue_bits=max(bits, default=0),
        more_dims=_MORE_DIMS,
        prologues=dict.fromkeys(SIDES, Prologue(widened(op.nibbles))) if op.nibbles else {},
    )  # fmt: skip


def _product(extents: tuple[Any, ...]) -> int | None:
    return None if any(isinstance(extent, str) for extent in extents) else prod(extents)


def _pointwise(op: Conv2d) -> bool:
    padded = any(pad for pads in op.padding for pad in pads)
    return op.kernel == (1, 1) and op.strides == (1, 1) and not padded


class ConvOperands:
    """The op's operands as a kernel of tiles reads and writes them.

    ``channels`` are those of a copy of the image, NHWC and of one group, if there is one.
    """

    def __init__(self, op: Conv2d, shape: MatmulShape, channels: int | None = None) -> None:
        self.op, self.shape = op, shape
        self.channels = channels or op.group_channels
        self.copied_first = () if channels is None else ("input_padded",)
        self.copy: Any = None
        self.image = "lhs" if op.channels_last else "rhs"
        counts = [_product(operand.shape) for operand in op.signature.operands]
        small = all(count is not None and count <= _MOST_INT32 for count in counts)
        self.index_dtype = "int32" if small else "int64"
        self._bound: list[tuple[Any, Any]] = []

    def declare(self) -> None:
        """Name the func, and add the op's operands."""
        self.parameters = Parameters.declare(
            self.op, align=_ALIGNED_BYTES, index_dtype=self.index_dtype
        )
        self._result = [self._named(extent) for extent in self.op.output[:3]]

    def _named(self, extent: Extent) -> Any:
        """A number, or a variable: of expressions TVM's analysis of indices makes too much.

        The function has a parameter for it until :meth:`settled`.
        """
        value = self.parameters.extent(extent)
        if isinstance(value, int | tirx.Var):
            return value
        var = tirx.Var(f"windows{len(self._bound)}", str(value.ty.dtype))
        self._bound.append((I.arg(var.name, var), value))
        return var

    def settled(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """The scheduled func with the op's parameters alone."""
        if not self._bound:
            return func
        names = [var.name for var, _ in self._bound]
        params = [param for param in func.params if param.name not in names]
        given = {param.name: param for param in func.params}
        binds = [tirx.Bind(given[var.name], value) for var, value in self._bound]
        body = tirx.SeqStmt([*binds, func.body])
        return tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, m, n and k."""
        op, pixels = self.op, prod(self._result)
        m, n = (pixels, op.group_filters) if op.channels_last else (op.group_filters, pixels)
        return op.groups, m, n, prod(op.kernel) * self.channels

    def emit_blocks(self) -> None:
        """Emit the copy of the image as a block, to be scheduled."""
        if not self.copied_first:
            return
        image = self.parameters.buffers["input"]
        extents = [*image.shape[:3], self.index(self.channels)]
        (name,) = self.copied_first
        copy = I.sblock_alloc_buffer(extents, str(image.dtype))
        IRBuilder.name(name, copy)
        with I.grid(*extents) as loops, I.sblock(name):
            at = [I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True)]
            zero = tirx.const(0, str(image.dtype))
            there = at[3] < self.op.group_channels
            I.buffer_store(copy, tirx.if_then_else(there, image[tuple(at)], zero), at)
        self.copy = copy

    def index(self, value: Any) -> Any:
        """A number as an index."""
        return tirx.const(value, self.index_dtype) if isinstance(value, int) else value

    def lines(self) -> tuple[Any, Any]:
        """The result as a matrix: pixels by filters, or filters of images by pixels."""
        batch, high, wide = self._result
        if self.op.channels_last:
            return self.index(batch * high * wide), self.index(self.op.filters)
        return self.index(batch * self.op.filters), self.index(high * wide)

    def element(self, line: Any, place: Any) -> tuple[Any, Any, Any]:
        """The group, m and n of an element of that matrix."""
        op, (_, high, wide) = self.op, self._result
        if op.channels_last:
            return place // op.group_filters, line, place % op.group_filters
        f = line % op.filters
        pixel = line // op.filters * (high * wide) + place
        return f // op.group_filters, f % op.group_filters, pixel

    def step(self, kh: Any, kw: Any, c: Any) -> Any:
        """The step of k that has a channel of a tap."""
        op = self.op
        rows, columns = op.kernel
        tap = kh * columns + kw
        return tap * op.group_channels + c if op.channels_last else c * (rows * columns) + tap

    def buffer(self, side: str) -> Any:
        """The op's operand that is ``lhs`` or ``rhs``, or its copy."""
        if side == self.image and self.copy is not None:
            return self.copy
        return self.parameters.buffers["input" if side == self.image else "filter"]

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of the windows, or of the filters of a group."""
        op, buffer = self.op, self.buffer(side)
        if side != self.image:
            f = group * op.group_filters + at["n" if op.channels_last else "m"]
            kh, kw, c = self._tap(at["k"])
            return buffer[(kh, kw, c, f) if op.channels_last else (f, c, kh, kw)]
        n, y, x = self._pixel(at["m" if op.channels_last else "n"])
        kh, kw, c = self._tap(at["k"])
        row, column = self._place(y, x, kh, kw)
        return buffer[op.in_layout((n, row, column, group * op.group_channels + c))]

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> Any | None:
        """Whether a window's element is one of the image, the same for ``run`` elements of a row.

        None where all are: no window reaches past the image.
        """
        op = self.op
        if side != self.image:
            channel = self._tap(at["k"])[2]
            return channel < op.group_channels if self.copied_first else None
        if op.channels_last:
            _, y, x = self._pixel(at["m"])
            kh, kw, _ = self._tap(at["k"] // run, run)
        else:
            _, y, x = self._pixel(at["n"])
            kh, kw, _ = self._tap(at["k"])
        found = None
        for dim, place in enumerate(self._place(y, x, kh, kw)):
            first, _ = op.padding[dim]
            extent, windows = op.image[1 + dim], op.output[1 + dim]
            past = True
            if not (isinstance(extent, str) or isinstance(windows, str)):
                past = (windows - 1) * op.strides[dim] + op.spread[dim] - first > extent
            limit = self.parameters.extent(extent)
            for condition, needed in ((place >= 0, first > 0), (place < limit, past)):
                if needed:
                    found = condition if found is None else tirx.And(found, condition)
        return found

    def _pixel(self, number: Any) -> tuple[Any, Any, Any]:
        """The image, row and column of a pixel of the result."""
        _, high, wide = self._result
        line = number // wide
        return line // high, line % high, number % wide

    def _tap(self, k: Any, run: int = 1) -> tuple[Any, Any, Any]:
        """Row, column and channel of a step of k; of the number of a run of it, its first's."""
        op = self.op
        rows, columns = op.kernel
        if op.channels_last:
            channels = self.channels // run
            tap = k // channels
            return tap // columns, tap % columns, k % channels * run
        tap = k % (rows * columns)
        return tap // columns, tap % columns, k // (rows * columns)

    def _place(self, y: Any, x: Any, kh: Any, kw: Any) -> tuple[Any, Any]:
        """Row and column of the image, which may be past it."""
        (sy, sx), (dy, dx), ((top, _), (left, _)) = (
            self.op.strides, self.op.dilations, self.op.padding
        )  # fmt: skip
        return y * sy + kh * dy - top, x * sx + kw * dx - left

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """The sum, through the epilogue, to the result."""
        op = self.op
        pixel, f = (i, j) if op.channels_last else (j, i)
        n, y, x = self._pixel(pixel)
        place = op.in_layout((n, y, x, group * op.group_filters + f))
        if op.epilogue is not None:
            zero = tirx.const(0, self.index_dtype)
            rest = []
            for name, seen in zip(op.others, op.epilogue.parameters[1:], strict=True):
                axes = op.maps[name].axes
                element = self.parameters.buffers[name][
                    tuple(place[axis[0]] if axis else zero for axis in axes)
                ]
                rest.append(convert(element, str(seen.ty.dtype)))
            value = op.epilogue(value, *rest)
        result = self.parameters.buffers["result"]
        I.buffer_store(result, convert(value, str(result.dtype)), list(place))
