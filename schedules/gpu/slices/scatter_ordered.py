"""Scatter in batch order: each element of the result has one lane that applies its updates.

    owner w of blockIdx.x has the elements low .. high of the result; lane t those at t mod lanes
    for tile of batch positions:
        which of its slices touch low .. high?                 a vote of each subgroup
        list them in shared memory, in order of the batch      prefix sums over the votes
        for each of the list: my elements of its slice that lie in low .. high

Every workgroup reads all indices, once and side by side, and only what it owns of the updates.
"""

from math import prod
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.ops.base.block_nests import BlockNest
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.base.region_scalars import with_bound_scalars
from tvm_iree_ext.ops.families.slices.scatter import Scatter
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import Expr, Index, i64, serial
from tvm_iree_ext.schedules.gpu.collectives.votes import ballot, count, count_before
from tvm_iree_ext.schedules.gpu.emit.launches import WorkgroupShape
from tvm_iree_ext.schedules.shared.slice_operands import SliceOperands, static_count


def ordered_scatter(
    op: Scatter, kind: str, shape: WorkgroupShape, positions: int, owners: int
) -> tirx.PrimFunc:
    """The block ``copy``, not yet scheduled, and the kernel of the updates.

    Args:
        op: with any region.
        kind: of the target, ``cuda`` or ``rocm``.
        shape: of a workgroup, its lanes a power of two.
        positions: of the batch that a lane looks at for each list.
        owners: workgroups.
    """
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        operands = SliceOperands(op)
        buffers = operands.parameters.buffers
        with BlockNest("copy", operands.parameters, op.slices.full) as at:
            I.buffer_store(buffers["result"], buffers["original"][tuple(at)], at)
        with I.sblock("updates"):
            touches_all(op, operands.parameters)
            _Updates(op, operands, kind, shape, positions, owners).emit()
    return with_bound_scalars(builder.get(), op.region_scalars)


