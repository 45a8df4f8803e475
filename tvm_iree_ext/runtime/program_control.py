"""Loops and branches of programs: what the virtual machine calls to run functions of its own.

The bodies of loops, and branches, are functions of the program.  What they are given is in one
string: which function, what of the tensors that follow it takes, and what becomes of each of its
results.  A tensor that a body yields as it came is handed on; none is copied from run to run.
"""

import ctypes
import functools
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import tvm_ffi

from tvm_iree_ext.base.dtypes import item_bytes, numpy_dtype
from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.runtime import arrays

_running = threading.local()


@contextmanager
def functions_of(find: Callable[[str], Any]) -> Iterator[None]:
    """While it lasts, loops and branches of this thread run the functions that ``find`` gives."""
    before = getattr(_running, "find", None)
    _running.find = find
    try:
        yield
    finally:
        _running.find = before


class _RegionFunction:
    """A function that computes what a region yields, for its arguments."""

    def __init__(self, what: Mapping[str, Any], captured: Sequence[Any]) -> None:
        self.function = _running.find(what["name"])
        self.captured, self.ports = captured, what["ports"]

    def __call__(self, *arguments: Any) -> list[Any]:
        """The tensors that are yielded."""
        computed = self.function(*arguments, *self.captured)
        return [arguments[port] if port >= 0 else computed[-1 - port] for port in self.ports]


def _for(what: Mapping[str, Any], tensors: Sequence[Any]) -> Sequence[Any]:
    start, stop, step = map(_number, tensors[:3])
    if step <= 0:
        raise CallError(f"the step of a loop is {step}; expected 1 or more")
    given, captured = _split(tensors[3:], what["carried"])
    # What steps write into is the loop's own from the first on.
    carried = [_copied(one) if i in what["own"] else one for i, one in enumerate(given)]
    body = _RegionFunction(what["body"], captured)
    number = np.empty((), numpy_dtype(str(tensors[0].dtype)))
    tensor, is_kept = arrays.as_tensor(number), 0 in what["body"]["ports"]
    for value in range(start, stop, step):
        if is_kept:
            number = np.empty_like(number)
            tensor = arrays.as_tensor(number)
        number[()] = value
        carried = body(tensor, *carried)
    return carried


def _while(what: Mapping[str, Any], tensors: Sequence[Any]) -> Sequence[Any]:
    carried, captured = _split(tensors, what["carried"])
    of_before, of_after = _split(captured, what["before"]["captured"])
    before, after = (
        _RegionFunction(what["before"], of_before),
        _RegionFunction(what["after"], of_after),
    )
    while True:
        condition, *passed = before(*carried)
        if not _number(condition):
            return passed
        carried = after(*passed)


def _branch(what: Mapping[str, Any], tensors: Sequence[Any]) -> Sequence[Any]:
    selector, *captured = tensors
    regions = what["regions"]
    value = _number(selector)
    place = what["cases"].index(value) if value in what["cases"] else len(regions) - 1
    start = sum(region["captured"] for region in regions[:place])
    chosen = regions[place]
    return _RegionFunction(chosen, captured[start : start + chosen["captured"]])()


_KINDS = {"for": _for, "while": _while, "branch": _branch}


@tvm_ffi.register_global_func("tvm_iree_ext.control")
def control(text: str, *tensors: Any) -> list[Any]:
    """Run a loop or a branch; its results are in memory that no argument has."""
    what = _described(text)
    found, taken = [], {tensor.data_ptr() for tensor in tensors}
    for result in _KINDS[what["kind"]](what, tensors):
        found.append(_copied(result) if result.data_ptr() in taken else result)
        taken.add(found[-1].data_ptr())
    return found


@functools.lru_cache(maxsize=1024)
def _described(text: str) -> Any:
    return json.loads(text)


def _split(tensors: Sequence[Any], count: int) -> tuple[Sequence[Any], Sequence[Any]]:
    return tensors[:count], tensors[count:]


def _number(tensor: Any) -> int:
    """The integer, or the bool, that a tensor of rank 0 holds."""
    dtype = str(tensor.dtype)
    kind = ctypes.c_uint8 if dtype == "bool" else getattr(ctypes, f"c_{dtype}")
    return int(kind.from_address(tensor.data_ptr()).value)


def _copied(tensor: Any) -> Any:
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    shape = tuple(tensor.shape)
    copy = allocate(tvm_ffi.Shape(shape), tensor.dtype, tvm_ffi.device("cpu"), None)
    size = prod(shape) * item_bytes(str(tensor.dtype))
    ctypes.memmove(copy.data_ptr(), tensor.data_ptr(), size)
    return copy
