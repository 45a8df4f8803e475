"""Programs small enough to be built and timed by a test: as those of the list, a function each."""

import os

import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model
from tvm_iree_ext.bench.programs.program_case import ProgramCase


def sums() -> Model:
    """Squares and their sums, in a container."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return Model(lambda given: (given["x"] ** 2, (given["x"] ** 2).sum(1)), ({"x": x},))


def ends_the_process() -> Model:
    """As a crash does while the reference is computed."""
    os._exit(3)


def linear() -> Model:
    """A layer of PyTorch."""
    import torch

    torch.manual_seed(0)
    return Model(torch.nn.Linear(8, 4).eval(), (torch.randn(3, 8),))


def case(name, framework="jax", **named) -> ProgramCase:
    return ProgramCase(name, framework, __name__, **named)
