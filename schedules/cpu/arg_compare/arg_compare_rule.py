"""The CPU rule for arg_compare: which form, with which tiles."""

from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_columns import columns_kernel
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_config import ArgCompareConfig
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_rows import lanes_kernel, rows_kernel
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_tree import tree_kernel
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.shared.lines import held_dtype, static_lines
from tvm_iree_ext.targets.cpu import cpu_features

# A part of a line that is worth a task of its own.
_PART_BYTES = 128 * 1024

# Of small types; positions, which go with the values, would take several vectors.
_MOST_LANES = 16

_FORMS = {
    "columns": columns_kernel,
    "lanes": lanes_kernel,
    "rows": rows_kernel,
    "tree": tree_kernel,
}


class CpuArgCompare(CpuRule):
    """arg_compare on an LLVM CPU target."""

    name = "cpu.arg_compare"
    lowers = ArgCompare

    def usual(self, op: ArgCompare, target: Target) -> ArgCompareConfig:
        """In vectors wherever the order of the op allows, on all cores where it pays."""
        features = cpu_features(target)
        outer, length, inner = static_lines(op.type.shape, op.dimension)
        held = item_bytes(held_dtype(op.type.dtype))
        lanes = min(features.lanes(held * 8), _MOST_LANES)
        parallel = self.is_large(op)
        if inner != 1:
            # Rows of a step, the best so far and their positions fit the first cache.
            tile = max(features.first_cache_bytes // 4 // held // lanes, 1) * lanes
            if outer is not None and inner is not None:
                while tile > 4 * lanes and outer * -(-inner // tile) < features.cores:
                    tile = tile // 2 // lanes * lanes
            return ArgCompareConfig(
                "columns",
                columns=tile,
                # Eight at once: 10 to 15 % less time on a Zen 4; on a Xeon it made no difference.
                rows=8 if features.fetches_second else 4,
                lanes=lanes,
                parallel=parallel,
            )
        few = outer is not None and outer < 4
        short = length is not None and length < 4 * lanes
        if op.comparison is None or (short and not few):
            # With few lines most lanes would be idle: a step of one is as fast as one of four.
            algorithm = "rows" if few else "lanes"
            return ArgCompareConfig(algorithm, lanes=lanes, parallel=parallel)
        splits = 1
        if outer is not None and outer < 2 * features.cores:
            long = length is None or length * item_bytes(op.type.dtype) >= 2 * _PART_BYTES
            splits = features.cores if long else 1
        return ArgCompareConfig(
            "tree",
            vectors=4,
            lanes=lanes,
            splits=splits,
            parallel=parallel,
            fetch_ahead=not features.fetches_second,
        )

    def parse(self, op: ArgCompare, target: Target, config: LoweringConfig) -> ArgCompareConfig:
        """The rule's numbers in a config; the order of the op decides which forms there are."""
        forms = ["columns"]
        if static_lines(op.type.shape, op.dimension)[2] == 1:
            forms += ["lanes", "rows", "tree"][: 2 if op.comparison is None else 3]
        check = self.check(config)
        typed = ArgCompareConfig.parse(check, *forms)
        alone = typed.algorithm == "tree" or not typed.fetch_ahead
        check.need(alone, "two stages are for 'tree'")
        return typed

    def kernel(self, op: ArgCompare, target: Target, config: ArgCompareConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        return _FORMS[config.algorithm](op, config)
