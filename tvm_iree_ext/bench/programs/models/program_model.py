"""What a program is made of: a function or module, and arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Model:
    """A module of PyTorch or a function of JAX, with arguments.

    Attributes:
        function: a ``torch.nn.Module``, or a function of arrays and of containers of such.
        arguments: tensors of PyTorch, or arrays of NumPy in containers that JAX takes.
        options: of ``from_torch``; ``dynamic_shapes`` counts for the peers, too.
        onnx: options of ``torch.onnx.export`` that this program needs.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    onnx: Mapping[str, Any] = field(default_factory=dict)


def generator() -> np.random.Generator:
    """The one that a program draws from: the same numbers in every run."""
    return np.random.default_rng(0)


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Float32 numbers of a normal distribution."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def integers(rng: np.random.Generator, end: int, *shape: int) -> np.ndarray:
    """Int32 numbers from 0 to below ``end``."""
    return rng.integers(0, end, shape).astype(np.int32)
