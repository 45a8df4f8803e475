"""The CPU rule for sort: by which algorithm, with which numbers."""

import math

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.schedules.base.space import TuningSpace, form
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.sort.sort_columns import columns_kernel
from tvm_iree_ext.schedules.cpu.sort.sort_config import SortConfig
from tvm_iree_ext.schedules.cpu.sort.sort_merge import merge_kernel
from tvm_iree_ext.schedules.cpu.sort.sort_network import network_kernel, shows_ties
from tvm_iree_ext.schedules.cpu.sort.sort_quick import quick_kernel
from tvm_iree_ext.schedules.cpu.sort.sort_radix import radix_kernel
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# A line of so many elements and more is sorted by all cores.
_LONG = 32768

# Counting digits of 8 bits costs as much as some 100 elements of a merge do.
_FEW = 128

# What a network's places take; a lane is no narrower.
_PLACE_BYTES = 4

# Lengths of single lines that are sorted in vectors; measured.
_COLUMNS = range(_FEW, _LONG)

# Where a line can be partitioned in vectors, longer ones are, many of them, too; measured: of so
# many keys alone, and of so many vectors of keys with other operands.
_SHORT, _SHORT_PAIRS_VECTORS = 1024, 4

# Keys with other operands are partitioned where they have so many bytes: as many as places have.
_PAIRED_BYTES = 4
_MOST_PLACES = 1 << 32

# Vectors that are sorted in registers: half of them.
_QUICK_ROWS = 16
_LEAST_QUICK_ROWS = 4

_KERNELS = {
    "radix": radix_kernel,
    "merge": merge_kernel,
    "network": network_kernel,
    "columns": columns_kernel,
}


