"""The loops of the Winograd transform of filters.

With filters innermost, vectors run over channels and filters at once.  Otherwise a task takes a
vector of filters and some channels, transposes their kernels into scratch, and goes on from there.
"""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_tile import TileTransform
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial

Put = Callable[[int, int, Expr, Expr, Expr, int], None]


class FilterTransform(TileTransform):
    """Kernels to tiles; ``put(p, q, c, f, value, lanes)`` takes elements of filters from f on."""

    def __init__(
        self, op: Winograd, source: Any, channels: Index, filters: Index, put: Put
    ) -> None:
        super().__init__(op, source)
        self.channels, self.filters, self.put = channels, filters, put
        self.m = len(self.across[0])
        self.taps = len(self.down[0]) * self.m

    def in_place(self, c: Expr, f: Expr, lanes: int) -> None:
        """A vector of filters, which are innermost, at one channel."""
        count = emit.product([self.channels, self.filters])
        first = I.Bind(c * i64(self.filters) + f)

        def element(a: int, b: int) -> Expr:
            return self.load(first + i64(count) * (a * self.m + b), lanes)

        self._tile(element, c, f, lanes)

    def _tile(self, element: Callable[[int, int], Expr], c: Expr, f: Expr, lanes: int) -> None:
        """Both products for one vector of kernels."""
        m, i = self.m, len(self.down)
        tile = emit.registers(i * m * lanes, self.dtype)
        for b in range(m):
            values = self.product(self.down, [element(a, b) for a in range(len(self.down[0]))])
            for p, value in enumerate(values):
                I.buffer_store(tile, value, [emit.run((p * m + b) * lanes, lanes)])
        for p in range(i):
            row = [tile[emit.run((p * m + b) * lanes, lanes)] for b in range(m)]
            for q, value in enumerate(self.product(self.across, row)):
                self.put(p, q, c, f, value, lanes)

    def transposed(self, begin: Expr, chunk: int, first: Expr, lanes: int) -> None:
        """A vector of filters, which are outermost, at ``chunk`` channels at most."""
        m, taps = self.m, self.taps
        count = I.Bind(i64(emit.smaller(chunk, i64(self.channels) - begin)))
        kernels = emit.scratch([chunk * taps, lanes], self.dtype)
        elements = I.Bind(count * taps)

        def source(lane: int, element: Index) -> Expr:
            kernel = emit.flat_index([first + lane, begin], (self.filters, self.channels))
            return kernel * taps + i64(element)

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
            self._tile(
                lambda a, b: kernels[c * taps + (a * m + b), emit.run(0, lanes)],
                begin + c,
                first,
                lanes,
            )
