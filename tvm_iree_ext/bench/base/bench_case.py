"""What is timed: an op with operands, a way to tell whether a result is right, and its peers."""

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.runtime import tvm_runtime

Values = Mapping[str, np.ndarray]
"""Operands by name."""

Call = Callable[[], Any]
"""Computes the result from operands that it holds."""

Check = Callable[[Any], str | None]
"""None for a right result, or what is wrong with it."""


class Skipped(Exception):
    """A peer cannot be timed here; says why."""


@dataclass(frozen=True)
class Library:
    """Where a call comes from, and how to hold it to a number of threads.

    ``limit(count)`` gives a context; it raises :class:`Skipped` where it cannot.
    """

    name: str
    package: str
    limit: Callable[[int], AbstractContextManager[Any]]
    module: str = ""
    """What is imported, where it has not the package's name."""

    def version(self) -> str:
        """The installed version.

        Raises:
            Skipped: where it is not installed.
        """
        try:
            if importlib.util.find_spec(self.module or self.package.replace("-", "_")) is not None:
                return importlib.metadata.version(self.package)
        except ModuleNotFoundError:  # what the module is in is not there, either
            pass
        raise Skipped("not installed")


@dataclass(frozen=True)
class Peer:
    """Another implementation of a case."""

    library: Library
    make: Callable[[Values], Call]
    """The call, for operands; it may raise :class:`Skipped`."""

    @property
    def name(self) -> str:
        """The library's."""
        return self.library.name


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Attributes:
        name: without spaces, unique in its suite.
        op: what is computed.
        operands: makes them, the same at every call.
        check: makes the check of results for operands; it compares with float64.
        peers: in the order of the table's columns.
        compute_dtype: the type whose multiply-adds bound the op.
        moved: the bytes read and written, where they are not those of operands and results.
    """

    name: str
    op: Op
    operands: Callable[[], dict[str, np.ndarray]]
    check: Callable[[Values], Check]
    peers: tuple[Peer, ...]
    compute_dtype: str = "float32"
    moved: int | None = None

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return self.op.flops()

    @property
    def bytes(self) -> int:
        """Bytes of operands and results, each touched once."""
        return self.op.bytes() if self.moved is None else self.moved


def _limit_numpy(count: int) -> AbstractContextManager[Any]:
    """Only threadpoolctl can tell the BLAS inside NumPy how many threads to use."""
    if importlib.util.find_spec("threadpoolctl") is None:
        if count == tvm_runtime.available_processors() and "OPENBLAS_NUM_THREADS" not in os.environ:
            return nullcontext()
        raise Skipped("needs threadpoolctl")
    import threadpoolctl

    return threadpoolctl.threadpool_limits(limits=count, user_api="blas")


@contextmanager
def _limit_torch(count: int) -> Any:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


OURS = Library("tvm_iree_ext", "tvm-iree-ext", tvm_runtime.threads)
HEURISTIC = Library("heuristic", "tvm-iree-ext", tvm_runtime.threads)
NUMPY = Library("NumPy", "numpy", _limit_numpy)
TORCH = Library("PyTorch", "torch", _limit_torch)
