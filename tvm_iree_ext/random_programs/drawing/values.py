"""Arrays with a bound of what rounding may have done to each element.

Floats are kept as float64, integers and bools exactly as they are.  A bound of 0 says that a
program must give this very element: its operations round to nothing, in any order.  What hangs on
less than the bound, as which of two elements is larger, raises :class:`Unsuited`: such programs
are not made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS, numpy_dtype
from tvm_iree_ext.base.tolerance import SLACK, digits, rounding
from tvm_iree_ext.random_programs.drawing.web import Type

GREATEST = {"float16": 512.0, "bfloat16": 1e4, "float32": 1e4, "float64": 1e4}
"""The largest element of a program, so that none is infinite in any order of addition."""

_LOOSEST = 0.05  # bound beside the largest element, beyond which a result shows little


class Unsuited(Exception):
    """An operation whose result nobody could say is right or wrong."""


@dataclass(frozen=True)
class BoundedArray:
    """An array and the bound of its error, element by element."""

    dtype: str
    data: np.ndarray
    error: np.ndarray

    @property
    def type(self) -> Type:
        """Element type and shape."""
        return Type(self.dtype, self.data.shape)

    @property
    def is_float(self) -> bool:
        """Whether it is rounded."""
        return self.dtype in FLOATS


def exactly(array: np.ndarray, dtype: str) -> BoundedArray:
    """An array that is given."""
    data = array.astype("float64" if dtype in FLOATS else numpy_dtype(dtype))
    return BoundedArray(dtype, data, np.zeros(data.shape))


def moved(value: BoundedArray, move: Callable[[np.ndarray], np.ndarray]) -> BoundedArray:
    """Elements moved, as by a transpose."""
    return BoundedArray(value.dtype, move(value.data), move(value.error))


def joined(values: Sequence[BoundedArray], join: Callable[..., np.ndarray]) -> BoundedArray:
    """Elements of several values put together, as by a concatenation."""
    data = join(*(value.data for value in values))
    return BoundedArray(values[0].dtype, data, join(*(value.error for value in values)))


def rounded(
    dtype: str, data: np.ndarray, error: np.ndarray, roundings: float = 1.0
) -> BoundedArray:
    """A result in ``dtype`` of operands that gave it this error; integers wrap.

    One rounding of an exact result that the type holds is none.
    """
    if dtype not in FLOATS:
        return BoundedArray(dtype, data.astype(numpy_dtype(dtype)), np.zeros(data.shape))
    data = np.asarray(data, "float64")
    relative, absolute = rounding(dtype)
    more = error + roundings * relative * (np.abs(data) + error) + absolute
    exact = (error == 0) & _fits(dtype, data) if roundings <= 1 else np.zeros(data.shape, bool)
    return checked(BoundedArray(dtype, data, np.where(exact, 0.0, more)))


def _fits(dtype: str, data: np.ndarray) -> np.ndarray:
    if dtype == "float64":  # of which the results here are themselves rounded
        return (data * 2**16 == np.round(data * 2**16)) & (np.abs(data) < 2**20)
    with np.errstate(over="ignore"):
        return data.astype(numpy_dtype(dtype)).astype("float64") == data


def summed(
    dtype: str, data: np.ndarray, error: np.ndarray, sizes: np.ndarray, terms: int, step: int
) -> BoundedArray:
    """A sum of ``terms`` in any order, of which ``sizes`` is the sum of absolute values.

    It is exact where the terms are multiples of 1/``step``, and the type holds all multiples up to
    the largest; a step of 0 says that they are of none.
    """
    if dtype not in FLOATS:
        return rounded(dtype, data, error)
    whole = step and data.size and np.max(sizes) * step <= 2 ** digits(dtype)
    if whole and not error.any():
        return checked(BoundedArray(dtype, np.asarray(data, "float64"), np.zeros(np.shape(data))))
    return rounded(dtype, data, error + terms * rounding(dtype)[0] * sizes, 1.5)


def steps_of(*arrays: np.ndarray) -> int:
    """The steps of 1 in which these numbers lie, at most 256; 0 where they lie in none."""
    for step in (1, 4, 16, 64, 256):
        if all(np.all(array * step == np.round(array * step)) for array in arrays):
            return step
    return 0


def checked(value: BoundedArray) -> BoundedArray:
    """The value, if it is in range and its bound is small beside it."""
    if value.is_float and value.data.size:
        largest = np.max(np.abs(value.data))
        if not largest <= GREATEST[value.dtype]:
            raise Unsuited("too large")
        if not np.max(value.error) <= _LOOSEST * (largest + 0.1):
            raise Unsuited("too little is known")
    return value


def apart(distance: np.ndarray, error: np.ndarray) -> None:
    """Ask that what is decided by a distance is not decided by an error."""
    if np.any((error > 0) & (np.abs(distance) <= 2 * SLACK * error)):
        raise Unsuited("hangs on an error")
