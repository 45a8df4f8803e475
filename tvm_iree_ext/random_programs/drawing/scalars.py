"""The ends of element types."""

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS, numpy_dtype


def least(dtype: str) -> float | int:
    """Lower bound of all elements."""
    if dtype in FLOATS:
        return float("-inf")
    return 0 if dtype == "bool" else int(np.iinfo(numpy_dtype(dtype)).min)


def largest(dtype: str) -> float | int:
    """Upper bound of all elements."""
    if dtype in FLOATS:
        return float("inf")
    return 1 if dtype == "bool" else int(np.iinfo(numpy_dtype(dtype)).max)
