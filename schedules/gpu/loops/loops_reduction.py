"""Nests that reduce, on a GPU.

rows      lanes of a subgroup, and several subgroups, share what goes into a result: neighbouring
          lanes read neighbouring elements
columns   neighbouring lanes have neighbouring results; subgroups share what goes into them

Few results of many elements are reduced in parts, each a workgroup's, which a second kernel puts
together; the host reckons how many, where the call tells the extents.  A lane's sums are sums of
sums, by :mod:`cascaded_sums`.  A function that is not known
to be one of two values has a lane for each result.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, known
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values, digits
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups, workgroups_each
from tvm_iree_ext.schedules.gpu.loops.loops_lanes import At, is_whole, spread, stored_places
from tvm_iree_ext.schedules.shared.loops.cascaded_sums import (
    TERMS,
    PartialSums,
    in_runs,
    over,
    rounded_sums,
    sum_of_nothing,
)
from tvm_iree_ext.schedules.shared.loops.loops_combiners import Combiner, combiner_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, step
from tvm_iree_ext.schedules.shared.loops.loops_point import Cells, NestMemory, NestPoint, noted
from tvm_iree_ext.schedules.shared.loops.loops_strides import Steps, in_order, merged
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_SUBGROUPS = 4
_MOST_SUBGROUPS = 8  # that share a result
_WORKGROUPS_PER_CORE = 4
_FEW_PARTS = 4  # of a result, that a lane puts together alone
_LEAST_STEPS = 8  # of a lane, that are worth another one


def emit_reduction(nest: LoopNest, memory: NestMemory, target: Target) -> None:
    """The kernels of a nest that reduces."""
    _Reduction(nest, memory, target).emit()


@dataclass(frozen=True)
class _Share:
    """How a reduction is shared: lanes and subgroups of a result, and parts of all elements."""

    lanes: int
    subgroups: int
    parts: Index

    def layout(self, size: int) -> NestedLayout:
        """Layout of ``[results, elements]``."""
        apart = max(1, _SUBGROUPS // self.subgroups)
        return NestedLayout(
            subgroup_tile=(apart, self.subgroups), batch_tile=(1, 1), outer_tile=(1, 1),
            thread_tile=(size // self.lanes, self.lanes), element_tile=(1, 1),
            subgroup_strides=(self.subgroups, 1), thread_strides=(self.lanes, 1),
        )  # fmt: skip


class _Reduction:
    def __init__(self, nest: LoopNest, memory: NestMemory, target: Target) -> None:
        self.nest, self.memory = nest, memory
        self.size, self.kind = subgroup_size(target), target.kind.name
        self.cores = gpu_chip(target).parts[0].cores
        self.buffers = [store.buffer for store in nest.stores]
        self.sums = _partials(self.buffers) if rounded_sums(nest) else None
        self.cells, self.first_cells = Cells(), Cells()
        stand_ins = {b: tirx.Var("accumulated", str(b.ty.dtype)) for b in self.buffers}
        look = noted(nest, memory, self.cells, accumulated=stand_ins)
        first = NestPoint(memory, {}, nest, self.first_cells)
        for store in nest.init:
            first.value(store.value)
        read = [access.position for access in look.accesses]
        named = [*look.named, *first.named]
        stored = [position for _, position in stored_places(nest)]
        others = [access.position for access in first.accesses]
        self.spatial = merged(in_order(nest), Steps((*stored, *read, *others), nest.axes), named)
        self.reduced = merged(nest.reduced, Steps((*stored, *read), nest.axes), named)
        self.gone: dict[Any, Any] = {axis.var: i64(0) for axis in nest.axes}
        self.results = emit.product([axis.count for axis in self.spatial])
        self.elements = emit.product([axis.count for axis in self.reduced])
        self.side_by_side = [
            any(step(position, line[-1], nest.axes) == 1 for position in read) if line else False
            for line in (self.spatial, self.reduced)
        ]

    def emit(self) -> None:
        combiner = None
        if len(self.nest.stores) == 1 and not self.nest.cells:
            combiner = combiner_of(self.nest.stores[0].value, self.buffers[0])
        share = _Share(1, 1, 1) if combiner is None else self._share()
        if share.lanes == share.subgroups == share.parts == 1:
            self._alone(share)
            return
        assert combiner is not None
        if known(share.parts) is not None:
            self._shared(share, combiner)
            return
        share = replace(share, parts=I.Bind(i64(share.parts)))
        with I.If(i64(share.parts) > 1):
            with I.Then():
                self._shared(share, combiner)
            with I.Else():
                self._shared(replace(share, parts=1), combiner)

    def _share(self) -> _Share:
        """Shares with as many lanes as have work, and as are needed to keep the chip busy."""
        columns, rows = self.side_by_side
        many = known(self.elements)
        elements = 1 << 20 if many is None else many
        wanted = self.cores * _WORKGROUPS_PER_CORE * _SUBGROUPS * self.size
        count = known(self.results)
        results = 1 if count is None else max(count, 1)
        lanes = 1
        if rows or not columns:
            while lanes < self.size and (lanes < elements if rows else results * lanes < wanted):
                lanes *= 2
        subgroups = parts = 1
        while (
            subgroups < _MOST_SUBGROUPS
            and results * lanes * subgroups < wanted
            and elements >= 2 * _LEAST_STEPS * lanes * subgroups
        ):
            subgroups *= 2
        if many is None or count is None:
            return _Share(lanes, subgroups, self._parts(_Share(lanes, subgroups, 1)))
        while (
            results * lanes * subgroups * parts < wanted
            and elements >= 2 * _LEAST_STEPS * lanes * subgroups * parts
        ):
            parts *= 2
        return _Share(lanes, subgroups, parts)

    def _parts(self, share: _Share) -> Index:
        """Parts of the elements, by the call's extents; 1 where there cannot be more."""
        if share.lanes == share.subgroups == 1:
            return 1
        worth = 2 * _LEAST_STEPS * share.lanes * share.subgroups
        if (many := known(self.elements)) is not None and many <= worth:
            return 1
        tiles = emit.ceil_div(self.results, share.layout(self.size).undistributed_shape[0])
        sharing = workgroups_each(self.cores * _WORKGROUPS_PER_CORE, tiles)
        return emit.larger(emit.smaller(sharing, emit.ceil_div(self.elements, worth)), 1)

    # A lane for each result.

    def _alone(self, share: _Share) -> None:
        with self._results(share, 1) as (at, _, _, exists), where(exists):
            self._make_cells()
            tiles = [_register(buffer) for buffer in self.buffers]
            for tile, value in zip(tiles, self._first(at), strict=True):
                _put(tile, value)
            over(self.reduced, at, tiles, self.sums, self._step)
            for store, tile in zip(self.nest.stores, tiles, strict=True):
                self.memory.store(store.buffer, self._place(store, at), _get(tile, store.buffer))

    def _step(self, at: At, tiles: Sequence[Any]) -> None:
        self.cells.rewind()
        before = [_get(t, b) for t, b in zip(tiles, self.buffers, strict=True)]
        held = dict(zip(self.buffers, before, strict=True))
        point = NestPoint(self.memory, at, self.nest, self.cells, accumulated=held)
        values = [point.value(store.value) for store in self.nest.stores]
        if len(tiles) > 1:  # all are computed before any is stored
            fresh = [_register(buffer) for buffer in self.buffers]
            for tile, value in zip(fresh, values, strict=True):
                _put(tile, value)
            values = [_get(t, b) for t, b in zip(fresh, self.buffers, strict=True)]
        for tile, value in zip(tiles, values, strict=True):
            _put(tile, value)

    # Lanes that share a result.

    def _shared(self, share: _Share, combiner: Combiner) -> None:
        (buffer,) = self.buffers
        (store,) = self.nest.stores
        dtype = _held(buffer)
        partial = None
        if known(share.parts) != 1:
            partial = emit.scratch([share.parts, self.results], dtype)
            IRBuilder.name("partial", partial)
        with self._results(share, share.parts) as (at, place, part, exists):
            self._make_cells()
            across = Across(place.workgroup, place.layout, 1, [dtype], commutes=True)
            total = _register(buffer)
            self._gather(combiner, total, at, place, part, share)
            found = self._reduce(across, combiner, total, buffer)
            leads = _both(place.leads(), exists)
            with where(leads):
                if partial is None:
                    value = combiner.of(
                        _first_of(self._first(at)), emit.cast(found, _dtype(buffer))
                    )
                    self.memory.store(buffer, self._place(store, at), value)
                else:
                    I.buffer_store(partial, found, [part, place.result])
        if partial is not None:
            self._merge(share, combiner, partial)

    def _gather(
        self, combiner: Combiner, total: Any, at: At, place: "_Place", part: Expr, share: _Share
    ) -> None:
        """Accumulate a lane's part of a result's elements."""
        elements = i64(self.elements)
        stride = share.lanes * share.subgroups
        start, stop = place.along, elements
        each: Index = self.elements
        if known(share.parts) != 1:
            each = emit.ceil_div(emit.ceil_div(self.elements, share.parts), stride)
            each = each * stride
            start = I.Bind(part * i64(each) + start)
            stop = I.Bind(tirx.min(elements, (part + 1) * i64(each)))
        steps = emit.ceil_div(each, stride)
        parts = known(share.parts)
        is_exact = parts is not None and is_whole(each, stride) and is_whole(self.elements, parts)
        is_exact = is_exact and known(emit.product([each, share.parts])) == known(self.elements)
        buffer = self.buffers[0]

        def element(position: Expr) -> Expr:
            self.cells.rewind()
            here = {**at, **spread(position, self.reduced)}
            point = NestPoint(self.memory, here, self.nest, self.cells)
            return point.value(combiner.element)

        if combiner.neutral is not None:
            _put(total, combiner.neutral(_dtype(buffer)))
        else:  # an element may be taken twice
            last = elements - 1
            if known(self.elements) is None:  # where there is none, it is what results are at first
                _put(total, _first_of(self._first(at)))
            with where(None if known(self.elements) else elements > 0):
                _put(total, element(start if is_exact else I.Bind(tirx.min(start, last))))

        def step(number: Expr, tiles: Sequence[Any]) -> None:
            position = I.Bind(start + number * stride)
            with where(None if is_exact else position < stop):
                (tile,) = tiles
                _put(tile, combiner.of(_get(tile, buffer), element(position)))

        in_runs(steps, TERMS, [total], self.sums, step)

    def _reduce(self, across: Across, combiner: Combiner, total: Any, buffer: ir.Var) -> Expr:
        dtype = _dtype(buffer)

        def combine(a: Values, b: Values) -> Values:
            value = combiner.of(emit.cast(a[0], dtype), emit.cast(b[0], dtype))
            return (emit.cast(value, _held(buffer)),)

        ((found,),) = across.reduce([(total[i64(0)],)], combine)
        return found

    def _merge(self, share: _Share, combiner: Combiner, partial: Any) -> None:
        """Lanes for each result, over its parts: neighbours where these are many."""
        (buffer,), (store,) = self.buffers, self.nest.stores
        dtype, parts, lanes = _held(buffer), known(share.parts), 1
        while lanes < self.size and (parts is None or _FEW_PARTS * lanes < parts):
            lanes *= 2
        with self._results(_Share(lanes, 1, 1), 1) as (at, place, _, exists):
            across = Across(place.workgroup, place.layout, 1, [dtype], commutes=True)
            with where(exists if lanes == 1 else None):
                self.first_cells.make(1)
                total = _register(buffer)
                self._gather_parts(combiner, total, place, share.parts, lanes, partial)
                found = self._reduce(across, combiner, total, buffer)
                with where(_both(place.leads(), exists) if lanes > 1 else None):
                    first = _first_of(self._first(at))
                    value = combiner.of(first, emit.cast(found, _dtype(buffer)))
                    self.memory.store(buffer, self._place(store, at), value)

    def _gather_parts(
        self,
        combiner: Combiner,
        total: Any,
        place: "_Place",
        parts: Index,
        lanes: int,
        partial: Any,
    ) -> None:
        """Accumulate a lane's parts of a result."""
        (buffer,) = self.buffers

        def found(part: Any) -> Expr:
            return emit.cast(partial[part, place.result], _dtype(buffer))

        if combiner.neutral is not None:
            _put(total, combiner.neutral(_dtype(buffer)))
        else:  # a part may be taken twice
            _put(total, found(tirx.min(place.along, i64(parts) - 1)))
        with emit.serial(emit.ceil_div(parts, lanes)) as number:
            part = I.Bind(number * lanes + place.along)
            with where(part < i64(parts) if lanes > 1 else None):
                _put(total, combiner.of(_get(total, buffer), found(part)))

    # Both.

    @contextmanager
    def _results(self, share: _Share, parts: Index) -> Iterator[tuple[At, "_Place", Expr, Any]]:
        """A kernel: the point of a lane's result, its place, the part, whether there is one."""
        layout = share.layout(self.size)
        tile = layout.undistributed_shape[0]
        tiles = emit.ceil_div(self.results, tile)
        count = emit.product([parts, tiles])
        subgroups = prod(layout.subgroup_tile)
        with workgroups(count, subgroups, self.size, self.kind) as (number, workgroup):
            part, flat = i64(0), wide(number)
            if known(parts) != 1:
                # At least one: TVM folds divisions by what may be 0.
                part, flat = emit.divide(wide(number), emit.larger(tiles, 1))
            part = I.Bind(part)
            subgroup, lane = digits(layout, workgroup)
            line = subgroup[0] * layout.thread_tile[0] + lane[0]
            result = I.Bind(flat * tile + wide(line))
            exists = None
            if not is_whole(self.results, tile):
                exists = result < i64(self.results)
                shared = share.lanes > 1 or share.subgroups > 1
                if shared:  # all lanes take part in what is shared
                    result = I.Bind(tirx.min(result, i64(self.results) - 1))
            along = I.Bind(wide(subgroup[1] * share.lanes + lane[1]))
            at = {**self.gone, **spread(result, self.spatial)}
            yield at, _Place(workgroup, layout, result, along), part, exists

    def _make_cells(self) -> None:
        self.cells.make(1)
        self.first_cells.make(1)

    def _first(self, at: At) -> list[Expr]:
        """Initial results, before anything is added."""
        self.first_cells.rewind()
        if not self.nest.init:
            return [self.memory.load(s.buffer, self._place(s, at)) for s in self.nest.stores]
        point = NestPoint(self.memory, at, self.nest, self.first_cells)
        values = {s.buffer: point.value(s.value) for s in self.nest.init}
        return [values[buffer] for buffer in self.buffers]

    def _place(self, store: Any, at: At) -> Expr:
        return NestPoint(self.memory, at, self.nest, Cells()).place(store)


