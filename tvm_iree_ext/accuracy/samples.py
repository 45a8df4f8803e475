"""Operands that functions are measured with: bit patterns, usual numbers, and special ones."""

import itertools

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype

_SPECIAL = (
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5),
    *(np.pi / 2, -np.pi, 88.7, -87.5, -104.0, 1e6, 2.0**20, 1e22, -1e22),
)
_PATTERN_BITS = 16
"""Types of as many bits are measured with all of their numbers."""


def is_exhaustive(dtype: str, operands: int) -> bool:
    """Whether :func:`samples` are all that a function can be called with."""
    return operands == 1 and numpy_dtype(dtype).itemsize * 8 == _PATTERN_BITS


def special_numbers(dtype: str) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the format and some others, of a type."""
    exact = numpy_dtype(dtype)
    with np.errstate(over="ignore"):
        special = np.array(_SPECIAL).astype(exact)
    word = np.dtype(f"u{exact.itemsize}")
    # The least subnormal, the largest one, and the least normal; and the largest, of both signs.
    mantissa = int(ml_dtypes.finfo(exact).nmant)
    infinity = int(np.array(np.inf, exact).view(word))
    ends = np.array([1, (1 << mantissa) - 1, 1 << mantissa, infinity - 1], word)
    sign = np.array(1 << (exact.itemsize * 8 - 1), word)
    return np.concatenate([special, ends.view(exact), (ends | sign).view(exact)])


def samples(dtype: str, operands: int, count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Arrays of operands of a type, of one length.

    Args:
        dtype: the canonical name of a float type.
        operands: how many arrays.
        count: their length but for special numbers, or pairs of them, which are added; types of
            16 bits with one operand have all their patterns instead.
        seed: of the random numbers.
    """
    if is_exhaustive(dtype, operands):
        return (np.arange(1 << _PATTERN_BITS, dtype=np.uint16).view(numpy_dtype(dtype)),)
    rng = np.random.default_rng(seed)
    special = list(itertools.product(special_numbers(dtype), repeat=operands))
    ends = np.array(special, numpy_dtype(dtype)).T
    columns = [rng.permutation(_random(dtype, count, rng)) for _ in range(operands)]
    return tuple(np.concatenate(both) for both in zip(columns, ends, strict=True))


def _random(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of all kinds."""
    exact = numpy_dtype(dtype)
    reach = 740.0 if dtype == "float64" else 104.0 if dtype != "float16" else 17.0
    part = -(-count // 6)
    signs = rng.choice([-1.0, 1.0], part)
    bits = rng.integers(0, 1 << (exact.itemsize * 8), 2 * part, dtype=f"u{exact.itemsize}")
    kinds = [
        rng.uniform(-10, 10, part),
        rng.uniform(-1, 1, part),
        rng.uniform(-reach, reach, part),  # where exponentials end
        signs * (1 + rng.choice([-1.0, 1.0], part) * 2.0 ** rng.uniform(-50, -1, part)),
    ]
    numbers = np.concatenate(kinds).astype(exact)
    return np.concatenate([bits.view(exact), numbers])[:count]
