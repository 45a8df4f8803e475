"""The loops of the Winograd transform of filters.

With filters innermost, vectors run over channels and filters at once.  Otherwise a task takes a
vector of filters and some channels, transposes their kernels into scratch, and goes on from there.
"""

from collections.abc import Callable

from tvm import tirx
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import Expr, Index, Space, i64, serial
from tvm_iree_ext.schedules.cpu.winograd_tile import TileLoops

from tvm_iree_ext.ops.winograd import Winograd


class FilterLoops(TileLoops):
    """``filter_transform``."""

    def __init__(self, op: Winograd, config: LoweringConfig) -> None:
        super().__init__(op, config)
        sizes = [self.parameters.extent(e) for e in op.output.shape[2:]] or [1, 1]
        self.channels, self.filters = sizes
        self.m = self.tile_columns

    def emit(self) -> None:
        """The whole function."""
        if self.op.channels_last:
            self.over_channels(emit.product([self.channels, self.filters]), self._in_place)
        else:
            self.over_channels(self.filters, self._transposed)

    def _in_place(self, lanes: int, blocks: Index) -> None:
        count = emit.product([self.channels, self.filters])
        with self.tasks(blocks) as block:
            first = I.Bind(self.first_channel(block, count, lanes))

            def element(a: int, b: int) -> Expr:
                return self.load(first + i64(count) * (a * self.m + b), lanes)

            self._tile(element, lambda p, q: first + i64(count) * (p * self.tile_rows + q), lanes)

    def _tile(
        self, element: Callable[[int, int], Expr], at: Callable[[int, int], Expr], lanes: int
    ) -> None:
        """Both products for one vector of kernels."""
        m, i = self.m, self.tile_rows
        tile = emit.registers(i * m * lanes, self.dtype)
        for b in range(m):
            values = self.product([element(a, b) for a in range(m)])
            for p, value in enumerate(values):
                I.buffer_store(tile, value, [emit.run((p * m + b) * lanes, lanes)])
        for p in range(i):
            row = [tile[emit.run((p * m + b) * lanes, lanes)] for b in range(m)]
            for q, value in enumerate(self.product(row)):
                self.store(at(p, q), value, lanes)

    def _transposed(self, lanes: int, blocks: Index) -> None:
        m, i = self.m, self.tile_rows
        chunk = self.config.workgroup_tile["channels"]
        space = Space((blocks, emit.ceil_div(self.channels, chunk)))
        with self.tasks(space.count((0, 1))) as task:
            at = space.spread(task, (0, 1))
            first = I.Bind(self.first_channel(at[0], self.filters, lanes))
            begin = I.Bind(i64(at[1]) * chunk)
            count = I.Bind(i64(emit.smaller(chunk, i64(self.channels) - begin)))
            kernels = emit.fixed_scratch([chunk * m * m, lanes], self.dtype)
            elements = I.Bind(count * (m * m))

            def source(lane: int, element: Index) -> Expr:
                kernel = emit.flat_index([first + lane, begin], (self.filters, self.channels))
                return kernel * (m * m) + i64(element)

            blocks_of = tirx.floordiv(elements, i64(lanes))
            with serial(blocks_of) as block:
                rows = [self.load(source(lane, block * lanes), lanes) for lane in range(lanes)]
                for j, value in enumerate(emit.transpose(rows)):
                    I.buffer_store(kernels, value, [block * lanes + j, emit.run(0, lanes)])
            with serial(elements, blocks_of * lanes) as element:
                for lane in range(lanes):
                    value = self.load(source(lane, element), 1)
                    I.buffer_store(kernels, value, [element, i64(lane)])
            with serial(count) as c:
                channel = begin + c
                shape = (i, i, self.channels, self.filters)
                self._tile(
                    lambda a, b: kernels[c * (m * m) + (a * m + b), emit.run(0, lanes)],
                    lambda p, q: emit.flat_index([p, q, channel, first], shape),
                    lanes,
                )
