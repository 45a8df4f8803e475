"""The GPU rule for contractions: tiles on matrix instructions, one rule for both vendors."""

from dataclasses import replace

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.contraction.contraction_lane_layouts import (
    config_of_layouts,
    has_layouts,
)
from tvm_iree_ext.schedules.gpu.contraction.contraction_matrices import (
    ContractionMatrices,
    MatrixOperands,
)
from tvm_iree_ext.schedules.gpu.contraction.contraction_scaled import SCALED, scaled_products
from tvm_iree_ext.schedules.gpu.contraction.contraction_scaled_memory import tensor_memory_blocks
from tvm_iree_ext.schedules.gpu.contraction.contraction_warpgroup import lower_by_warpgroups
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import shared_out_config
from tvm_iree_ext.schedules.gpu.products.matmul_planning import plan_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_space import matmul_space
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import (
    MMA,
    lowering_config,
    matmul_numbers,
)
from tvm_iree_ext.schedules.gpu.products.multiplied_types import Types, multiplied_types
from tvm_iree_ext.schedules.gpu.products.padded_operands import odd_sides, sides_to_pad
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import (
    WARPGROUP_ALGORITHMS,
    chosen_warpgroups,
    warpgroup_forms,
    warpgroup_numbers,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import plan_warpgroup_matmul

_MOST_ROWS = (1 << 31) - 1  # of a matrix: tiles are counted in 32 bits


class GpuContraction(GpuRule):
    """Contractions on NVIDIA's and AMD's GPUs."""

    name = "gpu.contraction"
    lowers = Contraction

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, Contraction)
        matrices = ContractionMatrices(op)
        for role in "mn":
            if (matrices.extent(role) or 0) > _MOST_ROWS:
                return f"{role} is {matrices.extent(role)}; expected at most {_MOST_ROWS}"
        try:
            if op.layouts is None:
                _types(op, target)
            else:
                config_of_layouts(matrices, _shape(op, target), target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Contraction, target: Target) -> LoweringConfig:
        """The largest tiles that fit the chip and keep it busy; by warpgroups where it has them."""
        shape, matrices = _shape(op, target), ContractionMatrices(op)
        if scaled := scaled_products(op, matrices, target):
            return scaled.heuristic()
        blocks = tensor_memory_blocks(op, matrices, target)
        if blocks and (by_blocks := blocks.heuristic()):
            return by_blocks
        if op.layouts is not None:
            return lowering_config(config_of_layouts(matrices, shape, target))
        found = chosen_warpgroups(shape, target)
        if found and all(side in found.pad or matrices.row_by_row(side) for side in SIDES):
            return found
        pad = sides_to_pad(shape, target, together=False)
        config = shared_out_config(shape.padded(pad), target)
        return lowering_config(replace(config, pad=pad))

    def space(self, op: Contraction, target: Target) -> TuningSpace:
        """Instructions, tiles, subgroups, stages, parts of K; also by warpgroups where they fit."""
        shape, matrices = _shape(op, target), ContractionMatrices(op)
        if scaled := scaled_products(op, matrices, target):
            return scaled.space()
        if op.layouts is not None:
            return self._space_of_layouts(shape, target, self.heuristic(op, target))
        blocks = tensor_memory_blocks(op, matrices, target)
        by_warpgroups = (
            blocks.forms()
            if blocks
            else [
                one
                for one in warpgroup_forms(shape, target)
                if all(side in one.base.pad or matrices.row_by_row(side) for side in SIDES)
            ]
        )

        def refused(config: LoweringConfig) -> str | None:
            check = self.check(config)
            if blocks:
                return refusal(lambda: blocks.plan(check))
            return refusal(lambda: plan_warpgroup_matmul(shape, target, warpgroup_numbers(check)))

        usual = self.heuristic(op, target)
        pad = tuple(side for side in odd_sides(shape) if shape.can_be_padded(side))
        return matmul_space(shape, target, usual, self.check, by_warpgroups, refused, pad)

    def lower(self, op: Contraction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``, of one kernel, or two where K is split.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = _shape(op, target)
        matrices = ContractionMatrices(op)
        operands = MatrixOperands(matrices, shape)
        if config.algorithm in WARPGROUP_ALGORITHMS:
            blocks = tensor_memory_blocks(op, matrices, target)
            if blocks:
                func = blocks.lower(operands, self.check(config))
            else:
                func = lower_by_warpgroups(matrices, operands, target, self.check(config))
            return ir.IRModule({op.entry: func})
        check = self.check(config)
        if config.algorithm == SCALED and (scaled := scaled_products(op, matrices, target)):
            return ir.IRModule({op.entry: scaled.lower(operands, check)})
        check.algorithm(MMA, *WARPGROUP_ALGORITHMS)
        numbers = matmul_numbers(check)
        if op.layouts is not None:
            usual = config_of_layouts(matrices, shape, target)
            check.need(has_layouts(numbers, usual), f"the op's layouts are those of {usual}")
            numbers = replace(numbers, rows_first=usual.rows_first)
        function = schedule_matmul(shape, target, numbers, operands)
        return ir.IRModule({op.entry: function})

    def _space_of_layouts(
        self, shape: MatmulShape, target: Target, usual: LoweringConfig
    ) -> TuningSpace:
        """How many tiles are under way at once, and how they lie."""

        def refused(config: LoweringConfig) -> str | None:
            numbers = matmul_numbers(self.check(config))
            return refusal(lambda: plan_matmul(shape, target, numbers))

        stages = Choice("stages", (1, 2, 3, 4))
        return TuningSpace((form(usual, stages, Choice("swizzle", (False, True))),), refused)


def _types(op: Contraction, target: Target) -> Types:
    lhs, rhs = map(op.factor_dtype, SIDES)
    return multiplied_types(lhs, rhs, op.accumulator_dtype, target)


def _shape(op: Contraction, target: Target) -> MatmulShape:
    matrices = ContractionMatrices(op)
    lhs, rhs, sums = _types(op, target)
    if matrices.swapped:
        lhs, rhs = rhs, lhs
    return matrices.shape((lhs, rhs, sums))
