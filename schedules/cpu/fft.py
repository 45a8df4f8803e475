"""The CPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

import math
from dataclasses import replace

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.fft_row import split
from tvm_iree_ext.schedules.cpu.fft_stage import stage_kernel
from tvm_iree_ext.schedules.cpu.fft_transform import complex_length, transform_kernel
from tvm_iree_ext.schedules.cpu.rule import CpuRule
from tvm_iree_ext.schedules.fft_codelets import radices
from tvm_iree_ext.schedules.rule import ConfigCheck
from tvm_iree_ext.schedules.space import Choice, Space, form, refusal

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.fft import Fft
from tvm_iree_ext.ops.fft_transform import FftTransform
from tvm_iree_ext.target.cpu import cpu_features

# Below this much memory a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_BYTES = 200_000


class CpuFft(CpuRule):
    """A butterfly stage on an LLVM CPU target, in one pass over memory."""

    name = "cpu.fft"
    lowers = Fft

    def heuristic(self, op: Fft, target: Target) -> LoweringConfig:
        """The target's vectors; threads where there is much to read."""
        lanes = cpu_features(target).lanes(item_bytes(op.compute_dtype) * 8)
        large = bool(op.signature.symbols) or op.bytes() > _SERIAL_BYTES
        return LoweringConfig(vector_lanes=lanes, parallel=large)

    def space(self, op: Fft, target: Target) -> Space:
        """The vectors, and whether there are threads."""
        usual = self.heuristic(op, target)
        lanes = Choice("vector_lanes", (max(usual.vector_lanes // 2, 2),))
        return Space((form(usual, lanes, Choice("parallel", (False, True))),))

    def lower(self, op: Fft, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a number of lanes that is not a power of two.
        """
        self.check(config).lanes(least=2)
        return ir.IRModule({op.entry: stage_kernel(op, config)})


_SERIAL_FLOPS = 1_000_000
# A row below this is not worth sharing among threads.
_SHARED_LENGTH = 16384


class CpuFftTransform(CpuRule):
    """A whole transform on an LLVM CPU target."""

    name = "cpu.fft_transform"
    lowers = FftTransform

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

    def space(self, op: FftTransform, target: Target) -> Space:
        """The largest radix, the vectors, within a row or across rows, who shares a row."""
        usual, features = self.heuristic(op, target), cpu_features(target)
        most = 32 if features.vector_registers >= 32 else 16
        radix = Choice(
            "register_tile.radix", tuple(1 << bit for bit in range(1, 6) if 1 << bit <= most)
        )
        lanes = Choice("vector_lanes", (max(usual.vector_lanes // 2, 2),))
        parallel = Choice("parallel", (False, True))
        choices = {
            "row": (radix, lanes, Choice("splits", (1, features.cores)), parallel),
            "lanes": (radix, lanes, parallel),
            "bluestein": (radix, lanes, parallel),
        }
        # Bluestein's form computes three transforms: only where there is no other.
        names = [usual.algorithm] if usual.algorithm == "bluestein" else ["row", "lanes"]
        forms = [
            form(
                replace(usual, algorithm=name, splits=usual.splits if name == "row" else 1),
                *choices[name],
            )
            for name in names
        ]
        return Space.of(usual, forms, lambda one: refusal(lambda: _check(op, self.check(one))))

    def lower(self, op: FftTransform, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(op, self.check(config))
        return ir.IRModule({op.entry: transform_kernel(op, config)})


def _check(op: FftTransform, check: ConfigCheck) -> None:
    lanes, radix = check.lanes(least=2), check.tile("register_tile", "radix")
    check.power_of_two("register_tile['radix']", radix, least=2)
    form, length = check.algorithm("row", "lanes", "bluestein"), complex_length(op)
    if form == "row":
        inner = all(extent == 1 for extent in op.shape[op.axis + 1 :])
        check.need(inner, "'row' needs the axis to be the innermost")
        check.need(
            split(length, lanes, radix) is not None,
            f"'row' needs two factors of {length}, each from {lanes} on and of primes up to 13",
        )
    if form == "lanes":
        smooth = radices(length, radix) is not None
        check.need(smooth, "'lanes' needs a length of primes up to 13")
