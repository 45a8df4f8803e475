"""The CPU rule for arg_compare: which form, with which tiles."""

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare
from tvm_iree_ext.schedules.base.config import LoweringConfig
from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_columns import columns_kernel
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_rows import lanes_kernel, rows_kernel
from tvm_iree_ext.schedules.cpu.arg_compare.arg_compare_tree import tree_kernel
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.shared.lines import held_dtype, static_lines
from tvm_iree_ext.targets.cpu import cpu_features

# Of a tile of columns: a row, the best so far and their positions fit into the L1 cache.
_ROW_BYTES = 8 * 1024

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
_NEEDS = {
    "columns": {"workgroup_tile": "columns", "register_tile": "rows"},
    "lanes": {},
    "rows": {},
    "tree": {"register_tile": "vectors"},
}


class CpuArgCompare(CpuRule):
    """arg_compare on an LLVM CPU target."""

    name = "cpu.arg_compare"
    lowers = ArgCompare

    def heuristic(self, op: ArgCompare, target: Target) -> LoweringConfig:
        """In vectors wherever the order of the op allows, on all cores where it pays."""
        features = cpu_features(target)
        outer, length, inner = static_lines(op.type.shape, op.dimension)
        held = item_bytes(held_dtype(op.type.dtype))
        lanes = min(features.lanes(held * 8), _MOST_LANES)
        parallel = self.is_large(op)
        if inner != 1:
            tile = max(_ROW_BYTES // held // lanes, 1) * lanes
            if outer is not None and inner is not None:
                while tile > 4 * lanes and outer * -(-inner // tile) < features.cores:
                    tile = tile // 2 // lanes * lanes
            return LoweringConfig(
                algorithm="columns",
                workgroup_tile={"columns": tile},
                # Eight at once: 10 to 15 % less time on a Zen 4; on a Xeon it made no difference.
                register_tile={"rows": 8 if features.fetches_second else 4},
                vector_lanes=lanes,
                parallel=parallel,
            )
        few = outer is not None and outer < 4
        short = length is not None and length < 4 * lanes
        if op.comparison is None or (short and not few):
            # With few lines most lanes would be idle: a step of one is as fast as one of four.
            algorithm = "rows" if few else "lanes"
            return LoweringConfig(algorithm=algorithm, vector_lanes=lanes, parallel=parallel)
        splits = 1
        if outer is not None and outer < 2 * features.cores:
            long = length is None or length * item_bytes(op.type.dtype) >= 2 * _PART_BYTES
            splits = features.cores if long else 1
        return LoweringConfig(
            algorithm="tree",
            register_tile={"vectors": 4},
            vector_lanes=lanes,
            splits=splits,
            parallel=parallel,
            stages=1 if features.fetches_second else 2,
        )

    def lower(self, op: ArgCompare, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        _check(op, self.check(config))
        return ir.IRModule({op.entry: _FORMS[config.algorithm](op, config)})


def _check(op: ArgCompare, check: ConfigCheck) -> None:
    inner = static_lines(op.type.shape, op.dimension)[2]
    forms = ["columns"] if inner != 1 else ["columns", "lanes", "rows"]
    if inner == 1 and op.comparison is not None:
        forms.append("tree")
    form = check.algorithm(*forms)
    for field, role in _NEEDS[form].items():
        check.tile(field, role)
    check.lanes()
    check.splits()
    staged = check.count("stages", check.config.stages, 2) == 2
    check.need(form == "tree" or not staged, "two stages are for 'tree'")
