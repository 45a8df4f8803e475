"""The CPU rule for sort: by digits or by merging, with which numbers."""

import math

from tvm import ir
from tvm.target import Target
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu.sort_merge import merge_kernel
from tvm_iree_ext.schedules.cpu.sort_radix import radix_kernel

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.errors import ScheduleError
from tvm_iree_ext.ops.base import Op
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


class CpuSort:
    """Sort on an LLVM CPU target."""

    name = "cpu.sort"

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        if not isinstance(op, Sort):
            return f"{op.name} is not sort"
        if target.kind.name != "llvm":
            return f"{target.kind.name} is not a CPU target"
        return None

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
        _check(op, config)
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


def _check(op: Sort, config: LoweringConfig) -> None:
    tile = {"radix": ("digit_bits", _LARGEST_DIGIT_BITS), "merge": ("run", _LARGEST_RUN)}
    if config.algorithm not in tile:
        raise ScheduleError(
            f"cpu.sort: algorithm is {config.algorithm!r}; expected 'radix' or 'merge'"
        )
    if config.algorithm == "radix" and op.order is None:
        raise ScheduleError(
            f"cpu.sort: 'radix' takes a plain comparison; the region is {op.region.text}"
        )
    name, largest = tile[config.algorithm]
    value = config.register_tile.get(name)
    if not isinstance(value, int) or not 1 <= value <= largest:
        raise ScheduleError(
            f"cpu.sort: register_tile[{name!r}] is {value!r}; expected 1 to {largest}"
        )
    if config.splits < 1 or (config.algorithm == "merge" and config.splits & (config.splits - 1)):
        kind = "a power of two" if config.algorithm == "merge" else "a number from 1"
        raise ScheduleError(f"cpu.sort: splits is {config.splits}; expected {kind}")
    if config.splits > 1 and not _in_one_piece(op):
        raise ScheduleError("cpu.sort: splits need the sorted dim to be the innermost")
    if config.vector_lanes < 1 or config.vector_lanes & (config.vector_lanes - 1):
        raise ScheduleError(
            f"cpu.sort: vector_lanes is {config.vector_lanes}; expected a power of two"
        )
