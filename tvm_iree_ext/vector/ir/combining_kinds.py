"""Combining kinds: how contractions, reductions and outer products fold."""

from collections.abc import Callable

import numpy as np

from tvm_iree_ext.vector.ir.vector_types import FLOATS

_FLOATS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "mul": np.multiply,
    "minnumf": np.fmin,
    "maxnumf": np.fmax,
    "minimumf": np.minimum,
    "maximumf": np.maximum,
}
_INTEGERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "mul": np.multiply,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": np.minimum,
    "maxui": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
KINDS = tuple(dict.fromkeys([*_FLOATS, *_INTEGERS]))
"""All kinds: min and max of floats ignore a NaN (num) or keep it; those of integers say a sign."""

ARITH = {
    "add": ("addf", "addi"),
    "mul": ("mulf", "muli"),
    "and": ("", "andi"),
    "or": ("", "ori"),
    "xor": ("", "xori"),
}
"""The elementwise ops of kinds: for floats, for integers.  The others are ops by their name."""


def kinds_of(dtype: str) -> tuple[str, ...]:
    """The kinds that are defined for an element type."""
    return tuple(_FLOATS if dtype in FLOATS else _INTEGERS)


def elementwise_name(kind: str, dtype: str) -> str:
    """The elementwise op that combines two values: ``arith.addf`` for add of floats."""
    of_float, of_integer = ARITH.get(kind, (kind, kind))
    return f"arith.{of_float if dtype in FLOATS else of_integer}"


def combine(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two arrays of one type, position by position."""
    dtype = a.dtype
    if dtype.kind == "b":  # as one bit, of which the sign bit is that bit
        wide = combine(kind, -a.astype(np.int8), -b.astype(np.int8))
        return (wide & 1).astype(bool)
    if dtype.kind != "i":
        with np.errstate(all="ignore"):
            return np.asarray(_FLOATS[kind](a, b), dtype)
    if kind.endswith("ui"):
        unsigned = np.dtype(f"u{dtype}")
        a, b = a.view(unsigned), b.view(unsigned)
    with np.errstate(over="ignore"):
        return np.asarray(_INTEGERS[kind](a, b)).view(dtype)
