"""Kernels that move elements, on a GPU: every element of the result by one lane.

    before:  for i, j: result[i, j] = input[f(i, j)]
    after:   for workgroup in blockIdx: for subgroup in threadIdx.y: for lane in threadIdx.x:
                 for several, a workgroup's lanes apart: if inside: result[i, j] = input[f(i, j)]

Neighbouring lanes write neighbouring elements of the result, or runs of up to 16 bytes where these
lie next to each other in what is read, too, whatever the row that an index names.  Short rows are
several to a workgroup.  Where elements lie side by side along another dimension in what is read,
they go through shared memory (:mod:`.transposed_moves`).  A function of several blocks is as many
kernels: the copy of what an op writes into, and the elements that it writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.schedules.base.rule_config import number
from tvm_iree_ext.schedules.base.space import Choice, TuningSpace, form, powers_of_two
from tvm_iree_ext.schedules.gpu.base.gpu_rule import GpuRule
from tvm_iree_ext.schedules.gpu.emit.launches import LaneConfig
from tvm_iree_ext.schedules.gpu.moves.transposed_moves import fills_lanes, spread_transposed
from tvm_iree_ext.schedules.gpu.sblocks.access_runs import transposed_dims, widest_run
from tvm_iree_ext.schedules.gpu.sblocks.elementwise import elementwise_layout
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import distribute
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size

SUBGROUPS = 4
WIDEST_BYTES = 16


@dataclass(frozen=True)
class MovesConfig(LaneConfig):
    """The lanes of a workgroup, and the elements that a lane moves at once."""

    run: int = number("vector_lanes", power_of_two=True)


class ElementMoves(GpuRule):
    """A rule for ops that move elements, scheduled from their canonical function."""

    def heuristic(self, op: Op, target: Target) -> LoweringConfig:
        """Four subgroups; accesses as wide as the op's indices allow."""
        sch = s_tir.Schedule(op.prim_func())
        turned = any(transposed_dims(sch, block) for block in root_blocks(sch))
        return MovesConfig(
            "transposed" if turned else "elementwise",
            lanes=SUBGROUPS * subgroup_size(target),
            run=max(widest_run(sch, block) for block in root_blocks(sch)),
        ).lowering()

    def space(self, op: Op, target: Target) -> TuningSpace:
        """Fewer or more subgroups, and narrower accesses."""
        config = self.heuristic(op, target)
        narrower = powers_of_two(1, config.vector_lanes)
        choices = [lane_choice(target), MovesConfig.choice("run", narrower)]
        if config.algorithm == "transposed":
            choices.append(Choice("algorithm", ("transposed", "elementwise")))
        return TuningSpace((form(config, *choices),))

    def lower(self, op: Op, target: Target, config: LoweringConfig) -> ir.IRModule:
        """The module with the kernels of ``op``.

        Raises:
            ScheduleError: for a config that this rule cannot use, saying which number.
        """
        check = self.check(config)
        typed = MovesConfig.parse(check, "elementwise", "transposed")
        lanes = typed.workgroup(check, target).lanes
        item = item_bytes(op.signature.results[0].dtype)
        check.power_of_two("vector_lanes", typed.run, most=WIDEST_BYTES // item)
        sch = s_tir.Schedule(op.prim_func())
        for block in root_blocks(sch):
            dims = transposed_dims(sch, block) if typed.algorithm == "transposed" else None
            if dims is not None and fills_lanes(sch, block, *dims, lanes, item):
                spread_transposed(sch, block, *dims, target, lanes, item)
            else:
                spread_elements(sch, block, target, lanes, typed.run, item)
        return ir.IRModule({op.entry: sch.mod["main"]})


def unchecked(op: Any) -> str | None:
    """None, or why a GPU cannot do what an op wants of indices that are out of range."""
    if op.out_of_range == "error":
        return "out_of_range is 'error', and a kernel on a GPU raises none; 'skip' is built"
    return None


def lane_choice(target: Target) -> Choice:
    """How many lanes a workgroup may have."""
    size = subgroup_size(target)
    return LaneConfig.choice("lanes", powers_of_two(size, min(1024, gpu_chip(target).max_lanes)))


def root_blocks(sch: s_tir.Schedule) -> list[Any]:
    """The blocks that are kernels of their own."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def spread_elements(
    sch: s_tir.Schedule, block: Any, target: Target, lanes: int, widest: int, item: int
) -> None:
    """Each element of a block by one lane, in runs of at most ``widest``; ``item`` is its bytes."""
    size = subgroup_size(target)
    run = min(widest, widest_run(sch, block))
    loops = _fused(sch, sch.get_loops(block))
    extents = [_number(sch.get(loop).extent) for loop in loops]
    layout = elementwise_layout(extents, 8 * item, target, lanes // size, run=run)
    distribute(sch, block, layout, lanes // size, size, loops=loops, vector=run)


def _fused(sch: s_tir.Schedule, loops: Sequence[Any]) -> list[Any]:
    """At most three loops: of the last two that count, and of all before them as one.

    A layout of many dims would be sought among very many.
    """
    counting = [at for at, loop in enumerate(loops) if _number(sch.get(loop).extent) != 1]
    starts = sorted({0, *counting[-2:]})
    ends = [*starts[1:], len(loops)]
    return [sch.fuse(*loops[start:end]) for start, end in zip(starts, ends, strict=True)]


def _number(extent: Any) -> Any:
    return int(extent) if isinstance(extent, tirx.IntImm) else extent
