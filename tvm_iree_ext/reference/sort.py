"""Reference of ``iree_linalg_ext.sort``: insertion, step by step, for all lines at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def sort(
    operands: Sequence[np.ndarray], *, dimension: int, region: Callable[..., Any]
) -> tuple[np.ndarray, ...]:
    """The operands permuted together along ``dimension``; ties keep their order.

    ``region(left_0, right_0, left_1, right_1, ...)`` says whether a pair is in order.
    """
    lines = [np.moveaxis(operand, dimension, 0).copy() for operand in operands]
    for last in range(1, len(lines[0])):
        for right in range(last, 0, -1):
            left = right - 1
            here = [line[side] for line in lines for side in (left, right)]
            there = [line[side] for line in lines for side in (right, left)]
            swap = np.logical_and(region(*there), np.logical_not(region(*here)))
            for line in lines:
                line[left], line[right] = (
                    np.where(swap, line[right], line[left]),
                    np.where(swap, line[left], line[right]),
                )
    return tuple(np.moveaxis(line, 0, dimension) for line in lines)
