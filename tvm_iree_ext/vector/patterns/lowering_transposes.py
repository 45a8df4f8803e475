"""Lowering transposes.

elementwise   one extract and one insert for each element
shuffle       flatten, one shuffle of all lanes, unflatten
network       for n x n, n a power of two: log2(n) rounds of n shuffles of two registers each;
              lanes of one register to registers of one lane, and back, element by element

A transpose that leaves the innermost dim where it is moves no lane: it names registers anew.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import VectorType
from tvm_iree_ext.vector.patterns.canonicalization import settled
from tvm_iree_ext.vector.patterns.rewriter import Pattern
from tvm_iree_ext.vector.programs.builder import Builder
from tvm_iree_ext.vector.programs.vector_program import VectorProgram

ELEMENTWISE, SHUFFLE, NETWORK = "elementwise", "shuffle", "network"
STRATEGIES = (ELEMENTWISE, SHUFFLE, NETWORK)


def lower_transposes(program: VectorProgram, strategy: str = NETWORK) -> VectorProgram:
    """Replace transposes by one of the strategies; what has no network is one shuffle."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    return settled(program, lower_transpose(strategy))


def lower_transpose(strategy: str) -> Pattern:
    """The pattern: one transpose."""

    def pattern(op: Operation, b: Builder) -> bool:
        if op.name != "vector.transpose":
            return False
        vector, permutation = op.operand("vector"), op.attributes["permutation"]
        if vector.rank < 2 or permutation[-1] == vector.rank - 1:
            made = _registers(b, vector, permutation, op.result.shape)
        elif strategy == ELEMENTWISE:
            made = _elements(b, vector, permutation, op.result.shape)
        elif strategy == NETWORK and _is_line(vector.shape, op):
            made = _lines(b, vector, permutation, op.result.shape)
        elif strategy == NETWORK and _has_network(vector.shape, permutation):
            made = _network(b, vector, permutation, op.result)
        else:
            made = _one_shuffle(b, vector, permutation, op.result.shape)
        op.replace_by(made)
        return True

    return pattern


def _moved(place: Sequence[int], permutation: Sequence[int]) -> list[int]:
    """The place in the source of what comes to a place in the result."""
    source = [0] * len(place)
    for dim, at in zip(permutation, place, strict=False):
        source[dim] = at
    return source


def _registers(
    b: Builder, vector: Value, permutation: Sequence[int], shape: Sequence[int]
) -> Value:
    if vector.rank < 2:
        return vector
    result = b.constant(0, VectorType(tuple(shape), vector.dtype))
    for place in product(*(range(extent) for extent in shape[:-1])):
        row = b.extract(vector, _moved(place, permutation[:-1]))
        result = b.insert_at(row, result, place)
    return result


def _elements(b: Builder, vector: Value, permutation: Sequence[int], shape: Sequence[int]) -> Value:
    result = b.constant(0, VectorType(tuple(shape), vector.dtype))
    for place in product(*(range(extent) for extent in shape)):
        one = b.extract(vector, _moved(place, permutation))
        result = b.insert_at(one, result, place)
    return result


def _lines(b: Builder, vector: Value, permutation: Sequence[int], shape: Sequence[int]) -> Value:
    """Element by element into one register, then register by register: each is 1-D at last."""
    result = b.constant(0, VectorType(tuple(shape), vector.dtype))
    for place in product(*(range(extent) for extent in shape[:-1])):
        row = b.constant(0, VectorType((shape[-1],), vector.dtype))
        for lane in range(shape[-1]):
            one = b.extract(vector, _moved([*place, lane], permutation))
            row = b.insert_at(one, row, [lane])
        result = b.insert_at(row, result, place)
    return result


def _one_shuffle(
    b: Builder, vector: Value, permutation: Sequence[int], shape: Sequence[int]
) -> Value:
    count = prod(vector.shape)
    mask = np.arange(count).reshape(vector.shape).transpose(permutation).ravel().tolist()
    flat = b.shape_cast(vector, [count])
    return b.shape_cast(b.shuffle(flat, flat, mask), shape)


def _has_network(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    lanes = shape[-1]
    return shape[permutation[-1]] == lanes and lanes > 1 and lanes & (lanes - 1) == 0


def _is_line(shape: Sequence[int], op: Operation) -> bool:
    """Whether a column of registers of one lane becomes lanes of one register, or the reverse."""
    return 1 in (shape[-1], op.result.shape[-1])


def _network(b: Builder, vector: Value, permutation: Sequence[int], like: Value) -> Value:
    """For each plane of the dim that becomes innermost and the one that was: a square transpose."""
    rank = vector.rank
    inner = permutation[-1]
    result = b.constant(0, like.type)
    others = [dim for dim in range(rank - 1) if dim != inner]
    for point in product(*(range(vector.shape[dim]) for dim in others)):
        at = dict(zip(others, point, strict=True))
        rows = [
            b.extract(vector, [at.get(dim, n) for dim in range(rank - 1)])
            for n in range(vector.shape[inner])
        ]
        for n, row in enumerate(square_network(b, rows)):
            place = [n if dim == rank - 1 else at[dim] for dim in permutation[:-1]]
            result = b.insert_at(row, result, place)
    return result


def square_network(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The transposed rows of n registers of n lanes.

    Round s swaps the s-bit of row and lane: of rows i and i + s, one takes the lanes without the
    bit of both, the other those with it.
    """
    rows, count = list(rows), len(rows)
    step = 1
    while step < count:
        low = [lane if not lane & step else count + lane - step for lane in range(count)]
        high = [lane + step if not lane & step else count + lane for lane in range(count)]
        for i in range(count):
            if not i & step:
                pair = rows[i], rows[i + step]
                rows[i], rows[i + step] = b.shuffle(*pair, low), b.shuffle(*pair, high)
        step *= 2
    return rows
