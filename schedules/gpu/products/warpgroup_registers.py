"""Products by warpgroups whose sums lie in registers (``wgmma``); see :mod:`.warpgroup_plan`."""

from itertools import product
from typing import Any

from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import mbarrier, wgmma
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.emit.lanes import where
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.warpgroup_pipeline import (
    WarpgroupPipeline,
    either,
    from_lane,
)
from tvm_iree_ext.schedules.gpu.products.warpgroup_plan import WARPGROUP, sums_apart

_LANES = 32
FEW, MANY = {2: 40, 3: 32}, {2: 232, 3: 160}  # registers of those that copy, and multiply
# Of an instruction: with fewer ptxas 13.0 hands no registers over (its C7508), and several
# workgroups have room on a core.
_LEAST_COLUMNS = {2: 128, 3: 96}


class RegisterSums(WarpgroupPipeline):
    """Warpgroups multiply into their registers."""

    def _work(self, number: Any) -> None:
        subgroups = self.config.consumers * WARPGROUP // _LANES
        # The further one is of those that multiply, when all have.
        self._make_barriers(subgroups, [subgroups])
        self._meet()
        with either(self.lane < WARPGROUP) as (copying, multiplying):
            with copying:
                self._registers(FEW, more=False)
                with where(self.lane == 0 if self.config.copies == "tma" else None):
                    self._copy_all(number)
            with multiplying:
                self._registers(MANY, more=True)
                self._prepare()
                for turn, row, column in self._turns(number):
                    self._multiply(turn, row, column)

    def _registers(self, of: dict[int, int], *, more: bool) -> None:
        consumers = self.config.consumers
        if consumers in of and self.mma.n >= _LEAST_COLUMNS[consumers]:
            mbarrier.registers_of_warpgroup(of[consumers], more=more)

    def _prepare(self) -> None:
        """Take registers for accumulators, and make descriptors of this warpgroup's operands."""
        kind = "float32" if self.mma.c == "f32" else "uint32"
        size, count = self.mma.operand("acc").registers, self.config.tiles * self.config.columns
        self.sums = [I.alloc_buffer((size,), kind, scope="local") for _ in range(count)]
        self.apart = I.alloc_buffer((size,), kind, scope="local") if sums_apart(self.mma) else None
        # From another lane, so that the compiler knows it to be the same for the subgroup.
        self.own = I.Bind(from_lane(self.lane // WARPGROUP - 1, 0))
        mine = self.own * self.config.tiles * self.plan.shared["lhs"].bytes_each
        self.bases = {
            side: self._descriptor(side, wgmma.encode_descriptor, mine if side == "lhs" else 0)
            for side in SIDES
        }
        self.results = self._results()

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
        places = product(range(self.config.tiles), range(self.config.columns))
        for acc, (down, across) in zip(self.sums, places, strict=True):
            first = row + (self.own * self.config.tiles + down) * self.mma.m
            self.results.store(acc, self._which, first, column + across * self.mma.n)

    def _multiplied_all(self, turn: Any) -> None:
        """Free a tile's last slot; or wait for the others, whose slots sums go through."""
        if not self.config.workgroups:
            self._arrive(self._further(0))
            mbarrier.wait(self._further(0), 0)
        elif self.apart is None:
            self._arrive(self._free(self._place(turn, self.plan.steps - 1)[0]))

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

    def _issue(self, acc: Any, slot: Any, place: Ints, part: int, *, more: bool) -> None:
        """Multiply a part of a step; with ``more`` the products are added to what is there.

        ``place`` is the instruction's among the warpgroup's, down and across.
        """
        descriptors = self._moved(self.bases, slot, place, part)
        lhs, rhs = (self.plan.shared[side].operand for side in SIDES)
        registers = [acc[at] for at in range(self.mma.operand("acc").registers)]
        immediates = wgmma.immediates(self.mma, lhs, rhs)
        I.evaluate(T.ptx[self.mma.ptx](*registers, *descriptors, more, *immediates))
