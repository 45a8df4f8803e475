"""Products whose sums lie in the tensor memory of two workgroups (``cta_group::2``).

    each of the pair       copies 128 rows of lhs, and half of the columns of rhs, into its slots
    a lane of the first    multiplies the slots of both, when both are full, into 256 rows of sums
    each of the pair       stores its 128 rows, all columns

So a pair reads a tile of 256 x 256 x 64 as one workgroup reads one of 128 x 256 x 64, but each half
of rhs once.  The slots of both are full by the first one's barriers, at which both copy; they are
free by barriers of their own, at which each product's end arrives.

The pair is a cluster, whose workgroups have neighbouring numbers.  None may leave before the other
is done with its memory: whoever copies waits for the slots that were filled last, and then all
lanes of both meet.
"""

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, tcgen05
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.warpgroup_tensor_memory import TensorMemorySums

_LANES = 32


class PairSums(TensorMemorySums):
    """A lane multiplies into the tensor memory of a pair, each of which stores its sums."""

    def _work(self, number: Any) -> None:
        # Barriers lie at the same places in both.
        self.first = mbarrier.address_in(self._full(0), 0)
        super()._work(number)

    def _meet_all(self) -> None:
        mbarrier.meet_cluster()

    def _firsts(self, word: Any) -> Any:
        """The address of a word of the first one's barriers, counted from those of slots on."""
        return self.first + tirx.Cast("uint32", word * mbarrier.BYTES)

    def _first(self, side: str, row: Any, column: Any) -> Any:
        extent = self.mma.m if side == "lhs" else self.mma.n
        return super()._first(side, row, column) + self.rank * (extent // self.mma.workgroups)

    def _expect(self, slot: Any) -> None:
        with where(self.rank == 0):
            nbytes = self.plan.slot_bytes * self.mma.workgroups
            mbarrier.arrive_expecting(self._full(slot), nbytes)

    def _copy_box(self, side: str, at: Sequence[Any], place: Any, slot: Any) -> None:
        mbarrier.copy_box_in(self._address(place), self.maps[side], at, self._firsts(slot))

    def _copy_all(self, number: Any) -> None:
        super()._copy_all(number)
        steps = self._steps()
        if self.config.workgroups:
            steps = steps * self._count(number)
        with I.serial(0, self.config.stages) as slot:
            # How often it was filled; of one that never was, the phase before the first has ended.
            filled = (steps - slot + (self.config.stages - 1)) // self.config.stages
            mbarrier.wait(self._free(slot), (filled + 1) % 2)

    def _multiply_all(self, number: Any) -> None:
        with where(self.rank == 0):
            super()._multiply_all(number)

    def _commit(self, barrier: Any) -> None:
        tcgen05.commit_to_pair(barrier)

    def _wait_for_half(self, half: Any, parity: Any) -> None:
        mbarrier.wait_for_cluster(self._further(self.plan.halves + half), parity)

    def _loaded(self, half: Any) -> None:
        word = 2 * self.config.stages + self.plan.halves + half
        with where(self.lane % _LANES == 0):
            mbarrier.arrive_in(self._firsts(word))
