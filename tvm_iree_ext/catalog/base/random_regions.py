"""Regions in all forms in which an op takes them, and extents of 0, for random cases."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes, scalar_text
from tvm_iree_ext.catalog.base.random_arrays import pick
from tvm_iree_ext.ops.base.regions import NAMED, TIR_FUNCTIONS, RegionLike, number_beside

_TESTS = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), ("choice > 0", (-3, 0, 1, 77))),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), ("choice > 0", (0, 0, 1, 200))),
    **dict.fromkeys(("float16", "bfloat16", "float32", "float64"), ("choice > 0", (-0.5, 0.5))),
    "bool": ("choice", (False, True)),
}
"""By the type of a number of a call: a condition on it, and numbers for which it holds and not."""


def region_form(
    rng: np.random.Generator, text: str, other: str | None = None
) -> tuple[RegionLike, dict[str, Any]]:
    """A region as text or as a function, and the numbers of a call that it takes, by name.

    With ``other`` the region now and then is this one or that, as a number of the call says.
    """
    numbers: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    if other is not None and rng.random() < 0.2:
        kinds["choice"] = pick(rng, tuple(_TESTS))
        condition, values = _TESTS[kinds["choice"]]
        numbers["choice"] = pick(rng, values)
        ways = (NAMED.get(one, one) for one in (text, other))
        text = f"select({condition}, {', '.join(ways)})"
    return as_given(rng, text, kinds), numbers


def as_given(rng: np.random.Generator, text: str, kinds: Mapping[str, str]) -> RegionLike:
    """A text, or now and then a function, of elements and of numbers of a call of these types."""
    region: str | Callable[..., Any] = text
    if rng.random() < 0.3:
        region = text_function(text, tuple(kinds))
    return ops.region(region, **kinds) if kinds else region


def text_function(text: str, numbers: Sequence[str] = ()) -> Callable[..., Any]:
    """The function over TIR expressions that a text says; its last arguments are numbers."""

    def region(*arguments: Any) -> Any:
        own = len(arguments) - len(numbers)
        names = {f"arg{at}": argument for at, argument in enumerate(arguments[:own])}
        names |= dict(zip(numbers, arguments[own:], strict=True))
        whole = NAMED.get(text, text)
        return scalar_text.evaluate(whole, names, TIR_FUNCTIONS, beside=number_beside)

    return region


def weighted(rng: np.random.Generator, text: str, dtype: str) -> tuple[RegionLike, dict[str, Any]]:
    """A region that names a ``weight``, a number of a call, which it sees as elements of ``dtype``.

    Its numbers are exact in each type.
    """
    is_whole = dtype in (*dtypes.INTEGERS, *dtypes.INTEGERS4)
    kind = dtypes.number_dtype(dtype)
    if not is_whole:
        is_wide = dtype in ("float64", "complex128")
        kinds = ("float64",) if is_wide else ("float16", "bfloat16", "float32")
        kind = pick(rng, (*kinds, dtype) if dtype in dtypes.COMPLEX else kinds)
    values: tuple[complex, ...] = (0, 1, 3) if is_whole else (0.5, -0.375, 0.0)
    if kind in dtypes.COMPLEX:
        values = (0.5, 0.5j, -0.375 + 0.25j)
    numbers = {"weight": pick(rng, values)}
    return as_given(rng, text, {"weight": kind}), numbers


def swapped(text: str) -> str:
    """A comparator's text with the elements that stand left and right in each other's place."""
    text = NAMED.get(text, text)
    for even in (0, 2):
        text = text.replace(f"arg{even}", "left")
        text = text.replace(f"arg{even + 1}", f"arg{even}").replace("left", f"arg{even + 1}")
    return text


def sometimes_empty(rng: np.random.Generator, sizes: list[int]) -> list[int]:
    """The sizes, of which one is now and then 0."""
    if sizes and rng.random() < 0.06:
        sizes = [*sizes]
        sizes[int(rng.integers(len(sizes)))] = 0
    return sizes
