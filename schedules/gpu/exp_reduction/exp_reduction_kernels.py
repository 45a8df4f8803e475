"""The kernels of an exp_reduction: the maximum of each row, then each output from it.

A lane has one element of an output, or several of its columns, for which a weight is computed
once: neighbouring lanes have neighbouring columns.  Where there are none, and scores lie along
their keys, the lanes of a subgroup share an element's keys; subgroups share them besides.  Only
what is a sum is shared: any other region goes through its keys in their order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import At, Expr, i64, known, serial
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Combine, digits
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.gpu.emit.launches import workgroups
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
    """

    kind: str
    size: int
    subgroups: tuple[int, int]
    lanes: int
    columns: int

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
        """The kernel of an output."""
        shape, space = self.shape, self.space
        shared = one.combine is not None and bool(one.reduced)
        layout = shape.layout(shared, along=not one.columns and self.plan.scores_lie_along_keys)
        width = space.extents[one.dims[-1]] if one.columns else 1
        columns = min(shape.columns, known(width) or shape.columns) if one.columns else 1
        groups = emit.ceil_div(width, columns)
        outer = one.dims[:-1] if one.columns else one.dims
        elements = emit.product([space.count(outer), groups])
        apart, _ = layout.undistributed_shape
        count, subgroups = emit.ceil_div(elements, apart), prod(shape.subgroups)
        with workgroups(count, subgroups, shape.size, shape.kind) as (number, workgroup):
            of_subgroup, of_lane = digits(layout, workgroup)
            element = of_subgroup[0] * layout.thread_tile[0] + of_lane[0]
            element = I.Bind(wide(number) * apart + wide(element))
            exists = element < i64(elements)
            point, group = emit.divide(tirx.min(element, i64(elements) - 1), groups)
            # Not held in registers: TVM compacts scratch by the indices that it sees.
            at = emit.bound(space.spread(I.Bind(point), outer))
            points = [at]
            inside: list[Expr] = [exists]
            if one.columns:
                places = [I.Bind(group + column * i64(groups)) for column in range(columns)]
                # Columns past the last repeat it, and are not written.
                points = [{**at, one.dims[-1]: tirx.min(p, i64(width) - 1)} for p in places]
                inside = [tirx.And(exists, place < i64(width)) for place in places]
            values = I.alloc_buffer((columns,), one.dtype, scope="local")
            for column, here in enumerate(points):
                I.buffer_store(values, one.start if shared else one.first(here), [column])
            self._walk(one, layout, of_subgroup[1], of_lane[1], points, values)
            found = [(values[column],) for column in range(columns)]
            if shared:
                assert one.combine is not None
                across = Across(workgroup, layout, 1, (one.dtype,), columns, commutes=True)
                found = across.reduce(found, one.combine)
            keeps = [digit == 0 for digit, tile in (
                (of_lane[1], layout.thread_tile[1]), (of_subgroup[1], layout.subgroup_tile[1])
            ) if tile > 1]  # fmt: skip
            for column, here in enumerate(points):
                condition = inside[column]
                for keep in keeps:
                    condition = tirx.And(condition, keep)
                with where(condition):
                    (value,) = found[column]
                    if shared:
                        assert one.combine is not None
                        (value,) = one.combine((held(one.first(here)),), (value,))
                    one.store(here, held(value))

    def _walk(
        self,
        one: OutputReduction,
        layout: NestedLayout,
        subgroup: Expr,
        lane: Expr,
        points: Sequence[At],
        values: Any,
    ) -> None:
        """A lane's points of the reduced dims."""
        space, (_, tile) = self.space, layout.undistributed_shape
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
        first = wide(subgroup) * layout.thread_tile[1] + wide(lane)
        with serial(emit.ceil_div(count, tile)) as number:
            flat = I.Bind(number * tile + first)
            divides = tile == 1 or (known(count) is not None and int(known(count) or 0) % tile == 0)
            with where(None if divides else flat < i64(count)):
                step(flat)
