"""Comparators over arrays, and elements to be compared: shared by sort and top-k."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.catalog.base.array_regions import numpy_region
from tvm_iree_ext.ops.base.comparators import region_dtype
from tvm_iree_ext.ops.base.regions import Region


def comparator(
    op: str, region: Region, kinds: Sequence[str], operands: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A comparator over arrays, which sees elements in the types in which a kernel does.

    ``operands`` have the region's numbers of a call, by name.
    """
    call = numpy_region(op, region, operands)
    seen = [
        dtypes.numpy_dtype(dtypes.number_dtype(region_dtype(kind)))
        for kind in kinds
        for _ in range(2)
    ]

    def compare(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return call(*(a.astype(kind) for a, kind in zip(arguments, seen, strict=True)))

    return compare


def region_text(region: Mapping[str, Any]) -> str:
    """The expression of an example's region; all of its comparisons are ordered ones."""
    return region["yields"].replace("(ordered)", "").strip()


def random_elements(
    rng: np.random.Generator, shape: Sequence[int], kind: str, narrow: bool
) -> np.ndarray:
    """Elements with ties, extremes, infinities and zeros of both signs, but no NaN.

    ``narrow`` ones can be squared.
    """
    dtype = dtypes.numpy_dtype(kind)
    if kind == "bool":
        return rng.random(shape) < 0.5
    if kind in dtypes.COMPLEX:
        parts = rng.integers(-4, 5, (2, *shape)) / 2
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    few = rng.random() < 0.5
    if kind in (*dtypes.FLOATS, *dtypes.FLOATS8):
        values = rng.integers(-4, 5, shape) / 2 if few else rng.standard_normal(shape) * 8
        if not narrow:
            largest = np.inf if kind not in dtypes.FLOATS8 else dtypes.limits(kind)[1]
            odd = rng.choice([largest, -largest, 0.0, -0.0], shape)
            values = np.where(rng.random(shape) < 0.1, odd, values)
        return values.astype(dtype)
    least, most = map(int, dtypes.limits(kind))
    low, high = (max(-5, least), 6) if few or narrow else (least, most)
    number = dtypes.numpy_dtype(dtypes.number_dtype(kind))
    return rng.integers(low, high, shape, dtype=number, endpoint=True).astype(dtype)
