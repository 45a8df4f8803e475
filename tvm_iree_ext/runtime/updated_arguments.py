"""Arguments of a call in whose memory a program writes results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.operand_parts import parts_of
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.runtime import arrays
from tvm_iree_ext.runtime.arrays import Port
from tvm_iree_ext.runtime.calls import Caller
from tvm_iree_ext.runtime.complex_results import fill
from tvm_iree_ext.runtime.cupy_arrays import CupyArray, is_cupy
from tvm_iree_ext.runtime.jax_arrays import is_jax
from tvm_iree_ext.runtime.strided_arrays import are_apart, memory_of
from tvm_iree_ext.runtime.torch_arrays import torch_module

_WORK = 1 << 12  # of comparing the elements of two arrays by their strides


@dataclass(frozen=True)
class _Update:
    """The numbers of a result and of the argument in whose place it is.

    ``part`` and ``tensor`` are those among what is passed and what comes back, where complex and
    strided operands are two.  A strided one is passed as it lies.
    """

    result: int
    argument: int
    part: int
    tensor: int
    is_strided: bool


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
        self._parts = [
            place for place, one in enumerate(signature.arguments) for _ in parts_of(one)
        ]  # the numbers of the arguments that what is passed is of
        names, parts, tensors = (
            [part.name for operand in operands for part in taken(operand)]
            for operands, taken in (
                (signature.arguments, lambda operand: [operand]),
                (signature.arguments, parts_of),
                (signature.results, parts_of),
            )
        )
        self._updates: list[_Update] = []
        self._complex: list[tuple[int, int]] = []  # results and arguments, which are copied
        for place, one in enumerate(signature.results):
            if not one.in_place_of:
                continue
            argument, part = names.index(one.in_place_of), parts_of(one)[0]
            if not part.in_place_of:
                self._complex.append((place, argument))
                continue
            home, tensor = parts.index(part.in_place_of), tensors.index(part.name)
            self._updates.append(_Update(place, argument, home, tensor, bool(one.strides)))

    @property
    def _written(self) -> list[int]:
        """The numbers of the arguments that are written."""
        return [one.argument for one in self._updates] + [one for _, one in self._complex]

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers, among what is passed, of what is written."""
        return tuple(one.part for one in self._updates)

    def others(self, results: Sequence[Any]) -> list[Any]:
        """What there is for each result, of those alone that are in place of no argument."""
        updated = {one.tensor for one in self._updates}
        return [one for number, one in enumerate(results) if number not in updated]

    def among(self, others: Sequence[Any], passed: Sequence[Any]) -> list[Any]:
        """What there is for each result: for those in place of arguments what was passed."""
        found = list(others)
        for one in sorted(self._updates, key=lambda update: update.tensor):
            found.insert(one.tensor, passed[one.part])
        return found

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._updates or self._complex)

    def check(self, arguments: Sequence[Any], out: Any) -> None:
        """Raise CallError for an argument that cannot be written, and for other arrays to fill."""
        if out is not None:
            names = ", ".join(self._arguments[one].name for one in self._written)
            raise CallError(f"{self._name}: out is not taken: results are written into {names}")
        for one in self._written:
            given = arguments[one]
            if isinstance(given, np.ndarray) and not given.flags.writeable:
                raise CallError(
                    f"{self._name}: {self._arguments[one].name} is read-only, and a result is"
                    " written into it; pass a copy"
                )

    def taken(
        self, arguments: Sequence[Any], passed: Sequence[Any], copied: Callable[[Any, Port], Any]
    ) -> list[Any]:
        """What is passed, or ``copied``, none of it memory that is not to be written.

        Raises:
            CallError: where an argument that is written shares memory with another, or its own
                elements are not apart.
        """
        taken = list(passed)
        for update in self._updates:
            place = update.part
            if not is_written(arguments[update.argument]):
                taken[place] = copied(passed[place], self._ports[place])
        lying = [memory_of(one) if is_written(one) else None for one in arguments]
        for place, one in zip(self._parts, passed, strict=True):
            if lying[place] is None:
                lying[place] = memory_of(one)
        for place in self._written:
            if is_written(arguments[place]):
                self._check_apart(lying, place)
        return taken

    def _check_apart(self, lying: Sequence[np.ndarray | None], place: int) -> None:
        """Raise CallError where elements of an argument that is written are others', or twice."""
        own, name = lying[place], self._arguments[place].name
        if own is None:
            return
        if not (own.flags.forc or are_apart(own.shape, own.strides, own.itemsize)):
            raise CallError(
                f"{self._name}: {name} has strides of {list(own.strides)} bytes for"
                f" {list(own.shape)}, whose elements are not apart; it is written"
            )
        for other, array in enumerate(lying):
            if other == place or array is None:
                continue
            # Who writes a strided array writes what lies between its elements, too, as it was.
            strided = self._arguments[place].strides or self._arguments[other].strides
            most: Any = 0 if strided and other in self._written else _WORK
            if np.may_share_memory(own, array, max_work=most):
                raise CallError(
                    f"{self._name}: {self._arguments[other].name} shares memory with {name}, into"
                    " which a result is written"
                )

    def returned(
        self, arguments: Sequence[Any], results: Sequence[Any], tensors: Sequence[Any]
    ) -> list[Any]:
        """The results, of which those in place of arguments are these.

        ``tensors`` are the results as the program gave them.
        """
        returned = list(results)
        for update in self._updates:
            given = arguments[update.argument]
            if update.is_strided:
                returned[update.result] = given
            elif is_written(given):
                _copy_back(tensors[update.tensor], given, self._ports[update.part])
                returned[update.result] = given
            elif is_jax(given):  # the next call may write a tensor, and not an array of JAX's
                returned[update.result] = tensors[update.tensor]
        for result, argument in self._complex:
            returned[result] = fill(arguments[argument], results[result])
        return returned


def is_written(given: Any) -> bool:
    """Whether an array is of a kind that may be written, and written to by anybody else."""
    torch = torch_module()
    if torch is not None and isinstance(given, torch.Tensor):
        return True
    if isinstance(given, tvm_ffi.Tensor):
        return bool(given.is_contiguous())
    return isinstance(given, np.ndarray) or is_cupy(given)


def _copy_back(made: Any, given: Any, port: Port) -> None:
    """Copy a result into the array that was given, unless it is there."""
    torch = torch_module()
    if isinstance(given, np.ndarray):
        if made is not given and (_address(given) != _address(made) or not given.flags.carray):
            given[...] = made if isinstance(made, np.ndarray) else arrays.as_numpy(made, port)
    elif _address(given) == _address(made):
        return
    elif torch is not None and isinstance(given, torch.Tensor):
        with torch.no_grad():
            given.copy_(made if isinstance(made, torch.Tensor) else torch.from_dlpack(made))
    elif isinstance(made, CupyArray):
        given[...] = made.array


def _address(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr if is_cupy(array) else array.data_ptr())
