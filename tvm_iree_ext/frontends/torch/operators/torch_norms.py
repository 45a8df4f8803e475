"""PyTorch's norms that IREE has not, or not safely."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def group_norm_forward(
    x: Any,
    weight: Any,
    bias: Any,
    batch: int,
    channels: int,
    inside: int,
    groups: int,
    epsilon: float,
) -> Any:
    """The norm, and the mean and inverse deviation of each group."""
    found = F.group_norm(x, groups, weight, bias, epsilon)
    rows = x.reshape(batch, groups, channels // groups * inside)
    deviation = torch.rsqrt(rows.var(-1, correction=0) + epsilon)
    return found, rows.mean(-1), deviation


def batch_norm_update(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_variance: Any,
    momentum: float,
    epsilon: float,
) -> Any:
    """The norm of a batch, its statistics, and those that run on."""
    axes = [axis for axis in range(x.dim()) if axis != 1]
    count = x.numel() // x.shape[1]
    mean, variance = x.mean(axes), x.var(axes, correction=0)
    deviation = torch.rsqrt(variance + epsilon)
    scale = deviation if weight is None else deviation * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (1, -1, *[1] * (x.dim() - 2))
    unbiased = variance * (count / max(count - 1, 1))
    return (
        *(x * scale.reshape(shape) + shift.reshape(shape), mean, deviation),
        x.reshape(-1)[:0].to(torch.uint8),
        running_mean * (1 - momentum) + mean * momentum,
        running_variance * (1 - momentum) + unbiased * momentum,
    )


def instance_norm(
    x: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_variance: Any,
    uses_own: bool,
    _momentum: float,
    epsilon: float,
    _cudnn: bool,
) -> Any:
    """A group norm of a group for each channel, or a batch norm by statistics that run on.

    The decomposition in IREE 3.13.0's compiler reads memory that it has given back: it ends by a
    signal or asks for all memory there is, at some runs and not at others.
    """
    if uses_own:
        return torch.group_norm(x, x.shape[1], weight, bias, epsilon)
    return F.batch_norm(x, running_mean, running_variance, weight, bias, eps=epsilon)


def rms_norm(x: Any, shape: list[int], weight: Any = None, epsilon: float | None = None) -> Any:
    """By the root of the mean square; where no epsilon is said, IREE's front end takes 0."""
    if epsilon is None:
        epsilon = torch.finfo(x.dtype).eps
    axes = list(range(-len(shape), 0))
    scaled = x * torch.rsqrt((x * x).mean(axes, keepdim=True) + epsilon)
    return scaled if weight is None else scaled * weight


def renorm(x: Any, p: float, axis: int, most: float) -> Any:
    """Slices along an axis, scaled to a norm of at most ``most``.

    IREE takes an axis that is counted from the last for none.
    """
    axis %= x.dim()
    others = [other for other in range(x.dim()) if other != axis]
    norm = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return x * torch.where(norm > most, most / (norm + 1e-7), 1.0)  # 1e-7: ATen's renorm


NORMS: dict[Any, Callable[..., Any]] = {
    aten.native_group_norm.default: group_norm_forward,
    aten.instance_norm.default: instance_norm,
    aten._batch_norm_with_update_functional.default: batch_norm_update,
    aten.renorm.default: renorm,
    aten.rms_norm.default: rms_norm,
}