class CpuSort(CpuRule):
    """Sort on an LLVM CPU target."""

    name = "cpu.sort"
    lowers = Sort

    def usual(self, op: Sort, target: Target) -> SortConfig:
        """Vectors for short lines, and for long ones partitions, digits or else merges."""
        features = cpu_features(target)
        length = op.shape[op.dimension]
        widest = max(item_bytes(dtype) for dtype in op.dtypes)
        parallel = bool(op.signature.symbols) or outweighs_launch(
            self.name, math.prod(_numbers(op.shape))
        )
        lanes = features.lanes(max(widest, _PLACE_BYTES) * 8)
        in_columns = lanes > 1 and length in _COLUMNS and _suits_columns(op)
        # How many lines there will be is known only at the call: one alone would fill one lane.
        alone = in_columns and bool(op.signature.symbols)
        in_parts = _suits_quick(op, features)
        longest = _network_length(op)
        if in_parts:
            pairs = _SHORT_PAIRS_VECTORS * _key_lanes(op, features)
            longest = min(longest, pairs if len(op.dtypes) > 1 else _SHORT)
        short = isinstance(length, int) and length <= longest
        if short and not alone and _fills(op, lanes):
            rows = _network_rows(op, features.vector_registers)
            return SortConfig("network", rows=rows, lanes=lanes, parallel=parallel)
        long = isinstance(length, str) or length >= _LONG
        shared = long and _few_lines(op, features.cores)
        if in_parts:
            # Two parts for a core: they are more alike together, and shorter.
            return SortConfig(
                "quick",
                rows=_QUICK_ROWS,
                lanes=_key_lanes(op, features),
                splits=2 * features.cores if shared else 1,
                parallel=parallel,
            )
        if in_columns:
            return SortConfig("columns", lanes=lanes, parallel=parallel)
        splits = features.cores if shared else 1
        if op.order is None or (isinstance(length, int) and length <= _FEW):
            # Two operands of 16 rows are all 32 registers; longer runs would be spilled.
            run = 16 if features.vector_registers >= 32 and len(op.dtypes) <= 2 else 8
            lanes = features.lanes(widest * 8)
            while isinstance(length, int) and lanes > 1 and lanes * run > length:
                lanes //= 2
            return SortConfig(
                "merge",
                run=run,
                lanes=lanes,
                splits=1 << (splits - 1).bit_length(),
                parallel=parallel,
            )
        bits = item_bytes(op.dtypes[op.order.operand]) * 8
        # Few passes over what is in memory; few counters for what is in cache.
        wide = bits >= 32 and isinstance(length, int) and length >= _LONG
        return SortConfig("radix", digit_bits=11 if wide else 8, splits=splits, parallel=parallel)

    def space(self, op: Sort, target: Target) -> TuningSpace:
        """Every algorithm that the op takes: its digits, runs, rows, vectors and shares."""
        usual, features = self.usual(op, target), cpu_features(target)
        widest = features.lanes(max(item_bytes(dtype) for dtype in op.dtypes) * 8)
        packed = _key_lanes(op, features) if op.order else widest
        choice, parallel = SortConfig.choice, usual.parallel
        cores = features.cores
        shares = choice("splits", (1, cores, 2 * cores, 4 * cores))
        lanes = choice("lanes", tuple({max(widest // 2, 1), widest}))
        few, many = choice("rows", (4, 8, 16)), choice("rows", (8, 16))
        digits, runs = choice("digit_bits", tuple(range(6, 14))), choice("run", (4, 8, 16, 32))
        choices = {
            SortConfig("radix", digit_bits=8, parallel=parallel): (digits, shares),
            SortConfig("merge", run=8, lanes=widest, parallel=parallel): (runs, lanes, shares),
            SortConfig("network", rows=8, lanes=widest, parallel=parallel): (few, lanes),
            SortConfig("columns", lanes=widest, parallel=parallel): (lanes,),
            SortConfig("quick", rows=_QUICK_ROWS, lanes=packed, parallel=parallel): (many, shares),
        }
        forms = []
        for base, chosen in choices.items():
            known = usual if usual.algorithm == base.algorithm else base
            forms.append(form(known.lowering(), *chosen, choice("parallel", (False, True))))
        accept = self.refusals(op, target)

        def refused(config: LoweringConfig) -> str | None:
            # The code of a network has as many steps as its length demands.
            length = op.shape[op.dimension]
            if config.algorithm == "network" and (
                isinstance(length, str) or length > _network_length(op)
            ):
                return f"a network of {length} elements is slower than the others"
            return accept(config)

        return TuningSpace.of(usual.lowering(), forms, refused)

    def parse(self, op: Sort, target: Target, config: LoweringConfig) -> SortConfig:
        """The rule's numbers in a config."""
        check, features = self.check(config), cpu_features(target)
        typed = SortConfig.parse(check, *_KERNELS, "quick")
        form, single = typed.algorithm, typed.splits == 1
        static = isinstance(op.shape[op.dimension], int)
        if form == "radix":
            plain = op.order is not None
            check.need(plain, f"'radix' takes a plain comparison; the region is {op.region.text}")
        elif form == "merge":
            check.power_of_two("splits", typed.splits)
        elif form == "columns":
            wanted = "one operand of 4 bytes or 8, a plain comparison, and lines in one piece"
            suits = static and _suits_columns(op)
            check.need(suits, f"'columns' needs {wanted}, of static length")
            check.need(single, "'columns' takes no splits")
            check.lanes(2)
        elif form == "quick":
            wanted = "a plain comparison, lines in one piece, and keys of a size that the CPU packs"
            wanted += f", with other operands of {_PAIRED_BYTES} bytes and up to 2^32 of them"
            check.need(_suits_quick(op, features), f"'quick' needs {wanted}")
            # Half as many pairs are sorted where a key and its number take twice as many bits.
            least = _LEAST_QUICK_ROWS * (1 if len(op.dtypes) == 1 else 2)
            check.need(typed.rows >= least, f"'quick' needs {least} rows at least")
            lanes = _key_lanes(op, features)
            check.lanes(lanes, lanes)
        else:
            check.need(static, "'network' needs a static length")
            check.power_of_two("register_tile['rows']", typed.rows)
            check.need(single, "'network' takes no splits")
        in_one = single or _in_one_piece(op)
        check.need(in_one, "splits need the sorted dim to be the innermost")
        return typed

    def kernel(self, op: Sort, target: Target, config: SortConfig) -> tirx.PrimFunc:
        """The function of ``op`` by the config's algorithm."""
        if config.algorithm == "quick":
            return quick_kernel(op, config, cpu_features(target).second_cache_bytes)
        return _KERNELS[config.algorithm](op, config)


def _few_lines(op: Sort, cores: int) -> bool:
    """Whether there are fewer lines than cores, each in one piece of memory."""
    others = op.shape[: op.dimension] + op.shape[op.dimension + 1 :]
    if any(isinstance(extent, str) for extent in others):
        return False
    return math.prod(_numbers(others)) < cores and _in_one_piece(op)


def _network_rows(op: Sort, registers: int) -> int:
    """Rows of all operands that fit into half the registers; the other half is for comparisons."""
    rows = max(registers // 2 // (len(op.dtypes) + shows_ties(op)), 4)
    return 1 << (rows.bit_length() - 1)


def _network_length(op: Sort) -> int:
    """Up to which length a network is faster than the others; measured."""
    if op.order is None:
        return 4096
    # One pass of a sort by digits for each byte of the key.
    shortest = {1: 256, 2: 1024}.get(item_bytes(op.dtypes[op.order.operand]), 4096)
    return min(shortest, 2048) if shows_ties(op) else shortest


def _fills(op: Sort, lanes: int) -> bool:
    """Whether there are lines next to each other for half the lanes at least."""
    inner = op.shape[op.dimension + 1 :]
    beside = op.shape[: op.dimension] if _in_one_piece(op) else inner
    return any(isinstance(e, str) for e in beside) or math.prod(_numbers(beside)) >= lanes // 2


def _suits_columns(op: Sort) -> bool:
    """Whether the form for single lines in vectors takes an op."""
    plain = op.order is not None and len(op.dtypes) == 1
    return plain and _in_one_piece(op) and item_bytes(op.dtypes[0]) >= _PLACE_BYTES


def _suits_quick(op: Sort, features: CpuFeatures) -> bool:
    """Whether the form for single lines by partitions takes an op."""
    if op.order is None or not _in_one_piece(op):
        return False
    size, length = item_bytes(op.dtypes[op.order.operand]), op.shape[op.dimension]
    if len(op.dtypes) > 1 and (
        size != _PAIRED_BYTES or (isinstance(length, int) and length > _MOST_PLACES)
    ):
        return False
    return size in features.compressed_bytes


def _key_lanes(op: Sort, features: CpuFeatures) -> int:
    """Keys in a vector."""
    assert op.order is not None
    return features.lanes(item_bytes(op.dtypes[op.order.operand]) * 8)


def _numbers(shape: tuple[int | str, ...]) -> list[int]:
    return [extent for extent in shape if isinstance(extent, int)]


def _in_one_piece(op: Sort) -> bool:
    return all(extent == 1 for extent in op.shape[op.dimension + 1 :])
