"""JAX as a peer: a function of arrays, compiled by XLA for this CPU.

Its client takes the number of threads when it is made, so there is a new one for each number.
What is timed is the call until its results are there; operands are JAX's arrays made beforehand.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext.bench.base.bench_case import Call, Library, Peer, Values
from tvm_iree_ext.bench.peers.thread_setup import Opening

_THREADS_VARIABLE = "NPROC"  # XLA asks it for the size of the pool

opening = Opening()
JAX = Library("JAX", "jax", opening.limit)


def jax_peer(function: Callable[..., Any], donated: int | None = None) -> Peer:
    """JAX running a function of the operands, in their order, that gives the results.

    An operand that is ``donated`` is where the one result is written, and what the next call has.
    """
    return Peer(JAX, lambda values: jax_call(function, values, donated))


def jax_call(function: Callable[..., Any], values: Values, donated: int | None = None) -> Call:
    """The call of a function of some arrays."""
    return opening.call(lambda threads: _opened(function, values, threads, donated))


def _opened(
    function: Callable[..., Any], values: Values, threads: int, donated: int | None
) -> Call:
    import jax

    with jax.enable_x64(True):  # else it takes numbers of 64 bits for 32
        arrays = placed(list(values.values()), threads)
        if donated is not None:
            arrays[donated] = arrays[donated].copy()  # else it may be the caller's memory
        compiled = jax.jit(function, donate_argnums=donated).lower(*arrays).compile()

    def in_place() -> Any:
        assert donated is not None
        arrays[donated] = jax.block_until_ready(compiled(*arrays))
        return _Copied(arrays[donated])

    def call() -> Any:
        found = jax.block_until_ready(compiled(*arrays))
        if isinstance(found, list | tuple):
            return tuple(map(np.asarray, found))
        return np.asarray(found)  # a view: they are in the host's memory

    return call if donated is None else in_place


def placed(values: Any, threads: int) -> Any:
    """A tree of arrays as those of a new client of some threads; the old one's are gone."""
    import jax
    from jax.extend import backend

    before = os.environ.get(_THREADS_VARIABLE)
    os.environ[_THREADS_VARIABLE] = str(threads)
    try:
        jax.config.update("jax_platforms", "cpu")
        backend.clear_backends()
        return jax.device_put(values)
    finally:
        if before is None:
            del os.environ[_THREADS_VARIABLE]
        else:
            os.environ[_THREADS_VARIABLE] = before


class _Copied:
    """An array of JAX's, of which NumPy gets a copy: what is looked at is not written again."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array.copy(), dtype)
