"""The CPU rule of ``iree_linalg_ext.fft``, one butterfly stage."""

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.fft_stage import stage_kernel

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.fft import Fft
from tvm_iree_ext.target.cpu import cpu_features

# Below this much memory a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_BYTES = 200_000


class CpuFft:
    """A butterfly stage on an LLVM CPU target, in one pass over memory."""

    name = "cpu.fft"

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, Fft):
            return f"{op.name} is not fft"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

    def heuristic(self, op: Fft, target: Target) -> LoweringConfig:
        """The target's vectors; threads where there is much to read."""
        lanes = cpu_features(target).lanes(item_bytes(op.compute_dtype) * 8)
        large = bool(op.signature.symbols) or op.bytes() > _SERIAL_BYTES
        return LoweringConfig(vector_lanes=lanes, parallel=large)

    def lower(self, op: Fft, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a number of lanes that is not a power of two.
        """
        lanes = config.vector_lanes
        if lanes < 2 or lanes & (lanes - 1):
            raise ScheduleError(
                f"{self.name}: vector_lanes is {lanes}; expected a power of two from 2"
            )
        return ir.IRModule({op.entry: stage_kernel(op, config)})
