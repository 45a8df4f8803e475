"""The CPU rule for exp_reduction: tiles of keys, or loops over single outputs."""

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.space import TuningSpace, form
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.base.parallel import outweighs_launch
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_config import ExpReductionConfig
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_nests import Nests
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_splits import KeyParts
from tvm_iree_ext.schedules.cpu.exp_reduction.exp_reduction_tiles import CHAINS, Tiles
from tvm_iree_ext.schedules.emit import OperandView
from tvm_iree_ext.schedules.shared.exp_reduction_operands import ReductionOperands
from tvm_iree_ext.schedules.shared.exp_reduction_plan import ReductionPlan
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features

# Points of a part of the keys that is worth a task of its own.
_PART_POINTS = 20_000

# Accumulators of a product by vector registers: rows of weights x vectors of columns.
_REGISTER_TILE = {16: (6, 2), 32: (6, 4)}


class CpuExpReduction(CpuRule):
    """exp_reduction on an LLVM CPU target."""

    name = "cpu.exp_reduction"
    lowers = ExpReduction

    def usual(self, op: ExpReduction, target: Target) -> ExpReductionConfig:
        """Keys in the lanes where scores lie along them; tiles that the caches hold."""
        features, plan = cpu_features(target), ReductionPlan(op)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        rows, vectors = _REGISTER_TILE[features.vector_registers]
        product = any(one.right is not None for one in plan.tiled)
        form = "tiles" if plan.keys and (plan.scores_lie_along_keys or product) else "nests"
        wide = CHAINS * lanes
        # Rows share the right side of a product; without one they go one by one.
        tile_m, tile_k = 1, 64 * wide
        if product:
            tile_m, tile_k = _row_tile(plan, rows, features), 2 * wide
        keys = plan.count(plan.keys[-1:])
        if keys is not None:
            tile_k = min(tile_k, -(-keys // wide) * wide)
        points = 0 if op.signature.symbols else max(map(op.visits, range(len(op.outputs))))
        return ExpReductionConfig(
            form,
            rows=tile_m,
            columns=16 * lanes,
            keys=tile_k,
            rows_at_once=rows,
            vectors=vectors,
            lanes=lanes,
            splits=_splits(plan, tile_m, features.cores) if form == "tiles" else 1,
            parallel=bool(op.signature.symbols) or outweighs_launch(self.name, points),
        )

    def space(self, op: ExpReduction, target: Target) -> TuningSpace:
        """Rows and keys of a task, register tiles, parts of the keys."""
        usual, cores = self.usual(op, target), cpu_features(target).cores
        keys = tuple(CHAINS * many for many in (1, 2, 4, 8, 16, 32, 64))
        choice = ExpReductionConfig.choice
        forms = [
            form(
                usual.lowering(),
                choice("rows", (1, 2, 4, 6, 8, 12, 16, 24, 32, 48)),
                choice("columns", (4, 8, 16, 32), ("lanes",)),
                choice("keys", keys, ("lanes",)),
                choice("rows_at_once", (1, 2, 4, 5, 6, 8, 10, 12)),
                choice("vectors", (1, 2, 3, 4)),
                choice("lanes", (max(usual.lanes // 2, 1),)),
                choice("splits", tuple({1, cores, 2 * cores})),
                choice("parallel", (False, True)),
            )
        ]

        return TuningSpace.of(usual.lowering(), forms, self.refusals(op, target))

    def vectors_held(self, config: ExpReductionConfig) -> int:
        """Accumulators, and the factors of one step."""
        return (config.rows_at_once + 1) * config.vectors + 1

    def parse(self, op: ExpReduction, target: Target, config: LoweringConfig) -> ExpReductionConfig:
        """The rule's numbers in a config."""
        check, plan = self.check(config), ReductionPlan(op)
        typed = ExpReductionConfig.parse(check, *(("tiles", "nests") if plan.keys else ("nests",)))
        splits = typed.splits
        if typed.algorithm != "tiles":
            typed.expect(check, "splits", splits == 1, "1 in the form nests")
        check.need(
            splits == 1 or plan.mergeable,
            f"splits is {splits}; expected 1, as an output is no sum of weights up to a factor",
        )
        typed.multiple(check, "keys", CHAINS * typed.lanes, "vectors of keys")
        return typed

    def kernel(self, op: ExpReduction, target: Target, config: ExpReductionConfig) -> tirx.PrimFunc:
        """The function of ``op`` in the config's form."""
        return _kernel(op, ReductionPlan(op), config)


def _row_tile(plan: ReductionPlan, rows: int, features: CpuFeatures) -> int:
    """Rows of a task with a product: whole register tiles, and tasks for all cores."""
    columns = max(plan.count(one.columns) or 1 for one in plan.tiled)
    # More than a quarter of the second cache would not stay there beside the keys.
    fitting = features.second_cache_bytes // 4 // (columns * item_bytes(plan.op.compute_dtype))
    most = max(1, min(8, fitting // rows))
    return next(
        (
            rows * many
            for many in range(most, 1, -1)
            if _tasks(plan, rows * many, features.cores) >= 2 * features.cores
        ),
        rows,
    )


def _tasks(plan: ReductionPlan, tile_m: int, unknown: int) -> int:
    """How many tiles of rows there are; where an extent is not known, many times ``unknown``."""
    rows = plan.count([dim for dim in plan.rows if dim not in plan.shared])
    shared = plan.count(plan.shared)
    return 4 * unknown if rows is None or shared is None else shared * -(-rows // tile_m)


def _splits(plan: ReductionPlan, tile_m: int, cores: int) -> int:
    """Into how many parts the keys of a row go: the fewest that share few rows' work evenly."""
    tasks, keys = _tasks(plan, tile_m, cores), plan.count(plan.keys[-1:])
    columns = sum(plan.count(one.columns) or 1 for one in plan.tiled)
    small = keys is not None and keys * columns < _PART_POINTS * cores
    if tasks >= 4 * cores or small or not plan.mergeable:
        return 1
    return next((s for s in range(1, cores + 1) if tasks * s % cores == 0), cores)


def _kernel(op: ExpReduction, plan: ReductionPlan, config: ExpReductionConfig) -> tirx.PrimFunc:
    with IRBuilder() as builder, I.prim_func():
        parameters = ReductionOperands.declare(op, plan)
        with I.sblock("root"):
            operands = ReductionOperands.of(op, plan, parameters)
            space = operands.space
            shape = [space.extents[dim] for dim in plan.rows]
            by_row = IndexingMap(len(plan.groups), tuple((dim,) for dim in plan.rows))
            view = OperandView(emit.scratch(shape, op.compute_dtype), by_row, space)
            nests = Nests(operands, config, view)
            if config.algorithm == "tiles":
                parts = KeyParts(nests, config.splits) if config.splits > 1 else None
                Tiles(operands, config, view, parts).emit()
                if parts is not None:
                    parts.merge()
                rest = [one for one in plan.accumulations if one not in plan.tiled]
            else:
                nests.emit_maximum()
                rest = list(plan.accumulations)
            for one in rest:
                nests.emit_output(one)
    return builder.get()
