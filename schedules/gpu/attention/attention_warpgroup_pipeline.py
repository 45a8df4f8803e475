"""What attention by ``wgmma`` and by ``tcgen05`` share: tensor maps, slots, barriers, copies.

See :mod:`.attention_warpgroup`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    BOX_COLUMNS,
    SUBGROUPS,
    WARPGROUP,
    WarpgroupAttention,
)
from tvm_iree_ext.schedules.gpu.attention.attention_workgroup import AttentionWorkgroup
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes, vector, where
from tvm_iree_ext.schedules.gpu.products.warpgroup_registers import FEW, MANY
from tvm_iree_ext.schedules.gpu.sblocks.launch_bounds import LEAST_WORKGROUPS
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands
from tvm_iree_ext.tir.tir_expressions import i64, known

LANES = 32
UNIT = 16  # bytes, in which descriptors count
ROW_BYTES = 2 * BOX_COLUMNS
_OPERANDS = ("query", "key", "value")


class WarpgroupAttentionPipeline(AttentionWorkgroup):
    """A kernel whose first warpgroup fills slots with keys and values."""

    few, many = FEW, MANY  # registers of a lane, by warpgroups beside the one that copies
    copy_loop: Mapping[str, bool] = {}  # annotations of the loop that copies

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
            I.attr(0, LEAST_WORKGROUPS, 1),
        ):
            self.number = number
            subgroup = number // LANES - SUBGROUPS
            self.lanes = WorkgroupLanes(
                subgroup, number % LANES, self.plan.subgroups, LANES, "cuda"
            )
            yield workgroup

    def _map(self, name: str) -> Any:
        buffer = self.operands.views[name].buffer
        # At least one of each: a tensor map has no fewer.
        shape = [tirx.max(e, i64(1)) if known(e) is None else known(e) for e in buffer.shape]
        return self.kernel.tensor_map(name, tuple(shape)).encode(buffer.data)

    def _workgroup(self) -> None:
        words = self.kernel.shared_bytes // mbarrier.BYTES
        self.memory = I.alloc_buffer((words,), "uint64", scope="shared.dyn", align=1024)
        begin, end = self._range()
        self.first_tile = I.Bind(i64(begin))
        self._work(I.Bind(tirx.Cast("int32", tirx.max(i64(end) - self.first_tile, i64(0)))))

    @abstractmethod
    def _work(self, count: Any) -> None:
        """All but the launch, for so many tiles of keys."""

    def _few_registers(self) -> None:
        """Of a lane of the warpgroup that copies."""
        if count := self.few.get(self.kernel.consumers):
            mbarrier.registers_of_warpgroup(count, more=False)

    def _many_registers(self) -> None:
        """Of a lane of the others."""
        if count := self.many.get(self.kernel.consumers):
            mbarrier.registers_of_warpgroup(count, more=True)

    # Places in shared memory.

    def _address(self, nbytes: Any) -> Any:
        return T.address_of(self.memory[nbytes // mbarrier.BYTES])

    def _barrier(self, number: Any) -> Any:
        return T.address_of(self.memory[self.kernel.offset("end") // mbarrier.BYTES + number])

    def _full(self, name: str, slot: Any) -> Any:
        return self._barrier(slot + 1 + (0 if name == "key" else 2 * self.kernel.stages))

    def _free(self, name: str, slot: Any) -> Any:
        return self._full(name, slot + self.kernel.stages)

    def _further(self, number: Any) -> Any:
        """A barrier behind those of the slots, or another word."""
        return self._barrier(1 + 4 * self.kernel.stages + number)

    def _make_barriers(self, free: int, further: Sequence[int] = ()) -> None:
        """Initialize barriers: how many arrivals free a slot, and how many further ones count."""
        with where(self.number == 0):
            mbarrier.init(self._barrier(0), 1)
            for name in ("key", "value"):
                for slot in range(self.kernel.stages):
                    mbarrier.init(self._full(name, slot), 1)
                    mbarrier.init(self._free(name, slot), free)
            for number, arrivals in enumerate(further):
                mbarrier.init(self._further(number), arrivals)
            mbarrier.fence_init()

    @staticmethod
    def _meet() -> None:
        """All lanes of the workgroup wait for one another."""
        I.evaluate(I.tvm_storage_sync("shared"))

    # The one that copies.

    def _copy(self, count: Any) -> None:
        """By a lane: copy the query, and then tiles of keys and values into slots."""
        kernel, stages = self.kernel, self.kernel.stages
        self._copy_tile("query", self.first_row, 0, self._barrier(0))
        with I.serial(0, count, annotations=self.copy_loop) as step:
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

    def _arrived(self, name: str, step: Any) -> Any:
        """Wait for a step's tile; gives its slot."""
        slot, turn = step % self.kernel.stages, step // self.kernel.stages
        mbarrier.wait(self._full(name, slot), turn % 2)
        return slot

    def _take_words(self) -> None:
        """Take registers for a tile's weights, two to a word."""
        self.words = I.alloc_buffer((self.score_registers // 2,), "uint32", scope="local")

    def _pack_weights(self) -> None:
        """Put the weights into words."""
        for pair in range(self.score_registers // 2):
            value = self.weights[vector(tirx.const(2 * pair, "int32"), 2)]
            I.buffer_store(self.words, tirx.reinterpret("uint32", value), [pair])
