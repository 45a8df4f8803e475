"""Tiles of attention in shared memory: where elements lie, who writes them and who reads them.

Rows are padded, and blocks of rows once more, as costs both the fewest passes over the banks.  All
of it is tables over lanes: what is emitted for them is in :mod:`.attention_tiles`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.intrin.fragments import run as run_along
from tvm_iree_ext.intrin.nvidia import ldmatrix_form, matrices
from tvm_iree_ext.layout.analysis import BANK_BYTES, WIDEST_ACCESS_BYTES, bank_passes
from tvm_iree_ext.layout.distribute import coordinates
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.schedules.gpu.sblocks.copies import copy_layout, transposing_layout
from tvm_iree_ext.targets.gpu import GpuChip
from tvm_iree_ext.targets.mma.mma_kinds import MmaOperand, tvm_dtype

_MATRICES = 4  # of one ldmatrix
_BLOCKS = (2, 4, 8, 16)  # rows; instructions take multiples of them


@dataclass(frozen=True)
class SharedTile:
    """Keys or values of one step in shared memory: ``[key, column]``, or the transposed.

    Attributes:
        keys, columns: its extents; columns are padded to whole instructions.
        dtype: of an element there.
        key_rows: whether a row is of one key; else of one column.
        pitch: elements from row to row.
        block_rows: rows after which there is more padding; 0 for none.
        block_pad: how many elements, beside those of the rows.
    """

    keys: int
    columns: int
    dtype: str
    key_rows: bool
    pitch: int
    block_rows: int = 0
    block_pad: int = 0

    @property
    def elements(self) -> int:
        """That it takes, padding included."""
        rows = self.keys if self.key_rows else self.columns
        return rows * self.pitch + self._block(rows - 1)

    @property
    def bytes(self) -> int:
        """That it takes."""
        return self.elements * item_bytes(self.dtype)

    def address(self, key: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Where an element lies."""
        row, place = (key, column) if self.key_rows else (column, key)
        return row * self.pitch + place + self._block(row)

    def _block(self, row: Any) -> Any:
        """What blocks add to where a row begins, or several."""
        return row // self.block_rows * self.block_pad if self.block_rows else row * 0


