"""Attention whose products are added up in tensor memory (``tcgen05``).

    a lane copies       the query, and tiles of keys and values into slots, as for ``wgmma``
    a lane multiplies   for tile of keys, for warpgroup:
                            wait until its weights P are there; O += P V
                            S = Q K for the next tile; say so
    each warpgroup      for tile of keys:
                            wait for its scores; load them, a row to a lane
                            mask, maximum, P = exp2(S - maximum); store P in the place of S
                            where a maximum grew: load O, rescale it, store it
                        wait for the last products; O / sum

While the scores of a warpgroup become weights, those of the other are multiplied.  A lane has a
whole row, so that its maximum and its sum need no shuffles.  Products are made in the order in
which their lane starts them: scores that are there say that the output before them is complete,
and the next scores may come in the place of weights that are still to be multiplied.

The maximum of a row is replaced only where the next is larger by so much that weights would be
more than 2^8: outputs are seldom loaded to be rescaled.

After FlashAttention-4 (``flash_fwd_sm100.py``) and CUTLASS's example 77, which have a further
warpgroup for rescaling.
"""

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, tcgen05
from tvm_iree_ext.intrin.shared_operands import SharedOperand
from tvm_iree_ext.schedules.gpu.attention.attention_results import Results
from tvm_iree_ext.schedules.gpu.attention.attention_softmax import Softmax
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup import (
    BOX_COLUMNS,
    SUBGROUPS,
    WARPGROUP,
)
from tvm_iree_ext.schedules.gpu.attention.attention_warpgroup_pipeline import (
    LANES,
    ROW_BYTES,
    UNIT,
    WarpgroupAttentionPipeline,
)
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.warpgroup_pipeline import either, elected, from_lane

_SIZE = 2  # bytes of an element
_RUN = 32  # columns that are loaded or stored at once
_SLACK = 8.0  # FlashAttention-4's, for types of 16 bits
_EVERY_LANE = 0xFFFFFFFF
_ROLLED = {"disable_unroll": True}  # NVRTC would unroll loops of a single lane


