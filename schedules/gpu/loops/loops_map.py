"""Nests whose points are independent, on a GPU: a lane for each, or for each run of them."""

from collections.abc import Mapping
from typing import Any

from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import digits
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
from tvm_iree_ext.schedules.gpu.loops import loops_lanes
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint, noted
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, in_order, merged
from tvm_iree_ext.targets.gpu import subgroup_size

_SUBGROUPS = 4


def emit_map(nest: LoopNest, memory: NestMemory, target: Target) -> None:
    """The kernel of a nest without reduction."""
    cells = Cells()
    look = noted(nest, memory, cells)
    stored = loops_lanes.stored_places(nest)
    steps = Steps((*(p for _, p in stored), *(a.position for a in look.accesses)), nest.axes)
    axes = merged(in_order(nest), steps, look.named)
    gone: dict[Any, Any] = {axis.var: i64(0) for axis in nest.axes}
    line = axes[-1] if axes else None
    run = 1 if line is None else loops_lanes.widest_run(stored, look.accesses, line, nest.axes)
    runs = loops_lanes.Runs.of(look, line, nest.axes, run)
    size = subgroup_size(target)
    layout = NestedLayout(
        subgroup_tile=(_SUBGROUPS,), batch_tile=(1,), outer_tile=(1,),
        thread_tile=(size,), element_tile=(run,), subgroup_strides=(1,), thread_strides=(1,),
    )  # fmt: skip
    (tile,) = layout.undistributed_shape
    total = emit.product([axis.count for axis in axes])
    count, kind = emit.ceil_div(total, tile), target.kind.name
    with workgroups(count, _SUBGROUPS, size, kind) as (number, workgroup):
        (subgroup,), (lane,) = digits(layout, workgroup)
        first = I.Bind(wide(number) * tile + wide(subgroup * size + lane) * run)
        with where(None if loops_lanes.is_whole(total, tile) else first < i64(total)):
            cells.make(run if runs.places else 1)
            tiles = runs.make()
            at = {**gone, **loops_lanes.spread(first, axes)}
            if tiles:
                runs.load(memory, tiles, noted(nest, memory, Cells(), at).accesses)
            results: list[list[Any]] = [[] for _ in nest.stores]
            for place in range(run):
                here = at if line is None or not place else {**at, line.var: at[line.var] + place}
                for values, value in zip(
                    results, _values(nest, memory, cells, here, tiles, place), strict=True
                ):
                    values.append(value)
            for store, values in zip(nest.stores, results, strict=True):
                position = NestPoint(memory, at, nest, Cells()).place(store)
                loops_lanes.store_run(memory, store.buffer, position, values)


def _values(
    nest: LoopNest,
    memory: NestMemory,
    cells: Cells,
    at: loops_lanes.At,
    tiles: Mapping[int, Any],
    place: int,
) -> list[Any]:
    """Values stored at a point, in registers."""
    cells.rewind()
    point = NestPoint(memory, at, nest, cells, i64(place) if tiles else None, gathered=tiles)
    values = [point.value(store.value) for store in nest.stores]
    kept = []
    for store, value in zip(nest.stores, values, strict=True):
        dtype = "int8" if str(store.buffer.ty.dtype) == "bool" else str(store.buffer.ty.dtype)
        cell = emit.registers(1, dtype)
        I.buffer_store(cell, emit.cast(value, dtype), [i64(0)])
        kept.append(emit.cast(cell[i64(0)], str(store.buffer.ty.dtype)))
    return kept
