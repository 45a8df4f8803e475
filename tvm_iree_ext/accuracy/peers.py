"""The same functions of NumPy, PyTorch and JAX, where these are installed."""

import functools
import importlib.util
import pkgutil
from collections.abc import Callable

import numpy as np

from tvm_iree_ext.accuracy.functions import MathFunction, PeerCall
from tvm_iree_ext.base.dtypes import numpy_dtype

PEERS = {"NumPy": "numpy", "PyTorch": "torch", "JAX": "jax"}
"""Libraries, and their modules."""


def peer_functions(function: MathFunction) -> dict[str, Callable[..., np.ndarray]]:
    """By library, its function of NumPy arrays; of those that are here."""
    run = {"NumPy": _by_numpy, "PyTorch": _by_torch, "JAX": _by_jax}
    return {
        peer: functools.partial(run[peer], function.peers[peer])
        for peer, module in PEERS.items()
        if peer in function.peers and importlib.util.find_spec(module) is not None
    }


def _by_numpy(call: PeerCall, *operands: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return pkgutil.resolve_name(call.path)(*operands, **call.options)


def _by_torch(call: PeerCall, *operands: np.ndarray) -> np.ndarray:
    import torch

    def tensor(operand: np.ndarray) -> torch.Tensor:
        if operand.dtype != numpy_dtype("bfloat16"):
            return torch.from_numpy(operand)
        return torch.from_numpy(operand.view(np.int16)).view(torch.bfloat16)

    result = pkgutil.resolve_name(call.path)(*map(tensor, operands), **call.options)
    if result.dtype != torch.bfloat16:
        return result.numpy()
    return result.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))


def _by_jax(call: PeerCall, *operands: np.ndarray) -> np.ndarray:
    import jax

    function = functools.partial(pkgutil.resolve_name(call.path), **call.options)
    with jax.enable_x64(True):
        return np.asarray(jax.jit(function)(*operands))
