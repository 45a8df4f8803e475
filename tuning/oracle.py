"""What the results of a trial must be: by the op's reference, or, where it would take hours, NumPy.

The reference of sort compares every pair of a line: a line of a million elements would never end.
"""

import numpy as np

from tvm_iree_ext.catalog.entry import Values
from tvm_iree_ext.dtypes import FLOATS
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.sort import Sort
from tvm_iree_ext.registry import ENTRIES

LONG = 512
"""Elements of a line from which on it is NumPy that sorts it."""


def wanted(op: Op, operands: Values) -> dict[str, np.ndarray]:
    """The results by name, as the op's reference gives them."""
    if isinstance(op, Sort) and (found := _sorted(op, operands)) is not None:
        return found
    return ENTRIES[op.name].reference(op, operands)


def _sorted(op: Sort, operands: Values) -> dict[str, np.ndarray] | None:
    """A long sort by a plain comparison, whose ties keep their order; None for any other."""
    names = [operand.name for operand in op.signature.arguments]
    if op.order is None or operands[names[0]].shape[op.dimension] < LONG:
        return None
    key, dtype = operands[names[op.order.operand]], op.dtypes[op.order.operand]
    if dtype in ("int64", "uint64"):
        return None  # to be negated they would need one bit more
    wide = key.astype("float64" if dtype in FLOATS else "int64")
    if np.isnan(wide).any():
        return None
    places = np.argsort(-wide if op.order.descending else wide, op.dimension, kind="stable")
    results = (operand.name for operand in op.signature.results)
    return {
        result: np.take_along_axis(operands[name], places, op.dimension)
        for result, name in zip(results, names, strict=True)
    }
