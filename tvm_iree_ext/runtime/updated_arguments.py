"""Arguments of a call in whose memory a program writes results."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.runtime import arrays
from tvm_iree_ext.runtime.arrays import Port
from tvm_iree_ext.runtime.calls import Caller
from tvm_iree_ext.runtime.jax_arrays import is_jax
from tvm_iree_ext.runtime.torch_arrays import torch_module


@dataclass(frozen=True)
class _Update:
    """The numbers of a result and of the argument in whose place it is.

    ``part`` and ``tensor`` are those among what is passed and what comes back, where complex
    operands are two.
    """

    result: int
    argument: int
    part: int
    tensor: int


class UpdatedArguments:
    """The results of a function that are in place of arguments.

    A caller gets the array back that was given.  Where a call cannot take it as it lies, it takes
    a copy, and what that has become is copied back.  Arrays of libraries that do not write them,
    such as JAX's, stay as they are: the result is another.
    """

    def __init__(self, name: str, signature: Signature, caller: Caller) -> None:
        """Take the signature as callers see it, and the side on which complex operands are two."""
        self._name = name
        self._arguments, self._ports = signature.arguments, caller.ports
        own = caller.signature
        names, parts, tensors = (
            [operand.name for operand in operands]
            for operands in (signature.arguments, own.arguments, own.results)
        )
        self._updates = [
            _Update(
                place,
                names.index(one.in_place_of),
                parts.index(one.in_place_of),
                tensors.index(one.name),
            )
            for place, one in enumerate(signature.results)
            if one.in_place_of
        ]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._updates)

    def check(self, arguments: Sequence[Any], out: Any) -> None:
        """Raise CallError for an argument that cannot be written, and for other arrays to fill."""
        if out is not None:
            names = ", ".join(self._arguments[one.argument].name for one in self._updates)
            raise CallError(f"{self._name}: out is not taken: results are written into {names}")
        for one in self._updates:
            given = arguments[one.argument]
            if isinstance(given, np.ndarray) and not given.flags.writeable:
                raise CallError(
                    f"{self._name}: {self._arguments[one.argument].name} is read-only, and a"
                    " result is written into it; pass a copy"
                )

    def taken(self, arguments: Sequence[Any], passed: Sequence[Any]) -> list[Any]:
        """What is passed, none of it memory that is not to be written.

        Raises:
            CallError: where an argument that is written shares memory with another.
        """
        taken = list(passed)
        spans = [
            None if port.is_scalar else arrays.span(one, port.item)
            for one, port in zip(passed, self._ports, strict=True)
        ]
        for update in self._updates:
            place = update.part
            if not is_written(arguments[update.argument]):
                taken[place] = _copy(passed[place], self._ports[place])
                continue
            for other, span in enumerate(spans):
                own = spans[place]
                if other != place and span and own and span[0] < own[1] and own[0] < span[1]:
                    raise CallError(
                        f"{self._ports[other].name} shares memory with"
                        f" {self._ports[place].operand}, into which a result is written"
                    )
        return taken

    def returned(
        self, arguments: Sequence[Any], results: Sequence[Any], tensors: Sequence[Any]
    ) -> list[Any]:
        """The results, of which those in place of arguments are these.

        ``tensors`` are the results as the program gave them.
        """
        returned = list(results)
        for update in self._updates:
            given = arguments[update.argument]
            if is_written(given):
                _copy_back(tensors[update.tensor], given, self._ports[update.part])
                returned[update.result] = given
            elif is_jax(given):  # the next call may write a tensor, and not an array of JAX's
                returned[update.result] = tensors[update.tensor]
        return returned


def is_written(given: Any) -> bool:
    """Whether an array is of a kind that may be written, and written to by anybody else."""
    torch = torch_module()
    if torch is not None and isinstance(given, torch.Tensor):
        return True
    if isinstance(given, tvm_ffi.Tensor):
        return bool(given.is_contiguous())
    return isinstance(given, np.ndarray)


def _copy(passed: Any, port: Port) -> Any:
    tensor = tvm_ffi.from_dlpack(passed) if isinstance(passed, np.ndarray) else passed
    start, end = arrays.span(tensor, port.item)
    copy = arrays.as_tensor(np.empty(tuple(tensor.shape), port.numpy))
    ctypes.memmove(copy.data_ptr(), start, end - start)
    return copy


def _copy_back(tensor: Any, given: Any, port: Port) -> None:
    """Copy a result into the array that was given, unless it is there."""
    if isinstance(given, np.ndarray):
        if given.__array_interface__["data"][0] != tensor.data_ptr() or not given.flags.carray:
            given[...] = arrays.as_numpy(tensor, port)
    elif given.data_ptr() != tensor.data_ptr():
        torch = torch_module()
        if torch is not None and isinstance(given, torch.Tensor):
            with torch.no_grad():
                given.copy_(torch.from_dlpack(tensor))
