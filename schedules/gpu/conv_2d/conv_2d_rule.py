"""The GPU rule for convolutions: implicit products of matrices, or each lane an element.

    warpgroup_tma   windows x filters by warpgroups, where a chip has them and windows are boxes
    mma      windows x filters by the rule for contractions, the windows read where they lie
    direct   every lane sums up an element of the result by itself: groups of so few filters that
             a matrix instruction would be empty, depthwise convolutions among them

An op's algorithm is what a CPU is told: on matrix instructions the direct products take less time
than the transforms of Winograd, and round less.
"""

from dataclasses import replace

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.schedules.base.space import TuningSpace, form, refusal
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_channels import channels_that_pay, more_channels
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_direct import direct_conv_2d
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_operands import ConvOperands, conv_shape
from tvm_iree_ext.schedules.gpu.conv_2d.conv_2d_warpgroup import conv_windows, lower_by_warpgroups
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.products.matmul import schedule_matmul
from tvm_iree_ext.schedules.gpu.products.matmul_heuristic import matmul_config
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulShape
from tvm_iree_ext.schedules.gpu.products.matmul_space import matmul_space
from tvm_iree_ext.schedules.gpu.products.matmul_tile_sizes import (
    MMA,
    lowering_config,
    matmul_numbers,
)
from tvm_iree_ext.schedules.gpu.products.multiplied_types import multiplied_types
from tvm_iree_ext.schedules.gpu.products.warpgroup_numbers import (
    WARPGROUP_ALGORITHMS,
    chosen_warpgroups,
    warpgroup_forms,
    warpgroup_numbers,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import plan_warpgroup_matmul
from tvm_iree_ext.targets.gpu import subgroup_size

_DIRECT = "direct"
_IMAGE = ("input",)  # what may be padded
_SUBGROUPS = 4  # of a workgroup of the direct form
_FILTERS = 8  # of a group: with fewer, most of an instruction's columns would be empty


class GpuConv2d(GpuRule):
    """Convolutions on NVIDIA's and AMD's GPUs."""

    name = "gpu.conv_2d"
    lowers = Conv2d

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if reason := super().applies(op, target):
            return reason
        assert isinstance(op, Conv2d)
        if op.filter_panels is not None:
            return f"{self.name}: filters in panels are for CPUs"
        try:
            _shape(op, target)
        except ScheduleError as error:
            return str(error)
        return None

    def heuristic(self, op: Conv2d, target: Target) -> LoweringConfig:
        """Matrix instructions where groups have columns for them; the contraction's tiles."""
        if op.groups > 1 and op.group_filters < _FILTERS:
            return LaneConfig(_DIRECT, _SUBGROUPS * subgroup_size(target)).lowering()
        shape, windows = _shape(op, target), conv_windows(op)
        found = None if windows is None else chosen_warpgroups(shape, target, windows)
        if found:
            return found
        channels = channels_that_pay(op, shape, target)
        config = lowering_config(matmul_config(_shape(op, target, channels), target))
        return replace(config, pad=() if channels is None else _IMAGE)

    def space(self, op: Conv2d, target: Target) -> TuningSpace:
        """The space of a product on matrix instructions; and each lane an element."""
        usual, size = self.heuristic(op, target), subgroup_size(target)
        lanes = LaneConfig.choice("lanes", tuple(size * many for many in (1, 2, 4, 8)))
        base = LaneConfig(_DIRECT, _SUBGROUPS * size).lowering()
        shape, windows = _shape(op, target), conv_windows(op)
        forms = [] if windows is None else warpgroup_forms(shape, target, windows)

        def refused(config: LoweringConfig) -> str | None:
            if config.algorithm == _DIRECT:
                return None
            numbers = warpgroup_numbers(self.check(config))
            return refusal(lambda: plan_warpgroup_matmul(shape, target, numbers, windows))

        return matmul_space(shape, target, usual, self.check, [form(base, lanes), *forms], refused)

    def lower(self, op: Conv2d, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the function of ``op``, of one kernel, or two where K is split.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        algorithm = check.algorithm(MMA, _DIRECT, *WARPGROUP_ALGORITHMS[:1])
        channels = None
        if config.pad:
            channels = more_channels(op) if algorithm == MMA else None
            expected = f"{list(_IMAGE)} by matrix instructions, of channels that are no access"
            padded = config.pad == _IMAGE and channels is not None
            check.expect(padded, "pad", list(config.pad), expected)
        if algorithm == _DIRECT:
            workgroup = LaneConfig.parse(check, _DIRECT).workgroup(check, target)
            return ir.IRModule({op.entry: direct_conv_2d(op, target, workgroup.subgroups)})
        shape = _shape(op, target, channels)
        operands = ConvOperands(op, shape, channels)
        if algorithm != MMA:
            func = lower_by_warpgroups(op, shape, operands, target, check)
            return ir.IRModule({op.entry: operands.settled(func)})
        numbers = replace(matmul_numbers(check), pad=())  # the operands pad themselves
        function = schedule_matmul(shape, target, numbers, operands)
        return ir.IRModule({op.entry: operands.settled(function)})


def _shape(op: Conv2d, target: Target, channels: int | None = None) -> MatmulShape:
    factor = "int8" if op.nibbles else op.dtype
    types = multiplied_types(factor, factor, op.compute_dtype, target)
    return conv_shape(op, types, channels)
