"""JAX as a peer: a function of arrays, compiled by XLA for this CPU.

Its client takes the number of threads when it is made, so there is a new one for each number.
What is timed is the call until its results are there; operands are JAX's arrays made beforehand.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.bench.case import Call, Library, Peer, Values
from tvm_iree_ext.bench.opening import Opening

_THREADS_VARIABLE = "NPROC"  # XLA asks it for the size of the pool

_opening = Opening()
JAX = Library("JAX", "jax", _opening.limit)


def jax_peer(function: Callable[..., Any]) -> Peer:
    """JAX running a function of the operands, in their order, that gives the results."""
    return Peer(JAX, lambda values: jax_call(function, values))


def jax_call(function: Callable[..., Any], values: Values) -> Call:
    """The call of a function of some arrays."""
    return _opening.call(lambda threads: _opened(function, values, threads))


def _opened(function: Callable[..., Any], values: Values, threads: int) -> Call:
    import jax
    from jax.extend import backend

    before = os.environ.get(_THREADS_VARIABLE)
    os.environ[_THREADS_VARIABLE] = str(threads)
    try:
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        backend.clear_backends()
        arrays = [jax.device_put(value) for value in values.values()]
    finally:
        if before is None:
            del os.environ[_THREADS_VARIABLE]
        else:
            os.environ[_THREADS_VARIABLE] = before
    compiled = jax.jit(function).lower(*arrays).compile()

    def call() -> Any:
        found = jax.block_until_ready(compiled(*arrays))
        if isinstance(found, list | tuple):
            return tuple(map(np.asarray, found))
        return np.asarray(found)  # a view: they are in the host's memory

    return call
