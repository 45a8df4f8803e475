"""Factors of matrices, and triangular systems, as loops and products of PyTorch.

Tensors are batches of matrices.  A step of a loop makes a column or a row of all of them, in panels
of columns; products do the rest.
"""

from typing import Any

import torch

from tvm_iree_ext.frontends.torch.base.torch_loops import Tensors, repeated, repeated_while

_PANEL = 64
"""Columns of a panel: of fewer, more loops are compiled; of more, steps read more."""


def _number(value: float, like: Any) -> Any:
    return torch.full((), value, dtype=like.dtype)


def cholesky(matrix: Any) -> Any:
    """The lower factor, by the lower triangle; NaN from the first column on that has none."""
    size = matrix.shape[-1]
    if size <= _PANEL:
        return _corner(matrix)
    corner = _corner(matrix[..., :_PANEL, :_PANEL])
    below = solved_lower(corner, matrix[..., _PANEL:, :_PANEL].mT).mT
    rest = cholesky(matrix[..., _PANEL:, _PANEL:] - below @ below.mT)
    above = matrix.new_zeros(*matrix.shape[:-2], _PANEL, size - _PANEL)
    return torch.cat((torch.cat((corner, above), -1), torch.cat((below, rest), -1)), -2)


def _corner(matrix: Any) -> Any:
    """The factor of one panel: in step j row j of the upper factor."""
    size = matrix.shape[-1]

    def step(j: Any, state: Tensors, given: Tensors) -> Tensors:
        (upper,), (symmetric, places) = state, given
        at = j.reshape(1)
        before = (upper.index_select(-1, at) * upper).sum(-2, keepdim=True)
        row = symmetric.index_select(-2, at) - before
        row = row / torch.sqrt(row.index_select(-1, at))
        row = torch.where(places >= j, row, _number(0, row))
        return (torch.where((places == j).unsqueeze(1), row, upper),)

    symmetric = torch.tril(matrix).mT
    start = torch.zeros(matrix.shape, dtype=matrix.dtype)
    return repeated(size, step, (start,), (symmetric, torch.arange(size)))[0].mT


def solved_lower(matrix: Any, right: Any, *, is_unit: bool = False) -> Any:
    """The inverse of a lower triangle times ``right``."""
    size = matrix.shape[-1]
    if size > _PANEL:
        middle = (size + 1) // 2
        first = solved_lower(matrix[..., :middle, :middle], right[..., :middle, :], is_unit=is_unit)
        rest = right[..., middle:, :] - matrix[..., middle:, :middle] @ first
        second = solved_lower(matrix[..., middle:, middle:], rest, is_unit=is_unit)
        return torch.cat((first, second), -2)

    def step(i: Any, state: Tensors, given: Tensors) -> Tensors:
        (found,), (turned, right, places) = state, given
        at = i.reshape(1)
        column = turned.index_select(-1, at)
        factors = torch.where((places < i).unsqueeze(1), column, _number(0, column))
        row = right.index_select(-2, at) - (factors * found).sum(-2, keepdim=True)
        row = row if is_unit else row / column.index_select(-2, at)
        return (torch.where((places == i).unsqueeze(1), row, found),)

    start = torch.zeros(right.shape, dtype=right.dtype)
    return repeated(size, step, (start,), (matrix.mT, right, torch.arange(size)))[0]


def solved_triangular(
    matrix: Any, right: Any, *, is_upper: bool, is_left: bool = True, is_unit: bool = False
) -> Any:
    """A triangle's inverse times ``right``, or ``right`` times it; batches are broadcast."""
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix, right = (one.expand(*batch, *one.shape[-2:]) for one in (matrix, right))
    if not is_left:
        return solved_triangular(matrix.mT, right.mT, is_upper=not is_upper, is_unit=is_unit).mT
    if 0 in right.shape:
        return torch.zeros(right.shape, dtype=right.dtype)
    if not is_upper:
        return solved_lower(matrix, right, is_unit=is_unit)
    return solved_lower(matrix.flip(-2, -1), right.flip(-2), is_unit=is_unit).flip(-2)


