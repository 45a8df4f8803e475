"""The kernel of attention by warpgroups; see :mod:`.attention_warpgroup`."""

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, wgmma
from tvm_iree_ext.intrin.kernel_attributes import EXACT_BUFFERS, OWN_BARRIERS
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.schedules.gpu.attention.attention_kernel import ALIGNMENT_BYTES
from tvm_iree_ext.schedules.gpu.attention.attention_tensor_memory import TensorMemoryAttention
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    BOX_COLUMNS,
    SUBGROUPS,
    WARPGROUP,
    WarpgroupAttention,
)
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup_pipeline import (
    ROW_BYTES,
    UNIT,
    WarpgroupAttentionPipeline,
)
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.warpgroup_pipeline import either, from_lane
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands


def warpgroup_attention(kernel: WarpgroupAttention) -> tirx.PrimFunc:
    """The function of the op, with its kernel."""
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_attr({EXACT_BUFFERS: True, OWN_BARRIERS: True})
        operands = AttentionOperands.declare(kernel.plan.op, ALIGNMENT_BYTES)
        form = TensorMemoryAttention if kernel.in_tensor_memory else _RegisterSums
        form(kernel, operands).emit()
    return builder.get()


class _RegisterSums(WarpgroupAttentionPipeline):
    """Warpgroups multiply into their registers (``wgmma``)."""

    def _work(self, count: Any) -> None:
        self._make_barriers(self.kernel.consumers * SUBGROUPS)
        self._meet()
        with either(self.number < WARPGROUP) as (copying, multiplying):
            with copying:
                self._few_registers()
                with where(self.number == 0):
                    self._copy(count)
            with multiplying:
                self._many_registers()
                self._multiply(count)

    def _multiply(self, count: Any) -> None:
        kernel = self.kernel
        self._accumulators()
        self._masked()
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        self.group = I.Bind(from_lane(self.number // WARPGROUP - 1, 0))
        rows = self.group * (WARPGROUP // 2) * ROW_BYTES
        bases = {
            "query": self._descriptor(kernel.query, kernel.offset("query") + rows),
            "key": self._descriptor(kernel.key, kernel.offset("key")),
            "value": self._descriptor(kernel.value, kernel.offset("value")),
        }
        self._take_words()
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
        self._pack_weights()

    def _release(self, name: str, step: Any) -> None:
        """What was read is read: the slot is free, as far as this subgroup goes."""
        with where(self.lanes.lane == 0):
            mbarrier.arrive(self._free(name, step % self.kernel.stages))

    def _descriptor(self, operand: SharedOperand, place: Any) -> Any:
        words = I.alloc_buffer((1,), "uint64", scope="local")
        wgmma.encode_descriptor(words, self._address(place), operand)
        return words[0]

    @staticmethod
    def _moved(base: Any, nbytes: Any) -> Any:
        return base + tirx.Cast("uint64", nbytes // UNIT)

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
