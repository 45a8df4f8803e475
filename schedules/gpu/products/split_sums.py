"""Sums of the parts of K of a product by warpgroups, each left by a workgroup of its own.

    parts[group, split, m, n]                           what the product's kernel leaves
    result[group, m, n] = sum over split of parts       by a second kernel, in the order of parts

Where elements are few and parts many, the subgroups of a workgroup share the parts of an element.
"""

from collections.abc import Iterator
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.emit.lanes import vectorized, where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulOperands

_SUBGROUPS, _LANES = 8, 32
_MOST_READ = 8  # parts that a lane reads, before subgroups share them
_MOST_UNROLLED = 32  # parts, which a lane reads before it adds the first
PART_RUN = 4
"""Elements of a part that are stored at once."""


class SplitSums:
    """The parts of a product's sums in memory.

    Args:
        operands: of the product.
        splits: parts of K.
        run: elements of a row of the result that a lane stores at once.
    """

    def __init__(self, operands: MatmulOperands, splits: int, run: int) -> None:
        self.operands, self.splits, self.run = operands, splits, run
        self.index_dtype = operands.index_dtype
        shape = operands.shape
        assert shape.groups is not None
        assert shape.m is not None
        assert shape.n is not None
        self.groups, self.rows, self.columns = shape.groups, shape.m, shape.n
        self.dtype = shape.result_dtype
        pitch = -(-self.columns // PART_RUN) * PART_RUN
        self.parts = I.alloc_buffer(
            [self.groups * splits, self.rows, pitch], self.dtype, scope="global"
        )
        IRBuilder.name("parts", self.parts)

    @property
    def share(self) -> int:
        """Subgroups that share the parts of an element."""
        share = 1
        while share < _SUBGROUPS and self.splits > share * _MOST_READ:
            share *= 2
        return share

    def emit_kernel(self) -> None:
        """Emit the kernel that adds the parts, and stores the result."""
        line = self.columns // self.run
        count = self.groups * self.rows * line
        at_once = _SUBGROUPS // self.share * _LANES
        with (
            I.launch_thread("blockIdx.x", -(-count // at_once)) as number,
            I.launch_thread("threadIdx.x", _SUBGROUPS * _LANES) as lane,
        ):
            own, team = lane // _LANES % self.share, lane // _LANES // self.share
            vector = I.Bind(number * at_once + team * _LANES + lane % _LANES)
            row, column = I.Bind(vector // line), I.Bind(vector % line * self.run)
            place = [row // self.rows, row % self.rows, column]
            total = I.alloc_buffer((self.run,), self.dtype, scope="local")
            self._add_own(total, own, place, vector < count)
            if self.share > 1:
                self._add_others(total, own, lane)
            with where(tirx.And(vector < count, own == 0)), vectorized(self.run) as at:
                group, i, j = (self._wide(index) for index in place)
                self.operands.store(group, i, j + at, total[at])

    def _add_own(self, total: Any, own: Any, place: list[Any], inside: Any) -> None:
        """Add the parts of a subgroup, which follow one another."""
        each = -(-self.splits // self.share)
        group, i, j = place
        with vectorized(self.run) as at:
            I.buffer_store(total, tirx.const(0, self.dtype), [at])
        with where(inside):
            for number in self._numbers(each):
                split = own * each + number
                place = group * self.splits + split
                there = split < self.splits if self.splits % each else None
                with where(there), vectorized(self.run) as at:
                    I.buffer_store(total, total[at] + self.parts[place, i, j + at], [at])

    @staticmethod
    def _numbers(count: int) -> Iterator[Any]:
        """The numbers below ``count``, or a loop over so many."""
        if count <= _MOST_UNROLLED:
            yield from range(count)
            return
        with I.serial(0, count) as number:
            yield number

    def _add_others(self, total: Any, own: Any, lane: Any) -> None:
        """Add the sums of the subgroups that share an element, in their order."""
        sums = I.alloc_buffer((_SUBGROUPS, _LANES, self.run), self.dtype, scope="shared")
        subgroup, place = lane // _LANES, lane % _LANES
        with vectorized(self.run) as at:
            I.buffer_store(sums, total[at], [subgroup, place, at])
        wait()
        for other in range(1, self.share):
            with where(own == 0), vectorized(self.run) as at:
                I.buffer_store(total, total[at] + sums[subgroup + other, place, at], [at])

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Leave a part of a sum; ``group`` are those of all groups, one after the other."""
        I.buffer_store(self.parts, value, [group, i, j])

    def _wide(self, index: Any) -> Any:
        dtype = self.index_dtype
        return index if dtype == "int32" else tirx.Cast(dtype, index)