class TensorMemoryAttention(WarpgroupAttentionPipeline):
    """A lane multiplies into tensor memory, of which warpgroups make weights."""

    # The lane that multiplies has 64 descriptors: with 40 registers ptxas 13.0 spills on sm_103a.
    few, many = {2: 96}, {2: 208}
    copy_loop: Mapping[str, bool] = _ROLLED

    def _work(self, count: Any) -> None:
        kernel = self.kernel
        consumers = kernel.consumers
        # The further ones say that scores are there, and that weights are.
        self._make_barriers(1, [1] * consumers + [SUBGROUPS] * consumers)
        allocating = self.number // LANES == SUBGROUPS
        columns = tcgen05.allocated_columns(kernel.sum_columns)
        with where(allocating):
            tcgen05.allocate(self._further(2 * consumers), columns)
            tcgen05.allocate_no_more()
        tcgen05.fence_before()
        self._meet()
        tcgen05.fence_after()
        self.first_sum = I.Bind(self._allocated())
        with either(self.number < WARPGROUP) as (starting, weighing):
            with starting:
                self._few_registers()
                with either(self.number < LANES) as (copying, others):
                    with copying, where(elected()):
                        self._copy(count)
                    with others, where(self.number // LANES == 1), where(elected()):
                        self._multiply_all(count)
            with weighing:
                self._many_registers()
                self._weigh_all(count)
        tcgen05.fence_before()
        self._meet()
        with where(allocating):
            tcgen05.fence_after()
            tcgen05.free(self.first_sum, columns)

    def _allocated(self) -> Any:
        """The address of the first column, which the allocation put behind the barriers."""
        words = I.decl_buffer(
            (2 * self.kernel.shared_bytes // mbarrier.BYTES,), "uint32", data=self.memory.data,
            scope="shared.dyn",
        )  # fmt: skip
        return words[2 * (self.kernel.shared_bytes // mbarrier.BYTES - 1)]

    def _address_of(self, number: Any) -> Any:
        """The address of a column."""
        return self.first_sum + tirx.Cast("uint32", number)

    # The one that multiplies.

    def _multiply_all(self, count: Any) -> None:
        kernel = self.kernel
        self.bases = {
            name: self._descriptor(getattr(kernel, name), kernel.offset(name))
            for name in ("query", "key", "value")
        }
        last = kernel.consumers - 1
        mbarrier.wait(self._barrier(0), 0)
        with where(count > 0):
            slot = self._arrived("key", 0)
            for consumer in range(kernel.consumers):
                self._scores(consumer, slot)
                tcgen05.commit(self._further(consumer))
            tcgen05.commit(self._free("key", slot))
        with I.serial(0, count, annotations=_ROLLED) as step:
            values = self._arrived("value", step)
            for consumer in range(kernel.consumers):
                mbarrier.wait(self._further(kernel.consumers + consumer), step % 2)
                tcgen05.fence_after()
                self._outputs(consumer, values, step)
                with where(step + 1 < count):
                    slot = (step + 1) % kernel.stages
                    if consumer == 0:
                        self._arrived("key", step + 1)
                    self._scores(consumer, slot)
                    if consumer == last:
                        tcgen05.commit(self._free("key", slot))
                tcgen05.commit(self._further(consumer))
            tcgen05.commit(self._free("value", values))

    def _descriptor(self, operand: SharedOperand, place: Any) -> Any:
        words = I.alloc_buffer((1,), "uint64", scope="local")
        tcgen05.encode_descriptor(words, self._address(place), operand)
        return words[0]

    def _moved(self, name: str, nbytes: Any) -> Any:
        return self.bases[name] + tirx.Cast("uint64", nbytes // UNIT)

    def _scores(self, consumer: int, slot: Any) -> None:
        """Start S = Q K of a warpgroup's rows."""
        kernel, first = self.kernel, self.kernel.first
        kind = tcgen05.instruction_descriptor(first, lhs_k_major=True, rhs_k_major=True)
        sums = self._address_of(kernel.scores_column(consumer))
        for column in range(0, kernel.depth, BOX_COLUMNS):
            for part in range(kernel.key.steps):
                query = (column * self.plan.rows + kernel.query.first(part)) * _SIZE
                key = (column * self.plan.keys + kernel.key.first(part)) * _SIZE
                tcgen05.multiply(
                    first, sums,
                    self._moved("query", consumer * first.m * ROW_BYTES + query),
                    self._moved("key", slot * kernel.nbytes("key") + key),
                    kind, tirx.const(int(column + part > 0), "bool"),
                )  # fmt: skip

    def _outputs(self, consumer: int, slot: Any, step: Any) -> None:
        """Start O += P V of a warpgroup's rows."""
        kernel, second = self.kernel, self.kernel.second
        kind = tcgen05.instruction_descriptor(second, lhs_k_major=True, rhs_k_major=False)
        sums = self._address_of(kernel.outputs_column(consumer))
        each = second.k * _SIZE // 4  # columns of weights
        for part in range(kernel.value.steps):
            weights = self._address_of(kernel.scores_column(consumer) + part * each)
            place = slot * kernel.nbytes("value") + kernel.value.first(part) * _SIZE
            more = tirx.const(1, "bool") if part else step > 0
            tcgen05.multiply(second, sums, weights, self._moved("value", place), kind, more)

    # Those that make weights.

    def _weigh_all(self, count: Any) -> None:
        kernel, plan = self.kernel, self.plan
        self.score_registers, self.output_registers = plan.keys, kernel.columns
        self.scores = self._registers(plan.keys, self.op.compute_dtype)
        self.weights = self._registers(plan.keys, plan.held_dtypes[1])
        # A maximum that is a result is the true one.
        slack = 0.0 if self.op.online else _SLACK
        self.softmax = Softmax(plan, self.operands, self.lanes, slack)
        self._masked()
        self._take_words()
        # From another lane, so that the compiler knows them to be the same for the subgroup.
        subgroup = I.Bind(from_lane(self.number // LANES - SUBGROUPS, 0))
        self.group = I.Bind(subgroup // SUBGROUPS)
        mine = tirx.Cast("uint32", subgroup % SUBGROUPS * LANES) << tcgen05.LANE_SHIFT
        self.my_scores = I.Bind(self._address_of(self.group * plan.keys) + mine)
        outputs = kernel.outputs_column(0) + self.group * kernel.columns
        self.my_outputs = I.Bind(self._address_of(outputs) + mine)
        with I.serial(0, count) as step:
            self.step = step
            self._wait_for_products(step)
            self._load(self.scores, 0, self.my_scores, plan.keys)
            start = I.Bind((self.first_tile + step) * plan.keys)
            self.mask.emit(start, self.scores, self.score_registers, self.softmax.domain)
            self._weigh(0)
            self._pack_weights()
            for first in range(0, plan.keys // 2, _RUN):
                words = [self.words[first + at] for at in range(min(_RUN, plan.keys // 2))]
                tcgen05.store(self.my_scores + tirx.const(first, "uint32"), words)
            tcgen05.wait_for_stores()
            tcgen05.fence_before()
            with where(self.lanes.lane == 0):
                mbarrier.arrive(self._further(kernel.consumers + self.group))
        self._results(count)

    def _wait_for_products(self, turn: Any) -> None:
        """Until a turn's scores are there, or the last outputs; all before are complete."""
        mbarrier.wait(self._further(self.group), turn % 2)
        tcgen05.fence_after()

    @staticmethod
    def _load(registers: Any, first: int, address: Any, count: int) -> None:
        """Load columns from an address on into registers from ``first`` on."""
        for at in range(0, count, _RUN):
            run = [registers[first + at + place] for place in range(min(_RUN, count))]
            tcgen05.load(run, address + tirx.const(at, "uint32"))
        tcgen05.wait_for_loads()

    def _rescale(self, tile: int, slot: int, factor: Any) -> None:
        """Multiply the outputs, which lie in tensor memory, where a row of the warp has to."""
        every = tirx.const(_EVERY_LANE, "uint32")
        some = T.cuda.any_sync(every, tirx.Cast("int32", factor < self.softmax.const(1.0)))
        # There are none before the first product.
        with where(tirx.And(self.step > 0, some != 0)):
            held = self._registers(_RUN, self.op.compute_dtype)
            with I.serial(0, self.kernel.columns // _RUN, annotations=_ROLLED) as part:
                address = self.my_outputs + tirx.Cast("uint32", part * _RUN)
                self._load(held, 0, address, _RUN)
                for at in range(_RUN):
                    I.buffer_store(held, held[at] * factor, [at])
                words = [tirx.reinterpret("uint32", held[at]) for at in range(_RUN)]
                tcgen05.store(address, words)

    def _results(self, count: Any) -> None:
        """Load the outputs, a part of the columns at once, and store the results."""
        kernel, each = self.kernel, self.plan.second.n
        self.outputs = self._registers(kernel.columns, self.op.compute_dtype)
        self._fill(self.outputs, kernel.columns)
        with where(count > 0):
            self._wait_for_products(count)
        self.softmax.finish()
        results = Results(self._place(), self.softmax, self.outputs, self.partials)
        for part in range(self.plan.column_tiles):
            with where(count > 0):
                address = self.my_outputs + tirx.const(part * each, "uint32")
                self._load(self.outputs, part * each, address, each)
            results.emit([part])
