"""PyTorch's linear algebra by ``torch_factors``.

A matrix that has no factor or no inverse gives NaN or infinities, where PyTorch raises; the numbers
that ``linalg.cholesky_ex`` and its kin give for it are PyTorch's.
"""

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.linear_algebra import torch_factors as factors

aten = torch.ops.aten


def of_real(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices whose extents are numbers and whose elements are real."""

    @wraps(function)
    def checked(*operands: Any, **named: Any) -> Any:
        for one in operands:
            if not isinstance(one, torch.Tensor):
                continue
            name = f"linalg: {function.__name__}"
            if one.is_complex():
                raise MlirError(f"{name} of {one.dtype}; real numbers are supported")
            if not all(isinstance(extent, int) for extent in one.shape[-2:]):
                raise MlirError(f"{name} of an extent that a call tells; a number is supported")
        return function(*operands, **named)

    return checked


def _first(is_wrong: Any) -> Any:
    """The number of the first that is wrong along the last axis, from 1; 0 where none is."""
    if is_wrong.shape[-1] == 0:
        return torch.zeros(is_wrong.shape[:-1], dtype=torch.int32)
    place = torch.argmax(is_wrong.to(torch.int32), -1) + 1
    return torch.where(is_wrong.any(-1), place, torch.zeros_like(place)).to(torch.int32)


def _diagonal(matrix: Any) -> Any:
    return torch.diagonal(matrix, 0, -2, -1)


@of_real
def cholesky_ex(x: Any, upper: bool = False, *, check_errors: bool = False) -> Any:
    """The factor, and the order of the first minor that is not positive."""
    if 0 in x.shape:
        return x.clone(), torch.zeros(x.shape[:-2], dtype=torch.int32)
    found = factors.cholesky(torch.tril(x.mT if upper else x))
    missing = _first(torch.logical_not(_diagonal(found) > 0))
    return (found.mT if upper else found), missing


def cholesky(x: Any, upper: bool = False) -> Any:
    """The factor."""
    return cholesky_ex(x, upper)[0]


@of_real
def cholesky_solve(right: Any, factor: Any, upper: bool = False) -> Any:
    """By two triangular systems."""
    lower = factor.mT if upper else factor
    half = factors.solved_triangular(lower, right, is_upper=False)
    return factors.solved_triangular(lower.mT, half, is_upper=True)


def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    """The inverse of what a matrix is the factor of."""
    size = factor.shape[-1]
    return cholesky_solve(factors.identity(size, size, factor), factor, upper)


@of_real
def solve_triangular(
    x: Any, right: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """A triangular system."""
    named = {"is_upper": upper, "is_left": left, "is_unit": unitriangular}
    return factors.solved_triangular(x, right, **named)


def triangular_solve(
    right: Any,
    x: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """The same, and the matrix."""
    matrix, is_upper = (x.mT, not upper) if transpose else (x, upper)
    found = solve_triangular(matrix, right, upper=is_upper, unitriangular=unitriangular)
    batch = found.shape[:-2]
    return found, x.expand(*batch, *x.shape[-2:]).clone()


@of_real
def lu_factor_ex(x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Both factors in one matrix, the rows that were exchanged, and the first pivot that is 0."""
    if not pivot:
        raise MlirError("linalg: lu without pivoting; pivot=True is supported")
    found, pivots = factors.lu(x)
    return found, (pivots + 1).to(torch.int32), _first(_diagonal(found) == 0)


def lu_factor(x: Any, *, pivot: bool = True) -> Any:
    """The same without the last."""
    return lu_factor_ex(x, pivot=pivot)[:2]


def lu_with_info(x: Any, pivot: bool = True, check_errors: bool = True) -> Any:
    """The same of another name."""
    return lu_factor_ex(x, pivot=pivot)


def linalg_lu(x: Any, *, pivot: bool = True) -> Any:
    """The factors, and the order of the rows as a matrix."""
    return lu_unpack(*lu_factor(x, pivot=pivot))


@of_real
def lu_unpack(x: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The three of both factors in one matrix, and the rows that were exchanged."""
    rows, columns = x.shape[-2:]
    least = min(rows, columns)
    none = torch.zeros(0, dtype=x.dtype)
    order, lower, upper = none, none, none
    if unpack_pivots:
        places = factors.order_of(pivots.long() - 1, rows).unsqueeze(-2)
        order = (places == torch.arange(rows).unsqueeze(-1)).to(x.dtype)
    if unpack_data:
        lower = torch.tril(x[..., :least], -1) + torch.eye(rows, least, dtype=x.dtype)
        upper = torch.triu(x[..., :least, :])
    return order, lower, upper


@of_real
def lu_solve(x: Any, pivots: Any, right: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """By two triangular systems."""
    if not left:
        return lu_solve(x, pivots, right.mT, adjoint=not adjoint).mT
    batch = torch.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    right = right.expand(*batch, *right.shape[-2:])
    order = factors.order_of(pivots.long() - 1, x.shape[-1]).expand(*batch, x.shape[-1])
    solved = factors.solved_triangular
    if adjoint:
        half = solved(x.mT, right, is_upper=False)
        found = solved(x.mT, half, is_upper=True, is_unit=True)
        return factors.rows_in_order(found, torch.argsort(order, -1))
    half = solved(x, factors.rows_in_order(right, order), is_upper=False, is_unit=True)
    return solved(x, half, is_upper=True)


def old_lu_solve(right: Any, x: Any, pivots: Any) -> Any:
    """The same in another order."""
    return lu_solve(x, pivots, right)


@of_real
def solve_all(x: Any, right: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, and what ``lu_factor_ex`` gives."""
    is_line = right.dim() == 1 or (right.dim() == x.dim() - 1 and right.shape == x.shape[:-1])
    found, pivots, missing = lu_factor_ex(x)
    columns = right.unsqueeze(-1) if is_line else right
    solution = lu_solve(found, pivots, columns, left=left)
    return solution.squeeze(-1) if is_line else solution, found, pivots, missing


def solve_ex(x: Any, right: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, and the first pivot that is 0."""
    solution, _, _, missing = solve_all(x, right, left=left)
    return solution, missing


def solve(x: Any, right: Any, *, left: bool = True) -> Any:
    """The solution."""
    return solve_all(x, right, left=left)[0]


def inverse_ex(x: Any, *, check_errors: bool = False) -> Any:
    """The inverse, and the first pivot that is 0."""
    size = x.shape[-1]
    return solve_ex(x, torch.eye(size, dtype=x.dtype).expand(x.shape))


def inverse(x: Any) -> Any:
    """The inverse."""
    return inverse_ex(x)[0]


def tensor_inverse(x: Any, ind: int = 2) -> Any:
    """The inverse of what the first axes make a matrix of."""
    rows = prod(x.shape[:ind])
    return inverse(x.reshape(rows, rows)).reshape(*x.shape[ind:], *x.shape[:ind])


@of_real
def det_all(x: Any) -> Any:
    """The determinant, and both factors."""
    found, pivots, _ = lu_factor_ex(x)
    value = _diagonal(found).prod(-1) * _sign(pivots).to(x.dtype)
    return value, found, pivots


def _sign(pivots: Any) -> Any:
    """Of the order of rows: odd where as many were exchanged."""
    moved = pivots != torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype)
    return 1 - 2 * (moved.sum(-1) % 2)


def det(x: Any) -> Any:
    """The determinant."""
    return det_all(x)[0]


@of_real
def slogdet_all(x: Any) -> Any:
    """The sign and the logarithm of the determinant, and both factors."""
    found, pivots, _ = lu_factor_ex(x)
    diagonal = _diagonal(found)
    sign = torch.sign(diagonal).prod(-1) * _sign(pivots).to(x.dtype)
    return sign, torch.log(diagonal.abs()).sum(-1), found, pivots


def slogdet(x: Any) -> Any:
    """The sign and the logarithm of the determinant."""
    return slogdet_all(x)[:2]


def logdet(x: Any) -> Any:
    """The logarithm; NaN of a determinant below 0."""
    sign, size, *_ = slogdet_all(x)
    return torch.where(sign < 0, torch.full((), torch.nan, dtype=x.dtype), size)


@of_real
def qr(x: Any, mode: str = "reduced") -> Any:
    """The product of reflections, and what they leave."""
    rows, columns = x.shape[-2:]
    found, scales = factors.reflections(x)
    kept = rows if mode == "complete" else min(rows, columns)
    right = torch.triu(found[..., :kept, :])
    if mode == "r":
        return torch.zeros(0, dtype=x.dtype), right
    unit = factors.identity(rows, kept, x)
    return factors.reflected(found, scales, unit), right


def old_qr(x: Any, some: bool = True) -> Any:
    """The same of another name."""
    return qr(x, "reduced" if some else "complete")


@of_real
def geqrf(x: Any) -> Any:
    """What they leave with the reflections below, and their factors."""
    return factors.reflections(x)


@of_real
def householder_product(x: Any, scales: Any) -> Any:
    """The first columns of a product of reflections."""
    rows, columns = x.shape[-2:]
    return factors.reflected(x, scales, factors.identity(rows, columns, x))


@of_real
def ormqr(x: Any, scales: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """A product of reflections, or its transpose, times a matrix, or that times it."""
    if not left:
        return ormqr(x, scales, other.mT, transpose=not transpose).mT
    return factors.reflected(x, scales, other, is_turned=transpose)


@of_real
def matrix_exp(x: Any) -> Any:
    """The exponential of matrices."""
    return x.clone() if 0 in x.shape else factors.exponential(x)


LINEAR_ALGEBRA: dict[Any, Callable[..., Any]] = {
    aten.cholesky.default: cholesky,
    aten.linalg_cholesky.default: cholesky,
    aten.linalg_cholesky_ex.default: cholesky_ex,
    aten.cholesky_solve.default: cholesky_solve,
    aten.cholesky_inverse.default: cholesky_inverse,
    aten.linalg_solve_triangular.default: solve_triangular,
    aten.triangular_solve.default: triangular_solve,
    aten.linalg_lu_factor.default: lu_factor,
    aten.linalg_lu_factor_ex.default: lu_factor_ex,
    aten._lu_with_info.default: lu_with_info,
    aten.linalg_lu.default: linalg_lu,
    aten.lu_unpack.default: lu_unpack,
    aten.linalg_lu_solve.default: lu_solve,
    aten.lu_solve.default: old_lu_solve,
    aten.linalg_solve.default: solve,
    aten.linalg_solve_ex.default: solve_ex,
    aten._linalg_solve_ex.default: solve_all,
    aten.linalg_inv.default: inverse,
    aten.inverse.default: inverse,
    aten.linalg_inv_ex.default: inverse_ex,
    aten.linalg_tensorinv.default: tensor_inverse,
    aten.linalg_det.default: det,
    aten.det.default: det,
    aten._linalg_det.default: det_all,
    aten.linalg_slogdet.default: slogdet,
    aten.slogdet.default: slogdet,
    aten._linalg_slogdet.default: slogdet_all,
    aten.logdet.default: logdet,
    aten.linalg_qr.default: qr,
    aten.qr.default: old_qr,
    aten.geqrf.default: geqrf,
    aten.linalg_householder_product.default: householder_product,
    aten.orgqr.default: householder_product,
    aten.ormqr.default: ormqr,
    aten.linalg_matrix_exp.default: matrix_exp,
    aten.matrix_exp.default: matrix_exp,
}
