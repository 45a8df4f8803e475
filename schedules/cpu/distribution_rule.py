"""The CPU rules for to_simt, to_simd and to_layout.

A subgroup's or lane's id is a few digits, each of one dimension's tile or a count of replicas, and
so are a lane's own elements: the whole and its parts are walked by constant steps.  Where there are
fewer subgroups than tiles, tables say which tiles a subgroup holds.  ``to_layout`` is a copy.
"""

from dataclasses import dataclass

from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.layout.ownership import id_digits, subgroup_parts
from tvm_iree_ext.ops.base.padding import padding_number
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.families.distribution.distribution import Distribution
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, flag, number
from tvm_iree_ext.schedules.cpu.base.cpu_rule import CpuRule
from tvm_iree_ext.schedules.cpu.emit.strided import StridedBound, StridedLoops, TableNumber, Walk
from tvm_iree_ext.schedules.cpu.emit.strided_moves import (
    StridedConfig,
    StridedMemory,
    move,
    parse_strided,
    strided_config,
)
from tvm_iree_ext.schedules.cpu.emit.tasks import Tasks
from tvm_iree_ext.schedules.emit import Index, i64
from tvm_iree_ext.targets.cpu import CpuFeatures, cpu_features
from tvm_iree_ext.tir.tir_expressions import bits


class CpuDistribution(CpuRule):
    """to_simt and to_simd on an LLVM CPU target."""

    name = "cpu.distribution"
    lowers = Distribution

    def usual(self, op: Distribution, target: Target) -> StridedConfig:
        """Rows of a lane's elements, or squares where lanes lie side by side in the whole."""
        parallel, cores = self.is_large(op), cpu_features(target).cores
        return strided_config(distribution_walk(op), item_bytes(op.dtype), cores, parallel)

    def parse(self, op: Distribution, target: Target, config: LoweringConfig) -> StridedConfig:
        """The rule's numbers in a config."""
        return parse_strided(distribution_walk(op), self.check(config))

    def emit(self, op: Distribution, config: StridedConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _emit_distribution(op, config, features)


@dataclass(frozen=True)
class CopyConfig(RuleConfig):
    """Tasks that share a copy."""

    splits: int = number("splits")
    parallel: bool = flag("parallel")


class CpuToLayout(CpuRule):
    """to_layout on an LLVM CPU target."""

    name = "cpu.to_layout"
    lowers = ToLayout
    typed = CopyConfig
    algorithms = ("copy",)

    def usual(self, op: ToLayout, target: Target) -> CopyConfig:
        """A task per core."""
        parallel = self.is_large(op)
        cores = cpu_features(target).cores if parallel else 1
        return CopyConfig("copy", splits=cores, parallel=parallel)

    def emit(self, op: ToLayout, config: CopyConfig, features: CpuFeatures) -> None:
        """Emit the function of ``op``."""
        _emit_copy(op, config)


def distribution_walk(op: Distribution) -> Walk:
    """The walk over what all lanes hold, in memory order; replicas are written to, not read."""
    layout, extents = op.layout, op.extents
    bounded = [d for d, most in enumerate(layout.undistributed_shape) if extents[d] < most]
    # An element's step of each level, per dimension, from subgroups to elements.
    weights: list[tuple[int, ...]] = [(1,) * layout.rank]
    for tiles in reversed(layout.tiles[1:]):
        weights.append(tuple(w * t for w, t in zip(weights[-1], tiles, strict=True)))
    by_subgroup, by_batch, by_outer, by_thread, by_element = reversed(weights)

    # Each loop: its extent, and the dimension along which it moves, by how much.
    loops: list[tuple[int, int | None, int]] = []
    replicas: list[int] = []

    def add_ids(tiles: Ints, strides: Ints, count: int, weight: Ints) -> None:
        for extent, dim in id_digits(tiles, strides, count):
            if dim is None:
                replicas.append(len(loops))
            loops.append((extent, dim, 0 if dim is None else weight[dim]))

    if op.parts > 1:
        loops.append((op.num_subgroups, None, 0))
    else:
        add_ids(layout.subgroup_tile, layout.subgroup_strides, op.num_subgroups, by_subgroup)
    add_ids(layout.thread_tile, layout.thread_strides, op.subgroup_size, by_thread)
    part = len(loops)
    if op.parts > 1:
        loops.append((op.parts, None, 0))
    local = [
        (tiles[dim], dim, weight[dim])
        for tiles, weight in (
            (layout.batch_tile, by_batch),
            (layout.outer_tile, by_outer),
            (layout.element_tile, by_element),
        )
        for dim in range(layout.rank)
    ]
    if not op.packed:
        local = [one for dim in range(layout.rank) for one in local[dim :: layout.rank]]
    loops += local

    walked = [extent for extent, _, _ in loops]
    strides = emit.row_major(extents)
    steps: dict[str, list[Index]] = {"near": emit.row_major(walked), "far": []}
    steps |= {f"x{dim}": [] for dim in bounded}
    for _, dim, weight in loops:
        steps["far"].append(0 if dim is None else emit.product([weight, strides[dim]]))
        for other in bounded:
            steps[f"x{other}"].append(weight if other == dim else 0)
    symbols = []
    if op.parts > 1:
        for dim, weight in enumerate(by_subgroup):
            moves: dict[str, Index] = {"far": emit.product([weight, strides[dim]])}
            if dim in bounded:
                moves[f"x{dim}"] = weight
            symbols.append(TableNumber(f"tile{dim}", moves))
            one: list[Index] = [0] * len(loops)
            one[0], one[part] = op.parts, 1
            steps[f"tile{dim}"] = one
    if not op.distributes:  # the first of several owners is read
        for loop in replicas:
            walked[loop] = 1
    merged = StridedLoops(
        tuple(walked), {name: tuple(step) for name, step in steps.items()}
    ).merged()
    return Walk(merged, {}, symbols, [StridedBound(f"x{dim}", extents[dim]) for dim in bounded])


def _emit_distribution(op: Distribution, config: StridedConfig, features: CpuFeatures) -> None:
    parameters = Parameters.declare(op)
    source, result = (emit.flat_words(parameters.buffers[name]) for name in ("input", "result"))
    near, far = (result, source) if op.distributes else (source, result)
    padding = None
    if op.padding == "operand":
        padding = I.Bind(bits(parameters.scalars["padding"], op.dtype))
    elif op.padding is not None:
        padding = bits(padding_number(op.padding, op.dtype), op.dtype)
    tables = {}
    if op.parts > 1:
        held = subgroup_parts(op.layout, op.num_subgroups).reshape(-1, op.layout.rank)
        for dim in range(op.layout.rank):
            table = tables[f"tile{dim}"] = emit.scratch([len(held)], "int64")
            for place, tile in enumerate(held[:, dim]):
                I.buffer_store(table, i64(int(tile)), [place])
    memory = StridedMemory(near, far, op.distributes, None, tables, padding)
    move(distribution_walk(op), memory, config, features)


def _emit_copy(op: ToLayout, config: CopyConfig) -> None:
    parameters = Parameters.declare(op)
    source, result = (emit.flat_words(parameters.buffers[name]) for name in ("input", "result"))
    extents = [parameters.extent(extent) for extent in op.type.shape]
    Tasks(config.splits, config.parallel).copy(result, source, emit.product(extents))