def lu(matrix: Any) -> tuple[Any, Any]:
    """Both factors in one matrix, and which row came to each column's place, from 0."""
    rows, columns = matrix.shape[-2:]
    found, pivots = matrix, []
    for start in range(0, min(rows, columns), _PANEL):
        end = min(start + _PANEL, rows, columns)
        panel, order, chosen = _panel(found[..., start:, start:end])
        left, right = (
            rows_in_order(found[..., start:, part], order)
            for part in (slice(0, start), slice(end, columns))
        )
        height = end - start
        lower = torch.cat((left, panel), -1)
        if end < columns:
            factor = panel[..., :height, :]
            above = solved_triangular(factor, right[..., :height, :], is_upper=False, is_unit=True)
            below = right[..., height:, :] - panel[..., height:, :] @ above
            lower = torch.cat((lower, torch.cat((above, below), -2)), -1)
        found = torch.cat((found[..., :start, :], lower), -2)
        pivots.append(chosen + start)
    if not pivots:
        return matrix.clone(), torch.zeros((*matrix.shape[:-2], 0), dtype=torch.int64)
    return found, torch.cat(pivots, -1)


def rows_in_order(matrix: Any, order: Any) -> Any:
    """A matrix whose row i is that of place ``order[i]``."""
    if 0 in matrix.shape:
        return matrix
    return matrix.gather(-2, order.unsqueeze(-1).expand(matrix.shape))


def _panel(matrix: Any) -> tuple[Any, Any, Any]:
    """Factors of a panel, the order of its rows, and which row came to each column's place."""
    rows, columns = matrix.shape[-2:]
    steps, batch = min(rows, columns), matrix.shape[:-2]

    def step(j: Any, state: Tensors, given: Tensors) -> Tensors:
        found, order, pivots = state
        rows, columns, numbers = given
        at, down = j.reshape(1), rows.unsqueeze(1)
        column = found.index_select(-1, at)
        size = torch.where(down < j, _number(-1, column), column.abs())
        pivot = torch.argmax(size, -2)  # [..., 1]
        is_pivot, is_here = (rows == pivot).unsqueeze(-1), down == j
        here = found.index_select(-2, at)
        there = torch.where(is_pivot, found, _number(0, found)).sum(-2, keepdim=True)
        found = torch.where(is_here, there, torch.where(is_pivot, here, found))
        divisor = there.index_select(-1, at)
        divisor = torch.where(divisor == 0, _number(1, divisor), divisor)
        factors = found.index_select(-1, at) / divisor
        factors = torch.where(down > j, factors, _number(0, factors))
        cleared = found - factors * torch.where(columns > j, there, _number(0, there))
        found = torch.where(torch.logical_and(down > j, columns == j), factors, cleared)
        first, other = order.index_select(-1, at), order.gather(-1, pivot)
        order = torch.where(rows == pivot, first, order)
        order = torch.where(rows == j, other, order)
        return found, order, torch.where(numbers == j, pivot, pivots)

    places = torch.arange(rows)
    state = (
        matrix,
        places.expand(*batch, rows),
        torch.zeros((*batch, steps), dtype=torch.int64),
    )
    given = places, torch.arange(columns), torch.arange(steps)
    found, order, pivots = repeated(steps, step, state, given)
    return found, order, pivots


def order_of(pivots: Any, rows: int) -> Any:
    """The order of rows after they were exchanged with those of places, from 0, in turn."""

    def step(j: Any, state: Tensors, given: Tensors) -> Tensors:
        (order,), (pivots, places) = state, given
        at = j.reshape(1)
        pivot = pivots.index_select(-1, at)
        first, other = order.index_select(-1, at), order.gather(-1, pivot)
        order = torch.where(places == pivot, first, order)
        return (torch.where(places == j, other, order),)

    places = torch.arange(rows)
    start = places.expand(*pivots.shape[:-1], rows)
    return repeated(pivots.shape[-1], step, (start,), (pivots, places))[0]


