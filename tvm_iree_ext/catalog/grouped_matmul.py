"""Grouped products: reference, tolerance, random cases."""

from typing import Any

import numpy as np

from tvm_iree_ext import ops, reference
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.catalog.base.entry import OpEntry, Tolerance, Values, no_examples
from tvm_iree_ext.catalog.base.random_arrays import finite_array, pick
from tvm_iree_ext.catalog.base.random_epilogues import random_epilogue
from tvm_iree_ext.catalog.base.random_regions import sometimes_empty
from tvm_iree_ext.catalog.contraction import plain, sums_tolerance
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.grouped_matmul.grouped_matmul import GroupedMatmul, K

Generator = np.random.Generator

_EXTENTS = (1, 2, 5, 13, 16, 17, 32, 33, 64, 65)


def run_reference(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The result by :mod:`tvm_iree_ext.reference`, in float64; integers as they are stored."""
    assert isinstance(op, GroupedMatmul)
    full = op.full
    result = reference.grouped_matmul(
        plain(operands["lhs"]),
        plain(operands["rhs"]),
        operands["offsets"],
        [operands[name] for name in full.others],
        transpose_rhs=full.maps["rhs"].dims[-1] == K,
        epilogue=numpy_region(op.name, full.epilogue) if full.epilogue is not None else None,
    )
    kind = op.types["result"].dtype
    return {"result": result if kind in dtypes.FLOATS else result.astype(kind)}


def tolerance(op: Op, operands: Values, want: Values) -> dict[str, Tolerance]:
    """That of the contraction."""
    assert isinstance(op, GroupedMatmul)
    return {"result": sums_tolerance(op.full, operands)}


def random_case(rng: Generator) -> tuple[GroupedMatmul, dict[str, Any]]:
    """Groups of any size, empty ones too, and rows of none; types, epilogues, symbols, extents."""
    sizes = [pick(rng, (1, 2, 3, 5, 8)), *(pick(rng, _EXTENTS) for _ in range(3))]
    groups, rows, n, k = sometimes_empty(rng, sizes)
    whole = rng.random() < 0.15
    floats = ("float32", "float32", *dtypes.FLOATS)
    small = ("int8", "int8", *dtypes.INTEGERS4)
    kinds = [pick(rng, small), pick(rng, small)]
    if not whole:
        kinds = [pick(rng, (*floats, *dtypes.FLOATS8))] * 2
    if not whole and rng.random() < 0.2:
        kinds[1] = pick(rng, (*floats, *small))
    named = [
        name if rng.random() < 0.2 else extent
        for name, extent in (("groups", groups), ("rows", rows), ("n", n), ("k", k))
    ]
    transpose = bool(rng.random() < 0.5)
    epilogue, count = random_epilogue(rng, whole=whole)
    kind = "int32" if whole else pick(rng, floats)
    shape = pick(rng, ((2,), (1, 2), (0, -1, 2), (0, 1, 2)))
    given = {"groups": groups, "rows": rows, "n": n, "k": k}
    op = ops.grouped_matmul(
        TensorType((named[1], named[3]), kinds[0]),
        TensorType((named[0], *((named[2], named[3]) if transpose else named[3:1:-1])), kinds[1]),
        TensorType((named[0],), pick(rng, ("int32", "int32", "int64"))),
        [TensorType(tuple(named[axis] if axis >= 0 else 1 for axis in shape), kind)] * count,
        transpose_rhs=transpose,
        epilogue=epilogue,
        result_dtype=None if whole or rng.random() < 0.7 else pick(rng, dtypes.FLOATS),
    )
    cuts = np.sort(rng.integers(0, rows, groups, endpoint=True))
    if groups and rng.random() < 0.7:
        cuts[-1] = rows
    operands: dict[str, Any] = {
        name: finite_array(rng, tuple(given.get(e, e) for e in one.shape), one.dtype)  # type: ignore[arg-type]
        for name, one in op.types.items()
        if name not in ("result", "offsets")
    }
    offsets, limits = cuts.astype(op.offsets.dtype), np.iinfo(op.offsets.dtype)
    if rng.random() < 0.3:  # as good as 0 and as the number of rows
        offsets[(cuts == 0) & (offsets.cumsum() == 0)] = pick(rng, (limits.min, -1))
        offsets[cuts == rows] = pick(rng, (limits.max, rows + 1))
    operands["offsets"] = offsets
    return op, operands


GROUPED_MATMUL = OpEntry(
    name="tvm_iree_ext.grouped_matmul",
    summary="groups of rows times a matrix for each group, with a fused epilogue",
    make=ops.grouped_matmul,
    reference=run_reference,
    tolerance=tolerance,
    random_case=random_case,
    run_example=no_examples,
)
