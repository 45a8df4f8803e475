"""The loops of the Winograd transform of filters.

With filters innermost, vectors run over channels and filters at once.  Otherwise a task takes a
vector of filters and some channels, transposes their kernels into scratch, and goes on from there.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.codegen.cpu.argument_guard import addresses
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.winograd.winograd import Winograd
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.winograd.winograd_tile import (
    TileTransform,
    first_channel,
    over_channels,
    store,
    tasks,
)
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, i64, known, serial

Put = Callable[[int, int, Expr, Expr, Expr, int], None]


class FilterTransform(TileTransform):
    """Kernels to tiles; ``put(p, q, c, f, value, lanes)`` takes elements of filters from f on."""

    def __init__(
        self, op: Winograd, source: Any, channels: Index, filters: Index, put: Put
    ) -> None:
        super().__init__(op, source)
        self.channels, self.filters, self.put = channels, filters, put
        self.m = self.tile_columns

    def in_place(self, c: Expr, f: Expr, lanes: int) -> None:
        """A vector of filters, which are innermost, at one channel."""
        count = emit.product([self.channels, self.filters])
        first = I.Bind(c * i64(self.filters) + f)

        def element(a: int, b: int) -> Expr:
            return self.load(first + i64(count) * (a * self.m + b), lanes)

        self._tile(element, c, f, lanes)

    def _tile(self, element: Callable[[int, int], Expr], c: Expr, f: Expr, lanes: int) -> None:
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
                self.put(p, q, c, f, value, lanes)

    def transposed(self, begin: Expr, chunk: int, first: Expr, lanes: int) -> None:
        """A vector of filters, which are outermost, at ``chunk`` channels at most."""
        m = self.m
        count = I.Bind(i64(emit.smaller(chunk, i64(self.channels) - begin)))
        kernels = emit.scratch([chunk * m * m, lanes], self.dtype)
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
            self._tile(
                lambda a, b: kernels[c * (m * m) + (a * m + b), emit.run(0, lanes)],
                begin + c,
                first,
                lanes,
            )


def emit_filters(op: Winograd, config: LoweringConfig) -> None:
    """The whole function of ``filter_transform``."""
    parameters = Parameters.declare(op)
    source, result = (emit.flat(parameters.buffers[name]) for name in ("input", "result"))
    channels, filters = [parameters.extent(e) for e in op.output.shape[2:]] or [1, 1]
    i = op.input_tile_size

    def put(p: int, q: int, c: Expr, f: Expr, value: Expr, lanes: int) -> None:
        at = emit.flat_index([p, q, c, f], (i, i, channels, filters))
        store(result, at, value, lanes)

    if op.channels_last:
        # Channels and filters are one run of elements.
        count = emit.product([channels, filters])
        exact = known(count)

        def put_ahead(p: int, q: int, c: Expr, f: Expr, value: Expr, lanes: int) -> None:
            """The next vector has its line fetched, unless vectors are lines and overwritten."""
            put(p, q, c, f, value, lanes)
            if exact is None or exact % lanes:
                after = emit.flat_index([p, q, c, f + lanes], (i, i, 1, count))
                emit.prefetch(result, after, write=True)

        every = FilterTransform(op, source, 1, count, put_ahead)

        def run(lanes: int, blocks: Index) -> None:
            if exact is not None and exact % lanes == 0:
                blocks, first = exact // lanes + 1, _aligned(result, exact, lanes)
            else:
                first = partial(first_channel, count=count, lanes=lanes)
            with tasks(blocks, config) as block:
                every.in_place(i64(0), I.Bind(first(block)), lanes)

        over_channels(count, config.vector_lanes, run)
        return
    transform = FilterTransform(op, source, channels, filters, put)
    chunk = config.workgroup_tile["channels"]

    def chunks(lanes: int, blocks: Index) -> None:
        space = IterationSpace((blocks, emit.ceil_div(channels, chunk)))
        with tasks(space.count((0, 1)), config) as task:
            at = space.spread(task, (0, 1))
            first = I.Bind(first_channel(at[0], filters, lanes))
            transform.transposed(I.Bind(i64(at[1]) * chunk), chunk, first, lanes)

    over_channels(filters, config.vector_lanes, chunks)


def _aligned(result: Any, count: int, lanes: int) -> Callable[[Index], Expr]:
    """Where vectors of ``count`` elements begin such that all but the first and last are aligned.

    Places of a tile that are apart by whole vectors lie in one set of the first cache if they are
    apart by a power of two.  Lines that two vectors share would then be fetched for each of them.
    """
    (address,) = addresses([result.data], I.Bind, I.evaluate)
    item = item_bytes(str(result.dtype))
    skew = I.Bind(tirx.floormod(tirx.floordiv(address, i64(item)), i64(lanes)))
    return lambda block: tirx.max(tirx.min(i64(block) * lanes - skew, count - lanes), i64(0))
