"""Sums over all lanes before a lane, and over all of the workgroup."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.tir.tir_expressions import Expr


@dataclass(frozen=True)
class Prefixes:
    """What stands before each of a lane's numbers, and what all of the workgroup's are together."""

    before: list[Values]
    total: Values


class WorkgroupPrefix:
    """Sums of 32-bit integers over a workgroup, while emitted, in a kernel with its own barriers.

    All lanes come by; the workgroup must wait between two sums.

    Args:
        ids: of the lane that code is emitted for.
        values: how many integers are summed at once.
    """

    def __init__(self, ids: WorkgroupIds, values: int = 1) -> None:
        self.ids, (self.subgroups, self.size) = ids, ids.hardware
        layout = NestedLayout((self.subgroups,), (1,), (1,), (self.size,), (1,), (1,), (1,))
        self.across = Across(ids, layout, 0, ("int32",) * values)

    def sums(self, numbers: Sequence[Values]) -> Prefixes:
        """For each of a lane's numbers, which go before those of the next lane."""
        zero = tirx.const(0, "int32")
        found: list[Values] = []
        own: Values = tuple(zero for _ in numbers[0])
        for values in numbers:
            found.append(own)
            own = _sum(own, values)
        upto = self.across.scan_lanes(own, _sum)
        first = tuple(held(a - b) for a, b in zip(upto, own, strict=True))
        if self.subgroups == 1:
            total = self.across.last(upto)
        else:
            last: Expr = self.ids.lane == self.size - 1
            self.across.leave([upto], last)
            wait()
            total = tuple(zero for _ in own)
            for part in range(self.subgroups):
                left = self.across.left(0, part)
                earlier = tirx.const(part, "int32") < self.ids.subgroup
                first = _sum(first, tuple(tirx.Select(earlier, one, zero) for one in left))
                total = _sum(total, left)
        return Prefixes([_sum(first, values) for values in found], total)


def _sum(one: Values, other: Values) -> Values:
    return tuple(held(a + b) for a, b in zip(one, other, strict=True))
