"""Registers of a lane that attention will need, foreseen before a compiler counts them.

What is multiplied and summed follows from the layouts; the rest is a fit, made by hand.  A compiler
takes more where there is room, and fewer where it makes do: ``BEYOND`` says by how many, and a test
holds it against the compilers' reports.
"""

from tvm_iree_ext.base.dtypes import FLOATS, item_bytes
from tvm_iree_ext.schedules.gpu.attention.attention_plan import AttentionPlan
from tvm_iree_ext.schedules.gpu.attention.attention_products import Feed, is_multiply_add
from tvm_iree_ext.schedules.gpu.attention.attention_shared import SharedTile

BEYOND = {
    "sm_80": (-45, 30),
    "sm_86": (-24, 56),
    "sm_89": (-24, 56),
    "sm_90": (-45, 30),
    "sm_100": (-5, 30),
    "sm_110": (-33, 46),
    "sm_120": (-8, 62),
    "gfx908": (-65, 118),
    "gfx90a": (-38, 40),
    "gfx942": (-38, 40),
    "gfx950": (-36, 66),
    "gfx1100": (-41, 49),
    "gfx1102": (-37, 49),
    "gfx1201": (-34, 49),
    "gfx1250": (-95, 236),
}
"""Registers of a lane that were reported beyond those foreseen: the fewest and the most, by chip.

Of attentions of :mod:`~tvm_iree_ext.inspection.resource_sweep_cases` with the heuristic's tiles:
14 for sm_110, nine for sm_80 and for each chip of AMD but gfx1102, seven for sm_90, two or three
for the others.
By NVRTC and ``ptxas`` 13.0 and 13.5, and LLVM 22 of TVM 0.27; November 2026.  The fewest are of
heads of 40 and of masks of float32; the most are of doubles, of narrow heads of float32, and on
gfx1250 of few rows.  One spilled, scalar registers: 32 causal heads on 8 on gfx1250.
"""

_OVERHEAD = 48  # for addresses and the like
_MASK_ADDRESSES = 8
# Of a row tile, for exponentials of doubles: ptxas computes polynomials of many at once.
_EXPONENTIALS = {"cuda": 24, "rocm": 0}


def attention_registers(plan: AttentionPlan) -> int:
    """32-bit registers of a lane for what attention multiplies and sums, and the rest."""
    op, first, second = plan.op, plan.first, plan.second
    words = item_bytes(op.compute_dtype) // 4
    scores = plan.score_tiles * first.operand("acc").elements_per_lane
    per_row = words * scores
    per_row += words * plan.column_tiles * second.operand("acc").elements_per_lane
    if plan.product_dtypes[1] != op.compute_dtype:
        per_row += scores * item_bytes(plan.product_dtypes[1]) // 4
    if plan.feed is Feed.SHUFFLE:
        per_row += plan.weight_steps * second.operand("lhs").registers
    if not plan.query_in_shared:
        per_row += plan.depth_steps * first.operand("lhs").registers
    fragments = max(
        mma.operand("rhs").registers * (1 if is_multiply_add(mma) else 4)
        + (mma.operand("lhs").registers if plan.query_in_shared else 0)
        for mma in (first, second)
    )
    if op.compute_dtype == "float64":  # whose fragments are not held meanwhile
        fragments = max(fragments, plan.row_tiles * _EXPONENTIALS[plan.chip.kind])
    others = _OVERHEAD + _mask_registers(plan, scores)
    others += _narrow_registers(plan, "key", plan.key_tile)
    others += _narrow_registers(plan, "value", plan.value_tile)
    return plan.row_tiles * per_row + fragments + others


def _narrow_registers(plan: AttentionPlan, name: str, tile: SharedTile) -> int:
    """Of a lane, for a tile of which no 32 bits lie side by side in memory, beyond its words.

    Each element has a register on its way to shared memory, and one for its address.
    """
    writes, bits = plan.writes(name, tile), 8 * item_bytes(plan.op.types[name].dtype)
    return 0 if writes.run * bits >= 32 else 2 * writes.count - writes.count * bits // 32


def _mask_registers(plan: AttentionPlan, scores: int) -> int:
    """Of a lane, for what is added to the scores of a row tile; a mask of bits is used up."""
    mask = plan.op.types.get("mask")
    if mask is None or mask.dtype not in FLOATS:
        return 0
    return scores * item_bytes(mask.dtype) // 4 + _MASK_ADDRESSES
