"""The keys of few rows shared among tasks: partial states of exp_reduction, and their merge."""

import math

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_nests import Nests
from tvm_iree_ext.schedules.emit import At, Expr, Index, i64, serial
from tvm_iree_ext.schedules.shared.exp_reduction_operands import lane_loop
from tvm_iree_ext.schedules.shared.exp_reduction_plan import Accumulation


class KeyParts:
    """A maximum and sums for each row and part of its keys, each from an empty state.

    They merge by the rule of the online algorithm: a part counts as much as its own maximum does
    beside that of all parts and of the state that came in.
    """

    def __init__(self, nests: Nests, splits: int) -> None:
        self.nests, self.operands, self.splits = nests, nests.operands, splits
        self.plan, self.space = self.operands.plan, self.operands.space
        self.dtype = self.operands.op.compute_dtype
        self.row_dims = self.plan.maps["output0"].dims
        rows = [self.space.extents[dim] for dim in self.row_dims]
        self.maximum = emit.scratch([splits, *rows], self.dtype)
        self.factor = emit.scratch([splits + 1, *rows], self.dtype)  # the last: of what came in
        self.sums = {}
        for one in self.plan.tiled:
            dims = self.plan.maps[f"output{one.output}"].dims
            shape = [splits, *(self.space.extents[dim] for dim in dims)]
            self.sums[one.output] = emit.scratch(shape, self.operands.state_dtype(one.output))

    def row(self, part: Index, at: At) -> list[Expr]:
        """The place of a part of a row."""
        return [i64(part), *(i64(at[dim]) for dim in self.row_dims)]

    def element(self, one: Accumulation, part: Index, at: At) -> list[Expr]:
        """The place of a part of an output's element."""
        dims = self.plan.maps[f"output{one.output}"].dims
        return [i64(part), *(i64(at[dim]) for dim in dims)]

    def merge(self) -> None:
        """The results, from all parts and the state that came in."""
        self.nests.over("output0", self.merge_rows)
        for one in self.plan.tiled:

            def piece(at: At, dim: int, place: Index, lanes: int, one: Accumulation = one) -> None:
                self.merge_elements(one, at, dim, place, lanes)

            self.nests.over(f"output{one.output}", piece)

    def merge_rows(self, at: At, dim: int, place: Index, lanes: int) -> None:
        """Maxima, and how much each part counts."""
        held = emit.registers(lanes, self.dtype)

        def here(lane: Expr) -> At:
            return {**at, dim: place + lane}

        def given(lane: Expr) -> Expr:
            return self.operands.element("init0", self.dtype, here(lane))

        with lane_loop(lanes) as lane:
            I.buffer_store(held, given(lane), [lane])
        with serial(self.splits) as part, lane_loop(lanes) as lane:
            one = self.maximum[tuple(self.row(part, here(lane)))]
            I.buffer_store(held, emit.larger_or_nan(held[lane], one), [lane])
        with serial(self.splits) as part, lane_loop(lanes) as lane:
            place_of_part = self.row(part, here(lane))
            difference = self.maximum[tuple(place_of_part)] - held[lane]
            I.buffer_store(self.factor, self.operands.power(difference), place_of_part)
        with lane_loop(lanes) as lane:
            norm = self.operands.power(given(lane) - held[lane])
            I.buffer_store(self.factor, norm, self.row(self.splits, here(lane)))
            self.nests.maxima.store(here(lane), held[lane])
            self.operands.views["result0"].store(here(lane), held[lane])

    def merge_elements(self, one: Accumulation, at: At, dim: int, place: Index, lanes: int) -> None:
        """The sums of an output."""
        operands, sums = self.operands, self.sums[one.output]
        rescaled = operands.is_rescaled(one)
        held = emit.registers(lanes, operands.state_dtype(one.output))

        def here(lane: Expr) -> At:
            return {**at, dim: place + lane}

        def factor(part: Index, lane: Expr) -> Expr:
            return self.factor[tuple(self.row(part, here(lane)))]

        with lane_loop(lanes) as lane:
            value = operands.init(one, here(lane))
            value = value * factor(self.splits, lane) if rescaled else value
            I.buffer_store(held, value, [lane])
        with serial(self.splits) as part, lane_loop(lanes) as lane:
            value = sums[tuple(self.element(one, part, here(lane)))]
            value = value * factor(part, lane) if rescaled else value
            I.buffer_store(held, held[lane] + value, [lane])
        with lane_loop(lanes) as lane:
            value = held[lane]
            if rescaled:
                maximum = self.nests.maximum(here(lane))
                lost = tirx.Or(maximum == operands.const(-math.inf), tirx.isnan(maximum))
                value = tirx.Select(lost, operands.const(math.nan), value)
            operands.views[f"result{one.output}"].store(here(lane), value)
