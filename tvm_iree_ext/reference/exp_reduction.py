"""NumPy reference of ``iree_linalg_ext.exp_reduction``: the dialect's decomposition, in float64.

Operands come with the iteration dims of their axes.  An accumulator is taken through the region
point by point over the dims that it is reduced over, in their order, and for all of its elements
at once.
"""

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Dims = Sequence[int]


def _letters(dims: Dims) -> str:
    return "".join(string.ascii_letters[dim] for dim in dims)


def _wide(array: Array) -> Array:
    """Floats as float64; others as they are."""
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def _aligned(array: Array, dims: Dims, onto: Dims) -> Array:
    """``array`` with its axes in the order of ``onto``, and extent 1 where it lacks a dim."""
    order = [dim for dim in onto if dim in dims]
    moved = np.transpose(array, [list(dims).index(dim) for dim in order])
    return moved.reshape([moved.shape[order.index(d)] if d in order else 1 for d in onto])


def exp_reduction(
    inputs: Sequence[Array],
    inits: Sequence[Array],
    *,
    input_dims: Sequence[Dims],
    output_dims: Sequence[Dims],
    exp_reduced_operands: Sequence[int],
    regions: Sequence[Callable[..., Any]],
    reads: Sequence[Sequence[int]],
    base: float = 2.0,
) -> tuple[Array, ...]:
    """The outputs, floats in float64, each with the axes of its dims.

    ``regions[j]`` makes the next value of output j from an element of each input, the weight in
    place of the score, and of each output; of these it reads the inputs ``reads[j]`` and output j.
    """
    rows, scores = output_dims[0], inputs[0].astype(np.float64)
    reduced = tuple(axis for axis, dim in enumerate(input_dims[0]) if dim not in rows)
    kept = [dim for dim in input_dims[0] if dim in rows]
    largest = _aligned(scores.max(axis=reduced, initial=-np.inf), kept, rows)
    old = inits[0].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        maximum = np.maximum(old, largest)
        weights = base ** (scores - _aligned(maximum, rows, input_dims[0]))
        norm = base ** (old - maximum)
        results = [maximum]
        elements = [weights, *map(_wide, inputs[1:])]
        for j in range(1, len(inits)):
            dims = output_dims[j]
            value = _wide(inits[j])
            if j in exp_reduced_operands:
                value = value * _aligned(norm, rows, dims)
            sizes = {
                dim: extent
                for i in reads[j]
                for dim, extent in zip(input_dims[i], inputs[i].shape, strict=True)
                if dim not in dims
            }
            order = sorted(sizes)
            for point in np.ndindex(*(sizes[dim] for dim in order)):
                at = dict(zip(order, point, strict=True))
                arguments: list[Any] = [None] * (len(inputs) + len(inits))
                for i in reads[j]:
                    part = elements[i][tuple(at.get(dim, slice(None)) for dim in input_dims[i])]
                    left = [dim for dim in input_dims[i] if dim not in at]
                    arguments[i] = _aligned(part, left, dims)
                arguments[len(inputs) + j] = value
                value = np.broadcast_to(regions[j](*arguments), value.shape).astype(value.dtype)
            results.append(value)
    return tuple(np.asarray(result) for result in results)
