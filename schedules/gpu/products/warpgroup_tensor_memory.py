"""Products whose sums lie in tensor memory (``tcgen05``); see :mod:`.warpgroup_plan`.

    a lane copies       steps into slots, as where warpgroups multiply
    a lane multiplies   a slot's tiles into columns of tensor memory: when its instructions are done
                        the slot is free, and after a tile's last step the sums are there
    a warpgroup         loads the sums, a part of the columns at once, and stores them

With ``workgroups`` there are two halves of columns, which tiles take by turns: the next tile is
multiplied while the sums of one are stored.
"""

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, tcgen05
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_pipeline import (
    WarpgroupPipeline,
    either,
    elected,
    from_lane,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WARPGROUP

_LANES = 32
_SUBGROUPS = WARPGROUP // _LANES


class TensorMemorySums(WarpgroupPipeline):
    """A lane multiplies into tensor memory, of which a warpgroup stores the sums."""

    copy_loop: Mapping[str, bool] = {"disable_unroll": True}  # NVRTC would, all of 64 steps

    def _work(self, number: Any) -> None:
        halves = self.plan.halves
        # The further ones say that a half has its sums, and that they are in registers.
        storing = _SUBGROUPS * self.mma.workgroups
        self._make_barriers(1, [1] * halves + [storing] * halves)
        allocating = self.lane // _LANES == _SUBGROUPS
        columns = tcgen05.allocated_columns(self.plan.columns(halves))
        with where(allocating):
            tcgen05.allocate(self._further(2 * halves), columns, self.mma.workgroups)
            tcgen05.allocate_no_more(self.mma.workgroups)
        tcgen05.fence_before()
        self._meet_all()
        tcgen05.fence_after()
        self.columns = I.Bind(self._allocated())
        with either(self.lane < WARPGROUP) as (starting, ending):
            with starting, either(self.lane < _LANES) as (copying, others):
                with copying, where(elected()):
                    self._copy_all(number)
                with others, where(self.lane // _LANES == 1), where(elected()):
                    self._multiply_all(number)
            with ending:
                self._store_all(number)
        tcgen05.fence_before()
        self._meet_all()
        with where(allocating):
            tcgen05.fence_after()
            tcgen05.free(self.columns, columns, self.mma.workgroups)

    # What a pair does otherwise.

    def _meet_all(self) -> None:
        """All lanes that use what was allocated wait for one another."""
        self._meet()

    def _commit(self, barrier: Any) -> None:
        """Have a barrier arrive when what the lane multiplied is done."""
        tcgen05.commit(barrier)

    def _wait_for_half(self, half: Any, parity: Any) -> None:
        """Wait until the sums of a half were loaded."""
        mbarrier.wait(self._further(self.plan.halves + half), parity)

    def _loaded(self, half: Any) -> None:
        """By a subgroup: the sums of a half are in registers."""
        self._arrive(self._further(self.plan.halves + half))

    def _allocated(self) -> Any:
        """The address of the first column, which the allocation put behind the barriers."""
        words = I.decl_buffer(
            (2 * int(self.memory.shape[0]),), "uint32", data=self.memory.data, scope="shared.dyn"
        )
        return words[2 * self._word(2 * self.plan.halves)]

    def _half(self, turn: Any) -> tuple[Any, Any]:
        """The half of a tile, and how often it had others before."""
        return turn % self.plan.halves, turn // self.plan.halves

    def _sums(self, half: Any, down: int) -> Any:
        """The address of an instruction's first column."""
        column = half * self.plan.sum_columns + down * self.mma.n
        return self.columns + tirx.Cast("uint32", column)

    @property
    def _majors(self) -> dict[str, bool]:
        """What an instruction descriptor says of the operands."""
        return {f"{side}_k_major": self.plan.shared[side].operand.k_major for side in SIDES}

    def _describe(self) -> None:
        """Make the descriptors of the first slot's tiles."""
        self.bases = {side: self._descriptor(side, tcgen05.encode_descriptor) for side in SIDES}

    def _multiply_all(self, number: Any) -> None:
        self._describe()
        for turn, _, _ in self._turns(number):
            half, before = self._half(turn)
            if self.config.workgroups:
                # The first finds the halves free: the phase before the first has parity 1.
                self._wait_for_half(half, (before + 1) % 2)
                tcgen05.fence_after()
            with I.serial(0, self._steps()) as step:
                slot, phase = self._place(turn, step)
                mbarrier.wait(self._full(slot), phase % 2)
                self._multiply_step(slot, half, step)
                self._commit(self._free(slot))
            self._commit(self._further(half))

    def _multiply_step(self, slot: Any, half: Any, step: Any) -> None:
        for down in range(self.config.tiles):
            for part in range(self.plan.shared["rhs"].operand.steps):
                tiles = self._moved(self.bases, slot, (down, 0), part)
                more = tirx.const(1, "bool") if part else step > 0
                self._multiply_part(self._sums(half, down), tiles, more, down, part)

    def _multiply_part(self, sums: Any, tiles: list[Any], more: Any, down: int, part: int) -> None:
        """By an instruction: the tiles of its descriptors, those of a part of a step."""
        kind = tcgen05.instruction_descriptor(self.mma, **self._majors)
        lhs, rhs = tiles
        tcgen05.multiply(self.mma, sums, lhs, rhs, kind, more)

    def _store_all(self, number: Any) -> None:
        results, staging = self._results(), self.plan.staging
        kind = "float32" if self.mma.c == "f32" else "uint32"
        sums = I.alloc_buffer((staging.columns,), kind, scope="local")
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        subgroup = I.Bind(from_lane(self.lane // _LANES % _SUBGROUPS, 0))
        mine = I.Bind(tirx.Cast("uint32", subgroup * _LANES) << tcgen05.LANE_SHIFT)
        for turn, row, column in self._turns(number):
            half, before = self._half(turn)
            mbarrier.wait(self._further(half), before % 2)
            tcgen05.fence_after()
            for down in range(self.config.tiles):
                with I.serial(0, staging.parts) as part:
                    first = tirx.Cast("uint32", part * staging.columns)
                    registers = [sums[at] for at in range(staging.columns)]
                    tcgen05.load(registers, self._sums(half, down) + mine + first)
                    tcgen05.wait_for_loads()
                    first_row = row + down * self.mma.m + self.rank * self.plan.part_rows
                    results.store_part(sums, part, self._which, first_row, column)
            if self.config.workgroups:
                tcgen05.fence_before()
                self._loaded(half)
