"""PyTorch's activations that IREE computes of exp(x) - 1, whose digits are few where x is small."""

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """Positive numbers times a scale; of others the exponential less 1."""
    below = (alpha * scale) * torch.expm1(x if input_scale == 1 else x * input_scale)
    return torch.where(x > 0, x if scale == 1 else x * scale, below)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """The same, whose slope at zero is 1."""
    return elu(x, alpha, 1.0, 1 / alpha)


def selu(x: Any) -> Any:
    """The same with the factors of self-normalizing networks, as PyTorch has them."""
    return elu(x, 1.6732632423543772, 1.0507009873554805)


ACTIVATIONS: dict[Any, Callable[..., Any]] = {
    aten.celu.default: celu,
    aten.elu.default: elu,
    aten.selu.default: selu,
}
