"""The CPU rule for exp_reduction: tiles of keys, or loops over single outputs."""

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I
from tvm_iree_ext.schedules.config import LoweringConfig
from tvm_iree_ext.schedules.cpu import emit
from tvm_iree_ext.schedules.cpu.emit import View
from tvm_iree_ext.schedules.cpu.exp_reduction_nests import Nests
from tvm_iree_ext.schedules.cpu.exp_reduction_operands import Operands
from tvm_iree_ext.schedules.cpu.exp_reduction_plan import Plan
from tvm_iree_ext.schedules.cpu.exp_reduction_tiles import CHAINS, Tiles
from tvm_iree_ext.schedules.cpu.rule import ConfigCheck, CpuRule

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.exp_reduction import ExpReduction
from tvm_iree_ext.ops.maps import IndexingMap
from tvm_iree_ext.target.cpu import cpu_features

# Below this many points a launch of the thread pool (3 to 12 us) costs more than it brings.
_SERIAL_POINTS = 50_000

# Accumulators of a product by vector registers: rows of weights x vectors of columns.
_REGISTER_TILE = {16: (6, 2), 32: (6, 4)}


class CpuExpReduction(CpuRule):
    """exp_reduction on an LLVM CPU target."""

    name = "cpu.exp_reduction"
    lowers = ExpReduction

    def heuristic(self, op: ExpReduction, target: Target) -> LoweringConfig:
        """Keys in the lanes where scores lie along them; tiles that the caches hold."""
        features, plan = cpu_features(target), Plan(op)
        lanes = features.lanes(item_bytes(op.compute_dtype) * 8)
        rows, vectors = _REGISTER_TILE[features.vector_registers]
        product = any(one.right is not None for one in plan.tiled)
        form = "tiles" if plan.keys and (plan.scores_lie_along_keys or product) else "nests"
        wide = CHAINS * lanes
        # Rows share the right side of a product; without one they go one by one.
        tile_m, tile_k = (8 * rows, 2 * wide) if product else (1, 64 * wide)
        keys = plan.count(plan.keys[-1:])
        if keys is not None:
            tile_k = min(tile_k, -(-keys // wide) * wide)
        points = 0 if op.signature.symbols else max(map(op.visits, range(len(op.outputs))))
        return LoweringConfig(
            algorithm=form,
            workgroup_tile={"m": tile_m, "columns": 16 * lanes},
            reduction_tile={"k": tile_k},
            register_tile={"m": rows, "n": vectors},
            vector_lanes=lanes,
            parallel=bool(op.signature.symbols) or points > _SERIAL_POINTS,
        )

    def lower(self, op: ExpReduction, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernel of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        plan = Plan(op)
        _check(plan, self.check(config))
        return ir.IRModule({op.entry: _kernel(op, plan, config)})


def _kernel(op: ExpReduction, plan: Plan, config: LoweringConfig) -> tirx.PrimFunc:
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        parameters = Operands.declare(op, plan)
        with I.sblock("root"):
            operands = Operands.of(op, plan, parameters)
            space = operands.space
            shape = [space.extents[dim] for dim in plan.rows]
            by_row = IndexingMap(len(plan.groups), tuple((dim,) for dim in plan.rows))
            view = View(emit.scratch(shape, op.compute_dtype), by_row, space)
            nests = Nests(operands, config, view)
            if config.algorithm == "tiles":
                Tiles(operands, config, view).emit()
                rest = [one for one in plan.accumulations if one not in plan.tiled]
            else:
                nests.emit_maximum()
                rest = list(plan.accumulations)
            for one in rest:
                nests.emit_output(one)
    return builder.get()


def _check(plan: Plan, check: ConfigCheck) -> None:
    """Raise ScheduleError for a config that the kernels cannot use."""
    check.algorithm(*(("tiles", "nests") if plan.keys else ("nests",)))
    wide = CHAINS * check.lanes()
    for role in ("m", "columns"):
        check.tile("workgroup_tile", role)
    for role in ("m", "n"):
        check.tile("register_tile", role)
    tile_k = check.tile("reduction_tile", "k")
    expected = f"a multiple of {wide} (vectors of keys)"
    check.expect(tile_k % wide == 0, "reduction_tile['k']", tile_k, expected)
