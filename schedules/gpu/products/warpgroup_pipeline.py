"""What kernels of products by warpgroups share: tiles in turns, slots, barriers, copies.

See :mod:`.warpgroup_plan`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulOperands
from tvm_iree_ext.schedules.gpu.products.padded_operands import PaddedOperands
from tvm_iree_ext.schedules.gpu.products.split_sums import PART_RUN, SplitSums
from tvm_iree_ext.schedules.gpu.products.warpgroup_copies import copy_elements, copy_lines
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import (
    WARPGROUP,
    WarpgroupPlan,
    shared_bytes,
    slot_stride,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_results import WarpgroupResults, stored_run
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements

_LANES = 32
_ALL = 0xFFFFFFFF  # lanes of a subgroup

Encode = Callable[[Any, Any, SharedOperand], None]
"""Puts a descriptor into a buffer's first word: the buffer, a pointer, how the tile lies."""


class WarpgroupPipeline(ABC):
    """A kernel whose slots one side fills, and others read.

    Args:
        plan: of the product.
        operands: what the func takes.
    """

    copy_loop: Mapping[str, bool] = {}  # annotations of the loop that copies

    def __init__(self, plan: WarpgroupPlan, operands: MatmulOperands) -> None:
        self.plan, self.shape, self.config, self.mma = plan, plan.shape, plan.config, plan.mma
        self.stride = slot_stride(plan)
        self.operands, self.maps = operands, dict[str, Any]()
        self.group: Any = 0
        self.split: Any = 0
        self.rank: Any = 0  # in the pair
        self.parts: SplitSums | None = None

    def func(self, target: Target) -> tirx.PrimFunc:
        """The func of the product."""
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            I.func_attr({OWN_BARRIERS: True, EXACT_BUFFERS: True})
            self._prepare_operands(target)
            if self.config.copies == "tma":
                self._make_maps()
            splits = self.config.splits
            if splits > 1:
                self.parts = SplitSums(self.operands, splits, stored_run(self.plan))
            with ExitStack() as stack:
                each = self.mma.workgroups
                count = self.config.workgroups or self._tiles() * each
                number = stack.enter_context(I.launch_thread("blockIdx.x", count))
                if each > 1:
                    stack.enter_context(I.launch_thread("clusterCtaIdx.x", each))
                    number, self.rank = number // each, number % each
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

    def _prepare_operands(self, target: Target) -> None:
        """Emit the kernels that stand before this one."""
        if isinstance(self.operands, PaddedOperands):
            self.operands.emit_kernel(target)

    def _make_maps(self) -> None:
        """Emit the tensor maps, on the host."""
        for side in SIDES:
            described = self.plan.tensor_map(side, self._some_rows(), self._batch())
            self.maps[side] = described.encode(self.operands.buffer(side).data)

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
        self._work(number)

    @abstractmethod
    def _work(self, number: Any) -> None:
        """The kernel, by all lanes of the workgroup of a number."""

    @staticmethod
    def _meet() -> None:
        """All lanes of the workgroup wait for one another."""
        I.evaluate(I.tvm_storage_sync("shared"))

    def _turns(self, number: Any) -> Iterator[tuple[Any, Any, Any]]:
        """A workgroup's tiles, one or a loop over several: which of them, first row and column."""
        if not self.config.workgroups:
            yield 0, *self._corner(number)
            return
        tiles = self._tiles()
        with I.serial(0, self._count(number)) as turn:
            tile: Any = number + turn * self._among
            if self.plan.groups > 1:
                self.group, tile = tile // tiles, tile % tiles
            row, column = self._corner(tile)
            yield turn, I.Bind(row), I.Bind(column)

    @property
    def _among(self) -> int:
        """Those who take tiles in turns: workgroups, or pairs."""
        return self.config.workgroups // self.mma.workgroups

    def _count(self, number: Any) -> Any:
        """The tiles of a workgroup that takes them in turns."""
        return (self.plan.groups * self._tiles() - number + (self._among - 1)) // self._among

    # Places in shared memory.

    def _address(self, nbytes: Any) -> Any:
        return T.address_of(self.memory[nbytes // mbarrier.BYTES])

    def _word(self, number: Any) -> Any:
        """A word behind the slots and their barriers."""
        first = self.config.stages * (self.stride // mbarrier.BYTES + 2)
        return first + number

    def _full(self, slot: Any) -> Any:
        first = self.config.stages * self.stride // mbarrier.BYTES
        return T.address_of(self.memory[first + slot])

    def _free(self, slot: Any) -> Any:
        return self._full(self.config.stages + slot)

    def _further(self, number: Any) -> Any:
        """A barrier behind those of the slots, or another word."""
        return T.address_of(self.memory[self._word(number)])

    def _make_barriers(self, free: int, further: Sequence[int]) -> None:
        """Initialize each slot's barriers, and further ones: how many arrivals each counts.

        A slot is full after the copies, and free after as many arrivals as said.
        """
        filling = 1 if self.config.copies == "tma" else WARPGROUP
        with I.If(self.lane == 0), I.Then():
            for slot in range(self.config.stages):
                mbarrier.init(self._full(slot), filling)
                mbarrier.init(self._free(slot), free)
            for number, count in enumerate(further):
                mbarrier.init(self._further(number), count)
            mbarrier.fence_init()

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

    def _copy_all(self, number: Any) -> None:
        for turn, row, column in self._turns(number):
            self._copy(turn, row, column)

    def _copy(self, turn: Any, row: Any, column: Any) -> None:
        with I.serial(0, self._steps(), annotations=self.copy_loop) as step:
            slot, phase = self._place(turn, step)
            # The first finds every slot free: the phase before the first has parity 1.
            mbarrier.wait(self._free(slot), (phase + 1) % 2)
            if self.config.copies == "tma":
                self._expect(slot)
            for side in SIDES:
                self._copy_tile(side, row, column, self.split * self.plan.share + step, slot)
            if self.config.copies != "tma":
                self._filled(slot)

    def _expect(self, slot: Any) -> None:
        """Say how many bytes fill a slot."""
        mbarrier.arrive_expecting(self._full(slot), self.plan.slot_bytes)

    def _copy_box(self, side: str, at: Sequence[Any], place: Any, slot: Any) -> None:
        """Start copying the box that fills a slot from a byte on."""
        mbarrier.copy_box(self._address(place), self.maps[side], at, self._full(slot))

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
            self._copy_box(side, at, slot * self.stride + tile.offset + place, slot)

    def _copy_tile(self, side: str, row: Any, column: Any, step: Any, slot: Any) -> None:
        tile = self.plan.shared[side]
        if self.plan.windows is not None:
            self._copy_windows(side, row, column, step, slot)
            return
        across, along = self._first(side, row, column), step * self.plan.tile[2]
        first = (across, along) if tile.operand.k_major else (along, across)
        lead = [self.group] if self.plan.groups > 1 else []
        for corner, extents, place in tile.boxes:
            at = [*lead, *(first[dim] + corner[dim] for dim in (0, 1))]
            target = slot * self.stride + tile.offset + place
            if self.config.copies == "tma":
                self._copy_box(side, at, target, slot)
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

    def _first(self, side: str, row: Any, column: Any) -> Any:
        """The first row of lhs, or column of rhs, that a workgroup copies for a tile."""
        return row if side == "lhs" else column

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

    # Those that read slots.

    def _arrive(self, barrier: Any, condition: Any | None = None) -> None:
        """One lane of the subgroup arrives for all."""
        first = self.lane % _LANES == 0
        with where(first if condition is None else tirx.And(first, condition)):
            mbarrier.arrive(barrier)

    def _descriptor(self, side: str, encode: Encode, offset: Any = 0) -> Any:
        """Descriptor of the instruction whose tile begins some bytes into the first slot's."""
        shared = self.plan.shared[side]
        words = I.alloc_buffer((1,), "uint64", scope="local")
        encode(words, self._address(shared.offset + offset), shared.operand)
        return words[0]

    def _moved(self, bases: dict[str, Any], slot: Any, place: Ints, part: int) -> list[Any]:
        """The descriptors of lhs and rhs for a part of a step.

        ``place`` is the instruction's, down and across, from those of the bases on.
        """
        found = []
        for side, number in zip(SIDES, place, strict=True):
            shared = self.plan.shared[side]
            first = shared.operand.first(part) * shared.operand.bits // 8
            units = (slot * self.stride + first + number * shared.bytes_each) // 16
            found.append(bases[side] + tirx.Cast("uint64", units))
        return found

    def _results(self) -> WarpgroupResults:
        """The way of sums to memory."""
        return WarpgroupResults(
            self.plan,
            self.parts or self.operands,
            stored_run(self.plan) if self.parts is None else PART_RUN,
            self.memory,
            self.lane,
            (self._rows, self._batch()),
        )

    @property
    def _which(self) -> Any:
        """The group, or its part of K."""
        return self.group * self.config.splits + self.split


@contextmanager
def either(condition: Any) -> Any:
    """The two sides of a branch, as contexts."""
    with I.If(condition):
        yield I.Then(), I.Else()


def elected() -> Any:
    """Whether the lane is the one that the subgroup elects, of which the compiler knows."""
    return T.cuda.elect_sync() != tirx.const(0, "uint32")


def from_lane(value: Any, lane: int) -> Any:
    """The value that a lane of the subgroup has."""
    return T.cuda.__shfl_sync(tirx.const(_ALL, "uint32"), value, lane, _LANES)
