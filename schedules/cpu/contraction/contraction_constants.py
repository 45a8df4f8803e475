"""How a factor that never changes lies best: as panels of columns, each a run of memory.

    factor[k, n]  ->  panels[o, k, w]       n = o * width + w

A kernel reads panels where they are (:func:`.contraction_heuristic.reads_in_place`): it packs no
part of the factor, and each line that it fetches is used whole.  Measured on Zen 4, one thread,
float32, 128 x 768 x 768: 1.33 ms, 1.63 ms of a matrix of rows, 1.55 ms of its transpose.
"""

from tvm.target import Target

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.cpu.contraction.contraction_plan import ContractionPlan
from tvm_iree_ext.targets.cpu import cpu_features

# Vectors of columns of a panel, the best first: whole register tiles.
_VECTORS = {32: (3, 4, 2), 16: (2, 3)}

# Rows that are packed for each panel at less than what it costs to pack the panels.
_ROWS_PACKED_AGAIN = 64


def constant_panels(op: Contraction, factor: str, target: Target) -> int | None:
    """The columns of a panel of a constant factor, ``"lhs"`` or ``"rhs"``.

    None where the kernel would not read it faster: a factor that is read as scalars, is converted,
    is read once for a single row, or has columns that make no whole panels; or beside many rows
    that are packed, which would be for each panel: 256 x 784, transposed, by 256 x 512 took 1.98 ms
    with panels and 1.82 without on Zen 4.
    """
    plan, features = ContractionPlan(op), cpu_features(target)
    other = "lhs" if factor == "rhs" else "rhs"
    result = op.maps["result"].axes
    if op.factor_regions or plan.b != factor or not result or len(result[-1]) != 1:
        return None
    rows = plan.extent(plan.m)
    if op.types[factor].dtype != plan.product_dtype or rows == 1:
        return None
    if not plan.lies_in_rows and (rows is None or rows > _ROWS_PACKED_AGAIN):
        return None
    (n,) = result[-1]
    columns = op.extents[n]
    if not isinstance(columns, int) or n not in op.maps[factor].dims or n in op.maps[other].dims:
        return None
    lanes = features.lanes(item_bytes(plan.product_dtype) * 8)
    for vectors in _VECTORS[features.vector_registers]:
        width = vectors * lanes
        if columns % width == 0:
            is_panel = columns == width and plan.lies_along(factor, [plan.n])
            return None if is_panel else width
    return None
