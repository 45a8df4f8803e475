"""The GPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

from dataclasses import dataclass

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.fft.fft_butterflies import butterflies_kernel
from tvm_iree_ext.schedules.gpu.fft.fft_pass import SharedMemory
from tvm_iree_ext.schedules.gpu.fft.fft_passes import transform_kernel
from tvm_iree_ext.schedules.gpu.fft.fft_shape import TransformShape
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_LANES = 256
_SHARED_BYTES = 32 << 10  # of a workgroup with short lines: several fit a core
_MOST_LANES = 512  # of a workgroup, which leaves each 128 registers
_LANE_BYTES = 256  # of registers for a lane's elements: half of those
_RADIX = {4: 16, 8: 8}  # by bytes of an item: points and roots within 80 or so registers
_MOST_RADIX = 16
_USUAL_CORES = 64  # of chips without published figures


@dataclass(frozen=True)
class GpuFftTransformConfig(LaneConfig):
    """The most lanes of a workgroup, its elements, the longest line of one, the largest radix.

    Without a longest line, that is as many elements as a workgroup has.
    """

    elements: int = number("workgroup_tile.elements", least=_MOST_RADIX, power_of_two=True)
    longest: int = number("workgroup_tile.longest", optional=True)
    radix: int = number("register_tile.radix", _MOST_RADIX, least=2, power_of_two=True)


class GpuFft(GpuRule):
    """A butterfly stage on GPUs, a lane for each butterfly."""

    name = "gpu.fft"
    lowers = Fft

    def heuristic(self, op: Fft, target: Target) -> LoweringConfig:
        """A config of as many lanes as hide the latency of memory."""
        return LaneConfig("butterflies", lanes=_LANES).lowering()

    def space(self, op: Fft, target: Target) -> TuningSpace:
        """The lanes of a workgroup."""
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        return TuningSpace((form(self.heuristic(op, target), LaneConfig.choice("lanes", lanes)),))

    def lower(self, op: Fft, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        shape = LaneConfig.parse(check, "butterflies").workgroup(check, target)
        return ir.IRModule({op.entry: butterflies_kernel(op, shape)})


class GpuFftTransform(GpuRule):
    """A whole transform on GPUs."""

    name = "gpu.fft_transform"
    lowers = FftTransform

    def heuristic(self, op: FftTransform, target: Target) -> LoweringConfig:
        """Lines as long as shared memory holds, in registers; several of them where they are short.

        Eight or sixteen elements a lane at a time.
        """
        item = item_bytes(op.compute_dtype)
        chip = gpu_chip(target)
        elements = _SHARED_BYTES // (2 * item)
        fitting = min(chip.shared_memory_bytes, _MOST_LANES * _LANE_BYTES) // (2 * item)
        return GpuFftTransformConfig(
            "stockham",
            lanes=_MOST_LANES,
            elements=elements,
            longest=1 << (fitting.bit_length() - 1),
            radix=_RADIX[item],
        ).lowering()

    def space(self, op: FftTransform, target: Target) -> TuningSpace:
        """The largest radix, what a workgroup holds, its lanes."""
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        choices = (
            GpuFftTransformConfig.choice("elements", powers_of_two(128, 8192)),
            GpuFftTransformConfig.choice("longest", powers_of_two(1024, 16384)),
            GpuFftTransformConfig.choice("lanes", lanes),
            GpuFftTransformConfig.choice("radix", powers_of_two(2, _MOST_RADIX)),
        )
        usual = self.heuristic(op, target)

        def refused(config: LoweringConfig) -> str | None:
            return refusal(lambda: self._shape(op, target, self.check(config)))

        return TuningSpace.of(usual, [form(usual, *choices)], refused)

    def lower(self, op: FftTransform, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        shape = self._shape(op, target, self.check(config))
        return ir.IRModule({op.entry: transform_kernel(op, shape)})

    @staticmethod
    def _shape(op: FftTransform, target: Target, check: ConfigCheck) -> TransformShape:
        config = GpuFftTransformConfig.parse(check, "stockham")
        workgroup = config.workgroup(check, target)
        chip, item = gpu_chip(target), item_bytes(op.compute_dtype)
        longest = config.longest or config.elements
        held = max(longest, config.elements)
        taken, most = 2 * held * item, chip.shared_memory_bytes
        check.need(taken <= most, f"{held} elements are {taken} bytes; there are {most}")
        registers = 2 * item * held // workgroup.lanes
        check.need(
            registers <= 2 * _LANE_BYTES,
            f"{held} elements are {registers} bytes of registers a lane; at most {2 * _LANE_BYTES}",
        )
        scope = "shared.dyn" if chip.kind == "cuda" else "shared"
        return TransformShape(
            lanes=workgroup.lanes,
            subgroup_size=workgroup.size,
            elements=config.elements,
            longest=longest,
            radix=config.radix,
            dtype=op.compute_dtype,
            cores=max((part.cores for part in chip.parts), default=_USUAL_CORES),
            shared=SharedMemory(scope, 4 * chip.banks),
        )
