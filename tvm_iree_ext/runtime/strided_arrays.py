"""Arrays that a program takes as they lie: a line of memory, and the steps along each axis.

The line is all between the first element and the last, with what lies between elements; the other
part has no elements, and tells extents and strides (:mod:`tvm_iree_ext.base.operand_parts`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, shape_text
from tvm_iree_ext.runtime import cupy_arrays
from tvm_iree_ext.runtime.arrays import Port
from tvm_iree_ext.runtime.torch_arrays import torch_module


class StridedPort:
    """One strided operand of a program."""

    def __init__(self, op: str, operand: Operand, gpu: int | None) -> None:
        self._port = Port(op, operand, gpu)
        self._operand = operand

    def parts(self, value: Any) -> tuple[np.ndarray, Any]:
        """Extents and strides, and the line.

        Raises:
            CallError: for an array of another type, rank or strides, for one of a library that says
                no strides, and for one that is written and has an element twice.
        """
        name, torch = self._port.name, torch_module()
        if isinstance(value, np.ndarray):
            self._port.check_numpy(value)
            if not value.flags.aligned:
                raise CallError(f"{name} is misaligned; expected a multiple of its item's bytes")
            strides = self._in_elements(value.strides)
        elif torch is not None and isinstance(value, torch.Tensor):
            self._port.check_torch(value, torch)
            if value.is_neg():
                raise CallError(f"{name} is a view of negated elements; pass resolve_neg() of it")
            strides = value.stride()
        elif cupy_arrays.is_cupy(value):
            self._port.check_cupy(value)
            strides = self._in_elements(value.strides)
        else:
            raise CallError(
                f"{name} is a {type(value).__name__}; expected a NumPy array, PyTorch tensor or"
                " CuPy array, which is taken as it lies"
            )
        shape = tuple(value.shape)
        strides = self._checked(shape, strides)
        span = 0 if 0 in shape else 1 + _reach(shape, strides)
        layout = np.empty((*shape, *strides, 0), np.uint8)
        if isinstance(value, np.ndarray):
            return layout, np.lib.stride_tricks.as_strided(value, (span,), (value.itemsize,))
        if cupy_arrays.is_cupy(value):
            return layout, cupy_arrays.line(value, span)
        return layout, value.detach().as_strided((span,), (1,))

    def _in_elements(self, strides: Sequence[int]) -> tuple[int, ...]:
        item = self._port.item
        if any(one % item for one in strides):
            raise CallError(
                f"{self._port.name} has strides of {list(strides)} bytes; expected multiples of"
                f" {item}"
            )
        return tuple(one // item for one in strides)

    def _checked(self, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
        """The strides, those that no element is reached by as they should be."""
        name, operand = self._port.name, self._operand
        if len(shape) != len(operand.shape):
            raise CallError(
                f"{name} has rank {len(shape)}; expected {len(operand.shape)} for"
                f" {shape_text(operand.shape)}"
            )
        found = []
        for extent, stride, wanted in zip(shape, strides, operand.strides, strict=True):
            is_known = isinstance(wanted, int)
            if extent < 2 or 0 in shape:
                stride = int(wanted) if is_known else max(stride, 0)
            if stride < 0 or (is_known and stride != wanted):
                expected = shape_text(
                    one if isinstance(one, int) else "?" for one in operand.strides
                )
                least = "" if is_known else ", from 0"
                raise CallError(
                    f"{name} has strides {shape_text(strides)}; expected {expected}{least}, in"
                    " elements"
                )
            found.append(stride)
        return tuple(found)


def are_apart(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Whether no element of so many bytes is where another is, by strides in bytes.

    No array is told so whose axes lie between one another, though some of them are.
    """
    reach = 0
    for stride, extent in sorted((abs(s), e) for s, e in zip(strides, shape, strict=True)):
        if extent > 1 and 0 not in shape:
            if stride < reach + item:
                return False
            reach += stride * (extent - 1)
    return True


def memory_of(array: Any) -> np.ndarray | None:
    """Where the elements of an array lie, as an array that is not to be read; None for a number.

    It may lie on a GPU.
    """
    torch = torch_module()
    if isinstance(array, np.ndarray):
        return array
    if torch is not None and isinstance(array, torch.Tensor):
        address, item = array.data_ptr(), array.element_size()
        strides = [item * one for one in array.stride()]
    elif cupy_arrays.is_cupy(array):
        address, item, strides = array.data.ptr, array.itemsize, array.strides
    elif isinstance(array, tvm_ffi.Tensor):
        address, item = array.data_ptr(), array.dtype.itemsize
        strides = [item * one for one in array.strides]
    else:
        return None
    return np.asarray(_Memory(address, tuple(array.shape), tuple(strides), item))


class _Memory:
    """Memory, as NumPy takes it."""

    def __init__(
        self, address: int, shape: Sequence[int], strides: Sequence[int], item: int
    ) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{item}",
        }


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    return sum(stride * (extent - 1) for extent, stride in zip(shape, strides, strict=True))


def laid(array: np.ndarray, strides: Sequence[int | str]) -> np.ndarray:
    """An array with these strides, in elements, of which a call takes any for a name."""
    if not strides or array.ndim != len(strides):
        return array
    shape = array.shape if array.size else (1,) * array.ndim
    steps = [one if isinstance(one, int) else 0 for one in strides]
    for axis in reversed(range(array.ndim)):
        if isinstance(strides[axis], str):
            steps[axis] = _reach(shape, steps) + 1
    line = np.zeros(_reach(shape, steps) + 1, array.dtype)
    bytes_of_steps = [array.itemsize * one for one in steps]
    made = np.lib.stride_tricks.as_strided(line, array.shape, bytes_of_steps)
    made[...] = array
    return made
