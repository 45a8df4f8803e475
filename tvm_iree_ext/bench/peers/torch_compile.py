"""``torch.compile`` as a peer, where it is faster than PyTorch as it comes.

The code that it makes has the number of threads in it, so there is another for each number.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_iree_ext.bench.base.bench_case import TORCH, Call, Library, Peer, Skipped, Values
from tvm_iree_ext.bench.peers.thread_setup import Opening

opening = Opening()


@contextmanager
def _limit(count: int) -> Iterator[None]:
    with TORCH.limit(count), opening.limit(count):
        yield


COMPILED = Library("torch.compile", "torch", _limit)


def compiled_peer(function: Callable[..., Any]) -> Peer:
    """PyTorch compiling a function of the operands, in their order, that gives the results."""

    def make(values: Values) -> Call:
        if shutil.which("c++") is None:
            raise Skipped("needs a C++ compiler")
        return opening.call(lambda _: _opened(function, values))

    return Peer(COMPILED, make)


def _opened(function: Callable[..., Any], values: Values) -> Call:
    import torch

    compiled = compiled_anew(function)
    tensors = [torch.from_numpy(value) for value in values.values()]

    def call() -> Any:
        with torch.inference_mode():
            found = compiled(*tensors)
        return tuple(map(_array, found)) if isinstance(found, list | tuple) else _array(found)

    return call


def compiled_anew(function: Callable[..., Any], *, dynamic: bool = False) -> Callable[..., Any]:
    """A function compiled when it is first called, for the number of threads at that time."""
    import torch
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1  # no processes that stay
    torch._dynamo.reset()
    return torch.compile(function, dynamic=dynamic)


def _array(tensor: Any) -> np.ndarray:
    return tensor.numpy()
