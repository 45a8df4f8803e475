"""The online softmax in a lane's registers.

A lane has some rows' scores of some keys of a tile.  The running maximum of a row is of all lanes
that share it, by shuffles over the lane bits that do not change the row; sums stay each lane's own
until the end, as what rescales them is the same for all.  Exponentials are the hardware's, of base
2: the scores' factor is multiplied in where the maximum is subtracted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.attention.attention import Attention
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.collectives.layout_conversion import shuffled
from tvm_iree_ext.schedules.gpu.emit.chip_math import exp2, held, largest
from tvm_iree_ext.schedules.gpu.emit.lane_registers import WorkgroupIds
from tvm_iree_ext.schedules.gpu.emit.lanes import WorkgroupLanes
from tvm_iree_ext.schedules.shared.attention_operands import AttentionOperands

_LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class ScoreDomain:
    """A kernel's scores on their way to exponents.

    Attributes:
        products: whether they are the first product itself; else scaled, after region and mask.
        exponent: what a score is multiplied by to be an exponent of 2.
        result: what the op's own scores are, of these.
        lowest: what maxima start from: finite, also as an exponent.
    """

    products: bool
    exponent: float
    result: float
    lowest: float

    @staticmethod
    def of(op: Attention) -> "ScoreDomain":
        """The domain of an op's kernel."""
        lowest = float(tirx.min_value(op.compute_dtype).value)
        base = 1.0 if op.score_domain == "log2" else _LOG2E
        float_mask = "mask" in op.types and op.types["mask"].dtype.startswith(("float", "bfloat"))
        if op.region is None and not float_mask and op.scale is not None and op.scale > 0:
            exponent = op.scale * _LOG2E
            if 1e-30 < exponent < 1e30:
                return ScoreDomain(True, exponent, exponent / base, lowest / max(2.0, 2 * exponent))
        return ScoreDomain(False, base, 1.0, lowest)


class Softmax:
    """The statistics of a lane's rows while a kernel is emitted.

    With ``slack`` a row's maximum is replaced where the next would change its exponents by more
    than that: what was summed is then seldom rescaled, and weights are at most 2^slack, not 1.
    """

    def __init__(
        self,
        plan: AttentionPlan,
        operands: AttentionOperands,
        lanes: WorkgroupLanes,
        slack: float = 0.0,
    ) -> None:
        self.slack = slack
        self.plan, self.operands, self.lanes = plan, operands, lanes
        self.domain = ScoreDomain.of(plan.op)
        self.dtype = plan.op.compute_dtype
        self.slots = plan.score_rows.count
        count = plan.row_tiles * self.slots
        self.maxima, self.sums = (
            I.alloc_buffer((count,), self.dtype, scope="local") for _ in range(2)
        )
        for at in range(count):
            I.buffer_store(self.maxima, self.const(self.domain.lowest), [at])
            I.buffer_store(self.sums, self.const(0.0), [at])

    def const(self, value: float) -> Any:
        """A number of the scores' type."""
        return tirx.const(value, self.dtype)

    def across(self, value: Any, combine: Callable[[Any, Any], Any]) -> Any:
        """A value combined over the lanes that share its row."""
        workgroup = WorkgroupIds(
            self.lanes.subgroup, self.lanes.lane, self.lanes.subgroups, self.lanes.size,
            self.lanes.kind,
        )  # fmt: skip
        found = held(value)
        for mask in self.plan.score_rows.masks:
            lane = tirx.bitwise_xor(self.lanes.lane, tirx.const(mask, "int32"))
            word = tirx.reinterpret(f"uint{8 * item_bytes(self.dtype)}", found)
            other = held(tirx.reinterpret(self.dtype, shuffled(word, lane, workgroup)))
            found = held(combine(found, other))
        return found

    def step(self, tile: int, scores: Any, base: int, rescale: Callable[[int, Any], None]) -> None:
        """Scores of a row tile, from register ``base`` on, become weights, in place.

        ``rescale(slot, factor)`` is to multiply what was summed of a row.
        """
        domain, slots = self.domain, self.plan.score_rows.slots
        # The accumulators' slots repeat from tile to tile of keys.
        of_slot: list[list[int]] = [[] for _ in range(self.slots)]
        for register in range(len(slots)):
            of_slot[slots[register]].append(base + register)
        for slot, registers in enumerate(of_slot):
            at = tile * self.slots + slot
            highest = scores[registers[0]]
            for register in registers[1:]:
                highest = largest(self.lanes.kind, highest, scores[register])
            mine = self.across(highest, lambda a, b: largest(self.lanes.kind, a, b))
            newest = held(largest(self.lanes.kind, self.maxima[at], mine))
            if self.slack:
                growth = (newest - self.maxima[at]) * self.const(domain.exponent)
                enough = growth > self.const(self.slack)
                newest = held(tirx.Select(enough, newest, self.maxima[at]))
            factor = held(self.power(self.maxima[at] - newest, domain.exponent))
            I.buffer_store(self.maxima, newest, [at])
            shift = held(newest * self.const(domain.exponent)) if domain.products else newest
            for register in registers:
                score = scores[register]
                if domain.products:
                    weight = self.power(score * self.const(domain.exponent) - shift, 1.0)
                else:
                    weight = self.power(score - shift, domain.exponent)
                I.buffer_store(scores, weight, [register])
            parts = [scores[register] for register in registers]
            while len(parts) > 1:  # pairs, which some chips add at once
                parts = [sum(parts[i + 1 : i + 2], parts[i]) for i in range(0, len(parts), 2)]
            I.buffer_store(self.sums, self.sums[at] * factor + parts[0], [at])
            rescale(slot, factor)

    def power(self, exponent: Any, factor: float) -> Any:
        """2 to the ``exponent`` times ``factor``."""
        scaled = exponent if factor == 1.0 else exponent * self.const(factor)
        return exp2(self.lanes.kind, scaled)

    def finish(self) -> None:
        """Sums become those of all lanes that share a row."""
        for at in range(self.plan.row_tiles * self.slots):
            I.buffer_store(self.sums, self.across(self.sums[at], lambda a, b: a + b), [at])
