"""Programs that are small enough to be simulated."""

import numpy as np

from tvm_iree_ext.bench.programs.models.program_model import Model


def scaled_sums():
    """Sums of rows, each less than those before: a function of JAX."""
    import jax.numpy as jnp

    x = np.arange(48, dtype=np.float32).reshape(4, 12) / 8
    return Model(lambda x: (jnp.tanh(x) * 2, jnp.cumsum(x, 1)), (x,))


def wide_layer():
    """A module of PyTorch's with a weight of 128 KiB."""
    import torch

    torch.manual_seed(0)
    return Model(torch.nn.Linear(128, 256).eval(), (torch.ones(2, 128),))
