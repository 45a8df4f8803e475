"""What a program is made of: a function or module, and arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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


def in_bfloat16(make: Callable[[], Model]) -> Model:
    """A model of PyTorch whose floats are bfloat16."""
    import torch

    model = make()
    module: Any = model.function
    arguments = tuple(one.bfloat16() if one.is_floating_point() else one for one in model.arguments)
    return replace(model, function=module.to(torch.bfloat16), arguments=arguments)


def with_open_batch(make: Callable[[], Model]) -> Model:
    """A model of PyTorch whose first extent each call says: 3 in the one that is timed."""
    import torch

    model = make()
    batch = torch.export.Dim("batch")
    arguments = tuple(one.expand(3, *one.shape[1:]).contiguous() for one in model.arguments)
    shapes = tuple({0: batch} for _ in arguments)
    return replace(model, arguments=arguments, options={"dynamic_shapes": shapes})
