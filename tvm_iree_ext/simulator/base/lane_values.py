"""Values of all lanes at once, and poison of memory that nobody wrote.

A value is a NumPy scalar where all lanes have the same, an array ``[lanes]`` where they differ, or
``[elements, lanes]`` where each lane has a vector.  What is in lanes that take no part is garbage.

Reading memory that nobody wrote gives poison: a :class:`Poison` stands for the value then, says
which lanes of it are bad, and spreads through arithmetic.  Only what depends on a bad lane is bad,
and it does no harm until it decides something: a branch, an address, a result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

Value: TypeAlias = Any
"""A Python number, a NumPy scalar or array, or a Poison."""

_SPECIAL = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
}


def element_type(dtype: str) -> np.dtype:
    """NumPy's type of one element of a type of TVM's: ``float32x4`` -> ``float32``."""
    name = dtype
    while name not in _SPECIAL and "x" in name and name.rpartition("x")[2].isdigit():
        name = name.rpartition("x")[0]
    return _SPECIAL[name] if name in _SPECIAL else np.dtype(name)


class Origin(NamedTuple):
    """Source of poison: an element that nobody wrote, or a lane that took no part."""

    what: str
    element: int
    statement: int


class Poison(np.lib.mixins.NDArrayOperatorsMixin):
    """A value some lanes of which are bad; ``bad`` broadcasts to it."""

    __slots__ = ("bad", "origin", "value")

    def __init__(self, value: Any, bad: Any, origin: Origin) -> None:
        self.value, self.bad, self.origin = np.asarray(value), np.asarray(bad), origin

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return apply(lambda *values: ufunc(*values, **kwargs), *inputs)

    def astype(self, dtype: Any) -> "Poison":
        """The value in another type."""
        return Poison(self.value.astype(dtype), self.bad, self.origin)

    def __getitem__(self, at: Any) -> Value:
        bad = np.broadcast_to(self.bad, self.value.shape)[at]
        return poisoned(self.value[at], bad, self.origin)


def poisoned(value: Any, bad: Any, origin: Origin | None) -> Value:
    """``value``, as poison where any of it is bad."""
    return Poison(value, bad, origin) if origin is not None and np.any(bad) else value


def parts(value: Value) -> tuple[Any, Any, Origin | None]:
    """The plain value, which of it is bad, and why; False and None where nothing is."""
    if type(value) is Poison:
        return value.value, value.bad, value.origin
    return value, False, None


def plain(value: Value) -> Any:
    """The value without its poison."""
    return value.value if type(value) is Poison else value


def apply(function: Callable[..., Any], *values: Value) -> Value:
    """``function`` of values, lane by lane: bad where any of them is."""
    bad: Any = False
    origin = None
    numbers = []
    for value in values:
        if type(value) is Poison:
            numbers.append(value.value)
            bad = bad | value.bad
            origin = origin or value.origin
        else:
            numbers.append(value)
    result = function(*numbers)
    return result if origin is None else Poison(result, bad, origin)


def choose(condition: Value, yes: Value, no: Value) -> Value:
    """``yes`` where the condition holds, lane by lane; what is not chosen does not count."""
    if type(condition) is Poison or type(yes) is Poison or type(no) is Poison:
        (c, bad_c, why), (y, bad_y, why_y), (n, bad_n, why_n) = map(parts, (condition, yes, no))
        bad = bad_c | np.where(c, bad_y, bad_n)
        return poisoned(np.where(c, y, n), bad, why or why_y or why_n)
    return np.where(condition, yes, no)


def over_lanes(value: Value, lanes: int) -> Value:
    """The value with its last axis spelt out."""
    if type(value) is Poison:
        full = over_lanes(value.value, lanes)
        return Poison(full, np.broadcast_to(value.bad, full.shape), value.origin)
    array = np.asarray(value)
    shape = (*array.shape[:-1], lanes) if array.ndim else (lanes,)
    return array if array.shape == shape else np.broadcast_to(array, shape)


def stacked(values: list[Value], lanes: int) -> Value:
    """Values ``[lanes]`` as one ``[elements, lanes]``."""
    if any(type(value) is Poison for value in values):
        split = [parts(over_lanes(value, lanes)) for value in values]
        bad = np.stack([np.broadcast_to(bad, (lanes,)) for _, bad, _ in split])
        origin = next(origin for _, _, origin in split if origin)
        return Poison(np.stack([value for value, _, _ in split]), bad, origin)
    out = np.empty((len(values), lanes), np.result_type(values[0]))
    for row, value in zip(out, values, strict=True):
        row[:] = value
    return out


def rows(value: Value, count: int) -> list[Value]:
    """The elements of a vector: ``count`` values ``[lanes]``."""
    if type(value) is Poison:
        full = np.broadcast_to(value.value, (count, value.value.shape[-1]))
        bad = np.broadcast_to(value.bad, full.shape)
        return [poisoned(row, b, value.origin) for row, b in zip(full, bad, strict=True)]
    array = np.asarray(value)
    if array.ndim < 2:
        return [value] * count
    return list(array) if array.shape[0] == count else [array[0]] * count


# Casts to 8-bit floats saturate, as the conversions of every GPU here do; NumPy's do not.
_LARGEST = {
    dtype: float(ml_dtypes.finfo(dtype).max)
    for name, dtype in _SPECIAL.items()
    if name.startswith("float8")
}


def cast(value: Value, dtype: np.dtype) -> Value:
    """The value in another type: rounded to nearest even, to integers towards zero."""
    if type(value) is Poison:
        return Poison(cast(value.value, dtype), value.bad, value.origin)
    largest = _LARGEST.get(dtype)
    array = np.asarray(value)
    if largest is not None:
        wide = array.astype(np.float32)
        return np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest)).astype(dtype)
    if dtype.kind in "iu" and array.dtype.kind not in "biu":
        return np.trunc(array.astype(np.float64)).astype(dtype)
    if array.dtype in _SPECIAL.values() and dtype.kind in "biu":
        array = array.astype(np.float32)
    return array.astype(dtype)


def bits(value: Value, dtype: np.dtype, lanes: int = 1) -> Value:
    """The same bits as another type of the same size; vectors may regroup their elements."""
    if type(value) is Poison:
        result = bits(value.value, dtype, lanes)
        bad: Any = np.broadcast_to(value.bad, value.value.shape)
        if result.ndim != bad.ndim or result.shape != bad.shape:
            bad = bad.any(axis=0) if bad.ndim > 1 else bad
        return Poison(result, bad, value.origin)
    array = np.asarray(value)
    if array.dtype.itemsize == dtype.itemsize and (array.ndim < 2 or lanes == array.shape[0]):
        return array.view(dtype)
    if array.ndim == 0:  # all elements of a vector are the same
        array = np.full(max(1, dtype.itemsize * lanes // array.itemsize), array).reshape(-1, 1)
    elif array.ndim < 2:
        array = array.reshape(1, -1)
    regrouped = np.ascontiguousarray(array.T).view(dtype).T  # [elements, lanes]
    return regrouped if lanes > 1 else regrouped[0]