def reflections(matrix: Any) -> tuple[Any, Any]:
    """``geqrf``: R, below it the reflections that make it, and their factors."""
    rows, columns = matrix.shape[-2:]
    steps = min(rows, columns)

    def step(j: Any, state: Tensors, given: Tensors) -> Tensors:
        found, factors = state
        rows, columns, numbers = given
        at, down = j.reshape(1), rows.unsqueeze(1)
        column = found.index_select(-1, at)
        head = column.index_select(-2, at)
        below = torch.where(down > j, column, _number(0, column))
        most = torch.where(down >= j, column.abs(), _number(0, column)).amax(-2, keepdim=True)
        scale = torch.where(most > 0, most, _number(1, most))
        length = scale * torch.sqrt(
            ((below / scale) ** 2).sum(-2, keepdim=True) + (head / scale) ** 2
        )
        is_done = (below == 0).all(-2, keepdim=True)
        length = torch.where(head >= 0, -length, length)
        apart = torch.where(is_done, _number(1, head), head - length)
        safe = torch.where(is_done, _number(1, head), length)
        factor = torch.where(is_done, _number(0, head), (length - head) / safe)
        line = torch.where(down == j, _number(1, column), below / apart)
        cleared = found - (factor * line) * (line * found).sum(-2, keepdim=True)
        diagonal = torch.where(is_done, head, length)
        own = torch.where(down > j, line, torch.where(down == j, diagonal, column))
        found = torch.where(columns > j, cleared, torch.where(columns == j, own, found))
        return found, torch.where(numbers == j, factor.squeeze(-1), factors)

    places = torch.arange(rows), torch.arange(columns), torch.arange(steps)
    start = torch.zeros((*matrix.shape[:-2], steps), dtype=matrix.dtype)
    if steps == 0:
        return matrix.clone(), start
    found, factors = repeated(steps, step, (matrix, start), places)
    return found, factors


def reflected(matrix: Any, factors: Any, right: Any, *, is_turned: bool = False) -> Any:
    """The product of reflections, or its transpose, times ``right``."""
    count = factors.shape[-1]
    if not is_turned:  # the last one is applied first
        matrix, factors = matrix[..., :count].flip(-1), factors.flip(-1)

    def step(j: Any, state: Tensors, given: Tensors) -> Tensors:
        (found,), (matrix, factors, rows) = state, given
        at, down = j.reshape(1), rows.unsqueeze(1)
        place = j if is_turned else count - 1 - j
        column = matrix.index_select(-1, at)
        line = torch.where(down > place, column, _number(0, column))
        line = torch.where(down == place, _number(1, column), line)
        factor = factors.index_select(-1, at).unsqueeze(-1)
        return (found - (factor * line) * (line * found).sum(-2, keepdim=True),)

    if 0 in right.shape:
        return right.clone()
    return repeated(count, step, (right,), (matrix, factors, torch.arange(matrix.shape[-2])))[0]


def identity(rows: int, columns: int, like: Any) -> Any:
    """The first columns of the unit matrix, for each matrix of a batch."""
    return torch.eye(rows, columns, dtype=like.dtype).expand(*like.shape[:-2], rows, columns)


def exponential(matrix: Any) -> Any:
    """Taylor's series of a matrix halved until it is small, squared as often."""
    size = matrix.abs().sum(-1, keepdim=True).amax(-2, keepdim=True)
    is_known = torch.logical_and(size > 0.5, size < torch.inf)
    halvings = torch.where(is_known, torch.ceil(torch.log2(size)) + 1, _number(0, size))
    small = matrix * torch.exp2(-halvings)
    one = identity(matrix.shape[-1], matrix.shape[-1], matrix)
    found = one
    for term in range(12 if matrix.dtype is torch.float32 else 18, 0, -1):
        found = one + small @ found / term

    def goes_on(found: Any, halvings: Any) -> Any:
        return (halvings > 0).any()

    def step(found: Any, halvings: Any) -> tuple[Any, Any]:
        return torch.where(halvings > 0, found @ found, found), halvings - 1

    return repeated_while(goes_on, step, (found, halvings))[0]
