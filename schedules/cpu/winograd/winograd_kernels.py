"""The CPU kernels of the Winograd transforms of filters and images."""

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
from tvm_iree_ext.schedules.cpu.winograd.winograd_config import WinogradConfig
from tvm_iree_ext.schedules.cpu.winograd_transforms import winograd_tile
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_filter import FilterTransform
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_image import InputRow, OutputRow
from tvm_iree_ext.schedules.cpu.winograd_transforms.winograd_row import WinogradRow, vectors_at_once
from tvm_iree_ext.schedules.emit import Expr, Index, IterationSpace, i64, known


def emit_filters(op: Winograd, config: WinogradConfig) -> None:
    """The whole function of ``filter_transform``."""
    parameters = Parameters.declare(op)
    source, result = (emit.flat(parameters.buffers[name]) for name in ("input", "result"))
    channels, filters = op.places(parameters) or [1, 1]
    tile = op.across(op.input_tile_size)

    def put(p: int, q: int, c: Expr, f: Expr, value: Expr, lanes: int) -> None:
        at = emit.flat_index([p, q, c, f], (*tile, channels, filters))
        winograd_tile.store(result, at, value, lanes)

    if op.channels_last:
        # Channels and filters are one run of elements.
        count = emit.product([channels, filters])
        exact = known(count)

        def put_ahead(p: int, q: int, c: Expr, f: Expr, value: Expr, lanes: int) -> None:
            """The next vector has its line fetched, unless vectors are lines and overwritten."""
            put(p, q, c, f, value, lanes)
            if exact is None or exact % lanes:
                after = emit.flat_index([p, q, c, f + lanes], (*tile, 1, count))
                emit.prefetch(result, after, write=True)

        every = FilterTransform(op, source, 1, count, put_ahead)

        def run(lanes: int, blocks: Index) -> None:
            if exact is not None and exact % lanes == 0:
                blocks, first = exact // lanes + 1, _aligned(result, exact, lanes)
            else:
                first = partial(winograd_tile.first_channel, count=count, lanes=lanes)
            with winograd_tile.tasks(blocks, config.parallel) as block:
                every.in_place(i64(0), I.Bind(first(block)), lanes)

        winograd_tile.over_channels(count, config.lanes, run)
        return
    transform = FilterTransform(op, source, channels, filters, put)
    chunk = config.channels

    def chunks(lanes: int, blocks: Index) -> None:
        space = IterationSpace((blocks, emit.ceil_div(channels, chunk)))
        with winograd_tile.tasks(space.count((0, 1)), config.parallel) as task:
            at = space.spread(task, (0, 1))
            first = I.Bind(winograd_tile.first_channel(at[0], filters, lanes))
            transform.transposed(I.Bind(i64(at[1]) * chunk), chunk, first, lanes)

    winograd_tile.over_channels(filters, config.lanes, chunks)


def _aligned(result: Any, count: int, lanes: int) -> Callable[[Index], Expr]:
    """Starts of vectors of ``count`` elements such that all but the first and last are aligned.

    Places of a tile that are apart by whole vectors lie in one set of the first cache if they are
    apart by a power of two.  Lines that two vectors share would then be fetched for each of them.
    """
    (address,) = addresses([result.data], I.Bind, I.evaluate)
    item = item_bytes(str(result.dtype))
    skew = I.Bind(tirx.floormod(tirx.floordiv(address, i64(item)), i64(lanes)))
    return lambda block: tirx.max(tirx.min(i64(block) * lanes - skew, count - lanes), i64(0))


def emit_images(op: Winograd, config: WinogradConfig) -> None:
    """The whole function of ``input_transform`` or ``output_transform``."""
    parameters = Parameters.declare(op)
    source, result = (emit.flat(parameters.buffers[name]) for name in ("input", "result"))
    plane = op.plane(parameters)
    _, high, wide, _ = op.places(parameters) or [1, 1, 1, 1]
    tiles = config.tiles
    if isinstance(wide, int):
        tiles = min(tiles, wide)
    batch, _, _, channels = plane
    tile = op.across(op.input_tile_size)

    def place(a: Index, b: Index, n: Expr, h: Expr, w: Index, channel: Expr) -> Expr:
        return emit.flat_index([a, b, n, h, w, channel], (*tile, batch, high, wide, channels))

    made: type[WinogradRow] = InputRow if op.kind == "input" else OutputRow

    def run(lanes: int, blocks: Index) -> None:
        vectors = vectors_at_once(op, known(blocks))
        row = made(op, source, result, plane, place, tiles, vectors, fetches=True)
        pieces = emit.ceil_div(blocks, vectors)
        space = IterationSpace((batch, high, emit.ceil_div(wide, tiles), pieces))
        with winograd_tile.tasks(space.count((0, 1, 2, 3)), config.parallel) as task:
            at = space.spread(task, (0, 1, 2, 3))
            n, h = (I.Bind(i64(at[dim])) for dim in (0, 1))
            first = I.Bind(i64(at[2]) * tiles)
            count = I.Bind(i64(emit.smaller(tiles, i64(wide) - first)))
            own = winograd_tile.ChannelVectors.piece(at[3], vectors, channels, blocks, lanes)
            row.transform(n, h, first, count, own)

    winograd_tile.over_channels(channels, config.lanes, run)
