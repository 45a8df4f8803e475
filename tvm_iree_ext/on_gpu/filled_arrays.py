"""Operands that are made where they are needed: the same for the same name, shape and type."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_iree_ext.runtime.launch.launcher import numpy_type

_MOST = 8  # of numbers of 8 bits: of products, so that sums stay finite
AsNumbers = Callable[[np.ndarray, str], np.ndarray]


def filled(operand: Mapping[str, Any], as_numbers: AsNumbers) -> np.ndarray:
    """The elements of an operand, those of types that NumPy lacks as integers of their width.

    Args:
        operand: ``name``, ``shape``, ``dtype`` and ``fill``: ``normal`` (integers are of all that 8
            bits hold), ``small`` (integers are from -8 to 7), ``zeros``, ``lowest`` or ``below N``.
        as_numbers: values of the bits of 8-bit floats.
    """
    shape, dtype, fill = list(operand["shape"]), operand["dtype"], operand["fill"]
    rng = np.random.default_rng(list(f"{operand['name']}{shape}".encode()))
    kind = numpy_type(dtype)
    if fill == "zeros":
        return np.zeros(shape, kind)
    if fill == "lowest":
        return np.full(shape, -np.inf if kind.kind == "f" else np.iinfo(kind).min, kind)
    if fill.startswith("below"):
        return rng.integers(0, int(fill.split()[1]), shape).astype(kind)
    if dtype == "bool":
        return (rng.random(shape) < 0.7).astype(kind)
    if dtype == "bfloat16":  # rounded down, which is as random
        wide = rng.standard_normal(shape, np.float32)
        return (wide.view(np.uint32) >> 16).astype(np.uint16)
    if dtype.startswith("float8"):
        words = np.arange(256, dtype=np.uint8)
        values = as_numbers(words, dtype)
        usual = words[np.isfinite(values) & (np.abs(values) <= _MOST)]
        return rng.choice(usual, shape)
    if kind.kind in "iu":
        least = 0 if kind.kind == "u" else -8
        if fill == "small":
            return rng.integers(least, 8, shape).astype(kind)
        return rng.integers(16 * least, 127, shape).astype(kind)
    return rng.standard_normal(shape, np.float32).astype(kind)


def some_rows(array: np.ndarray, step: int) -> np.ndarray:
    """Each so many-th row of an array, or element where it has one dim; all where that is 1."""
    if step == 1:
        return array
    return array.reshape(-1, array.shape[-1])[::step] if array.ndim > 1 else array[::step]
