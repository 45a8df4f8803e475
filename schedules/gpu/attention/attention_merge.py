"""From sums to results: normalised, merged with running state, or with those of other keys.

Where rows are few, several workgroups share the keys of a row.  Each leaves what it found, and a
second kernel merges that by the online rule, with a lane for each element of the output:

    mx = max over parts of maximum[part];   w = 2^(maximum[part] - mx)
    sum = sum over parts of w * sum[part];  products likewise
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.emit import At, Index, divide
from tvm_iree_ext.schedules.gpu.attention.attention_softmax import ScoreDomain
from tvm_iree_ext.schedules.gpu.emit.chip_math import exp2, held, largest
from tvm_iree_ext.schedules.gpu.emit.lanes import where, wide
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import i64

Finish: TypeAlias = Callable[[Any, At], Any]
"""A result from what was summed, and where it is."""

_LOG2E = math.log2(math.e)
_LANES = 256


def splat(number: Any, like: Any) -> Any:
    """A number for each element of a vector like another."""
    lanes = int(like.ty.dtype.lanes)
    return tirx.Broadcast(number, lanes) if lanes > 1 else number


def finish(
    operands: AttentionOperands,
    domain: ScoreDomain,
    kind: str,
    row: At,
    maximum: Any,
    total: Any,
    first: Any | None,
) -> Finish:
    """What makes a row's result of its sums.

    Results of a row alone, such as ``max`` and ``sum`` of the online op, are written here, by those
    for whom ``first`` holds.

    Args:
        operands: of the op.
        domain: of the kernel's scores.
        kind: of the target.
        row: where the row is.
        maximum: of its scores.
        total: the sum of its weights.
        first: a condition, or None for all.
    """
    highest = maximum * operands.const(domain.result)
    if not operands.op.online:
        if "log_sum_exp" in operands.views:
            with where(first):
                operands.settle_log_sum_exp(row, highest, total)
        inverse = held(operands.const(1.0) / total)
        return lambda value, _: value * splat(inverse, value)
    state = _State(operands, kind, row)
    state.settle(highest, total, first)
    return state.output


class _State:
    """Running state merged with what a kernel found, by the online rule.

    mx' = max(mx, maximum);  c = 2^(mx - mx'), b = 2^(maximum - mx'), in the domain's base
    sum' = c * sum + b * total;  output' = c * output + b * products
    """

    def __init__(self, operands: AttentionOperands, kind: str, row: At) -> None:
        self.operands, self.kind, self.row = operands, kind, row
        self.base = 1.0 if operands.op.score_domain == "log2" else _LOG2E
        self.carried: Any = None
        self.added: Any = None

    def settle(self, maximum: Any, total: Any, first: Any | None) -> None:
        """Write ``max`` and ``sum`` (where ``first`` holds), and keep the factors."""
        operands, views = self.operands, self.operands.views
        dtype = operands.op.compute_dtype
        started = held(views["max_init"].load(self.row, dtype))
        found, total = held(maximum), held(total)
        # What saw only -inf, or nothing, adds nothing; NaN is not passed over.
        seen = tirx.Or(total > operands.const(0.0), tirx.isnan(total))
        kept = tirx.Or(tirx.isnan(started), tirx.Or(started > found, tirx.Not(seen)))
        newest = tirx.Select(kept, started, found)
        unseen = tirx.And(tirx.isnan(total), found < operands.const(math.inf))
        newest = held(tirx.Select(unseen, total, newest))
        self.carried = held(self._power(started - newest))
        self.added = held(tirx.Select(seen, self._power(found - newest), operands.const(0.0)))
        summed = views["sum_init"].load(self.row, dtype)
        with where(first):
            views["max"].store(self.row, newest)
            views["sum"].store(self.row, self.carried * summed + self.added * total)

    def _power(self, difference: Any) -> Any:
        scaled = difference if self.base == 1.0 else difference * self.operands.const(self.base)
        return held(exp2(self.kind, scaled))

    def output(self, value: Any, at: At) -> Any:
        """The output at a point, from the products there: one, or a run of them."""
        count = int(value.ty.dtype.lanes)
        view = self.operands.views["output_init"]
        before = view.load(at, self.operands.op.compute_dtype, count)
        return splat(self.carried, value) * before + splat(self.added, value) * value


def _memory(name: str, extents: Sequence[Any], dtype: str) -> Any:
    buffer = I.alloc_buffer(extents, dtype, scope="global")
    IRBuilder.name(name, buffer)
    return buffer


class Partials:
    """The state that each part of the keys leaves of each row, between two kernels."""

    def __init__(self, operands: AttentionOperands, parts: int, rows: Index) -> None:
        self.operands, self.parts, self.rows = operands, parts, rows
        self.columns = operands.op.count("n")
        dtype, points = operands.op.compute_dtype, i64(rows)
        extents = [i64(parts), points]
        self.products = _memory("products", [*extents, i64(self.columns)], dtype)
        self.maxima, self.sums = (_memory(name, extents, dtype) for name in ("maxima", "sums"))

    def merge(self, domain: ScoreDomain, kind: str, grid: Ints, row_dims: Ints) -> None:
        """The second kernel; rows are counted by the dims of the grid, then by ``row_dims``."""
        operands, space = self.operands, self.operands.space
        elements = i64(self.rows) * self.columns
        workgroups = tirx.floordiv(elements + (_LANES - 1), i64(_LANES))
        with (
            I.launch_thread("blockIdx.x", workgroups) as workgroup,
            I.launch_thread("threadIdx.x", _LANES) as lane,
        ):
            element = I.Bind(wide(workgroup) * _LANES + wide(lane))
            with where(element < elements):
                point, column = divide(element, self.columns)
                point = I.Bind(point)
                outer, row = divide(point, space.count(row_dims))
                at = {**space.spread(outer, grid), **space.spread(row, row_dims)}
                maximum, total, value = self._merged(domain, kind, point, column)
                first = column == 0
                done = finish(operands, domain, kind, at, maximum, total, first)
                at |= space.spread(column, operands.op.dims["n"])
                operands.views["output"].store(at, done(value, at))

    def _merged(
        self, domain: ScoreDomain, kind: str, point: Any, column: Any
    ) -> tuple[Any, Any, Any]:
        dtype = self.operands.op.compute_dtype
        cells = [I.alloc_buffer((1,), dtype, scope="local") for _ in range(3)]
        starts = (domain.lowest, 0.0, 0.0)
        for cell, start in zip(cells, starts, strict=True):
            I.buffer_store(cell, self.operands.const(start), [0])
        maximum, total, value = cells
        with I.serial(i64(0), i64(self.parts)) as part:
            highest = largest(kind, maximum[0], self.maxima[part, point])
            I.buffer_store(maximum, highest, [0])
        with I.serial(i64(0), i64(self.parts)) as part:
            shrink = (self.maxima[part, point] - maximum[0]) * self.operands.const(domain.exponent)
            weight = held(exp2(kind, shrink))
            I.buffer_store(total, total[0] + weight * self.sums[part, point], [0])
            product = weight * self.products[part, point, column]
            I.buffer_store(value, value[0] + product, [0])
        return maximum[0], total[0], value[0]
