"""The GPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

from dataclasses import dataclass

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two, refusal
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.fft.fft_butterflies import butterflies_kernel
from tvm_iree_ext.schedules.gpu.fft.fft_passes import TransformShape, transform_kernel
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_LANES = 256
_SHARED_BYTES = 32 << 10  # of a workgroup: enough for its lanes, and several fit a core
_RADIX = 8  # points of a lane: with twiddle factors within 64 registers
_MOST_RADIX = 16


@dataclass(frozen=True)
class GpuFftTransformConfig(LaneConfig):
    """Elements in shared memory, and the largest radix."""

    elements: int = number("workgroup_tile.elements", least=_MOST_RADIX, power_of_two=True)
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
        """Lines of up to some thousand elements in shared memory, eight points a lane at a time."""
        item = item_bytes(op.compute_dtype)
        elements = _SHARED_BYTES // (4 * item)
        lanes = min(_LANES, max(subgroup_size(target), elements // _RADIX))
        return GpuFftTransformConfig(
            "stockham", lanes=lanes, elements=elements, radix=_RADIX
        ).lowering()

    def space(self, op: FftTransform, target: Target) -> TuningSpace:
        """The largest radix, what lies in shared memory, the lanes."""
        lanes = powers_of_two(subgroup_size(target), gpu_chip(target).max_lanes)
        choices = (
            GpuFftTransformConfig.choice("elements", powers_of_two(128, 4096)),
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
        taken = 4 * config.elements * item_bytes(op.compute_dtype)
        most = gpu_chip(target).declared_shared_memory_bytes
        check.need(taken <= most, f"{config.elements} elements are {taken} bytes; there are {most}")
        return TransformShape(config.workgroup(check, target), config.elements, config.radix)
