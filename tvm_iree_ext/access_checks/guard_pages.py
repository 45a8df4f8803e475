"""Memory beside pages that cannot be touched: an access outside of an array ends the process.

An array lies at the end of its pages, or at their beginning, as near as the alignment of its
elements permits.  Before and behind are pages of which nothing can be read or written.  What is new
is of bytes that are NaN in every float type, so that reading what nobody wrote shows.
"""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

Side = Literal["end", "beginning", "within"]
"""Side of the array that a guard page touches; ``within`` is neither."""

_GUARD_BYTES = 1 << 20  # on both sides: also a step of a row or a tile too far ends there
_MARGIN_BYTES = 1 << 16  # on the other side: what ends the process is on the side that was meant
_PAGE = mmap.PAGESIZE
_NOISE = 0xFF
_WORKSPACE_ALIGNMENT = 64  # TVM's code takes it for granted
_NONE, _READ = 0, 1  # PROT_NONE, PROT_READ
_C = ctypes.CDLL(None, use_errno=True)
_SLOTS = ("__TVMBackendAllocWorkspace", "__TVMBackendFreeWorkspace")


def empty(
    shape: tuple[int, ...], dtype: np.dtype, side: Side, *, readable: bool = False
) -> np.ndarray:
    """A new array, of noise; with ``readable`` only writing the pages around it is caught."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data, _ = _placed(count, side, dtype.itemsize, readable)
    return data.view(dtype).reshape(shape)


def copy(array: np.ndarray, side: Side, *, readable: bool = False) -> np.ndarray:
    """A copy that cannot be written: a kernel never writes its inputs."""
    made = empty(array.shape, array.dtype, side, readable=readable)
    made[...] = array
    if made.nbytes:
        first = made.ctypes.data // _PAGE * _PAGE
        _protect(first, made.ctypes.data + made.nbytes - first, _READ)
    return made


def takes_workspaces(library: Path) -> bool:
    """Whether a kernel takes memory from the heap."""
    return all(hasattr(ctypes.CDLL(str(library)), name) for name in _SLOTS)


@contextmanager
def workspaces(library: Path, side: Side, *, readable: bool = False) -> Iterator[list[str]]:
    """Within the block what a loaded kernel takes from the heap lies beside such pages.

    Yields what is found wrong of it meanwhile.  The kernel must run on one thread: TVM's others
    cannot call what is Python's.
    """
    loaded = ctypes.CDLL(str(library))
    slots = [ctypes.c_void_p.in_dll(loaded, name) for name in _SLOTS]
    live: dict[int, tuple[int, np.ndarray, np.ndarray]] = {}
    wrong: list[str] = []

    @ctypes.CFUNCTYPE(
        ctypes.c_void_p, *(ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
    )
    def allocate(_kind: int, _device: int, count: int, _code: int, _bits: int) -> int:
        data, slack = _placed(count, side, _WORKSPACE_ALIGNMENT, readable)
        live[data.ctypes.data] = count, data, slack
        return data.ctypes.data

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    def free(_kind: int, _device: int, address: int) -> int:
        count, _, slack = live.pop(address)
        if (slack != _NOISE).any():
            wrong.append(f"a workspace of {count} bytes is written behind its end")
        return 0

    before = [slot.value for slot in slots]
    try:
        for slot, function in zip(slots, (allocate, free), strict=True):
            slot.value = ctypes.cast(function, ctypes.c_void_p).value
        yield wrong
    finally:
        for slot, value in zip(slots, before, strict=True):
            slot.value = value


def _placed(
    count: int, side: Side, alignment: int, readable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of noise between pages that cannot be touched, and those behind them up to such."""
    margins = {"beginning": (0, 1), "within": (1, 1), "end": (1, 0)}[side]
    pages = -(-count // _PAGE) * _PAGE + sum(margins) * _MARGIN_BYTES
    memory = mmap.mmap(-1, pages + 2 * _GUARD_BYTES)
    inner = np.frombuffer(memory, np.uint8, pages, _GUARD_BYTES)
    inner.fill(_NOISE)
    start = margins[0] * _MARGIN_BYTES
    if side == "end":
        start = (pages - count) // alignment * alignment
    address = inner.ctypes.data
    for first in (address - _GUARD_BYTES, address + pages):
        _protect(first, _GUARD_BYTES, _READ if readable else _NONE)
    return inner[start : start + count], inner[start + count :]


def _protect(address: int, count: int, what: int) -> None:
    if _C.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(count), what):
        raise OSError(ctypes.get_errno(), "mprotect")
