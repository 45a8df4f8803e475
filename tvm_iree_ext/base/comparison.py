"""The comparison by which every kernel's results are judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.base.tolerance import EXACT, Tolerance


@dataclass(frozen=True)
class OpenOrder:
    """An op leaves open in which order its results have their elements along an axis.

    Elements at one place of all results belong together; ``keys`` are the results by which they
    are put in one order, the most significant last.
    """

    axis: int
    keys: tuple[str, ...]

    def settled(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The results in that order."""
        keys = [results[key] for key in self.keys]
        keys = [key if key.dtype.kind in "iubc" else key.astype(np.float64) for key in keys]
        order = np.lexsort(keys, axis=self.axis)
        return {
            name: np.take_along_axis(array, order, self.axis) for name, array in results.items()
        }


def first_difference(name: str, got: Any, want: np.ndarray, tolerance: Tolerance) -> str:
    """The difference between ``got`` and ``want``, for a message; empty when ``got`` is right.

    An element is right when ``abs(got - want) <= absolute + relative * abs(want)``, or when both
    are NaN or the same infinity.  Finite numbers are never near an infinity, and what the type of
    ``got`` does not hold is one.
    """
    got = np.asarray(got)
    if got.shape != want.shape:
        return f"{name} has shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype.kind == "f" and got.dtype.kind not in "biu":
        with np.errstate(over="ignore"):
            rounded = want.astype(got.dtype).astype(want.dtype)
        want = np.where(np.isinf(rounded), rounded, want)
    wrong = ~_is_right(got, want, tolerance)
    if not wrong.any():
        return ""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    allowed = tolerance.absolute + tolerance.relative * abs(_number(want[index]))
    error = abs(_number(got[index]) - _number(want[index]))
    within = f" within {allowed:.3g}" if np.isfinite(allowed) and allowed > 0 else ""
    if within and np.isfinite(error):
        within += f", off by {error:.3g}"
    at = f"[{', '.join(map(str, index))}]" if index else ""
    text = f"{name}{at} is {_text(got[index])}, expected {_text(want[index])}{within}"
    if got.size > 1:
        text += f"; {int(wrong.sum())} of {got.size} elements are wrong"
    return text


def _is_right(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    integers = got.dtype.kind in "biu" and want.dtype.kind in "biu"
    if integers and tolerance == EXACT:
        return got == want  # a float64 does not hold every int64
    if "c" in (got.dtype.kind, want.dtype.kind):
        got, want = got.astype(np.complex128), want.astype(np.complex128)
        parts = (_same(got.real, want.real), _same(got.imag, want.imag))
        return _near(got, want, tolerance) | (parts[0] & parts[1])
    got, want = got.astype(np.float64), want.astype(np.float64)
    return _near(got, want, tolerance) | _same(got, want)


def _near(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = tolerance.absolute + tolerance.relative * np.abs(want)
        return np.isfinite(got) & np.isfinite(want) & (np.abs(got - want) <= allowed)


def _same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    return (got == want) | (np.isnan(got) & np.isnan(want))


def _number(value: Any) -> Any:
    """A NumPy number as Python's, whose arithmetic does not overflow."""
    kind = value.dtype.kind
    return int(value) if kind in "biu" else complex(value) if kind == "c" else float(value)


def _text(value: Any) -> str:
    """Enough digits to tell two float32 apart; all of them for integers."""
    if value.dtype.kind in "biu":
        return str(value)
    return f"{_number(value):.9g}"
