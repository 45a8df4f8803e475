"""Launches of emitted kernels: workgroups of lanes, memory between kernels, barriers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.base.rule import ConfigCheck
from tvm_iree_ext.schedules.base.rule_config import RuleConfig, number
from tvm_iree_ext.schedules.emit import Index, i64, known
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import wide
from tvm_iree_ext.targets.gpu import gpu_chip, subgroup_size
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class WorkgroupShape:
    """A workgroup's subgroups, and the lanes of each."""

    subgroups: int
    size: int

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return self.subgroups * self.size


@dataclass(frozen=True)
class LaneConfig(RuleConfig):
    """The lanes of a workgroup."""

    lanes: int = number("workgroup_tile.lanes")

    def workgroup(self, check: ConfigCheck, target: Target) -> WorkgroupShape:
        """The workgroup of so many lanes.

        Raises:
            ScheduleError: for a number that is no multiple of a subgroup, or too large.
        """
        size, what = subgroup_size(target), "workgroup_tile['lanes']"
        check.count(what, self.lanes, gpu_chip(target).max_lanes)
        check.expect(self.lanes % size == 0, what, self.lanes, f"a multiple of {size}")
        return WorkgroupShape(self.lanes // size, size)


@contextmanager
def launched(count: Index, subgroups: int, size: int) -> Iterator[tuple[Any, Any, Any]]:
    """A kernel of ``count`` workgroups: ``(number, subgroup, lane)``."""
    with (
        I.launch_thread("blockIdx.x", i64(count)) as number,
        I.launch_thread("threadIdx.y", subgroups) as subgroup,
        I.launch_thread("threadIdx.x", size) as lane,
    ):
        yield number, subgroup, lane


@contextmanager
def workgroups(
    count: Index, subgroups: int, size: int, kind: str
) -> Iterator[tuple[Any, WorkgroupIds]]:
    """The same for a kind of target: ``(number, workgroup)``."""
    with launched(count, subgroups, size) as (number, subgroup, lane):
        yield number, WorkgroupIds(subgroup, lane, subgroups, size, kind)


@contextmanager
def workgroup(count: Index, shape: WorkgroupShape) -> Iterator[tuple[Any, Expr]]:
    """A kernel of ``count`` workgroups: ``(number, lane)``, lanes counted through subgroups."""
    with launched(count, shape.subgroups, shape.size) as (number, subgroup, lane):
        yield number, I.Bind(subgroup * shape.size + lane)


@contextmanager
def for_each(count: Index, shape: WorkgroupShape) -> Iterator[Expr]:
    """A kernel with a lane for each of ``count`` things: its number."""
    lanes = shape.lanes
    groups = tirx.floordiv(i64(count) + (lanes - 1), i64(lanes))
    with workgroup(groups, shape) as (number, lane):
        found = I.Bind(wide(number) * lanes + wide(lane))
        with I.If(found < i64(count)), I.Then():
            yield found


def workgroups_each(workgroups: int, tasks: Index) -> Index:
    """How many of ``workgroups`` there are for each task; 1 at least."""
    count = known(tasks)
    if count is not None:
        return max(1, workgroups // max(1, count))
    return tirx.max(i64(1), tirx.truncdiv(i64(workgroups), tirx.max(i64(1), tasks)))


def global_memory(name: str, count: Expr, dtype: str) -> Any:
    """Memory between kernels."""
    buffer = I.alloc_buffer([count], dtype, scope="global")
    IRBuilder.name(name, buffer)
    return buffer


def wait() -> None:
    """Wait for all lanes of the workgroup, in a kernel that places its own barriers."""
    I.evaluate(I.tvm_storage_sync("shared"))
