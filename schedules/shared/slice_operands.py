"""The operands of a kernel over slices, on any target: flat views, and the addresses in them.

Everything is addressed by flat row-major positions: a slice is a few runs of elements that lie next
to each other, both in the tensor and among the slices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import alignment_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.block_nests import in_range
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.slices.gather import Gather
from tvm_iree_ext.ops.families.slices.scatter import Scatter
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known


def static_count(shape: Sequence[Extent]) -> int | None:
    """The number of points of a shape, where all extents are numbers."""
    counts = [extent for extent in shape if isinstance(extent, int)]
    return prod(counts) if len(counts) == len(shape) else None


@dataclass(frozen=True)
class FlatBuffer:
    """A buffer as its elements in row-major order."""

    buffer: Any
    dtype: str

    @staticmethod
    def of(buffer: Any) -> "FlatBuffer":
        """A view of a buffer."""
        count = emit.product([known(e) or e for e in buffer.shape])
        dtype = str(buffer.dtype)
        view = I.decl_buffer([i64(count)], dtype, data=buffer.data, align=alignment_bytes(dtype))
        IRBuilder.name(f"flat_{buffer.name}", view)
        return FlatBuffer(view, dtype)

    def load(self, index: Index, dtype: str | None = None) -> Expr:
        """An element, as ``dtype``."""
        # A bool is read as a number: a vector of i1 is packed, and memory is not.
        stored = "int8" if self.dtype == "bool" else self.dtype
        return emit.cast(emit.cast(self.buffer[i64(index)], stored), dtype or self.dtype)

    def store(self, index: Index, value: Expr) -> None:
        """Write an element, converted to the buffer's type."""
        I.buffer_store(self.buffer, emit.cast(value, self.dtype), [i64(index)])


class SliceOperands:
    """The parameters of a kernel over slices while it is built."""

    def __init__(self, op: Scatter | Gather) -> None:
        self.op, self.slices = op, op.slices
        self.parameters = Parameters.declare(op)
        buffers = self.parameters.buffers
        self.flat = {name: FlatBuffer.of(buffer) for name, buffer in buffers.items()}
        self.full = [self.extent(extent) for extent in self.slices.full]

    def extent(self, extent: Extent) -> Index:
        """An extent as a number, or an expression where it is a symbol."""
        return self.parameters.symbols[extent] if isinstance(extent, str) else extent

    def count(self, shape: Sequence[Extent]) -> Index:
        """The number of points of a shape."""
        return emit.product([self.extent(extent) for extent in shape])

    @cached_property
    def positions(self) -> Index:
        """How many batch positions there are."""
        return self.count(self.slices.batch)

    @cached_property
    def run(self) -> Index:
        """The elements of a slice's runs: the window from the last indexed dim on."""
        return self.count(self.slices.window[max(self.slices.covered - 1, 0) :])

    @cached_property
    def runs(self) -> Index:
        """How many runs a slice has."""
        return self.count(self.slices.window[: max(self.slices.covered - 1, 0)])

    @cached_property
    def tail(self) -> Index:
        """The elements of the dims that are not indexed."""
        return emit.product(self.full[self.slices.depth :])

    def run_offset(self, run: Expr) -> Index:
        """Offset in the tensor of a slice's run from its first one."""
        covered, depth = self.slices.covered, self.slices.depth
        if covered < 2:
            return 0
        offset: Index = 0
        stride = emit.product(self.full[depth - 1 :])
        for dim, extent in reversed(list(enumerate(self.slices.extents))[depth - covered : -1]):
            one = i64(self.extent(extent))
            offset = i64(offset) + tirx.floormod(run, one) * i64(stride)
            run = tirx.floordiv(run, one)
            stride = emit.product([stride, self.full[dim]])
        return offset

    def address(self, position: Index) -> tuple[Expr, Expr]:
        """For a batch position: the row of its index, and whether its slice is to be touched.

        Rows count points of the indexed dims, with ``tail`` elements each.
        """
        touched: Expr = tirx.const(True, "bool")
        if "mask" in self.flat:
            mask = self.flat["mask"].load(position, "int8")
            touched = tirx.NE(tirx.bitwise_and(mask, tirx.const(1, "int8")), tirx.const(0, "int8"))
        row: Expr = i64(0)
        by_dim = {dim: i for i, dim in enumerate(self.slices.dimension_map)}
        for dim, extent in enumerate(self.slices.extents):
            component = i64(position) * i64(self.slices.depth) + i64(by_dim[dim])
            index = I.Bind(self.flat["indices"].load(component, "int64"))
            inside = in_range(index, i64(self.full[dim]), i64(self.extent(extent)))
            touched = tirx.And(touched, inside)
            row = row * i64(self.full[dim]) + index
        return row, touched
