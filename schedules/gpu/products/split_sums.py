"""Sums of the parts of K of a product by warpgroups, each left by a workgroup of its own.

    parts[group, split, m, n]                           what the product's kernel leaves
    result[group, m, n] = sum over split of parts       by a second kernel, in the order of parts

Where elements are few and parts many, the subgroups of a workgroup share the parts of an element.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.emit.lanes import vectorized, where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.products.matmul_shape import MatmulOperands

_SUBGROUPS, _LANES = 8, 32
_MOST_READ = 8  # parts that a lane reads, before subgroups share them
_MANY = 128  # workgroups
_AT_ONCE = 8  # parts that a lane reads before it adds the first
_MOST_UNROLLED = 32  # parts
PART_RUN = 4
"""Elements of a part that are stored at once."""


class SplitSums:
    """The parts of a product's sums in memory.

    Args:
        operands: of the product.
        splits: parts of K.
        run: the most elements of a row of the result that a lane stores at once.
    """

    def __init__(self, operands: MatmulOperands, splits: int, run: int) -> None:
        self.operands, self.splits = operands, splits
        self.index_dtype = operands.index_dtype
        shape = operands.shape
        assert shape.groups is not None
        assert shape.m is not None
        assert shape.n is not None
        self.groups, self.rows, self.columns = shape.groups, shape.m, shape.n
        self.dtype = shape.result_dtype
        self.run = self._spread(run)
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

    @property
    def _at_once(self) -> int:
        """Runs of a workgroup."""
        return _SUBGROUPS // self.share * _LANES

    def _spread(self, run: int) -> int:
        """The run, or a shorter one, of which there are enough for many workgroups."""
        elements = self.groups * self.rows * self.columns
        while run > 1 and elements // run < _MANY * self._at_once:
            run //= 2
        return run

    def emit_kernel(self) -> None:
        """Emit the kernel that adds the parts, and stores the result."""
        line = self.columns // self.run
        count = self.groups * self.rows * line
        at_once = self._at_once
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
        held = I.alloc_buffer((min(each, _AT_ONCE) * self.run,), self.dtype, scope="local")
        with vectorized(self.run) as at:
            I.buffer_store(total, tirx.const(0, self.dtype), [at])
        with where(inside):
            for first in self._firsts(each):
                left = each - first if isinstance(first, int) else _AT_ONCE
                numbers = range(min(left, _AT_ONCE))
                for number in numbers:
                    value = self._part(own * each, first + number, each, place)
                    with vectorized(self.run) as at:
                        I.buffer_store(held, value(at), [number * self.run + at])
                for number in numbers:
                    with vectorized(self.run) as at:
                        value = total[at] + held[number * self.run + at]
                        I.buffer_store(total, value, [at])

    def _part(self, first: Any, number: Any, each: int, place: list[Any]) -> Callable[[Any], Any]:
        """A part of sums, by the place in a run; 0 where there is none."""
        group, i, j = place
        split = first + number
        there = []
        if not isinstance(number, int) and each % _AT_ONCE:
            there.append(number < each)
        if self.splits % each:
            there.append(split < self.splits)

        def value(at: Any) -> Any:
            found: Any = self.parts[group * self.splits + split, i, j + at]
            for condition in there:
                found = tirx.if_then_else(condition, found, tirx.const(0, self.dtype))
            return found

        return value

    @staticmethod
    def _firsts(count: int) -> Iterator[Any]:
        """The first of each few parts that are read before they are added."""
        if count <= _MOST_UNROLLED:
            yield from range(0, count, _AT_ONCE)
            return
        with I.serial(0, -(-count // _AT_ONCE)) as number:
            yield number * _AT_ONCE

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
