"""Scatter on a GPU: who applies which update.

Every algorithm copies original to the result, in wide accesses, and then applies the updates:

- ``unique``: a lane for each element of the updates.  No two of them hit one element.
- ``atomic``: the same, by atomic updates, for regions and types that have one.  Sums of floats then
  depend on the order that the chip takes; integers do not.
- ``ordered``: every element of the result has an owner, which applies its updates in batch order,
  for any region, so that the result is that of a serial loop (:mod:`.scatter_ordered`).
"""

from dataclasses import dataclass
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import INTEGERS, item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.intrin.atomics import atomic_update, has_atomic
from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.slices.scatter import Scatter
from tvm_iree_ext.ops.families.slices.slices_canonical import address
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.base.space import TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.emit import flat_index
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.moves.element_moves import (
    SUBGROUPS,
    WIDEST_BYTES,
    MovesConfig,
    lane_choice,
    root_blocks,
    spread_elements,
    unchecked,
)
from tvm_iree_ext.schedules.gpu.slices.scatter_ordered import ordered_scatter, touches_all
from tvm_iree_ext.schedules.shared.slice_operands import static_count
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

_ALGORITHMS = ("unique", "atomic", "ordered")
_POSITIONS = 4  # batch positions that a lane looks at in one go
_OWNERS_PER_CORE = 4
_BYTES_PER_POSITION = 17  # of shared memory: its start, its place, and its part of the counts


@dataclass(frozen=True)
class GpuScatterConfig(MovesConfig):
    """Config of ordered updates: positions that a workgroup looks at, and owners of the result."""

    batch: int = number("workgroup_tile.batch", forms=("ordered",))
    owners: int = number("splits", forms=("ordered",))


class GpuScatter(GpuRule):
    """Updates combined into the slices that indices address."""

    name = "gpu.scatter"
    lowers = Scatter

    def applies(self, op: Op, target: Target) -> str | None:
        """None, or why the rule does not apply."""
        return super().applies(op, target) or unchecked(op)

    def heuristic(self, op: Scatter, target: Target) -> LoweringConfig:
        """Atomic updates where their order cannot show; in order where it can."""
        lanes = SUBGROUPS * subgroup_size(target)
        combine = op.region.known_as or ""
        if op.unique_indices:
            algorithm = "unique"
        elif op.dtype in INTEGERS and has_atomic(combine, op.dtype):
            algorithm = "atomic"
        else:
            algorithm = "ordered"
        chip, total = gpu_chip(target), static_count(op.slices.full)
        owners = _OWNERS_PER_CORE * chip.parts[0].cores
        if total is not None:
            owners = min(owners, -(-total // lanes))
        return GpuScatterConfig(
            algorithm,
            lanes=lanes,
            run=WIDEST_BYTES // item_bytes(op.dtype),
            batch=_POSITIONS * lanes,
            owners=owners if algorithm == "ordered" else 1,
        ).lowering()

    def space(self, op: Scatter, target: Target) -> TuningSpace:
        """Other shares of the work; never another algorithm, whose sums may differ."""
        config, lanes = self.heuristic(op, target), lane_choice(target)
        if config.algorithm != "ordered":
            narrower = powers_of_two(1, config.vector_lanes)
            return TuningSpace((form(config, lanes, MovesConfig.choice("run", narrower)),))
        batch = GpuScatterConfig.choice("batch", (1, 2, 4, 8), ("lanes",))
        counts = {max(1, config.splits * part // 4) for part in (1, 2, 4, 8)}
        owners = GpuScatterConfig.choice("owners", tuple(counts))
        return TuningSpace((form(config, lanes, batch, owners),))

    def lower(self, op: Scatter, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        typed = GpuScatterConfig.parse(check, *_ALGORITHMS)
        algorithm, shape = typed.algorithm, typed.workgroup(check, target)
        lanes, batch = shape.lanes, typed.batch
        check.power_of_two("vector_lanes", typed.run, most=WIDEST_BYTES // item_bytes(op.dtype))
        kind, combine = target.kind.name, op.region.known_as or ""
        if algorithm == "ordered":
            check.power_of_two("workgroup_tile['lanes']", lanes)
            check.expect(
                batch % lanes == 0, "workgroup_tile['batch']", batch, f"a multiple of {lanes}"
            )
            most = gpu_chip(target).declared_shared_memory_bytes // _BYTES_PER_POSITION
            check.expect(batch <= most, "workgroup_tile['batch']", batch, f"at most {most}")
            function = ordered_scatter(op, kind, shape, batch // lanes, typed.owners)
        elif algorithm == "atomic":
            check.need(
                has_atomic(combine, op.dtype),
                f"'atomic' needs a region that is one update of {op.dtype}; this one yields"
                f" {op.region.text}",
            )
            function = _atomic(op, kind, combine)
        else:
            check.need(op.unique_indices, "'unique' loses updates unless indices are unique")
            function = op.prim_func()
        sch = s_tir.Schedule(function)
        for block in root_blocks(sch):
            if sch.get_loops(block):
                spread_elements(sch, block, target, lanes, typed.run, item_bytes(op.dtype))
        return ir.IRModule({op.entry: sch.mod["main"]})


def _atomic(op: Scatter, kind: str, combine: str) -> tirx.PrimFunc:
    """Blocks ``copy`` and ``scatter``, the latter of atomic updates, in any order."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        parameters = Parameters.declare(op)
        original, result, updates = (parameters[n] for n in ("original", "result", "updates"))
        with BlockNest("copy", parameters, op.slices.full) as at:
            I.buffer_store(result, original[tuple(at)], at)
        with BlockNest("scatter", parameters, op.slices.slices) as at:
            touches_all(op, parameters)  # what goes through pointers is not found
            target, valid = address(op.slices, parameters, at)
            place: Any = flat_index(target, result.shape)
            with I.If(valid), I.Then():
                I.evaluate(atomic_update(kind, combine, result, place, updates[tuple(at)]))
    return builder.get()
