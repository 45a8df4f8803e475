"""Which lane holds which elements of matrices, for ``mma`` and ``wgmma``.

Source: PTX ISA 9.0, *Matrix Fragments for mma.m16n8k16 with floating point type* and the sections
beside it; *Register Fragments for wgmma.mma_async.m64nNk16*.  All of them follow one rule: with
``group = lane / 4`` and ``number = lane % 4``, and ``e`` elements in a register,

    A    row = group + 8 (register % 2)        column = number e + i + 4 e (register / 2)
    B    row = number e + i + 4 e register      column = group
    C    row = group + 8 (i / 2)                column = 2 number + i % 2      (i: its elements)

where A of eight rows has no second eight.  Elements of 64 bits are a register each.
"""

import functools

import numpy as np

from tvm_iree_ext.emulator.ptx.machine.lanes import WARP

Places = np.ndarray
"""[rows, columns] of a matrix: lane x elements of a lane + element."""

_GROUP, _NUMBER = np.arange(WARP) // 4, np.arange(WARP) % 4


def _inverse(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Places:
    """From the place of each lane's elements in the matrix to each element's holder."""
    places = np.full(shape, -1, np.int64)
    places[rows, columns] = np.arange(rows.size).reshape(rows.shape)
    assert places.min() >= 0
    return places


@functools.cache
def left(m: int, k: int, per_register: int) -> Places:
    """Holders of A's elements, [m, k]."""
    halves = m // 8
    count = m * k // WARP
    element = np.arange(count)
    register, inside = element // per_register, element % per_register
    rows = _GROUP[:, None] + 8 * (register % halves)
    columns = _NUMBER[:, None] * per_register + inside + 4 * per_register * (register // halves)
    return _inverse(rows, columns, (m, k))


@functools.cache
def right(n: int, k: int, per_register: int) -> Places:
    """Holders of B's elements, [k, n]."""
    assert n == 8
    element = np.arange(n * k // WARP)
    register, inside = element // per_register, element % per_register
    rows = _NUMBER[:, None] * per_register + inside + 4 * per_register * register
    return _inverse(rows, np.broadcast_to(_GROUP[:, None], rows.shape), (k, n))


@functools.cache
def accumulator(m: int, n: int) -> Places:
    """Holders of C's elements, [m, n]; n of more than 8 is so many times 8 columns."""
    halves = m // 8
    element = np.arange(m * n // WARP)
    tile, inside = element // (2 * halves), element % (2 * halves)
    rows = _GROUP[:, None] + 8 * (inside // 2)
    columns = 8 * tile + 2 * _NUMBER[:, None] + inside % 2
    return _inverse(rows, columns, (m, n))


def gathered(elements: np.ndarray, places: Places) -> np.ndarray:
    """Matrices [warps, rows, columns] of lanes' elements [warps, 32, elements]."""
    flat = elements.reshape(len(elements), -1)
    return flat[:, places.reshape(-1)].reshape(len(elements), *places.shape)


def scattered(matrices: np.ndarray, places: Places) -> np.ndarray:
    """Lanes' elements [warps, 32, elements] of matrices [warps, rows, columns]."""
    flat = matrices.reshape(len(matrices), -1)
    found = np.empty_like(flat)
    found[:, places.reshape(-1)] = flat
    return found.reshape(len(matrices), WARP, -1)
