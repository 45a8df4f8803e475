"""PyTorch's distances and losses that IREE's front end does not take."""

from collections.abc import Callable
from math import inf
from typing import Any

import torch

from tvm_iree_ext.frontends.torch.operators.torch_copies import of_rank_0

aten = torch.ops.aten
_amax, _amin = of_rank_0(aten.amax.default), of_rank_0(aten.amin.default)


def vector_norm(x: Any, p: float) -> Any:
    """A norm along the last axis, by the largest absolute value where powers could overflow."""
    x = x.abs()
    if p == 0:
        return torch.ne(x, 0).to(x.dtype).sum(-1)
    if p == 1:
        return x.sum(-1)
    if x.shape[-1] == 0:
        return torch.zeros(x.shape[:-1], dtype=x.dtype)
    if p in (inf, -inf):
        return _amax(x, [-1]) if p > 0 else _amin(x, [-1])
    wide = x.double()
    total = (wide * wide).sum(-1).sqrt() if p == 2 else wide.pow(p).sum(-1).pow(1 / p)
    return total.to(x.dtype)


def cdist(a: Any, b: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """Distances of all rows of ``a[..., rows, size]`` from those of ``b[..., others, size]``."""
    return vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def pdist(x: Any, p: float = 2.0) -> Any:
    """Distances of each row from those behind it."""
    rows = x.shape[0]
    first, second = torch.triu_indices(rows, rows, 1).unbind(0)
    return vector_norm(x.index_select(0, first) - x.index_select(0, second), p)


def dist(a: Any, b: Any, p: float = 2.0) -> Any:
    """The norm of a difference."""
    return vector_norm((a - b).reshape(-1), p)


def _reduced(loss: Any, reduction: int) -> Any:
    return (lambda: loss, loss.mean, loss.sum)[reduction]()


def hinge_embedding_loss(x: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Any:
    """``x`` where the target is 1, and what is left to the margin where it is -1."""
    zero = torch.zeros((), dtype=x.dtype)
    away = torch.where(torch.ne(target, 1), (margin - x).clamp_min(0), zero)
    near = torch.where(torch.ne(target, -1), x, zero)
    return _reduced(away + near, reduction)


def cosine_embedding_loss(
    a: Any, b: Any, target: Any, margin: float = 0.0, reduction: int = 1
) -> Any:
    """The angle's cosine away from 1 where the target is 1, and from the margin where it is -1."""
    tiny = 1e-12
    product = (a * b).sum(-1)
    cosine = product / torch.sqrt(((a * a).sum(-1) + tiny) * ((b * b).sum(-1) + tiny))
    zero = torch.zeros((), dtype=cosine.dtype)
    near = torch.where(target == 1, 1 - cosine, zero)
    away = torch.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return _reduced(near + away, reduction)


def addmv(x: Any, matrix: Any, vector: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A product added to a vector; nothing of the vector where ``beta`` is 0."""
    product = torch.mv(matrix, vector)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * beta)


DISTANCES: dict[Any, Callable[..., Any]] = {
    aten.addmv.default: addmv,
    aten.cdist.default: cdist,
    aten._cdist_forward.default: cdist,
    aten.pdist.default: pdist,
    aten._pdist_forward.default: pdist,
    aten.dist.default: dist,
    aten.hinge_embedding_loss.default: hinge_embedding_loss,
    aten.cosine_embedding_loss.default: cosine_embedding_loss,
}
