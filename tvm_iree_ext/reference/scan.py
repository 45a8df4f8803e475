"""NumPy reference of ``iree_linalg_ext.scan``: one position after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


def scan(
    input: Array,
    accumulator: Array,
    *,
    dimension: int,
    inclusive: bool,
    region: Callable[[Any, Any], Any],
    compute_dtype: np.dtype | None = None,
) -> tuple[Array, Array]:
    """The output and the accumulator, in input's dtype.

    The region is computed in ``compute_dtype`` (by default input's), and rounded to input's dtype.
    """
    wide = compute_dtype or input.dtype
    x = np.moveaxis(input, dimension, 0)
    output = np.empty_like(x)
    if len(x):
        output[0] = x[0] if inclusive else accumulator
    with np.errstate(all="ignore"):
        for i in range(1, len(x)):
            element = x[i] if inclusive else x[i - 1]
            combined = region(np.asarray(output[i - 1], wide), np.asarray(element, wide))
            output[i] = np.asarray(combined).astype(input.dtype)
    last = output[-1] if len(x) > 1 else accumulator
    return np.ascontiguousarray(np.moveaxis(output, 0, dimension)), np.array(last)
