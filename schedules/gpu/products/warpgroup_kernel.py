"""The kernel of a product by warpgroups; see :mod:`.warpgroup_plan`."""

from contextlib import ExitStack, contextmanager
from math import gcd
from typing import Any

from tvm import DataType, tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, wgmma
from tvm_iree_ext.intrin.fragments import coords
from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS
from tvm_iree_ext.schedules.gpu.products.matmul_shape import (
    SIDES,
    MatmulOperands,
    MatmulShape,
    PlainOperands,
)
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
from tvm_iree_ext.schedules.gpu.products.warpgroup_windows import ConvWindows
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.mma.mma_kinds import dtype_bits, tvm_dtype

_LANES = 32
_SUBGROUPS = WARPGROUP // _LANES
_PAIR = 2  # accumulators side by side
_LINE = 16  # bytes of an access
_MOST_LANES = 4  # TVM prints comparisons of no more for CUDA
_ALL = 0xFFFFFFFF  # lanes of a subgroup
_GROUP = 8  # rows of tiles that workgroups near in time share columns of
FEW, MANY = {2: 40, 3: 32}, {2: 232, 3: 160}  # registers of those that copy, and multiply


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
    return _Kernel(plan, operands or PlainOperands(shape)).func()


class _Kernel:
    def __init__(self, plan: WarpgroupPlan, operands: MatmulOperands) -> None:
        self.plan, self.shape, self.config, self.mma = plan, plan.shape, plan.config, plan.mma
        self.stride = slot_stride(plan)
        self.operands, self.maps = operands, dict[str, Any]()
        self.group: Any = 0

    def func(self) -> tirx.PrimFunc:
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            I.func_attr({OWN_BARRIERS: True})
            if self.config.copies == "tma":
                for side in SIDES:
                    data = self.operands.buffer(side).data
                    described = self.plan.tensor_map(side, self._some_rows(), self._batch())
                    self.maps[side] = described.encode(data)
            with ExitStack() as stack:
                count = self._row_tiles() * self.plan.grid[1]
                tile = stack.enter_context(I.launch_thread("blockIdx.x", count))
                if self.plan.groups > 1:
                    groups = I.launch_thread("blockIdx.y", self.plan.groups)
                    self.group = stack.enter_context(groups)
                lane = stack.enter_context(I.launch_thread("threadIdx.x", self.plan.lanes))
                self._workgroup(tile, lane)
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

    def _matrix(self, side: str) -> Any:
        """The array of an operand, its dims those of the plan."""
        buffer = self.operands.buffer(side)
        shape = self.plan.matrix(side, self._rows)
        if len(buffer.shape) == len(shape):
            return buffer
        return I.decl_buffer(shape, buffer.dtype, data=buffer.data)

    def _workgroup(self, tile: Any, lane: Any) -> None:
        self.lane = lane
        words = shared_bytes(self.plan) // mbarrier.BYTES
        self.memory = I.alloc_buffer((words,), "uint64", scope="shared.dyn", align=1024)
        IRBuilder.name("slots", self.memory)
        self._make_barriers()
        row, column = self._corner(tile)
        with either(lane < WARPGROUP) as (copying, multiplying):
            with copying:
                self._registers(FEW, more=False)
                self._copy(row, column)
            with multiplying:
                self._registers(MANY, more=True)
                self._multiply(row, column)

    def _registers(self, of: dict[int, int], *, more: bool) -> None:
        if count := of.get(self.config.consumers):
            mbarrier.registers_of_warpgroup(count, more=more)

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
        group = tile // (_GROUP * columns)
        inside = tile % (_GROUP * columns)
        height: Any = tirx.min(rows - group * _GROUP, _GROUP)
        if isinstance(rows, int) and (rows <= _GROUP or rows % _GROUP == 0):
            height = min(_GROUP, rows)
        row = group * _GROUP + inside % height
        return row * self.plan.tile[0], inside // height * self.plan.tile[1]

    # Those that copy.

    def _copy(self, row: Any, column: Any) -> None:
        with ExitStack() as stack:
            if self.config.copies == "tma":
                stack.enter_context(I.If(self.lane == 0))
                stack.enter_context(I.Then())
            with I.serial(0, self.plan.steps) as step:
                slot, turn = step % self.config.stages, step // self.config.stages
                # The first turn finds every slot free: the phase before the first has parity 1.
                mbarrier.wait(self._free(slot), (turn + 1) % 2)
                if self.config.copies == "tma":
                    mbarrier.arrive_expecting(self._full(slot), self.plan.slot_bytes)
                for side in SIDES:
                    self._copy_tile(side, row, column, step, slot)
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

    def _multiply(self, row: Any, column: Any) -> None:
        operand = self.mma.operand("acc")
        dtype = "float32" if self.mma.c == "f32" else "uint32"
        size = operand.registers
        accumulators = [
            I.alloc_buffer((size,), dtype, scope="local") for _ in range(self.config.tiles)
        ]
        apart = sums_apart(self.mma)
        sums = [I.alloc_buffer((size,), dtype, scope="local") for _ in accumulators if apart]
        for acc in sums or accumulators:
            with I.unroll(size) as register:
                I.buffer_store(acc, tirx.const(0, dtype), [register])
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        number = self.lane // WARPGROUP - 1
        group = I.Bind(from_lane(number, 0))
        bases = {side: self._descriptor(side, group) for side in SIDES}
        with I.serial(0, self.plan.steps) as step:
            slot, turn = step % self.config.stages, step // self.config.stages
            mbarrier.wait(self._full(slot), turn % 2)
            if self.config.copies != "tma":
                I.evaluate(T.ptx["fence.proxy.async.shared::cta"]())
            I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
            for tile, acc in enumerate(accumulators):
                for part in range(self.plan.shared["rhs"].operand.steps):
                    self._issue(acc, bases, slot, tile, part, more=part > 0 or not apart)
            I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())
            if apart:
                self._add_step(sums, accumulators, slot)
            else:
                self._free_last(step)
        I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](0))
        with I.If(self.lane % _LANES == 0), I.Then():
            mbarrier.arrive(self._multiplied())
        mbarrier.wait(self._multiplied(), 0)
        for tile, acc in enumerate(sums or accumulators):
            self._store(acc, row + (group * self.config.tiles + tile) * self.mma.m, column)

    def _free_last(self, step: Any) -> None:
        """Free the slot of the step before; this one goes on while the next is waited for."""
        I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](1))
        with I.If(tirx.And(self.lane % _LANES == 0, step > 0)), I.Then():
            mbarrier.arrive(self._free((step + self.config.stages - 1) % self.config.stages))

    def _add_step(self, sums: list[Any], accumulators: list[Any], slot: Any) -> None:
        """Add a step's sums to those before, while other warpgroups multiply."""
        I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](0))
        with I.If(self.lane % _LANES == 0), I.Then():
            mbarrier.arrive(self._free(slot))
        for total, acc in zip(sums, accumulators, strict=True):
            with I.unroll(int(acc.shape[0])) as register:
                I.buffer_store(total, total[register] + acc[register], [register])

    def _descriptor(self, side: str, group: Any) -> Any:
        """Descriptor of the first instruction in the first slot, for this warpgroup's rows."""
        shared = self.plan.shared[side]
        words = I.alloc_buffer((1,), "uint64", scope="local")
        mine = group * self.config.tiles * shared.bytes_each if side == "lhs" else 0
        wgmma.encode_descriptor(words, self._address(shared.offset + mine), shared.operand)
        return words[0]

    def _issue(
        self, acc: Any, bases: dict[str, Any], slot: Any, tile: int, part: int, *, more: bool
    ) -> None:
        """Multiply a part of a step; with ``more`` the products are added to what is there."""
        descriptors = []
        for side in SIDES:
            shared = self.plan.shared[side]
            first = shared.operand.first(part) * shared.operand.bits // 8
            if side == "lhs":
                first += tile * shared.bytes_each
            units = (slot * self.stride + first) // 16
            descriptors.append(bases[side] + tirx.Cast("uint64", units))
        lhs, rhs = (self.plan.shared[side].operand for side in SIDES)
        registers = [acc[at] for at in range(self.mma.operand("acc").registers)]
        immediates = wgmma.immediates(self.mma, lhs, rhs)
        I.evaluate(T.ptx[self.mma.ptx](*registers, *descriptors, more, *immediates))

    def _store(self, acc: Any, row: Any, column: Any) -> None:
        """Store a warpgroup's tile row by row, by way of the slots, which nobody reads any more.

        A lane's accumulators lie in runs of two columns, and would be stored in parts of segments.
        """
        operand, staging = self.mma.operand("acc"), self.plan.staging
        values, subgroup = self._as_elements(acc), self.lane // _LANES % _SUBGROUPS
        lane, count = self.lane % _LANES, operand.elements_per_lane // staging.parts
        kind, run = tvm_dtype(self.mma.c), self._stored_run()
        size = dtype_bits(self.mma.c) // 8
        words = staging.nbytes(self.config.consumers) // size
        view = I.decl_buffer((words,), kind, data=self.memory.data, scope="shared.dyn")
        first = I.Bind((self.lane // _LANES - _SUBGROUPS) * (staging.rows * staging.pitch))
        for part in range(staging.parts):
            self._sync_subgroup()
            for start in range(part * count, (part + 1) * count, _PAIR):
                m, n = coords(operand, lane, subgroup, start)
                place = first + (m - subgroup * staging.rows) * staging.pitch
                with I.vectorized(_PAIR) as at:
                    left = n - part * staging.columns
                    I.buffer_store(view, values[start + at], [place + left + at])
            self._sync_subgroup()
            across = staging.columns // run
            held = I.alloc_buffer((run,), kind, scope="local")
            with I.serial(0, staging.rows * across // _LANES) as turn:
                number = turn * _LANES + lane
                m, n = number // across, number % across * run
                for at in range(0, run, _LINE // size):
                    with I.vectorized(min(run, _LINE // size)) as one:
                        source = first + m * staging.pitch + n + at + one
                        I.buffer_store(held, view[source], [at + one])
                below = row + subgroup * staging.rows + m
                self._store_run(held, below, column + part * staging.columns + n, run)

    def _stored_run(self) -> int:
        """Elements of a row of the result that a lane stores at once."""
        shape = self.shape
        bits = max(DataType(shape.memory_dtype("result")).bits, shape.epilogue_bits, 8)
        most = min(8 * _LINE // bits, _MOST_LANES)
        # So that all lanes store in each turn.
        half = self.plan.staging.columns // 2
        return vector_elements(bits, most, gcd(shape.row("result"), half))

    def _store_run(self, held: Any, row: Any, column: Any, count: int) -> None:
        i, j = (self._wide(index) for index in (row, column))
        inside = self._inside([i, j])
        if (windows := self.plan.windows) is not None:
            i, is_pixel = windows.pixel(i // self.mma.m, i % self.mma.m, self._batch())
            inside = is_pixel if inside is None else tirx.And(is_pixel, inside)
        with ExitStack() as stack:
            if inside is not None:
                stack.enter_context(I.If(inside))
                stack.enter_context(I.Then())
            if count == 1:
                self.operands.store(self.group, i, j, held[0])
                return
            at = stack.enter_context(I.vectorized(count))
            self.operands.store(self.group, i, j + at, held[at])

    @staticmethod
    def _sync_subgroup() -> None:
        I.evaluate(T.cuda.warp_sync())

    def _wide(self, index: Any) -> Any:
        """Cast an index to the type by which the operands' arrays are indexed."""
        dtype = self.operands.index_dtype
        return index if dtype == "int32" else tirx.Cast(dtype, index)

    def _as_elements(self, acc: Any) -> Any:
        """The accumulator as numbers: of words those that they hold."""
        dtype, count = tvm_dtype(self.mma.c), self.mma.operand("acc").elements_per_lane
        if str(acc.dtype) == dtype:
            return acc
        values = I.alloc_buffer((count,), dtype, scope="local")
        each = 32 // dtype_bits(self.mma.c)
        for word in range(count // each):
            kind, at = dtype, each * word
            if each > 1:
                kind, at = f"{dtype}x{each}", tirx.Ramp(at, tirx.const(1, "int32"), each)
            I.buffer_store(values, tirx.reinterpret(kind, acc[word]), [at])
        return values

    def _inside(self, at: list[Any]) -> Any | None:
        inside: Any = None
        extents = (self._rows, self.plan.extents[1])
        dims = list(zip(at, extents, self.plan.tile, strict=False))
        # Pixels are looked for by themselves.
        for index, extent, tile in dims if self.plan.windows is None else dims[1:]:
            if not isinstance(extent, int) or extent % tile:
                condition = index < extent
                inside = condition if inside is None else tirx.And(inside, condition)
        return inside


@contextmanager
def either(condition: Any) -> Any:
    """The two sides of a branch, as contexts."""
    with I.If(condition):
        yield I.Then(), I.Else()


def from_lane(value: Any, lane: int) -> Any:
    """The value that a lane of the subgroup has."""
    return T.cuda.__shfl_sync(tirx.const(_ALL, "uint32"), value, lane, _LANES)
