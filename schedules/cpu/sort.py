"""The CPU rule for sort: by digits or by merging, with which numbers."""

import math

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.rule import ConfigCheck, CpuRule
from tvm_iree_ext.schedules.cpu.sort_merge import merge_kernel
from tvm_iree_ext.schedules.cpu.sort_radix import radix_kernel

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.sort import Sort
from tvm_iree_ext.target.cpu import cpu_features

# Below this many elements a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_ELEMENTS = 4096

# A line of so many elements and more is sorted by all cores.
_LONG = 32768

# Counting digits of 8 bits costs as much as some 100 elements of a merge do.
_FEW = 128

_LARGEST_DIGIT_BITS = 16
_LARGEST_RUN = 64


class CpuSort(CpuRule):
    """Sort on an LLVM CPU target."""

    name = "cpu.sort"
    lowers = Sort

    def heuristic(self, op: Sort, target: Target) -> LoweringConfig:
        """By digits for plain comparisons of lines that are not short, else by merging."""
        features = cpu_features(target)
        length = op.shape[op.dimension]
        long = isinstance(length, str) or length >= _LONG
        splits = features.cores if long and _few_lines(op, features.cores) else 1
        parallel = bool(op.signature.symbols) or math.prod(_numbers(op.shape)) >= _SERIAL_ELEMENTS
        if op.order is None or (isinstance(length, int) and length <= _FEW):
            widest = max(item_bytes(dtype) for dtype in op.dtypes)
            # Two operands of 16 rows are all 32 registers; longer runs would be spilled.
            run = 16 if features.vector_registers >= 32 and len(op.dtypes) <= 2 else 8
            return LoweringConfig(
                algorithm="merge",
                register_tile={"run": run},
                vector_lanes=features.lanes(widest * 8),
                splits=1 << (splits - 1).bit_length(),
                parallel=parallel,
            )
        bits = item_bytes(op.dtypes[op.order.operand]) * 8
        # Few passes over what is in memory; few counters for what is in cache.
        wide = bits >= 32 and isinstance(length, int) and length >= _LONG
        return LoweringConfig(
            algorithm="radix",
            register_tile={"digit_bits": 11 if wide else 8},
            splits=splits,
            parallel=parallel,
        )

    def lower(self, op: Sort, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(op, self.check(config))
        func = (radix_kernel if config.algorithm == "radix" else merge_kernel)(op, config)
        return ir.IRModule({op.entry: func})


def _few_lines(op: Sort, cores: int) -> bool:
    """Whether there are fewer lines than cores, each in one piece of memory."""
    others = op.shape[: op.dimension] + op.shape[op.dimension + 1 :]
    if any(isinstance(extent, str) for extent in others):
        return False
    return math.prod(_numbers(others)) < cores and _in_one_piece(op)


def _numbers(shape: tuple[int | str, ...]) -> list[int]:
    return [extent for extent in shape if isinstance(extent, int)]


def _in_one_piece(op: Sort) -> bool:
    return all(extent == 1 for extent in op.shape[op.dimension + 1 :])


def _check(op: Sort, check: ConfigCheck) -> None:
    form, splits = check.algorithm("radix", "merge"), check.splits()
    if form == "radix":
        plain = op.order is not None
        check.need(plain, f"'radix' takes a plain comparison; the region is {op.region.text}")
        check.tile("register_tile", "digit_bits", _LARGEST_DIGIT_BITS)
    else:
        check.tile("register_tile", "run", _LARGEST_RUN)
        check.power_of_two("splits", splits)
    in_one = splits == 1 or _in_one_piece(op)
    check.need(in_one, "splits need the sorted dim to be the innermost")
    check.lanes()
