"""exp_reduction output by output: loops over its elements, in vectors, and over what it reduces.

Vectors lie along the last axis of the output, whatever the inputs' layouts.  The maximum comes
first, for scores that do not lie along keys, or have none; every output that does not follow the
tiles of :mod:`.exp_reduction_tiles` after it, with each weight computed where it is used.
"""

from collections.abc import Callable
from typing import TypeAlias

from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_config import ExpReductionConfig
from tvm_iree_ext.schedules.emit import At, Expr, Index, OperandView, i64, serial
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands, along, lane_loop
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation
from tvm_iree_ext.schedules.shared.fused_dims import Dims

Piece: TypeAlias = Callable[[At, int, Index, int], None]
"""Takes the other dims, the last one (-1 where there is none), a place along it, and lanes."""


class Nests:
    """The loops of single outputs under construction; ``maxima`` holds the maximum of each row."""

    def __init__(
        self, operands: ReductionOperands, config: ExpReductionConfig, maxima: OperandView
    ) -> None:
        self.operands, self.config, self.maxima = operands, config, maxima
        self.dtype = operands.op.compute_dtype
        self.lanes = config.lanes
        self.columns = config.columns

    def emit_maximum(self) -> None:
        """The maximum of each row, in its own type and as a result."""
        plan, operands = self.operands.plan, self.operands

        def piece(at: At, dim: int, place: Index, lanes: int) -> None:
            held = emit.registers(lanes, self.dtype)

            def here(lane: Expr) -> At:
                return {**at, dim: place + lane} if dim >= 0 else at

            with lane_loop(lanes) as lane:
                I.buffer_store(held, operands.element("init0", self.dtype, here(lane)), [lane])

            def step(keys: At) -> None:
                with lane_loop(lanes) as lane:
                    score = operands.element("input0", self.dtype, {**here(lane), **keys})
                    I.buffer_store(held, emit.larger_or_nan(held[lane], score), [lane])

            self.each(plan.fused(operands.op.key_dims), step)
            with lane_loop(lanes) as lane:
                self.maxima.store(here(lane), held[lane])
                operands.views["result0"].store(here(lane), held[lane])

        self.over("output0", piece)

    def emit_output(self, one: Accumulation) -> None:
        """One output, from its first value to its last."""
        operands = self.operands
        dtype, rescaled = operands.state_dtype(one.output), operands.is_rescaled(one)

        def piece(at: At, dim: int, place: Index, lanes: int) -> None:
            held = emit.registers(lanes, dtype)
            weights = emit.registers(lanes, self.dtype)

            def here(lane: Expr) -> At:
                return {**at, dim: place + lane} if dim >= 0 else at

            with lane_loop(lanes) as lane:
                value = operands.init(one, here(lane))
                if rescaled:
                    given = operands.element("init0", self.dtype, here(lane))
                    value = value * operands.power(given - self.maximum(here(lane)))
                I.buffer_store(held, value, [lane])

            def step(reduced: At) -> None:
                if 0 in one.reads:
                    # Stored and read again: what a region makes of it is not known here.
                    with lane_loop(lanes) as lane:
                        point = {**here(lane), **reduced}
                        score = operands.element("input0", self.dtype, point)
                        weight = operands.power(score - self.maximum(point))
                        I.buffer_store(weights, weight, [lane])
                with lane_loop(lanes) as lane:
                    point = {**here(lane), **reduced}
                    own = (one.output, held[lane])
                    value = operands.call(one.region, point, weights[lane], own)
                    I.buffer_store(held, value, [lane])

            self.each(one.reduced, step)
            with lane_loop(lanes) as lane:
                operands.views[f"result{one.output}"].store(here(lane), held[lane])

        self.over(f"output{one.output}", piece)

    def maximum(self, at: At) -> Expr:
        """The maximum of a point's row."""
        return self.maxima.load(at, self.dtype)

    def each(self, dims: Dims, body: Callable[[At], None]) -> None:
        """``body(at)`` at each point of reduced dims, in their order."""

        def level(rest: Dims, at: At) -> None:
            if not rest:
                body(at)
                return
            with serial(self.operands.space.extents[rest[0]]) as value:
                level(rest[1:], {**at, rest[0]: value})

        level(dims, {})

    def over(self, output: str, piece: Piece) -> None:
        """``piece(at, dim, place, lanes)`` for all elements, in tasks of part of the last axis."""
        space = self.operands.space
        dims = self.operands.plan.maps[output].dims
        last = dims[-1] if dims else -1
        extent = space.extents[last] if dims else 1
        parts = emit.ceil_div(extent, self.columns)
        tasks = i64(emit.product([space.count(dims[:-1]), parts]))
        with (I.parallel if self.config.parallel else I.serial)(i64(0), tasks) as task:
            point, part = emit.divide(task, parts)
            at = emit.bound(space.spread(point, dims[:-1]))
            first = I.Bind(part * self.columns)
            length = emit.smaller(self.columns, i64(extent) - first)
            if emit.known(extent) is not None and emit.known(parts) == 1:
                length = extent
            along(length, self.lanes, lambda place, lanes: piece(at, last, first + place, lanes))
