"""Results beside what a suite expects, and the one rule for how far they may be."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.tolerance import EXACT, Tolerance, rounding
from tvm_iree_ext.conformance.outcomes import RIGHT, Verdict

_ROUNDINGS = {"float64": 64.0, "float32": 64.0, "float16": 4.0, "bfloat16": 4.0}
_PARTS = {"complex64": "float32", "complex128": "float64"}


def tolerance_of(want: np.ndarray) -> Tolerance:
    """How far a result may be from a framework's own of the same type; integers: not at all.

    So many roundings of its type as :data:`_ROUNDINGS` has, of the largest element of the array:
    frameworks add in other orders, and where terms cancel the error is theirs.  Those of 16 bits
    compute in float32 and round at each op; 8-bit floats may round to the neighbour.
    """
    dtype = _PARTS.get(str(want.dtype), str(want.dtype))
    if want.dtype.kind in "biu" or dtype.startswith(("int", "uint")):
        return EXACT
    if dtype not in _ROUNDINGS:  # the narrow floats
        return Tolerance(0.0, 0.25 if dtype.endswith(("e5m2", "e5m2fnuz")) else 0.125)
    relative = _ROUNDINGS[dtype] * rounding(dtype)[0]
    magnitudes = np.abs(want.astype(np.complex128 if want.dtype.kind == "c" else np.float64))
    finite = magnitudes[np.isfinite(magnitudes)]
    return Tolerance(relative * float(finite.max(initial=0.0)), 0.0)


def judged(
    results: Sequence[Any],
    wanted: Sequence[Any],
    tolerance: Tolerance | None = None,
    note: str = "",
) -> Verdict:
    """Right, or what is wrong first: number, type, shape and elements of the results.

    Args:
        results: arrays, of ours.
        wanted: arrays, of the suite; of types of NumPy and ``ml_dtypes``.
        tolerance: of floats, where the suite has its own: the larger of it and
            :func:`tolerance_of`, since suites have one for all types.
        note: what helped it, where it is right.
    """
    if len(results) != len(wanted):
        return Verdict("wrong", f"{len(results)} results, expected {len(wanted)}")
    for place, (result, want) in enumerate(zip(results, wanted, strict=True)):
        got, want = np.asarray(result), np.asarray(want)
        name = f"result {place}"
        if got.dtype != want.dtype:
            if (
                got.dtype.kind not in "iu"
                or got.itemsize != want.itemsize
                or want.dtype.kind in "iuc"
            ):
                return Verdict("wrong", f"{name} is of {got.dtype}, expected {want.dtype}")
            got = got.view(want.dtype)  # bits of a narrow float
        allowed = tolerance_of(want)
        if tolerance is not None and allowed != EXACT:
            allowed = Tolerance(
                max(allowed.absolute, tolerance.absolute), max(allowed.relative, tolerance.relative)
            )
        if said := first_difference(name, got, want, allowed):
            return Verdict("wrong", said, error=largest_difference(got, want))
    return Verdict("right", note) if note else RIGHT


def largest_difference(got: np.ndarray, want: np.ndarray) -> float:
    """Of elements; infinite where one is no number, or shapes differ."""
    if got.shape != want.shape:
        return float("inf")
    kind = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    got, want = got.astype(kind), want.astype(kind)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.abs(got - want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    differences = np.where(same, 0.0, differences)
    return float(np.nan_to_num(differences, nan=np.inf, posinf=np.inf).max(initial=0.0))
