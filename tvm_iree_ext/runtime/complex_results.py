"""Arrays of callers for the results of functions of complex numbers, filled once these are there.

A program gives each complex result as two parts, which are put together in the caller's array.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.runtime.arrays import Port
from tvm_iree_ext.runtime.calls import known_shape
from tvm_iree_ext.runtime.strided_arrays import memory_of
from tvm_iree_ext.runtime.torch_arrays import torch_module


class ComplexResults:
    """The results of a function, some of which may be complex, in arrays that a caller brings."""

    def __init__(self, name: str, signature: Signature, gpu: int | None) -> None:
        self._name, self._results = name, signature.results
        self._names = [one.name for one in (*signature.arguments, *signature.results)]
        self._ports = [Port(name, operand, gpu) for operand in signature.results]

    def checked(self, out: Any, given: Sequence[Any], bound: Mapping[str, int]) -> list[Any]:
        """The arrays for the results, checked as far as that can be before the call.

        Args:
            out: what the caller brought.
            given: the arguments, of which no array may be shared.
            bound: the values of extents that the arguments tell.

        Raises:
            CallError: for arrays that do not fit, or may not be written.
        """
        arrays = list(out) if isinstance(out, tuple | list) else [out]
        if len(arrays) != len(self._results):
            raise CallError(
                f"{self._name}: out has {len(arrays)} arrays; expected {len(self._results)}:"
                f" {', '.join(one.name for one in self._results)}"
            )
        lying = [memory_of(one) for one in given]
        for port, operand, array in zip(self._ports, self._results, arrays, strict=True):
            if not _is_filled(array):
                raise CallError(
                    f"{port.name} is a {type(array).__name__}; expected a NumPy array or PyTorch"
                    " tensor: the parts of complex numbers are put together in it"
                )
            shape, _ = port.take_out(array)
            port.check_shape(shape, known_shape(operand, bound))
            own = memory_of(array)
            for name, other in zip(self._names, lying, strict=False):
                if own is not None and other is not None and np.may_share_memory(own, other):
                    raise CallError(f"{port.name} shares memory with {name}")
            lying.append(own)
        return arrays

    def filled(self, arrays: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The arrays with the results.

        Raises:
            CallError: where one is of another shape, which only the run told.
        """
        for port, array, result in zip(self._ports, arrays, results, strict=True):
            port.check_shape(tuple(array.shape), tuple(result.shape))
        return [fill(array, result) for array, result in zip(arrays, results, strict=True)]


def _is_filled(array: Any) -> bool:
    torch = torch_module()
    return isinstance(array, np.ndarray) or (torch is not None and isinstance(array, torch.Tensor))


def fill(given: Any, made: Any) -> Any:
    """The array that was given, with a result copied into it; the result where it takes none."""
    torch = torch_module()
    if isinstance(given, np.ndarray):
        given[...] = made
    elif torch is not None and isinstance(given, torch.Tensor):
        with torch.no_grad():
            given.copy_(made if isinstance(made, torch.Tensor) else torch.from_dlpack(made))
    else:
        return made
    return given
