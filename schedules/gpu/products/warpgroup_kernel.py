"""The kernel of a product by warpgroups; see :mod:`.warpgroup_plan`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, wgmma
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    SIDES,
    MatmulOperands,
    MatmulShape,
    PlainOperands,
)
from tvm_iree_ext.schedules.gpu.products.padded_operands import PaddedOperands
from tvm_iree_ext.schedules.gpu.products.split_sums import PART_RUN, SplitSums
from tvm_iree_ext.schedules.gpu.products.warpgroup_copies import copy_elements, copy_lines
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WARPGROUP,
    WarpgroupConfig,
    WarpgroupPlan,
    plan_warpgroup_matmul,
    shared_bytes,
    slot_stride,
    sums_apart,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_results import WarpgroupResults, stored_run
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements

_LANES = 32
_ALL = 0xFFFFFFFF  # lanes of a subgroup
FEW, MANY = {2: 40, 3: 32}, {2: 232, 3: 160}  # registers of those that copy, and multiply
# Of an instruction: with fewer ptxas 13.0 hands no registers over (its C7508), and several
# workgroups have room on a core.
_LEAST_COLUMNS = {2: 128, 3: 96}


def warpgroup_matmul(
    shape: MatmulShape,
    target: Target,
    config: WarpgroupConfig,
    operands: MatmulOperands | None = None,
    windows: ConvWindows | None = None,
) -> tirx.PrimFunc:
    """The func of a product.

    Args:
        shape: of the product.
        target: a chip that has the instruction.
        config: the numbers.
        operands: what the func takes, by default matrices ``matmul(lhs, rhs, result)``.  Those of
            lhs and rhs lie row by row in memory, groups one after the other.
        windows: where rows are pixels of a convolution.

    Raises:
        ScheduleError: as :func:`plan_warpgroup_matmul`.
    """
    plan = plan_warpgroup_matmul(shape, target, config, windows)
    operands = operands or PlainOperands(shape)
    if config.pad:
        operands = PaddedOperands(operands, plan.shape)
    return _Kernel(plan, operands).func(target)


class _Kernel:
    def __init__(self, plan: WarpgroupPlan, operands: MatmulOperands) -> None:
        self.plan, self.shape, self.config, self.mma = plan, plan.shape, plan.config, plan.mma
        self.stride = slot_stride(plan)
        self.operands, self.maps = operands, dict[str, Any]()
        self.group: Any = 0
        self.split: Any = 0
        self.parts: SplitSums | None = None

    def func(self, target: Target) -> tirx.PrimFunc:
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
            if isinstance(self.operands, PaddedOperands):
                self.operands.emit_kernel(target)
            if self.config.copies == "tma":
                for side in SIDES:
                    data = self.operands.buffer(side).data
                    described = self.plan.tensor_map(side, self._some_rows(), self._batch())
                    self.maps[side] = described.encode(data)
            splits = self.config.splits
            if splits > 1:
                self.parts = SplitSums(self.operands, splits, stored_run(self.plan))
            with ExitStack() as stack:
                count = self.config.workgroups or self._tiles()
                number = stack.enter_context(I.launch_thread("blockIdx.x", count))
                if self.plan.groups * splits > 1 and not self.config.workgroups:
                    groups = I.launch_thread("blockIdx.y", self.plan.groups * splits)
                    which = stack.enter_context(groups)
                    self.group = which // splits if self.plan.groups > 1 else 0
                    self.split = which % splits if splits > 1 else 0
                lane = stack.enter_context(I.launch_thread("threadIdx.x", self.plan.lanes))
                self._workgroup(number, lane)
            if self.parts is not None:
                self.parts.emit_kernel()
        return builder.get()

    @property
    def _rows(self) -> Any:
        """m: a number, or an expression over what is known at call time."""
        return self.shape.m if self.shape.m is not None else self.operands.extents()[1]

    def _some_rows(self) -> Any:
        """At least one: a tensor map has no fewer."""
        return self._rows if self.shape.m is not None else tirx.max(self._rows, 1)

    def _batch(self) -> Any:
        """The images of a convolution: a number, or an expression."""
        windows = self.plan.windows
        if windows is None:
            return 1
        return windows.image[0] or self.operands.buffer("lhs").shape[0]

    def _row_tiles(self) -> Any:
        if self.shape.m is not None:
            return self.plan.grid[0]
        return tirx.Cast("int32", self.plan.row_tiles(self._rows, self._batch()))

    def _tiles(self) -> Any:
        """Tiles of a product."""
        return self._row_tiles() * self.plan.grid[1]

    def _matrix(self, side: str) -> Any:
        """The array of an operand, its dims those of the plan."""
        buffer = self.operands.buffer(side)
        shape = self.plan.matrix(side, self._rows)
        if len(buffer.shape) == len(shape):
            return buffer
        return I.decl_buffer(shape, buffer.dtype, data=buffer.data)

    def _workgroup(self, number: Any, lane: Any) -> None:
        self.lane = lane
        words = shared_bytes(self.plan) // mbarrier.BYTES
        self.memory = I.alloc_buffer((words,), "uint64", scope="shared.dyn", align=1024)
        IRBuilder.name("slots", self.memory)
        self._make_barriers()
        with either(lane < WARPGROUP) as (copying, multiplying):
            with copying:
                self._registers(FEW, more=False)
                with where(lane == 0 if self.config.copies == "tma" else None):
                    for turn, row, column in self._turns(number):
                        self._copy(turn, row, column)
            with multiplying:
                self._registers(MANY, more=True)
                self._prepare()
                for turn, row, column in self._turns(number):
                    self._multiply(turn, row, column)

    def _turns(self, number: Any) -> Iterator[tuple[Any, Any, Any]]:
        """A workgroup's tiles, one or a loop over several: which of them, first row and column."""
        among = self.config.workgroups
        if not among:
            yield 0, *self._corner(number)
            return
        tiles = self._tiles()
        count = (self.plan.groups * tiles - number + (among - 1)) // among
        with I.serial(0, count) as turn:
            tile: Any = number + turn * among
            if self.plan.groups > 1:
                self.group, tile = tile // tiles, tile % tiles
            row, column = self._corner(tile)
            yield turn, I.Bind(row), I.Bind(column)

    def _registers(self, of: dict[int, int], *, more: bool) -> None:
        consumers = self.config.consumers
        if consumers in of and self.mma.n >= _LEAST_COLUMNS[consumers]:
            mbarrier.registers_of_warpgroup(of[consumers], more=more)

    # Places in shared memory.

    def _address(self, nbytes: Any) -> Any:
        return T.address_of(self.memory[nbytes // mbarrier.BYTES])

    def _full(self, slot: Any) -> Any:
        first = self.config.stages * self.stride // mbarrier.BYTES
        return T.address_of(self.memory[first + slot])

    def _free(self, slot: Any) -> Any:
        return self._full(self.config.stages + slot)

    def _multiplied(self) -> Any:
        """The barrier of those that multiply, when all have."""
        return self._full(2 * self.config.stages)

    def _make_barriers(self) -> None:
        """Initialize each slot's barriers: full after the copies, free after all that multiply."""
        filling = 1 if self.config.copies == "tma" else WARPGROUP
        with I.If(self.lane == 0), I.Then():
            for slot in range(self.config.stages):
                mbarrier.init(self._full(slot), filling)
                mbarrier.init(self._free(slot), self.config.consumers * WARPGROUP // _LANES)
            mbarrier.init(self._multiplied(), self.config.consumers * WARPGROUP // _LANES)
            mbarrier.fence_init()
        I.evaluate(I.tvm_storage_sync("shared"))

    def _corner(self, tile: Any) -> tuple[Any, Any]:
        """The first row and column of a workgroup's tile: groups of rows, column by column."""
        rows, columns = self._row_tiles(), self.plan.grid[1]
        most = self.plan.band
        group = tile // (most * columns)
        inside = tile % (most * columns)
        height: Any = tirx.min(rows - group * most, most)
        if isinstance(rows, int) and (rows <= most or rows % most == 0):
            height = min(most, rows)
        row = group * most + inside % height
        return row * self.plan.tile[0], inside // height * self.plan.tile[1]

    # Those that copy.

    def _place(self, turn: Any, step: Any) -> tuple[Any, Any]:
        """The slot of a step of a tile, and how often the slots have been gone through before."""
        at = step if isinstance(turn, int) else I.Bind(turn * self.plan.steps + step)
        return at % self.config.stages, at // self.config.stages

    def _steps(self) -> Any:
        """The steps of a workgroup's tile."""
        share, left = self.plan.share, self.plan.steps % self.plan.share
        if not left:
            return share
        last = self.split == self.config.splits - 1
        return tirx.Select(last, tirx.const(left, "int32"), tirx.const(share, "int32"))

    def _copy(self, turn: Any, row: Any, column: Any) -> None:
        with I.serial(0, self._steps()) as step:
            slot, phase = self._place(turn, step)
            # The first finds every slot free: the phase before the first has parity 1.
            mbarrier.wait(self._free(slot), (phase + 1) % 2)
            if self.config.copies == "tma":
                mbarrier.arrive_expecting(self._full(slot), self.plan.slot_bytes)
            for side in SIDES:
                self._copy_tile(side, row, column, self.split * self.plan.share + step, slot)
            if self.config.copies != "tma":
                self._filled(slot)

    def _copy_windows(self, side: str, row: Any, column: Any, step: Any, slot: Any) -> None:
        """Copy a step's boxes of the image, or of the filter."""
        tile, windows, depth = self.plan.shared[side], self.plan.windows, self.plan.tile[2]
        assert windows is not None
        if side == "lhs":
            number = row // self.mma.m
            boxes = [
                (windows.source(number + place, step, depth), place * tile.bytes_each)
                for place in range(tile.count)
            ]
        else:
            boxes = [
                (windows.filter_source(column, step, depth, corner), place)
                for corner, _, place in tile.boxes
            ]
        for at, place in boxes:
            address = self._address(slot * self.stride + tile.offset + place)
            mbarrier.copy_box(address, self.maps[side], at, self._full(slot))

    def _copy_tile(self, side: str, row: Any, column: Any, step: Any, slot: Any) -> None:
        tile = self.plan.shared[side]
        if self.plan.windows is not None:
            self._copy_windows(side, row, column, step, slot)
            return
        across, along = (row if side == "lhs" else column), step * self.plan.tile[2]
        first = (across, along) if tile.operand.k_major else (along, across)
        lead = [self.group] if self.plan.groups > 1 else []
        for corner, extents, place in tile.boxes:
            at = [*lead, *(first[dim] + corner[dim] for dim in (0, 1))]
            target = slot * self.stride + tile.offset + place
            if self.config.copies == "tma":
                address = self._address(target)
                mbarrier.copy_box(address, self.maps[side], at, self._full(slot))
            elif self._by_lines(side):
                copy_lines(
                    self._matrix(side), at, extents, self.memory, target,
                    tile.operand.swizzle_bytes, self.lane, self._run(side),
                )  # fmt: skip
            else:
                copy_elements(
                    self._matrix(side), at, extents, self.memory, target,
                    tile.operand.swizzle_bytes, self.lane,
                )  # fmt: skip

    def _run(self, side: str) -> int:
        """Bytes of the operand that are copied at once."""
        bits = self.plan.shared[side].operand.bits
        row = self.plan.matrix(side, self._rows)[-1]
        return vector_elements(bits, 128 // bits, row) * bits // 8

    def _by_lines(self, side: str) -> bool:
        return self._run(side) >= 4  # what cp.async copies at least

    def _filled(self, slot: Any) -> None:
        if all(map(self._by_lines, SIDES)):
            mbarrier.arrive_with_copies(self._full(slot))
            return
        if any(map(self._by_lines, SIDES)):
            I.evaluate(T.ptx["cp.async.wait_all"]())
        I.evaluate(T.ptx["fence.proxy.async.shared::cta"]())
        mbarrier.arrive(self._full(slot))

    # Those that multiply.

    def _prepare(self) -> None:
        """Take registers for accumulators, and make descriptors of this warpgroup's operands."""
        kind = "float32" if self.mma.c == "f32" else "uint32"
        size, count = self.mma.operand("acc").registers, self.config.tiles * self.config.columns
        self.sums = [I.alloc_buffer((size,), kind, scope="local") for _ in range(count)]
        self.apart = I.alloc_buffer((size,), kind, scope="local") if sums_apart(self.mma) else None
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        self.own = I.Bind(from_lane(self.lane // WARPGROUP - 1, 0))
        self.bases = {side: self._descriptor(side, self.own) for side in SIDES}
        self.results = WarpgroupResults(
            self.plan,
            self.parts or self.operands,
            stored_run(self.plan) if self.parts is None else PART_RUN,
            self.memory,
            self.lane,
            (self._rows, self._batch()),
        )

    def _multiply(self, turn: Any, row: Any, column: Any) -> None:
        steps = self._steps()
        # The first products of a single step are the sums: zeros that the compiler writes only
        # between the fence and the instructions would make it wait there once more.
        alone = isinstance(steps, int) and steps == 1 and self.apart is None
        for acc in self.sums if not alone else ():
            with I.unroll(int(acc.shape[0])) as register:
                I.buffer_store(acc, tirx.const(0, str(acc.dtype)), [register])
        with I.serial(0, steps) as step:
            slot, phase = self._place(turn, step)
            mbarrier.wait(self._full(slot), phase % 2)
            if self.config.copies != "tma":
                I.evaluate(T.ptx["fence.proxy.async.shared::cta"]())
            if self.apart is None:
                self._multiply_step(slot, alone)
                self._free_last(slot, step)
            else:
                self._add_step(slot)
        if self.apart is None:
            I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](0))
        self._multiplied_all(turn)
        which = self.group * self.config.splits + self.split  # of the group, or of its part of K
        places = product(range(self.config.tiles), range(self.config.columns))
        for acc, (down, across) in zip(self.sums, places, strict=True):
            first = row + (self.own * self.config.tiles + down) * self.mma.m
            self.results.store(acc, which, first, column + across * self.mma.n)

    def _multiplied_all(self, turn: Any) -> None:
        """Free a tile's last slot; or wait for the others, whose slots sums go through."""
        if not self.config.workgroups:
            self._arrive(self._multiplied())
            mbarrier.wait(self._multiplied(), 0)
        elif self.apart is None:
            self._arrive(self._free(self._place(turn, self.plan.steps - 1)[0]))

    def _arrive(self, barrier: Any, condition: Any | None = None) -> None:
        """One lane of the subgroup arrives for all."""
        first = self.lane % _LANES == 0
        with where(first if condition is None else tirx.And(first, condition)):
            mbarrier.arrive(barrier)

    def _multiply_step(self, slot: Any, alone: bool) -> None:
        """Multiply a step; one that is ``alone`` adds to no earlier one."""
        I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
        places = product(range(self.config.tiles), range(self.config.columns))
        for acc, place in zip(self.sums, places, strict=True):
            for part in range(self.plan.shared["rhs"].operand.steps):
                self._issue(acc, slot, place, part, more=not alone or part > 0)
        I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())

    def _free_last(self, slot: Any, step: Any) -> None:
        """Free the slot of the step before; this one goes on while the next is waited for."""
        I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](1))
        before = (slot + (self.config.stages - 1)) % self.config.stages
        self._arrive(self._free(before), step > 0)

    def _add_step(self, slot: Any) -> None:
        """Add a step's sums to those before, while other warpgroups multiply."""
        assert self.apart is not None
        places = product(range(self.config.tiles), range(self.config.columns))
        for number, (total, place) in enumerate(zip(self.sums, places, strict=True)):
            I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
            for part in range(self.plan.shared["rhs"].operand.steps):
                self._issue(self.apart, slot, place, part, more=part > 0)
            I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())
            I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](0))
            if number == len(self.sums) - 1:
                self._arrive(self._free(slot))
            with I.unroll(int(total.shape[0])) as register:
                I.buffer_store(total, total[register] + self.apart[register], [register])

    def _descriptor(self, side: str, group: Any) -> Any:
        """Descriptor of the first instruction in the first slot, for this warpgroup's rows."""
        shared = self.plan.shared[side]
        words = I.alloc_buffer((1,), "uint64", scope="local")
        mine = group * self.config.tiles * shared.bytes_each if side == "lhs" else 0
        wgmma.encode_descriptor(words, self._address(shared.offset + mine), shared.operand)
        return words[0]

    def _issue(self, acc: Any, slot: Any, place: Ints, part: int, *, more: bool) -> None:
        """Multiply a part of a step; with ``more`` the products are added to what is there.

        ``place`` is the instruction's among the warpgroup's, down and across.
        """
        descriptors = []
        for side, number in zip(SIDES, place, strict=True):
            shared = self.plan.shared[side]
            first = shared.operand.first(part) * shared.operand.bits // 8
            units = (slot * self.stride + first + number * shared.bytes_each) // 16
            descriptors.append(self.bases[side] + tirx.Cast("uint64", units))
        lhs, rhs = (self.plan.shared[side].operand for side in SIDES)
        registers = [acc[at] for at in range(self.mma.operand("acc").registers)]
        immediates = wgmma.immediates(self.mma, lhs, rhs)
        I.evaluate(T.ptx[self.mma.ptx](*registers, *descriptors, more, *immediates))


@contextmanager
def either(condition: Any) -> Any:
    """The two sides of a branch, as contexts."""
    with I.If(condition):
        yield I.Then(), I.Else()


def from_lane(value: Any, lane: int) -> Any:
    """The value that a lane of the subgroup has."""
    return T.cuda.__shfl_sync(tirx.const(_ALL, "uint32"), value, lane, _LANES)
