"""Functions of parallel loops on a GPU, whatever these do: a lane for each iteration.

    for i in parallel(n):  body(i)    ->    i = workgroup * lanes + lane;  if i < n: body(i)

TVM writes scatters and searches so. Loops that are in order stay so within a lane; around parallel
ones they would be launches, of which a function has a fixed number.
"""

from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import ScheduleError
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import i64
from tvm_iree_ext.schedules.shared.loops.loops_alignment import with_own_alignment
from tvm_iree_ext.targets.gpu import subgroup_size

_SUBGROUPS = 4


def emit_parallel(function: tirx.PrimFunc, name: str, target: Target) -> tirx.PrimFunc:
    """The function with its parallel loops bound to lanes, by the symbol ``name``.

    Raises:
        ScheduleError: for loops in order outside of parallel ones.
    """
    function = with_own_alignment(function)
    lanes = _SUBGROUPS * subgroup_size(target)
    body = _Bound(name, target.kind.name, lanes)(function.body)
    return function.with_body(body).with_attr("global_symbol", name)


class _Bound:
    """Statements with their parallel loops bound: each becomes a kernel."""

    def __init__(self, name: str, kind: str, lanes: int) -> None:
        self._name, self._kind, self._lanes = name, kind, lanes

    def __call__(self, stmt: Any) -> Any:
        if isinstance(stmt, tirx.SeqStmt):
            return tirx.SeqStmt([self(one) for one in stmt.seq])
        if isinstance(stmt, s_tir.SBlockRealize) and not stmt.iter_values:
            block = stmt.block
            inside = s_tir.SBlock(
                block.iter_vars, block.reads, block.writes, block.name_hint, self(block.body),
                block.init, block.alloc_buffers, block.match_buffers,
            )  # fmt: skip
            return s_tir.SBlockRealize(stmt.iter_values, stmt.predicate, inside)
        if isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == "pragma_scope":
            return self(stmt.body)  # a place in a text of TVM's
        loops, inside = _independent(stmt)
        if not loops:
            raise ScheduleError(
                f"{self._name}: no schedule for {self._kind}: it is neither nests of loops nor"
                " parallel loops"
            )
        return self._kernel(loops, _in_order(inside))

    def _kernel(self, loops: list[Any], body: Any) -> Any:
        """A lane for each point of loops."""
        total = emit.product([loop.extent for loop in loops])
        group, lane = (tirx.Var(name, "int64") for name in ("group", "lane"))
        point: Any = group * self._lanes + lane
        places: dict[Any, Any] = {}
        rest = point
        for loop in reversed(loops):
            outermost = loop is loops[0]
            place = rest if outermost else tirx.floormod(rest, i64(loop.extent))
            rest = tirx.floordiv(rest, i64(loop.extent))
            places[loop.loop_var] = tirx.Cast(str(loop.loop_var.ty.dtype), loop.min + place)
        body = tvm_ffi.structural_map(body, (ir.Var, lambda var: places.get(var, var)))
        body = tirx.IfThenElse(point < i64(total), body, None)
        for var, tag, extent in (
            (lane, "threadIdx.x", i64(self._lanes)),
            (group, "blockIdx.x", i64(emit.ceil_div(total, self._lanes))),
        ):
            axis = tirx.IterVar(ir.Range(i64(0), extent), var, tirx.IterVar.ThreadIndex, tag)
            body = tirx.For(var, i64(0), extent, tirx.ForKind.THREAD_BINDING, body, axis)
        return body


def _independent(stmt: Any) -> tuple[list[Any], Any]:
    """The loops around a statement whose iterations may go in any order, and what they are around.

    They are declared parallel, or around a block whose axes are all spatial.
    """
    nest: list[Any] = []
    inside = stmt
    while isinstance(inside, tirx.For):
        nest.append(inside)
        inside = inside.body
    is_map = isinstance(inside, s_tir.SBlockRealize) and all(
        axis.iter_type == tirx.IterVar.DataPar for axis in inside.block.iter_vars
    )
    if is_map and inside.iter_values:
        return nest, inside
    parallel: list[Any] = []
    inside = stmt
    while isinstance(inside, tirx.For) and inside.kind == tirx.ForKind.PARALLEL:
        parallel.append(inside)
        inside = inside.body
    return parallel, inside


def _in_order(stmt: Any) -> Any:
    """The same with loops within a lane."""

    def serial(loop: tirx.For) -> tirx.For:
        if loop.kind != tirx.ForKind.PARALLEL:
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)

    return tvm_ffi.structural_map(stmt, (tirx.For, serial))
