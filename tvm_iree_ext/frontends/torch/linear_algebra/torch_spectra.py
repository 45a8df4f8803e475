"""PyTorch's singular values and eigenvalues, and what it makes of them."""

from collections.abc import Callable
from typing import Any

import torch

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.linear_algebra.torch_jacobi import singular, symmetric
from tvm_iree_ext.frontends.torch.linear_algebra.torch_linear_algebra import of_real

aten = torch.ops.aten


@of_real
def svd(
    x: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: str | None = None
) -> Any:
    """Singular values between vectors."""
    rows, columns = x.shape[-2:]
    least = min(rows, columns)
    if 0 in x.shape:
        kept = (rows, columns) if full_matrices else (least, least)
        left = torch.eye(rows, kept[0], dtype=x.dtype).expand(*x.shape[:-2], rows, kept[0])
        right = torch.eye(kept[1], columns, dtype=x.dtype)
        right = right.expand(*x.shape[:-2], kept[1], columns)
        values = torch.zeros((*x.shape[:-2], least), dtype=x.dtype)
    else:
        left, values, right = singular(x, full_matrices, compute_uv)
    if not compute_uv:
        left, right = (torch.zeros(0, dtype=x.dtype) for _ in range(2))
    return left.clone(), values, right.clone()


def linalg_svd(x: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """The same, with vectors."""
    return svd(x, full_matrices)


def old_svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """The same; the vectors of both sides as columns."""
    left, values, right = svd(x, not some)
    if not compute_uv:
        left, right = torch.zeros_like(left), torch.zeros_like(right)
    return left, values, right.mT.clone()


def svdvals(x: Any, *, driver: str | None = None) -> Any:
    """Singular values."""
    return svd(x, False, False)[1]


@of_real
def eigh(x: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    """Eigenvalues and vectors of a symmetric matrix, by one of its triangles."""
    if 0 in x.shape:
        return torch.zeros(x.shape[:-1], dtype=x.dtype), x.clone()
    part = torch.tril(x) if uplo.upper() == "L" else torch.triu(x)
    values, vectors = symmetric(part + part.mT - torch.diag_embed(torch.diagonal(x, 0, -2, -1)))
    return values, vectors if compute_v else torch.zeros(0, dtype=x.dtype)


def eigvalsh(x: Any, uplo: str = "L") -> Any:
    """Eigenvalues alone."""
    return eigh(x, uplo)[0]


def _least(x: Any, values: Any, atol: Any, rtol: Any) -> Any:
    """Up to which size of the batch's values they count as 0."""
    none = torch.zeros((), dtype=values.dtype)
    usual = max(x.shape[-2:]) * torch.finfo(x.dtype).eps
    if rtol is None:
        rtol = torch.full((), usual, dtype=values.dtype)
        rtol = rtol if atol is None else torch.where(atol > 0, none, rtol)
    atol = none if atol is None else atol
    most = values.abs().amax(-1)
    atol, rtol = (one.to(values.dtype) for one in (atol, rtol))
    return torch.maximum(atol, rtol * most).unsqueeze(-1)


def pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """By the inverses of the values that do not count as 0."""
    if 0 in x.shape:
        return torch.zeros((*x.shape[:-2], *x.shape[:-3:-1]), dtype=x.dtype)
    if hermitian:
        values, left = eigh(x)
        right = left.mT
    else:
        left, values, right = svd(x, False)
    counts = values.abs() > _least(x, values, atol, rtol)
    one = torch.ones_like(values)
    inverse = torch.where(counts, one / torch.where(counts, values, one), torch.zeros_like(one))
    return (right.mT * inverse.unsqueeze(-2)) @ left.mT


def pinv_of_number(x: Any, rcond: Any = None, hermitian: bool = False) -> Any:
    """The same of an older name's number."""
    if rcond is not None and not isinstance(rcond, torch.Tensor):
        rcond = torch.full((), rcond, dtype=torch.float64)
    return pinv(x, rtol=rcond, hermitian=hermitian)


def matrix_rank(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """How many values do not count as 0."""
    if 0 in x.shape:
        return torch.zeros(x.shape[:-2], dtype=torch.int64)
    values = eigvalsh(x) if hermitian else svdvals(x)
    return (values.abs() > _least(x, values, atol, rtol)).sum(-1)


def eig(*_: Any, **__: Any) -> Any:
    """None: they are complex numbers of an iteration of complex matrices."""
    raise MlirError(
        "linalg: eig of a matrix that need not be symmetric; linalg.eigh and linalg.svd are"
        " supported"
    )


SPECTRA: dict[Any, Callable[..., Any]] = {
    aten._linalg_svd.default: svd,
    aten.linalg_svd.default: linalg_svd,
    aten.svd.default: old_svd,
    aten.linalg_svdvals.default: svdvals,
    aten._linalg_eigh.default: eigh,
    aten.linalg_eigh.default: eigh,
    aten.linalg_eigvalsh.default: eigvalsh,
    aten.linalg_pinv.atol_rtol_tensor: pinv,
    aten.pinverse.default: pinv_of_number,
    aten.linalg_pinv.rcond_tensor: pinv_of_number,
    aten.linalg_matrix_rank.atol_rtol_tensor: matrix_rank,
    aten.linalg_eig.default: eig,
    aten.linalg_eigvals.default: eig,
    aten._linalg_eigvals.default: eig,
}
