"""Random products of blocks as the MX formats have them: quantised along k, which is contiguous.

Where a chip's instructions take scales, these are what they multiply.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.random_arrays import pick
from tvm_iree_ext.catalog.base.random_epilogues import random_epilogue
from tvm_iree_ext.ops.base.maps import map_text
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.contraction.factors import SIDES, scales_of

_FORMATS = reference.block_scaled.FORMATS
_MX = tuple(one for one, form in _FORMATS.items() if form[2] == 32)
_ROWS = (1, 2, 5, 15, 16, 17, 31, 33, 48, 65, 130)
_BLOCKS = (1, 2, 3, 4, 5, 8, 9)
_MOST_PRODUCTS = 1_500_000

_B, _M, _N, _KS, _KB = range(5)
_DIMS = {"lhs": (_B, _M, _KS, _KB), "rhs": (_B, _N, _KS, _KB)}


def random_of_blocks(
    rng: np.random.Generator, formats: Sequence[str] = _MX
) -> tuple[Contraction, dict[str, Any]]:
    """One operand or both with scales, a batch or none, either order of lhs and rhs.

    ``formats`` have blocks of one size.
    """
    block = _FORMATS[formats[0]][2]
    while True:
        extents = [pick(rng, (1, 1, 2, 3)), pick(rng, _ROWS), pick(rng, _ROWS), pick(rng, _BLOCKS)]
        if np.prod(extents) * block <= _MOST_PRODUCTS:
            break
    extents.append(block)
    result = (_B, *((_M, _N) if rng.random() < 0.8 else (_N, _M)))
    scaled = pick(rng, (SIDES, SIDES, SIDES[:1], SIDES[1:]))
    operands: dict[str, Any] = {}
    for side in SIDES:
        shape = [extents[dim] for dim in _DIMS[side]]
        numbers = rng.standard_normal(shape) * np.exp2(rng.integers(-8, 2, (*shape[:-1], 1)))
        lines = numbers.reshape(*shape[:-2], -1)
        elements, scales, _ = reference.block_scaled.quantized(lines, pick(rng, formats))
        operands[side] = elements
        if side in scaled:
            operands[scales_of(side)] = scales
    names = [*SIDES, *(scales_of(side) for side in scaled)]
    operands = {name: operands[name] for name in names}
    dims = [_DIMS[name.partition("_")[0]][: operands[name].ndim] for name in names]
    epilogue, count = random_epilogue(rng, whole=False)
    others = [tuple(dim for dim in result if rng.random() < 0.7) for _ in range(count)]
    kinds = [
        TensorType(tuple(extents[dim] for dim in own), pick(rng, dtypes.FLOATS[:3]))
        for own in others
    ]
    op = ops.contraction(
        operands["lhs"],
        operands["rhs"],
        kinds,
        indexing_maps=[map_text(5, own) for own in (*dims, *others, result)],
        epilogue=epilogue,
        result_dtype=pick(rng, dtypes.FLOATS[:3]),
        lhs_scales=operands.get("lhs_scales"),
        rhs_scales=operands.get("rhs_scales"),
    )
    for number, kind in enumerate(kinds):
        drawn = rng.standard_normal(tuple(map(int, kind.shape)))
        operands[f"operand{number}"] = np.asarray(drawn).astype(dtypes.numpy_dtype(kind.dtype))
    return op, operands
