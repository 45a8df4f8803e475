"""The kernel of attention by warpgroups; see :mod:`.attention_warpgroup`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, wgmma
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.attention.attention_kernel import ALIGNMENT_BYTES
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    BOX_COLUMNS,
    SUBGROUPS,
    WARPGROUP,
    WarpgroupAttention,
)
from tvm_iree_ext.schedules.gpu.attention.attention_workgroup import AttentionWorkgroup
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes, vector, where
from tvm_iree_ext.schedules.gpu.products.warpgroup_pipeline import either, from_lane
from tvm_iree_ext.schedules.gpu.products.warpgroup_registers import FEW, MANY
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import i64, known

_LANES = 32
_UNIT = 16  # bytes, in which descriptors count
_ROW_BYTES = 2 * BOX_COLUMNS
_OPERANDS = ("query", "key", "value")


def warpgroup_attention(kernel: WarpgroupAttention) -> tirx.PrimFunc:
    """The function of the op, with its kernel."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_attr({EXACT_BUFFERS: True})
        operands = AttentionOperands.declare(kernel.plan.op, ALIGNMENT_BYTES)
        _Kernel(kernel, operands).emit()
    return builder.get()


class _Kernel(AttentionWorkgroup):
    def __init__(self, kernel: WarpgroupAttention, operands: AttentionOperands) -> None:
        super().__init__(kernel.plan, operands)
        self.kernel = kernel

    def _rows(self) -> tuple[Ints, Ints]:
        m = self.op.dims["m"]
        return m[-1:], m[:-1]

    @contextmanager
    def _launched(self, total: Any) -> Iterator[Any]:
        self.maps = {name: self._map(name) for name in _OPERANDS}
        with (
            I.launch_thread("blockIdx.x", total) as workgroup,
            I.launch_thread("threadIdx.x", WARPGROUP * (1 + self.kernel.consumers)) as number,
        ):
            self.number = number
            subgroup = number // _LANES - SUBGROUPS
            self.lanes = WorkgroupLanes(
                subgroup, number % _LANES, self.plan.subgroups, _LANES, "cuda"
            )
            yield workgroup

    def _map(self, name: str) -> Any:
        buffer = self.operands.views[name].buffer
        # At least one of each: a tensor map has no fewer.
        shape = [tirx.max(e, i64(1)) if known(e) is None else known(e) for e in buffer.shape]
        return self.kernel.tensor_map(name, tuple(shape)).encode(buffer.data)

    def _workgroup(self) -> None:
        kernel = self.kernel
        words = kernel.shared_bytes // mbarrier.BYTES
        self.memory = I.alloc_buffer((words,), "uint64", scope="shared.dyn", align=1024)
        begin, end = self._range()
        self.first_tile = I.Bind(i64(begin))
        count = I.Bind(tirx.Cast("int32", tirx.max(i64(end) - self.first_tile, i64(0))))
        self._make_barriers()
        with either(self.number < WARPGROUP) as (copying, multiplying):
            with copying:
                self._registers_of(FEW, more=False)
                self._copy(count)
            with multiplying:
                self._registers_of(MANY, more=True)
                self._multiply(count)

    def _registers_of(self, of: dict[int, int], *, more: bool) -> None:
        if count := of.get(self.kernel.consumers):
            mbarrier.registers_of_warpgroup(count, more=more)

    # Places in shared memory.

    def _address(self, nbytes: Any) -> Any:
        return T.address_of(self.memory[nbytes // mbarrier.BYTES])

    def _barrier(self, number: Any) -> Any:
        return T.address_of(self.memory[self.kernel.offset("end") // mbarrier.BYTES + number])

    def _full(self, name: str, slot: Any) -> Any:
        return self._barrier(slot + 1 + (0 if name == "key" else 2 * self.kernel.stages))

    def _free(self, name: str, slot: Any) -> Any:
        return self._full(name, slot + self.kernel.stages)

    def _make_barriers(self) -> None:
        warps = self.kernel.consumers * SUBGROUPS
        with where(self.number == 0):
            mbarrier.init(self._barrier(0), 1)
            for name in ("key", "value"):
                for slot in range(self.kernel.stages):
                    mbarrier.init(self._full(name, slot), 1)
                    mbarrier.init(self._free(name, slot), warps)
            mbarrier.fence_init()
        I.evaluate(I.tvm_storage_sync("shared"))

    # The warpgroup that copies.

    def _copy(self, count: Any) -> None:
        kernel, stages = self.kernel, self.kernel.stages
        with where(self.number == 0):
            self._copy_tile("query", self.first_row, 0, self._barrier(0))
            with I.serial(0, count) as step:
                slot, turn = step % stages, step // stages
                first_key = (self.first_tile + step) * self.plan.keys
                for name in ("key", "value"):
                    # The first turn finds slots free: the phase before the first has parity 1.
                    mbarrier.wait(self._free(name, slot), (turn + 1) % 2)
                    place = slot * kernel.nbytes(name)
                    self._copy_tile(name, first_key, place, self._full(name, slot))

    def _copy_tile(self, name: str, first: Any, place: Any, full: Any) -> None:
        kernel = self.kernel
        rows, columns = kernel.extents[name]
        mbarrier.arrive_expecting(full, kernel.nbytes(name))
        view, dims = self.operands.views[name], self.op.dims
        row_dim, column_dim = dims["m" if name == "query" else "k2"][-1], self._column(name)
        for column in range(0, columns, BOX_COLUMNS):
            index = view.index({**self.outer, row_dim: first, column_dim: i64(column)})
            at = [tirx.Cast("int32", part) for part in index]
            target = kernel.offset(name) + place + column * rows * 2
            mbarrier.copy_box(self._address(target), self.maps[name], at, full)

    def _column(self, name: str) -> int:
        (dim,) = self.op.dims["n" if name == "value" else "k1"]
        return dim

    # Those that multiply.

    def _multiply(self, count: Any) -> None:
        kernel = self.kernel
        self._accumulators()
        self._masked()
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        self.group = I.Bind(from_lane(self.number // WARPGROUP - 1, 0))
        rows = self.group * (WARPGROUP // 2) * _ROW_BYTES
        bases = {
            "query": self._descriptor(kernel.query, kernel.offset("query") + rows),
            "key": self._descriptor(kernel.key, kernel.offset("key")),
            "value": self._descriptor(kernel.value, kernel.offset("value")),
        }
        self.words = I.alloc_buffer((self.score_registers // 2,), "uint32", scope="local")
        mbarrier.wait(self._barrier(0), 0)
        with where(count > 0):
            self._scores(bases, 0)
            self._wait(0)
            self._weights(0, lambda: None)
        with I.serial(0, count - 1) as step:
            self._scores(bases, step + 1)
            self._sums(bases, step)
            self._wait(1)
            self._weights(step + 1, lambda: self._settle(step))
        with where(count > 0):
            self._sums(bases, count - 1)
            self._wait(0)
        self._finish()

    def _settle(self, step: Any) -> None:
        """What a step adds to the outputs is added; its values are no longer needed."""
        self._wait(0)
        self._release("value", step)

    def _weights(self, step: Any, settle: Callable[[], None]) -> None:
        """A step's scores, which have come, become weights, while the sums before go on."""
        self._release("key", step)
        start = I.Bind((self.first_tile + step) * self.plan.keys)
        self.mask.emit(start, self.scores, self.score_registers, self.softmax.domain)
        self._weigh(0, settle)
        for pair in range(self.score_registers // 2):
            value = self.weights[vector(tirx.const(2 * pair, "int32"), 2)]
            I.buffer_store(self.words, tirx.reinterpret("uint32", value), [pair])

    def _release(self, name: str, step: Any) -> None:
        """What was read is read: the slot is free, as far as this subgroup goes."""
        with where(self.lanes.lane == 0):
            mbarrier.arrive(self._free(name, step % self.kernel.stages))

    def _arrived(self, name: str, step: Any) -> Any:
        """Wait for a step's tile; gives its slot."""
        slot, turn = step % self.kernel.stages, step // self.kernel.stages
        mbarrier.wait(self._full(name, slot), turn % 2)
        return slot

    def _descriptor(self, operand: SharedOperand, place: Any) -> Any:
        words = I.alloc_buffer((1,), "uint64", scope="local")
        wgmma.encode_descriptor(words, self._address(place), operand)
        return words[0]

    @staticmethod
    def _moved(base: Any, nbytes: Any) -> Any:
        return base + tirx.Cast("uint64", nbytes // _UNIT)

    def _scores(self, bases: dict[str, Any], step: Any) -> None:
        """Start S = Q K: a box of columns after the other."""
        kernel = self.kernel
        size, first = 2, kernel.first
        slot = self._arrived("key", step)
        I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
        for column in range(0, kernel.depth, BOX_COLUMNS):
            for part in range(kernel.key.steps):
                query = column * self.plan.rows * size + kernel.query.first(part) * size
                key = column * self.plan.keys * size + kernel.key.first(part) * size
                self._issue(
                    first, self.scores,
                    [self._moved(bases["query"], query)],
                    self._moved(bases["key"], slot * kernel.nbytes("key") + key),
                    kernel.query, kernel.key, add=column + part > 0,
                )  # fmt: skip
        I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())

    def _sums(self, bases: dict[str, Any], step: Any) -> None:
        """Start O += P V."""
        kernel, second = self.kernel, self.kernel.second
        slot = self._arrived("value", step)
        each = second.operand("lhs").registers
        I.evaluate(T.ptx["wgmma.fence.sync.aligned"]())
        for part in range(kernel.value.steps):
            place = slot * kernel.nbytes("value") + kernel.value.first(part) * 2
            weights = [self.words[part * each + at] for at in range(each)]
            self._issue(
                second, self.outputs, weights, self._moved(bases["value"], place), None,
                kernel.value, add=True,
            )  # fmt: skip
        I.evaluate(T.ptx["wgmma.commit_group.sync.aligned"]())

    @staticmethod
    def _wait(newest: int) -> None:
        """Until all products are done but so many of the newest."""
        I.evaluate(T.ptx["wgmma.wait_group.sync.aligned"](newest))

    @staticmethod
    def _issue(
        mma: Any,
        acc: Any,
        left: list[Any],
        right: Any,
        lhs: SharedOperand | None,
        rhs: SharedOperand,
        *,
        add: bool,
    ) -> None:
        registers = [acc[at] for at in range(mma.operand("acc").registers)]
        numbers = wgmma.immediates(mma, lhs, rhs)
        I.evaluate(T.ptx[mma.ptx](*registers, *left, right, add, *numbers))
