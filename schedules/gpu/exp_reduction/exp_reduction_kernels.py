"""The kernels of an exp_reduction: the maximum of each row, then each output from it.

A lane has one element of an output, or several of its columns, for which a weight is computed
once: neighbouring lanes have neighbouring columns.  Where there are none, and scores lie along
their keys, the lanes of a subgroup share an element's keys; subgroups share them besides, and
workgroups, where there are too few elements for the chip: then a second kernel puts together what
parts of the keys come to.  Only what is a sum is shared: any other region goes through its keys in
their order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, known, serial
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import (
    Across,
    Combine,
    Values,
    digits,
)
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import global_memory, workgroups, workgroups_each
from tvm_iree_ext.schedules.gpu.emit.wrapping_integers import wrapped
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation
from tvm_iree_ext.schedules.shared.fused_dims import Dims


@dataclass(frozen=True)
class Shape:
    """A workgroup of a kernel.

    Attributes:
        kind: of the target.
        size: lanes of a subgroup.
        subgroups: with elements of their own, and those that share an element's keys.
        lanes: of a subgroup that share an element's keys, where these lie side by side.
        columns: of a lane.
        steps: the fewest of a lane along the keys that are worth a workgroup.
        workgroups: how many share keys, where there are fewer elements; 0 for none.
    """

    kind: str
    size: int
    subgroups: tuple[int, int]
    lanes: int
    columns: int
    steps: int
    workgroups: int

    def layout(self, shared: bool, along: bool) -> NestedLayout:
        """Layout of ``[elements, keys]``, where keys are shared at all, and by lanes, too."""
        apart, parts = self.subgroups
        apart, parts = (apart, parts) if shared else (apart * parts, 1)
        lanes = self.lanes if shared and along else 1
        return NestedLayout(
            (apart, parts), (1, 1), (1, 1), (self.size // lanes, lanes), (1, 1),
            (parts, 1), (lanes, 1),
        )  # fmt: skip


@dataclass(frozen=True)
class KeyShares:
    """Parts of the keys: a lane's steps in each, how many there are, and what they come to.

    Attributes:
        memory: for each element and part; None where there is one part.
    """

    steps: Index
    count: Index
    memory: Any = None


@dataclass(frozen=True)
class OutputReduction:
    """One output: a value for each point of ``dims``, and steps over ``reduced``.

    Attributes:
        dims: of the output, in its order.
        reduced: those that each value is reduced over, in their order.
        columns: whether the last of ``dims`` is one that weights do not depend on.
        dtype: of the value.
        start: the value of lanes that share keys, before any.
        first: the value that the output starts from.
        step: the values of some columns, one more point on.
        combine: what shared keys come to; None where they may not be shared.
        last: the output's value, of the first and of the keys'; only where they may be shared.
        store: the result.
    """

    dims: Dims
    reduced: Dims
    columns: bool
    dtype: str
    start: Expr
    first: Callable[[At], Expr]
    step: Callable[[Sequence[At], Sequence[Expr]], list[Expr]]
    combine: Combine | None
    store: Callable[[At, Expr], None]


class ExpReductionKernels:
    """The function while it is built."""

    def __init__(self, operands: ReductionOperands, shape: Shape) -> None:
        self.operands, self.shape, self.plan = operands, shape, operands.plan
        self.dtype, self.space = operands.op.compute_dtype, operands.space
        self.maxima: Any = None

    def emit(self) -> None:
        """A kernel for each output."""
        rows = i64(self.space.count(self.plan.rows))
        self.maxima = I.alloc_buffer([rows], self.dtype, scope="global")
        IRBuilder.name("row_maximum", self.maxima)
        self._emit(self._maximum())
        for one in self.plan.accumulations:
            self._emit(self._output(one))

    def _row(self, at: At) -> list[Expr]:
        rows = self.plan.rows
        index = [at[dim] for dim in rows]
        return [emit.flat_index(index, [self.space.extents[dim] for dim in rows])]

    def _maximum(self) -> OutputReduction:
        operands, plan = self.operands, self.plan

        def score(at: At) -> Expr:
            return held(operands.element("input0", self.dtype, at))

        def larger(a: Expr, b: Expr) -> Expr:
            return emit.larger_or_nan(a, b)

        def store(at: At, value: Expr) -> None:
            I.buffer_store(self.maxima, value, self._row(at))
            operands.views["result0"].store(at, value)

        return OutputReduction(
            dims=plan.maps["output0"].dims,
            reduced=plan.fused(operands.op.key_dims),
            columns=False,
            dtype=self.dtype,
            start=tirx.min_value(self.dtype) * tirx.const(2.0, self.dtype),
            first=lambda at: operands.element("init0", self.dtype, at),
            step=lambda points, values: [larger(values[0], score(points[0]))],
            combine=lambda a, b: (larger(a[0], b[0]),),
            store=store,
        )

    def _output(self, one: Accumulation) -> OutputReduction:
        operands, plan = self.operands, self.plan
        dims, dtype = plan.maps[f"output{one.output}"].dims, operands.state_dtype(one.output)

        def power(difference: Expr) -> Expr:
            return held(operands.power(difference))

        def maximum(at: At) -> Expr:
            return self.maxima[tuple(self._row(at))]

        def first(at: At) -> Expr:
            value = operands.init(one, at)
            if not operands.is_rescaled(one):
                return value
            return value * power(operands.element("init0", self.dtype, at) - maximum(at))

        def step(points: Sequence[At], values: Sequence[Expr]) -> list[Expr]:
            weight = None
            if 0 in one.reads:
                score = operands.element("input0", self.dtype, points[0])
                weight = power(score - maximum(points[0]))
            found = []
            for at, value in zip(points, values, strict=True):
                if one.addend is not None:
                    added = operands.call(one.addend, at, weight)
                    result = value + added
                else:
                    result = operands.call(one.region, at, weight, (one.output, value))
                found.append(wrapped(result))
            return found

        def store(at: At, value: Expr) -> None:
            operands.views[f"result{one.output}"].store(at, value)

        return OutputReduction(
            dims=dims,
            reduced=one.reduced,
            columns=bool(dims) and dims[-1] not in plan.rows,
            dtype=dtype,
            start=tirx.const(0, dtype),
            first=first,
            step=step,
            combine=None if one.addend is None else lambda a, b: (a[0] + b[0],),
            store=store,
        )

    def _emit(self, one: OutputReduction) -> None:
        """The kernel of an output, or two; both, where the call tells which."""
        shape, space = self.shape, self.space
        shared = one.combine is not None and bool(one.reduced)
        kernel = _OutputKernel(
            one,
            shared,
            shape.layout(shared, along=not one.columns and self.plan.scores_lie_along_keys),
            space.extents[one.dims[-1]] if one.columns else 1,
        )
        whole = KeyShares(self._steps(kernel), 1)
        if not shared or not shape.workgroups:
            self._launch(kernel, whole)
            return
        sharing = workgroups_each(shape.workgroups, self._tiles(kernel))
        steps = emit.larger(emit.ceil_div(whole.steps, sharing), shape.steps)
        parts = KeyShares(steps, emit.larger(emit.ceil_div(whole.steps, steps), 1))
        if (count := known(parts.count)) is not None:
            if count > 1:
                self._emit_parts(kernel, parts)
            else:
                self._launch(kernel, whole)
            return
        parts = KeyShares(I.Bind(i64(parts.steps)), I.Bind(i64(parts.count)))
        with I.If(i64(parts.count) > 1):
            with I.Then():
                self._emit_parts(kernel, parts)
            with I.Else():
                self._launch(kernel, whole)

    def _steps(self, kernel: "_OutputKernel") -> Index:
        """A lane's, along all keys."""
        return emit.ceil_div(
            self.space.count(kernel.output.reduced), kernel.layout.undistributed_shape[1]
        )

    def _columns(self, kernel: "_OutputKernel") -> int:
        """Columns of a lane."""
        most = self.shape.columns
        return min(most, known(kernel.width) or most) if kernel.output.columns else 1

    def _groups(self, kernel: "_OutputKernel") -> Index:
        """Groups of a lane's columns; 1 at least: TVM folds divisions by what may be 0."""
        return emit.larger(emit.ceil_div(kernel.width, self._columns(kernel)), 1)

    def _tiles(self, kernel: "_OutputKernel") -> Index:
        """Workgroups for all elements."""
        elements = emit.product([self.space.count(kernel.outer), self._groups(kernel)])
        return emit.ceil_div(elements, kernel.layout.undistributed_shape[0])

    def _emit_parts(self, kernel: "_OutputKernel", parts: KeyShares) -> None:
        elements = emit.product([self.space.count(kernel.output.dims), parts.count])
        memory = global_memory("output_of_part", i64(elements), kernel.output.dtype)
        parts = replace(parts, memory=memory)
        self._launch(kernel, parts)
        self._merge(kernel, parts)

    def _launch(self, kernel: "_OutputKernel", parts: KeyShares) -> None:
        shape, space, one, layout = self.shape, self.space, kernel.output, kernel.layout
        columns, width, shared = self._columns(kernel), kernel.width, kernel.shared
        groups = self._groups(kernel)
        elements = emit.product([space.count(kernel.outer), groups])
        apart, _ = layout.undistributed_shape
        count, subgroups = emit.product([self._tiles(kernel), parts.count]), prod(shape.subgroups)
        with workgroups(count, subgroups, shape.size, shape.kind) as (number, workgroup):
            tile, part = map(I.Bind, emit.divide(wide(number), parts.count))
            of_subgroup, of_lane = digits(layout, workgroup)
            element = of_subgroup[0] * layout.thread_tile[0] + of_lane[0]
            element = I.Bind(tile * apart + wide(element))
            exists = element < i64(elements)
            point, group = emit.divide(tirx.min(element, i64(elements) - 1), groups)
            point = I.Bind(point)
            # Not held in registers: TVM compacts scratch by the indices that it sees.
            at = emit.bound(space.spread(point, kernel.outer))
            points, places = [at], [i64(0)]
            inside: list[Expr] = [exists]
            if one.columns:
                places = [I.Bind(group + column * i64(groups)) for column in range(columns)]
                # Columns past the last repeat it, and are not written.
                points = [{**at, one.dims[-1]: tirx.min(p, i64(width) - 1)} for p in places]
                inside = [tirx.And(exists, place < i64(width)) for place in places]
            values = I.alloc_buffer((columns,), one.dtype, scope="local")
            for column, here in enumerate(points):
                I.buffer_store(values, one.start if shared else one.first(here), [column])
            along = wide(of_subgroup[1]) * layout.thread_tile[1] + wide(of_lane[1])
            self._walk(kernel, parts, part, along, points, values)
            found = [(values[column],) for column in range(columns)]
            if shared:
                assert one.combine is not None
                across = Across(workgroup, layout, 1, (one.dtype,), columns, commutes=True)
                found = across.reduce(found, one.combine)
            keeps = [digit == 0 for digit, tile in (
                (of_lane[1], layout.thread_tile[1]), (of_subgroup[1], layout.subgroup_tile[1])
            ) if tile > 1]  # fmt: skip
            for column, here in enumerate(points):
                with where(reduce(tirx.And, keeps, inside[column])):
                    if parts.memory is None:
                        self._finish(kernel, here, found[column])
                    else:
                        element = point * i64(width) + places[column]
                        place = [element * i64(parts.count) + part]
                        I.buffer_store(parts.memory, found[column][0], place)

    def _finish(self, kernel: "_OutputKernel", at: At, value: Values) -> None:
        """The result, with what the output starts from."""
        one = kernel.output
        if kernel.shared:
            assert one.combine is not None
            value = one.combine((held(one.first(at)),), value)
        one.store(at, held(value[0]))

    def _merge(self, kernel: "_OutputKernel", parts: KeyShares) -> None:
        """A workgroup for each element, whose lanes take its parts."""
        shape, one, subgroups = self.shape, kernel.output, prod(self.shape.subgroups)
        assert one.combine is not None
        lanes, count = subgroups * shape.size, self.space.count(one.dims)
        layout = NestedLayout(
            (subgroups,), (1,), (1,), (shape.size,), (1,), (1 if subgroups > 1 else 0,), (1,)
        )
        with workgroups(count, subgroups, shape.size, shape.kind) as (number, workgroup):
            element = I.Bind(wide(number))
            at = emit.bound(self.space.spread(element, one.dims))
            mine = I.Bind(wide(workgroup.subgroup) * shape.size + wide(workgroup.lane))
            total = I.alloc_buffer((1,), one.dtype, scope="local")
            I.buffer_store(total, one.start, [0])
            with serial(emit.ceil_div(parts.count, lanes)) as step:
                part = I.Bind(step * lanes + mine)
                with I.If(part < i64(parts.count)), I.Then():
                    other = parts.memory[element * i64(parts.count) + part]
                    I.buffer_store(total, one.combine((total[0],), (held(other),))[0], [0])
            across = Across(workgroup, layout, 0, (one.dtype,), commutes=True)
            (value,) = across.reduce([(total[0],)], one.combine)
            with I.If(mine == 0), I.Then():
                self._finish(kernel, at, value)

    def _walk(
        self,
        kernel: "_OutputKernel",
        parts: KeyShares,
        part: Expr,
        along: Expr,
        points: Sequence[At],
        values: Any,
    ) -> None:
        """A lane's points of the reduced dims, of a part of them."""
        space, one, (_, tile) = self.space, kernel.output, kernel.layout.undistributed_shape
        count = space.count(one.reduced)

        def step(flat: Expr) -> None:
            reduced = emit.bound(space.spread(flat, one.reduced))
            here = [{**at, **reduced} for at in points]
            found = one.step(here, [values[column] for column in range(len(points))])
            for column, value in enumerate([held(value) for value in found]):
                I.buffer_store(values, value, [column])

        if not one.reduced:
            step(i64(0))
            return
        first = along
        if parts.memory is not None:
            first = I.Bind(part * i64(emit.product([parts.steps, tile])) + along)
        each = known(parts.steps)
        span = tile if parts.memory is None or each is None else tile * each
        divides = tile == 1 and parts.memory is None
        if (number_of_keys := known(count)) is not None and each is not None:
            divides = divides or number_of_keys % span == 0
        with serial(parts.steps) as number:
            flat = I.Bind(number * tile + first)
            with where(None if divides else flat < i64(count)):
                step(flat)


@dataclass(frozen=True)
class _OutputKernel:
    """An output's kernel.

    Attributes:
        output: what it computes.
        shared: whether lanes share an element's keys.
        layout: of ``[elements, keys]``.
        width: columns of the output.
    """

    output: OutputReduction
    shared: bool
    layout: NestedLayout
    width: Index

    @property
    def outer(self) -> Dims:
        """The output's dims but that of columns."""
        return self.output.dims[:-1] if self.output.columns else self.output.dims
