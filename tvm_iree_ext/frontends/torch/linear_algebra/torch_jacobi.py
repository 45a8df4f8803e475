"""Singular values, and eigenvalues of symmetric matrices, by Jacobi's rotations.

A step rotates all rows or columns at once, in pairs; in as many steps as there are others, each has
met each.  All is computed in float64.  Vectors are those of one of the signs that they may have.
"""

from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_loops import Tensors, repeated
from tvm_iree_ext.frontends.torch.linear_algebra.torch_factors import (
    identity,
    reflected,
    reflections,
)

_SWEEPS = 12
"""Over all pairs: from the fifth or so on, digits that are right double."""


def _partners(round_: Any, places: Any, size: int) -> Any:
    """Who meets whom in a round of a tournament: all but the last stand in a circle."""
    last = size - 1
    across = torch.remainder(round_ - places, last)
    across = torch.where(across == places, last, across)
    return torch.where(places == last, torch.remainder(round_ * (size // 2), last), across)


def _rotation(own: Any, other: Any, product: Any, is_first: Any) -> tuple[Any, Any]:
    """Cosine and sine by which one of a pair takes of itself and of its partner.

    Of a matrix of two rows with ``own`` and ``other`` on its diagonal, ``product`` beside it.
    """
    is_zero = product == 0
    ratio = (other - own) / (2 * torch.where(is_zero, torch.ones_like(product), product))
    one = torch.ones_like(ratio)
    sign = torch.where(ratio == 0, torch.where(is_first, one, -one), torch.sign(ratio))
    tangent = sign / (ratio.abs() + torch.sqrt(1 + ratio * ratio))
    tangent = torch.where(is_zero, torch.zeros_like(tangent), tangent)
    cosine = torch.rsqrt(1 + tangent * tangent)
    return cosine, -tangent * cosine


def _padded(matrix: Any, rows: int, columns: int) -> Any:
    """A matrix with zeros behind."""
    if columns:
        matrix = torch.cat((matrix, matrix.new_zeros(*matrix.shape[:-1], columns)), -1)
    if rows:
        shape = (*matrix.shape[:-2], rows, matrix.shape[-1])
        matrix = torch.cat((matrix, matrix.new_zeros(shape)), -2)
    return matrix


def symmetric(matrix: Any) -> tuple[Any, Any]:
    """The eigenvalues of a symmetric matrix from the least on, and vectors as columns."""
    extent = matrix.shape[-1]
    size = extent + extent % 2
    wide = _padded(matrix.double(), size - extent, size - extent)

    def step(number: Any, state: Tensors, given: Tensors) -> Tensors:
        (found, vectors), (places,) = state, given
        partner = _partners(torch.remainder(number, size - 1), places, size)
        at = partner.unsqueeze(-1).expand(*found.shape[:-1], 1)
        diagonal = torch.where(places == places.unsqueeze(1), found, torch.zeros_like(found)).sum(
            -1
        )
        other = diagonal.index_select(-1, partner)
        product = found.gather(-1, at).squeeze(-1)
        cosine, sine = _rotation(diagonal, other, product, places < partner)
        found = cosine.unsqueeze(-1) * found + sine.unsqueeze(-1) * found.index_select(-2, partner)
        found = cosine.unsqueeze(-2) * found + sine.unsqueeze(-2) * found.index_select(-1, partner)
        turned = vectors.index_select(-1, partner)
        vectors = cosine.unsqueeze(-2) * vectors + sine.unsqueeze(-2) * turned
        return found, vectors

    state = wide, identity(size, size, wide)
    found, vectors = repeated(_SWEEPS * (size - 1), step, state, (torch.arange(size),))
    values = torch.diagonal(found, 0, -2, -1)[..., :extent]
    values, order = torch.sort(values, -1)
    return values.to(matrix.dtype), _ordered(vectors[..., :extent, :extent], order, matrix.dtype)


def _ordered(columns: Any, order: Any, dtype: Any) -> Any:
    return columns.gather(-1, order.unsqueeze(-2).expand(columns.shape)).to(dtype)


def singular(matrix: Any, is_full: bool, has_vectors: bool = True) -> tuple[Any, Any, Any]:
    """The singular values from the largest on, between vectors as columns and as rows.

    Args:
        matrix: a batch of matrices.
        is_full: whether vectors are added to the shorter side, until they are square.
        has_vectors: whether vectors are wanted; otherwise they are without meaning.
    """
    rows, columns = matrix.shape[-2:]
    if rows < columns:
        left, values, right = singular(matrix.mT, is_full, has_vectors)
        return right.mT, values, left.mT
    size = columns + columns % 2
    wide = _padded(matrix.double(), 0, size - columns)

    def step(number: Any, state: Tensors, given: Tensors) -> Tensors:
        (found, vectors), (places,) = state, given
        partner = _partners(torch.remainder(number, size - 1), places, size)
        turned = found.index_select(-1, partner)
        square = (found * found).sum(-2)
        product = (found * turned).sum(-2)
        other = square.index_select(-1, partner)
        cosine, sine = (
            one.unsqueeze(-2) for one in _rotation(square, other, product, places < partner)
        )
        if has_vectors:
            vectors = cosine * vectors + sine * vectors.index_select(-1, partner)
        return cosine * found + sine * turned, vectors.clone()

    state = wide, identity(size, size, wide)
    found, vectors = repeated(_SWEEPS * (size - 1), step, state, (torch.arange(size),))
    found, vectors = found[..., :columns], vectors[..., :columns, :columns]
    values, order = torch.sort(torch.sqrt((found * found).sum(-2)), -1, descending=True)
    right = _ordered(vectors, order, matrix.dtype).mT
    if not has_vectors:
        return found, values.to(matrix.dtype), right
    # What lies orthogonal already is its own factor, but for signs, and zeros are filled up.
    made, scales = reflections(_ordered(found, order, torch.float64))
    left = reflected(made, scales, identity(rows, rows if is_full else columns, made))
    sign = torch.where(torch.diagonal(made, 0, -2, -1) < 0, -1.0, 1.0).to(torch.float64)
    if is_full:
        sign = torch.cat((sign, sign.new_ones(*sign.shape[:-1], rows - columns)), -1)
    return (left * sign.unsqueeze(-2)).to(matrix.dtype), values.to(matrix.dtype), right
