"""The CPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

import math

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.fft_lanes import radices
from tvm_iree_ext.schedules.cpu.fft_row import split
from tvm_iree_ext.schedules.cpu.fft_stage import stage_kernel
from tvm_iree_ext.schedules.cpu.fft_transform import complex_length, transform_kernel

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.fft import Fft
from tvm_iree_ext.ops.fft_transform import FftTransform
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


_SERIAL_FLOPS = 1_000_000
# A row below this is not worth sharing among threads.
_SHARED_LENGTH = 16384
_ALGORITHMS = ("row", "lanes", "bluestein")


class CpuFftTransform:
    """A whole transform on an LLVM CPU target."""

    name = "cpu.fft_transform"

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, FftTransform):
            return f"{op.name} is not fft_transform"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

    def heuristic(self, op: FftTransform, target: Target) -> LoweringConfig:
        """Vectors within a row , or across rows; Bluestein's form for large primes."""
        features = cpu_features(target)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        # A codelet's points, and as many intermediate ones, in registers.
        radix = 16 if features.vector_registers >= 32 else 8
        rows = [e for axis, e in enumerate(op.shape) if axis != op.axis]
        inner = op.shape[op.axis + 1 :]
        contiguous = all(extent == 1 for extent in inner)
        length = complex_length(op)
        if radices(length, radix) is None:
            algorithm = "bluestein"
        elif contiguous and split(length, lanes, radix) is not None:
            algorithm = "row"
        else:
            algorithm = "lanes"
        dynamic = any(isinstance(extent, str) for extent in rows)
        count = 0 if dynamic else math.prod(e for e in rows if isinstance(e, int))
        few = not dynamic and count < 2 * features.cores
        shared = algorithm == "row" and few and length >= _SHARED_LENGTH
        return LoweringConfig(
            algorithm=algorithm,
            register_tile={"radix": radix},
            vector_lanes=lanes,
            splits=features.cores if shared else 1,
            parallel=dynamic or op.flops() > _SERIAL_FLOPS,
        )

    def lower(self, op: FftTransform, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        self._check(op, config)
        return ir.IRModule({op.entry: transform_kernel(op, config)})

    def _check(self, op: FftTransform, config: LoweringConfig) -> None:
        lanes, radix = config.vector_lanes, config.register_tile.get("radix", 0)
        for name, value in (("vector_lanes", lanes), ("register_tile['radix']", radix)):
            if value < 2 or value & (value - 1):
                raise ScheduleError(
                    f"{self.name}: {name} is {value}; expected a power of two from 2"
                )
        if config.algorithm not in _ALGORITHMS:
            raise ScheduleError(
                f"{self.name}: algorithm is {config.algorithm!r};"
                f" expected one of {', '.join(_ALGORITHMS)}"
            )
        length = complex_length(op)
        if config.algorithm == "row":
            if any(extent != 1 for extent in op.shape[op.axis + 1 :]):
                raise ScheduleError(f"{self.name}: 'row' needs the axis to be the innermost")
            if split(length, lanes, radix) is None:
                raise ScheduleError(
                    f"{self.name}: 'row' needs two factors of {length}, each from {lanes} on"
                    " and of primes up to 13"
                )
        if config.algorithm == "lanes" and radices(length, radix) is None:
            raise ScheduleError(f"{self.name}: 'lanes' needs a length of primes up to 13")
