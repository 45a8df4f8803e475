"""Tables over the lanes of a workgroup, as the shortest expression of their ids that was found.

    a constant
    a sum of digits of the ids, each times a weight          which most layouts give
    an exclusive or of digits, each times a pattern          what xor masks give
    bits of a constant, one for each lane or subgroup        anything else

Nothing is read from memory.  ``lanes`` is a power of two on every GPU; subgroups need not be.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from tvm import tirx

_WORD_BITS = 64  # of the constants that have a bit for each lane
_Combine = Callable[[Any, Any], Any]


def lane_table(values: np.ndarray, subgroup: Any, lane: Any) -> Any:
    """``values[subgroup, lane]``, integers of 32 bits, as an expression."""
    values = np.asarray(values)
    if (values == values.flat[0]).all():
        return _constant(int(values.flat[0]))
    if (values == values[:1]).all():
        return _of_ids(values[0], lane)
    if (values == values[:, :1]).all() and len(values) <= _WORD_BITS:
        return _of_ids(values[:, 0], subgroup)
    found = _over_bits(values, subgroup, lane)
    if found is not None:
        return found
    result = _of_ids(values[-1], lane)
    for number in range(len(values) - 2, -1, -1):
        result = tirx.Select(subgroup == number, _of_ids(values[number], lane), result)
    return result


def lane_condition(chosen: np.ndarray, subgroup: Any, lane: Any) -> Any | None:
    """``chosen[subgroup, lane]`` as a condition; None where all are chosen."""
    chosen = np.asarray(chosen, bool)
    if chosen.all():
        return None
    whole = lane_table(chosen.astype(int), subgroup, lane)
    return whole != 0


def _of_ids(values: np.ndarray, number: Any) -> Any:
    """``values[number]``, for at most 64 lanes or subgroups."""
    if (values == values[0]).all():
        return _constant(int(values[0]))
    found = _over_bits(values[None], None, number)
    return found if found is not None else _bits_of_constants(values, number)


def _constant(value: int) -> Any:
    return tirx.const(value, "int32")


def _over_bits(values: np.ndarray, subgroup: Any, lane: Any) -> Any | None:
    """A sum or an exclusive or of what each bit of the ids contributes."""
    lanes = values.shape[1]
    if len(values) > 1 and lanes & (lanes - 1):
        return None
    flat, first = values.reshape(-1), int(values.flat[0])
    ids = np.arange(len(flat))
    bits = range((len(flat) - 1).bit_length())
    forms: tuple[tuple[list[int], _Combine], ...] = (
        ([int(flat[1 << bit]) - first for bit in bits], lambda a, b: a + b),
        ([int(flat[1 << bit]) ^ first for bit in bits], lambda a, b: a ^ b),
    )
    lane_bits, found = (lanes - 1).bit_length(), []
    for shares, combine in forms:
        total = np.full(len(flat), first)
        for bit, share in zip(bits, shares, strict=True):
            total = np.where(ids >> bit & 1, combine(total, share), total)
        if (total == flat).all():
            terms = [*_digits(shares[:lane_bits], lane), *_digits(shares[lane_bits:], subgroup)]
            found.append((terms, combine))
    if not found:
        return None
    terms, combine = min(found, key=lambda form: len(form[0]))
    return reduce(combine, terms, *([_constant(first)] if first else []))


def _digits(shares: list[int], variable: Any) -> list[Any]:
    """Runs of bits whose shares double, as one digit times the share of the first."""
    terms, bit = [], 0
    while bit < len(shares):
        end = bit + 1
        while end < len(shares) and shares[bit] and shares[end] == 2 * shares[end - 1]:
            end += 1
        if shares[bit]:
            digit = variable // (1 << bit) if bit else variable
            if end < len(shares):
                digit = digit % (1 << (end - bit))
            terms.append(digit * shares[bit] if shares[bit] != 1 else digit)
        bit = end
    return terms


def _bits_of_constants(values: np.ndarray, number: Any) -> Any:
    """Each bit of the value from a constant with a bit for every lane, or subgroup."""
    low = int(values.min())
    rest = values - low
    result: Any = None
    word = "uint32" if len(values) <= 32 else "uint64"
    for bit in range(int(rest.max()).bit_length()):
        mask = sum(1 << int(at) for at in np.flatnonzero(rest >> bit & 1))
        picked = tirx.const(mask, word) >> tirx.Cast(word, number)
        picked = tirx.Cast("int32", picked & tirx.const(1, word))
        term = picked * (1 << bit) if bit else picked
        result = term if result is None else result + term
    return result if low == 0 else result + low
