"""The CPU rules of ``iree_linalg_ext.fft``, one butterfly stage, and of whole transforms."""

import math
from dataclasses import replace

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.fft.fft import Fft
from tvm_iree_ext.ops.families.fft.fft_transform import FftTransform
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.fft.fft_config import FftStageConfig, FftTransformConfig
from tvm_iree_ext.schedules.cpu.fft.fft_plan import columns_of, goes_in_lanes, passes
from tvm_iree_ext.schedules.cpu.fft.fft_stage import stage_kernel
from tvm_iree_ext.schedules.cpu.fft.fft_tasks import complex_length, transform_kernel
from tvm_iree_ext.schedules.shared.fft.fft_codelets import LARGEST_PRIME
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features


class CpuFft(CpuRule):
    """A butterfly stage on an LLVM CPU target, in one pass over memory."""

    name = "cpu.fft"
    lowers = Fft
    typed = FftStageConfig

    def usual(self, op: Fft, target: Target) -> FftStageConfig:
        """The target's vectors; threads where there is much to read."""
        lanes = cpu_features(target).lanes(item_bytes(op.compute_dtype) * 8)
        return FftStageConfig(lanes=lanes, parallel=self.is_large(op))

    def space(self, op: Fft, target: Target) -> TuningSpace:
        """The vectors, and whether there are threads."""
        usual, choice = self.usual(op, target), FftStageConfig.choice
        lanes = choice("lanes", (max(usual.lanes // 2, 2),))
        return TuningSpace((form(usual.lowering(), lanes, choice("parallel", (False, True))),))

    def kernel(self, op: Fft, target: Target, config: FftStageConfig) -> tirx.PrimFunc:
        """The function of ``op``."""
        return stage_kernel(op, config)


# Of one task: each takes its memory anew.
_TASK_POINTS = 8192
# Fewer vectors of rows are not worth their transposes.
_ROWS_FOR_LANES = 4
# Rows from here on take whole vectors also where these are computed in halves: fewer instructions.
# Measured on a Zen 4: halves take 0.63 to 0.95 times as long below, and 1.02 to 1.07 above.
_WHOLE_VECTORS_BYTES = 12288
# A row below this is not worth sharing among threads.
_SHARED_LENGTH = 16384


class CpuFftTransform(CpuRule):
    """A whole transform on an LLVM CPU target."""

    name = "cpu.fft_transform"
    lowers = FftTransform

    def usual(self, op: FftTransform, target: Target) -> FftTransformConfig:
        """Vectors within a row, or across rows; Bluestein's form for large primes."""
        features = cpu_features(target)
        length = complex_length(op)
        lanes = self.lanes(op, features)
        # A codelet's points, and as many intermediate ones, in registers.
        radix = 16 if features.vector_registers >= 32 else 8
        rows = [e for axis, e in enumerate(op.shape) if axis != op.axis]
        columns, length_of_columns = self.columns(op, target, lanes, radix), 0
        dynamic = any(isinstance(extent, str) for extent in rows)
        count = 0 if dynamic else math.prod(e for e in rows if isinstance(e, int))
        if passes(length, radix) is None:
            algorithm = "bluestein"
        elif columns and (
            count < _ROWS_FOR_LANES * lanes or not goes_in_lanes(length, columns[0], lanes, radix)
        ):
            algorithm, length_of_columns = "row", columns[0]
        else:
            algorithm = "lanes"
        few = not dynamic and count < 2 * features.cores
        shared = algorithm == "row" and few and length >= _SHARED_LENGTH
        rows_of_task = 0
        if algorithm != "bluestein":
            most = _TASK_POINTS // length
            balanced = most if dynamic else min(most, -(-count // (4 * features.cores)))
            rows_of_task = max(1, balanced)
        return FftTransformConfig(
            algorithm,
            radix=radix,
            columns=length_of_columns,
            rows=rows_of_task,
            lanes=lanes,
            splits=features.cores if shared else 1,
            parallel=dynamic or outweighs_launch(self.name, op.flops()),
        )

    def space(self, op: FftTransform, target: Target) -> TuningSpace:
        """The largest radix, the vectors, within a row or across rows, who shares a row."""
        usual, features = self.usual(op, target), cpu_features(target)
        choice = FftTransformConfig.choice
        radix = choice("radix", powers_of_two(2, 32 if features.vector_registers >= 32 else 16))
        whole = features.lanes(item_bytes(op.compute_dtype) * 8)
        others = sorted({whole, max(whole // 2, 2)} - {usual.lanes})
        lanes = choice("lanes", tuple(others))
        parallel = choice("parallel", (False, True))
        # Bluestein's form computes three transforms: only where there is no other.
        name = "bluestein" if usual.algorithm == "bluestein" else "lanes"
        rows = choice("rows", (1, 4, 16, 64))
        one = replace(usual, algorithm=name, columns=0, splits=1)
        forms = [form(one.lowering(), radix, lanes, rows, parallel)]
        if values := self.columns(op, target, usual.lanes, usual.radix):
            columns = choice("columns", tuple(values))
            splits = choice("splits", (1, features.cores))
            row = replace(usual, algorithm="row", columns=usual.columns or values[0])
            forms.append(form(row.lowering(), radix, columns, lanes, rows, splits, parallel))
        return TuningSpace.of(usual.lowering(), forms, self.refusals(op, target))

    @staticmethod
    def lanes(op: FftTransform, features: CpuFeatures) -> int:
        """Lanes of the vectors: half of them for short rows where vectors are computed in halves.

        Then they cost as much for each lane, fewer are empty, and transposes take fewer rounds.
        """
        size = item_bytes(op.compute_dtype)
        short = features.in_halves and 2 * complex_length(op) * size < _WHOLE_VECTORS_BYTES
        return features.lanes(size * 8) // (2 if short else 1)

    @staticmethod
    def columns(op: FftTransform, target: Target, lanes: int, radix: int) -> list[int]:
        """The lengths that the columns of a row can have, the best first; none across rows.

        Half a vector at least where the first lanes are stored as fast as all.
        """
        if any(extent != 1 for extent in op.shape[op.axis + 1 :]):
            return []
        features = cpu_features(target)
        whole = lanes == features.lanes(item_bytes(op.compute_dtype) * 8)
        masks = whole and features.vector_bits == 512 and _stores_lanes(op)
        least = lanes // 2 if masks else lanes
        return columns_of(complex_length(op), lanes, radix, least)

    def parse(self, op: FftTransform, target: Target, config: LoweringConfig) -> FftTransformConfig:
        """The rule's numbers in a config."""
        check, length = self.check(config), complex_length(op)
        typed = FftTransformConfig.parse(check, "row", "lanes", "bluestein")
        lanes, radix, columns = typed.lanes, typed.radix, typed.columns
        if typed.algorithm == "row":
            inner = all(extent == 1 for extent in op.shape[op.axis + 1 :])
            check.need(inner, "'row' needs the axis to be the innermost")
            check.tile("register_tile", "columns", length)
            check.need(
                columns in columns_of(length, lanes, radix, least=1)
                and (columns >= lanes or _stores_lanes(op)),
                f"'row' needs columns of {length} elements that leave rows of {lanes} or more, and"
                f" primes up to {LARGEST_PRIME}; not {columns}",
            )
        if typed.algorithm == "lanes":
            smooth = passes(length, radix) is not None
            check.need(smooth, "'lanes' needs a length of primes up to 13")
        if typed.algorithm != "bluestein":
            check.tile("workgroup_tile", "rows")
        return typed

    def kernel(self, op: FftTransform, target: Target, config: FftTransformConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        return transform_kernel(op, config, cpu_features(target))


def _stores_lanes(op: FftTransform) -> bool:
    """Whether the first lanes of a vector can be stored as a result."""
    return op.kind in ("forward", "inverse") and op.dtype in ("float32", "float64")
