"""Random contractions whose operands have layouts: those of an instruction, in tiles of it.

A GPU multiplies by that instruction, or refuses; a CPU computes the same without.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.random_arrays import finite_array, pick
from tvm_iree_ext.layout.transform import permute
from tvm_iree_ext.ops.base.maps import map_text
from tvm_iree_ext.ops.families.contraction.contraction import Contraction

_BYTES = ("int8", *dtypes.INTEGERS4)
# Of each vendor's, and the types of what they multiply.
_INSTRUCTIONS = (
    ("NV_MMA_SYNC_F32_16x8x16_F16", ("float16",)),
    ("NV_MMA_SYNC_I32_16x8x32_I8", _BYTES),
    ("MFMA_F32_16x16x16_F16", ("float16",)),
    ("MFMA_I32_16x16x32_I8", _BYTES),
    ("WMMAR3_F32_16x16x16_F16", ("float16",)),
    ("WMMAR3_I32_16x16x16_I8", _BYTES),
)
_DIMS = {"lhs": (0, 2), "rhs": (2, 1), "acc": (0, 1)}  # of m, n, k


def random_with_layouts(rng: np.random.Generator) -> tuple[Contraction, dict[str, Any]]:
    """A product of matrices in tiles of an instruction, operands lying either way."""
    from tvm_iree_ext.targets.mma.contraction_layouts import contraction_layouts
    from tvm_iree_ext.targets.mma.mma_table import mma_kind  # TVM's, as who runs a case has it

    name, kinds = pick(rng, _INSTRUCTIONS)
    kind = mma_kind(name)
    subgroups = (pick(rng, (1, 1, 2)), pick(rng, (1, 1, 2)), 1)
    sizes = zip((kind.m, kind.n, kind.k), subgroups, strict=True)
    tile = tuple(size * count * pick(rng, (1, 1, 2)) for size, count in sizes)
    layouts = contraction_layouts(
        kind, "mnk", tile, subgroups, column_major=kind.m == kind.n and bool(rng.random() < 0.3)
    )
    extents = [int(rng.integers(1, 3 * size)) for size in tile]
    order = {one: dims[:: pick(rng, (1, -1))] for one, dims in _DIMS.items()}
    given = {
        one: permute(getattr(layouts, one), (1, 0)) if order[one] != dims else getattr(layouts, one)
        for one, dims in _DIMS.items()
    }
    if rng.random() < 0.3:  # two say the third
        del given[pick(rng, tuple(given))]
    lhs, rhs = (
        TensorType(tuple(extents[dim] for dim in order[side]), pick(rng, kinds))
        for side in ("lhs", "rhs")
    )
    op = ops.contraction(
        lhs,
        rhs,
        indexing_maps=[map_text(3, order[one]) for one in _DIMS],
        layouts=given,
        mma_kind=pick(rng, (name, None)),
        result_dtype="int32" if kinds is _BYTES else "float32",
    )
    operands = {
        side: finite_array(rng, tuple(map(int, one.shape)), one.dtype)
        for side, one in (("lhs", lhs), ("rhs", rhs))
    }
    return op, operands
