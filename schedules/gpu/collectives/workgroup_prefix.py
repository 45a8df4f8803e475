"""Sums of integers over all lanes of a workgroup before a lane."""

from collections.abc import Sequence

from tvm import tirx

from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.schedules.gpu.collectives.workgroup_reduce import Across, Values
from tvm_iree_ext.schedules.gpu.emit.chip_math import held
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.tir.tir_expressions import Expr


class WorkgroupPrefix:
    """Sums of 32-bit integers over a workgroup, while emitted, in a kernel with its own barriers.

    All lanes come by; the workgroup must wait between two sums.

    Args:
        ids: of the lane that code is emitted for.
    """

    def __init__(self, ids: WorkgroupIds) -> None:
        self.ids, (self.subgroups, self.size) = ids, ids.hardware
        layout = NestedLayout((self.subgroups,), (1,), (1,), (self.size,), (1,), (1,), (1,))
        self.across = Across(ids, layout, 0, ("int32",))

    def sums(self, numbers: Sequence[Expr]) -> list[Expr]:
        """What goes before each of a lane's numbers, which go before those of the next lane."""
        zero = tirx.const(0, "int32")
        found: list[Expr] = []
        own: Expr = zero
        for number in numbers:
            found.append(own)
            own = held(own + number)
        (upto,) = self.across.scan_lanes((own,), _sum)
        first = held(upto - own)
        if self.subgroups > 1:
            self.across.leave([(upto,)], self.ids.lane == self.size - 1)
            wait()
            for part in range(self.subgroups):
                (left,) = self.across.left(0, part)
                earlier = tirx.const(part, "int32") < self.ids.subgroup
                first = held(first + tirx.Select(earlier, left, zero))
        return [held(first + one) for one in found]


def _sum(one: Values, other: Values) -> Values:
    return (held(one[0] + other[0]),)
