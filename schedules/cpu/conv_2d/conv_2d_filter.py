"""The filter of a convolution with channels last, as panels of vectors of filters.

Of one that is in panels already, the kernel reads these where they are.
"""

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_config import ConvConfig
from tvm_iree_ext.schedules.cpu.conv_2d.conv_2d_operands import ConvBlock, ConvLoops, product_dtype
from tvm_iree_ext.schedules.cpu.products.register_tiles import panels
from tvm_iree_ext.schedules.emit import Expr, Index, held_index, i64, serial


class FilterLoops(ConvLoops):
    """NHWC with HWCF: packs the filter unless it is, then does tasks.

    ``overlapping`` says that the last vector of a group's filters, where there are several, ends
    with the last filter, and shares some with the one before; else it has zeros at the end.
    """

    overlapping = False

    def __init__(self, op: Conv2d, config: ConvConfig) -> None:
        super().__init__(op, config)
        self.tile = config.tile
        self.dtype = product_dtype(op)
        self.parts = config.splits
        self.held = -(-self.group_filters // self.lanes) * self.lanes

    def task(self, block: ConvBlock) -> None:
        """A block of pixels, a part of a group's filters."""
        raise NotImplementedError

    def emit(self) -> None:
        """The whole function."""
        self.packed: Any = self.filter
        if self.op.filter_panels is None:
            size = self.op.groups * self.held * self.depth
            self.packed = emit.scratch([size], self.dtype)
            self.pack_filter()
        high = emit.product([self.batch, self.out_rows])
        self.over_tasks(self.op.groups, high, self.out_columns, self.parts, self.task)

    def panel_start(self, block: ConvBlock) -> Index:
        """Start of the panels of a task."""
        held = self.held // self.parts
        return held_index((i64(block.group) * self.held + i64(block.part) * held) * self.depth)

    def panels_of(self, held: int) -> list[tuple[int, int, int]]:
        """Panels, as :func:`.panels`; one whose last vector is not whole is by itself."""
        *found, (first, count, vectors) = panels(held, self.tile)
        if self.group_filters % self.lanes and count > 1:
            found.append((first, count - 1, vectors))
            first, count = first + (count - 1) * vectors * self.lanes, 1
        return [*found, (first, count, vectors)]

    def vector_start(self, column: int) -> int:
        """The first filter of a group's vector that begins at a column of its panels."""
        last = self.group_filters - self.lanes
        return min(column, last) if self.overlapping and last >= 0 else column

    def pack_filter(self) -> None:
        """Panels of filters: vectors of each k after one another."""
        groups, filters = self.op.groups, self.group_filters
        with self.over_filter(groups * self.depth) as index:
            group, k = emit.divide(index, self.depth)
            base = I.Bind(k * self.op.filters + group * filters)
            target = I.Bind(i64(group) * (self.held * self.depth))
            for first, count, vectors in self.panels_of(self.held):
                width = vectors * self.lanes
                with serial(count) as panel:
                    column = first + panel * width
                    at = I.Bind(target + column * self.depth + k * width)

                    for j in range(vectors):
                        # Of several panels all vectors are whole.
                        start = self.vector_start(first + j * self.lanes) - first
                        live = (
                            min(self.lanes, filters - first - start) if count == 1 else self.lanes
                        )

                        def copy(
                            place: Index,
                            lanes: int,
                            at: Expr = at + j * self.lanes,
                            source: Expr = base + (column + start),
                        ) -> None:
                            value = self.load(self.filter, source + place, lanes, self.dtype)
                            I.buffer_store(self.packed, value, [emit.run(at + place, lanes)])

                        emit.in_vectors(live, self.lanes, copy)
                        for place in range(live, self.lanes):
                            zero = tirx.const(0, self.dtype)
                            I.buffer_store(self.packed, zero, [at + (j * self.lanes + place)])
