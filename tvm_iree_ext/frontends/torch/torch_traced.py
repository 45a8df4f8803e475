"""Functions of PyTorch that ``torch.export`` does not get through, as others that it does.

They look at numbers while they are traced, mostly to complain of bad ones.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_Tensor = torch.Tensor


def _cov(
    x: Any,
    *,
    correction: int = 1,
    fweights: Any = None,
    aweights: Any = None,
) -> Any:
    """Of variables in rows; weights count observations, or say how much one is worth."""
    wide = x.reshape(1, -1) if x.dim() < 2 else x
    if not wide.dtype.is_floating_point and not wide.dtype.is_complex:
        wide = wide.to(torch.get_default_dtype())
    weights = [one for one in (fweights, aweights) if one is not None]
    if not weights:
        count: Any = wide.shape[1]
        away = wide - wide.mean(1, keepdim=True)
        product, norm = away @ away.mH, max(count - correction, 0)
    else:
        weight = weights[0] if len(weights) == 1 else weights[0] * weights[1]
        count = weight.sum()
        away = wide - ((wide * weight).sum(1) / count)[:, None]
        product = (away * weight) @ away.mH
        lost: Any = correction
        if aweights is not None:
            lost = correction * (weight * aweights).sum() / count
        norm = (count - lost).clamp(min=0)
    covariance: Any = product / norm
    return covariance.squeeze()


def _corrcoef(x: Any) -> Any:
    """The covariances by both deviations."""
    covariance = _cov(x)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = torch.sqrt(torch.diagonal(covariance).real).to(covariance.dtype)
    parts = covariance / deviation[:, None] / deviation[None, :]
    if parts.is_complex():
        return torch.complex(parts.real.clamp(-1, 1), parts.imag.clamp(-1, 1))
    return parts.clamp(-1, 1)


def _gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Half of the logarithm of the variance and of the square over it; no variance is refused."""
    if not isinstance(var, _Tensor):
        var = torch.full_like(input, var)
    if var.dim() == input.dim() - 1 and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.9189385332046727  # half of the logarithm of 2 pi
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[reduction]


def _combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Rows of elements at places in rising order."""
    if r == 0:
        return x[:0]
    draw = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(draw(range(x.shape[0]), r))
    return x[torch.tensor(places, dtype=torch.int64).reshape(-1, r)]


def _narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    """A slice whose beginning may be a tensor."""
    if not isinstance(start, _Tensor):
        return torch.narrow(x, dim, start, length)
    extent = x.shape[dim]
    start = torch.where(start < 0, start + extent, start)
    return x.index_select(dim, start + torch.arange(length))


def _linear_cross_entropy(*arguments: Any, options: Any = None, **named: Any) -> Any:
    """Of the whole batch: in parts it takes less memory, and gives the same."""
    return F.linear_cross_entropy(*arguments, **named)


_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    _Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    _Tensor.corrcoef: _corrcoef,
    F.gaussian_nll_loss: _gaussian_nll_loss,
    torch.combinations: _combinations,
    torch.narrow: _narrow,
    _Tensor.narrow: _narrow,
    F.linear_cross_entropy: _linear_cross_entropy,
}


class Traceable(TorchFunctionMode):
    """While it is entered, calls of such functions are calls of the others."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The other function where there is one."""
        return _FUNCTIONS.get(function, function)(*args, **(kwargs or {}))