class _Updates:
    """The kernel under construction."""

    def __init__(
        self,
        op: Scatter,
        operands: SliceOperands,
        kind: str,
        shape: WorkgroupShape,
        positions: int,
        owners: int,
    ) -> None:
        self.op, self.operands, self.kind = op, operands, kind
        self.lanes, self.size, self.subgroups = shape.lanes, shape.size, shape.subgroups
        self.positions, self.owners = positions, owners
        # Where they fit in 32 bits, lists take half the memory.
        sizes = [static_count(shape) for shape in (self.op.slices.full, self.op.slices.batch)]
        narrow = None not in sizes and prod(size or 1 for size in sizes) < 2**31
        self.word = "int32" if narrow else "int64"

    def emit(self) -> None:
        """One kernel."""
        with (
            I.launch_thread("blockIdx.x", self.owners) as owner,
            I.launch_thread("threadIdx.y", self.subgroups) as subgroup,
            I.launch_thread("threadIdx.x", self.size) as lane,
        ):
            self.subgroup, self.lane = subgroup, lane
            self.mine = I.Bind(i64_of(subgroup) * self.size + i64_of(lane))
            total = self.operands.count(self.op.slices.full)
            share = emit.ceil_div(emit.ceil_div(total, self.owners), self.lanes)
            part = i64(share) * i64(self.lanes)
            self.low = I.Bind(tirx.min(i64_of(owner) * part, i64(total)))
            self.high = I.Bind(tirx.min(self.low + part, i64(total)))
            room = self.lanes * self.positions
            self.counts = _shared("counts", self.subgroups * self.positions, "int32")
            self.starts, self.places = (_shared(n, room, self.word) for n in ("starts", "places"))
            with serial(emit.ceil_div(self.operands.positions, room)) as tile:
                listed = self.list_touching(I.Bind(tile * i64(room)))
                with I.serial(tirx.const(0, "int32"), listed) as entry:
                    start = I.Bind(i64_of(self.starts[entry]))
                    self.apply(start, I.Bind(i64_of(self.places[entry])))

    def list_touching(self, first: Expr) -> Expr:
        """List the positions from ``first`` on whose slices touch what is owned; how many."""
        run, runs = i64(self.operands.run), i64(self.operands.runs)
        span = I.Bind(i64(self.operands.run_offset(runs - i64(1))) + run)
        found = []
        for turn in range(self.positions):
            position = I.Bind(first + i64(turn * self.lanes) + self.mine)
            stop = i64(self.operands.positions)
            row, touched = self.operands.address(I.Bind(tirx.min(position, stop - i64(1))))
            start = I.Bind(row * i64(self.operands.tail))
            here = tirx.And(start < self.high, start + span > self.low)
            mine = I.Bind(tirx.all(position < stop, touched, here))
            votes = ballot(self.kind, self.size, mine)
            with I.If(self.lane == 0), I.Then():
                I.buffer_store(
                    self.counts, count(self.kind, votes), [turn * self.subgroups + self.subgroup]
                )
            found.append((mine, position, start, I.Bind(count_before(self.kind, votes, self.lane))))
        before: Expr = tirx.const(0, "int32")
        for turn, (mine, position, start, rank) in enumerate(found):
            own = before + rank
            for subgroup in range(self.subgroups):
                said = self.counts[turn * self.subgroups + subgroup]
                none = tirx.const(0, "int32")
                own = own + tirx.Select(tirx.const(subgroup, "int32") < self.subgroup, said, none)
                before = before + said
            own, before = I.Bind(own), I.Bind(before)
            with I.If(mine), I.Then():
                I.buffer_store(self.starts, tirx.Cast(self.word, start), [own])
                I.buffer_store(self.places, tirx.Cast(self.word, position), [own])
        return before

    def apply(self, start: Expr, position: Expr) -> None:
        """My elements of one slice: neighbouring lanes have neighbouring elements."""
        runs, run = i64(self.operands.runs), i64(self.operands.run)
        with serial(runs) as number:
            begin = I.Bind(start + i64(self.operands.run_offset(number)))
            first = I.Bind(tirx.max(begin, self.low))
            stop = I.Bind(tirx.min(begin + run, self.high))
            mine = I.Bind(first + tirx.bitwise_and(self.mine - first, i64(self.lanes - 1)))
            steps = tirx.shift_right(
                tirx.max(stop - mine, i64(0)) + i64(self.lanes - 1),
                i64(self.lanes.bit_length() - 1),
            )
            source = I.Bind((position * runs + number) * run - begin)
            with serial(I.Bind(steps)) as step:
                place = I.Bind(mine + step * i64(self.lanes))
                self.combine(source + place, place)

    def combine(self, update: Expr, place: Expr) -> None:
        """One element: ``result[place] = region(updates[update], result[place])``."""
        dtype = self.op.compute_dtype
        flat, result = self.operands.flat["updates"], self.operands.flat["result"]
        if self.op.replaces:
            I.buffer_store(result.buffer, flat.buffer[update], [place])
            return
        value = self.op.region(flat.load(update, dtype), result.load(place, dtype))
        result.store(place, value)


def touches_all(op: Scatter, parameters: Parameters) -> None:
    """Say of the block that is being built that it reads all arguments and writes the result."""

    def whole(name: str) -> Any:
        buffer = parameters[name]
        return buffer[tuple(slice(0, extent) for extent in buffer.shape)]

    I.reads(
        *(whole(operand.name) for operand in op.signature.arguments if operand.role != "scalar")
    )
    I.writes(whole("result"))


def _shared(name: str, count: int, dtype: str) -> Any:
    buffer = I.alloc_buffer((count,), dtype, scope="shared")
    IRBuilder.name(name, buffer)
    return buffer


def i64_of(value: Index) -> Expr:
    """An index of any width as one of 64 bits."""
    if isinstance(value, int) or str(value.ty.dtype) == "int64":
        return i64(value)
    return tirx.Cast("int64", value)