@dataclass(frozen=True)
class _Place:
    """A lane's result, and which of those that share it the lane is."""

    workgroup: Any
    layout: NestedLayout
    result: Expr
    along: Expr

    def leads(self) -> Any:
        """Whether it is the lane that writes."""
        return self.along == 0


def _both(one: Any, other: Any) -> Any:
    return one if other is None else tirx.And(one, other)


def _first_of(values: Sequence[Expr]) -> Expr:
    (value,) = values
    return value


def _dtype(buffer: ir.Var) -> str:
    return str(buffer.ty.dtype)


def _held(buffer: ir.Var) -> str:
    dtype = _dtype(buffer)
    return "int8" if dtype == "bool" else dtype


def _partials(buffers: Sequence[ir.Var]) -> PartialSums[Sequence[Any]]:
    """Partial sums of a lane."""

    def fresh() -> Sequence[Any]:
        tiles = [_register(buffer) for buffer in buffers]
        for tile, buffer in zip(tiles, buffers, strict=True):
            _put(tile, sum_of_nothing(_dtype(buffer)))
        return tiles

    def join(tiles: Sequence[Any], lower: Sequence[Any]) -> None:
        for tile, partial, buffer in zip(tiles, lower, buffers, strict=True):
            _put(tile, _get(tile, buffer) + _get(partial, buffer))

    return PartialSums(fresh, join)


def _register(buffer: ir.Var) -> Any:
    return emit.registers(1, _held(buffer))


def _put(tile: Any, value: Expr) -> None:
    I.buffer_store(tile, emit.cast(value, str(tile.ty.dtype)), [i64(0)])


def _get(tile: Any, buffer: ir.Var) -> Expr:
    return emit.cast(tile[i64(0)], _dtype(buffer))
