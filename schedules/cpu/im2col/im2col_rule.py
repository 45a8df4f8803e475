"""The CPU rule for im2col."""

from dataclasses import dataclass
from math import prod

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.im2col.im2col import Im2col, known
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.streaming_stores import streams
from tvm_iree_ext.schedules.cpu.im2col.im2col_kernel import Im2colKernel
from tvm_iree_ext.schedules.shared.im2col_windows import innermost_line, segment_dims
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features


@dataclass(frozen=True)
class Im2colConfig(RuleConfig):
    """The vectors of a segment, and whether they are stored non-temporally."""

    lanes: int = number("vector_lanes", power_of_two=True)
    parallel: bool = flag("parallel")
    streaming: bool = flag("streaming")


class CpuIm2col(CpuRule):
    """Im2col on an LLVM CPU target: rows of segments that are contiguous in the input."""

    name = "cpu.im2col"
    lowers = Im2col
    typed = Im2colConfig
    algorithms = ("segments",)

    def usual(self, op: Im2col, target: Target) -> Im2colConfig:
        """Vectors as wide as the target's."""
        return Im2colConfig(
            "segments",
            lanes=cpu_features(target).lanes(item_bytes(op.input.dtype) * 8),
            parallel=self.is_large(op),
            streaming=streams(op, target, _longest_run(op)),
        )

    def emit(self, op: Im2col, config: Im2colConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        Im2colKernel(op, config.lanes, config.parallel, config.streaming).emit()


def _longest_run(op: Im2col) -> int:
    """How many elements of a row lie next to each other in the input; 0 where that is not known."""
    segment = op.lines[innermost_line(op)].sizes[segment_dims(op) :]
    extents = [*segment, op.output.shape[-1]]
    if not known(extents):
        return 0
    return min(prod(map(int, segment)), int(extents[-1]))
