"""Tensors that a program keeps between calls, such as the key-value cache of a model."""

import ctypes
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.runtime import arrays

PREFIX = "state."
"""Of the names of the constants that states begin as."""


def _fill(tensor: Any, initial: Any, count: int) -> None:
    ctypes.memmove(tensor.data_ptr(), initial.data_ptr(), count)


class ProgramState:
    """The states of a loaded program; calls of functions that have some take turns."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._arrays: dict[str, np.ndarray] = {}
        self._tensors: dict[str, Any] = {}

    def begin(self, names: Iterable[str], constants: Mapping[str, Any]) -> None:
        """Take memory for states that have none yet, with what they begin as."""
        with self._lock:
            for name in names:
                if name not in self._arrays:
                    initial = constants[name]
                    made = np.empty(tuple(initial.shape), numpy_dtype(str(initial.dtype)))
                    self._arrays[name], self._tensors[name] = made, arrays.as_tensor(made)
                    _fill(self._tensors[name], initial, made.nbytes)

    def reset(self, constants: Mapping[str, Any]) -> None:
        """Have all states begin anew."""
        with self._lock:
            for name, tensor in self._tensors.items():
                _fill(tensor, constants[name], self._arrays[name].nbytes)

    @contextmanager
    def passed(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """The tensors of some states, which no other call has meanwhile."""
        with self._lock if names else nullcontext():
            yield [self._tensors[name] for name in names]

    def arrays(self) -> dict[str, np.ndarray]:
        """The memory of the states, by name."""
        return {name.removeprefix(PREFIX): array for name, array in self._arrays.items()}