def padded_tile(keys: int, columns: int, dtype: str, key_rows: bool) -> SharedTile:
    """Rows of odd multiples of 16 bytes.

    Lanes that read 16 bytes each from consecutive rows pass over all banks before they meet.
    """
    size = item_bytes(dtype)
    length = -(-(columns if key_rows else keys) * size // WIDEST_ACCESS_BYTES)
    pitch = (length + 1 - length % 2) * WIDEST_ACCESS_BYTES // size
    return SharedTile(keys, columns, dtype, key_rows, pitch)


@dataclass(frozen=True)
class SharedAccess:
    """One access of lanes: registers from ``start`` on, at ``address[subgroup, lane]``."""

    start: int
    count: int
    address: np.ndarray


class TileWrites:
    """The copy of a tile from global memory by lanes, and what each stores at once.

    Args:
        tile: to where.
        hardware: subgroups of the workgroup, and lanes of each.
        key_rows: whether rows in global memory are of one key each.
        run: elements side by side in global memory that a lane may read at once.
        bits: of an element, where it has the most.
    """

    def __init__(
        self,
        tile: SharedTile,
        hardware: tuple[int, int],
        key_rows: bool,
        run: int,
        bits: int,
    ) -> None:
        self.tile, self.key_rows = tile, key_rows
        self.transposes = key_rows != tile.key_rows
        shape = (tile.keys, tile.columns) if key_rows else (tile.columns, tile.keys)
        make = transposing_layout if self.transposes else copy_layout
        layout = make(shape, bits, *hardware, run=min(run, 8 * WIDEST_ACCESS_BYTES // bits))
        held = coordinates(layout, *hardware, packed=True).reshape(*hardware, -1, 2)
        self.down, self.run = layout.element_tile  # of a run no more than leaves no lane idle
        self.keys, self.columns = held[..., 0 if key_rows else 1], held[..., 1 if key_rows else 0]
        self.inside: np.ndarray = np.all(held < np.array(shape), axis=-1)
        self.count = held.shape[2]

    def targets(self) -> list[tuple[list[int], int]]:
        """Registers that are stored together, and how many."""
        if not self.transposes:
            return [
                (list(range(at, at + self.run)), self.run) for at in range(0, self.count, self.run)
            ]
        block = self.down * self.run
        return [
            ([first + column + row * self.run for row in range(self.down)], self.down)
            for first in range(0, self.count, block)
            for column in range(self.run)
        ]

    def address(self, at: int) -> np.ndarray:
        """Where a register is stored."""
        return self.tile.address(self.keys[..., at], self.columns[..., at])

    def accesses(self) -> list[SharedAccess]:
        """All stores; lanes that have no part in one are at -1."""
        return [
            SharedAccess(
                first,
                count,
                np.where(self.inside[..., first], self.address(first), -1),
            )
            for (first, *_), count in self.targets()
        ]


class FragmentReads:
    """Reads of an operand's fragments from a tile: by ``ldmatrix``, or in runs of registers.

    Args:
        tile: what is read.
        hardware: subgroups of the workgroup, and lanes of each.
        chip: of the target.
        operand: of the instruction.
        dims: which of the operand's dims are the tile's keys and columns.
        order: for each place along the keys of fragments the key of the tile; by default the same.
        subgroup_keys: how many keys further each subgroup reads than the one before.
    """

    def __init__(
        self,
        tile: SharedTile,
        hardware: tuple[int, int],
        chip: GpuChip,
        operand: MmaOperand,
        dims: tuple[int, int],
        order: np.ndarray | None = None,
        subgroup_keys: int = 0,
    ) -> None:
        self.tile, self.operand, self.dims = tile, operand, dims
        self.subgroups, self.size = hardware
        self.subgroup_keys = subgroup_keys
        self.order = np.arange(tile.keys) if order is None else order
        fastest = dims[1] if tile.key_rows else dims[0]
        form = ldmatrix_form(operand, (1 - fastest, fastest)) if chip.loads_matrices else None
        self.transposed = form
        plain = (self.order == np.arange(len(self.order))).all()
        self.by_matrix = form is not None and plain and operand.dtype in ("f16", "bf16")
        run = run_along(operand, fastest)
        # A run of keys must be one in the tile, too.
        if fastest == dims[0] and not plain:
            run = 1
        self.run = min(run, WIDEST_ACCESS_BYTES // item_bytes(tvm_dtype(operand.dtype)))
        self.held = operand.coordinates(self.size)

    @property
    def together(self) -> int:
        """Fragments that one ``ldmatrix`` can read; 1 without."""
        return max(1, _MATRICES // self.operand.registers) if self.by_matrix else 1

    def accesses(self, firsts: Sequence[Ints]) -> list[SharedAccess]:
        """The accesses for fragments whose first elements are at ``firsts``, by operand dims."""
        found = []
        each = self.operand.elements_per_lane
        if self.by_matrix:
            return [SharedAccess(0, each * len(firsts), self._matrix_rows(firsts))]
        for number, first in enumerate(firsts):
            for start in range(0, each, self.run):
                place = self.held[:, start] + np.array(first)
                address = self._address(place)
                found.append(SharedAccess(number * each + start, self.run, address))
        return found

    def _address(self, place: np.ndarray) -> np.ndarray:
        subgroup = np.arange(self.subgroups)[:, None] * self.subgroup_keys
        key, column = (place[None, :, dim] for dim in self.dims)
        return self.tile.address(self.order[key] + subgroup, column + 0 * subgroup)

    def _matrix_rows(self, firsts: Sequence[Ints]) -> np.ndarray:
        """Lane 8i + r supplies the address of line r of matrix i; lanes beyond repeat them."""
        operand = self.operand
        row = next(dim for dim in (0, 1) if operand.thread[dim] == 8)
        line = 1 - row if self.transposed else row
        starts = [
            np.array(first) + np.array(matrix) for first in firsts for matrix in matrices(operand)
        ]
        place = np.zeros((self.size, 2), int)
        for lane in range(self.size):
            place[lane] = starts[lane // 8 % len(starts)]
            place[lane, line] += lane % 8
        return self._address(place)


Costed = Iterable[tuple[SharedAccess, int, int]]
"""Accesses, the bytes of a lane in each, and how often it is made."""


def with_fewest_passes(
    plain: SharedTile, accesses: Callable[[SharedTile], Costed], banks: int, *, blocks: bool
) -> SharedTile:
    """The tile with rows padded such that accesses cost the fewest passes over the banks.

    The first of those that cost no more than they need: ``plain``, then by size.

    Args:
        plain: its rows are a multiple of 16 bytes apart.
        accesses: that are made to a tile.
        banks: of shared memory.
        blocks: whether blocks of rows may be padded.
    """
    size = item_bytes(plain.dtype)
    widest = max(width for _, width, _ in accesses(plain))
    others = sorted(_padded(plain, max(widest // size, 1), banks, blocks), key=lambda t: t.bytes)
    best: tuple[int, SharedTile] | None = None
    for tile in (plain, *others):
        excess = sum(
            times * _excess(access.address * size, width, banks)
            for access, width, times in accesses(tile)
        )
        if best is None or excess < best[0]:
            best = excess, tile
        if not excess:
            break
    assert best is not None
    return best[1]


def _excess(first: np.ndarray, width: int, banks: int) -> int:
    passes = bank_passes(first, width, banks)
    return int(passes.sum() - (passes > 0).sum())


def _padded(plain: SharedTile, unit: int, banks: int, blocks: bool) -> Iterator[SharedTile]:
    """Rows that are multiples of ``unit`` elements apart, and blocks of them."""
    row = plain.columns if plain.key_rows else plain.keys
    row = -(-row // unit) * unit
    half = BANK_BYTES * banks // (2 * item_bytes(plain.dtype))
    pads = [unit << power for power in range((half // unit).bit_length())]
    for pad in (0, *pads):
        yield replace(plain, pitch=row + pad)
        if blocks:
            for rows in _BLOCKS:
                for block_pad in pads:
                    yield replace(plain, pitch=row + pad, block_rows=rows, block_pad=block_pad)
