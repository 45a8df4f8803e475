"""Operands that are first copied to rows of whole accesses, since their own are no such multiples.

    for row, word in the grid, a lane each:    padded[row, word] = lhs[row, word], 0 beyond the row
    then the product, which reads ``padded``

Rows of 4093 elements of 2 bytes are read one element at a time, by each of the tiles that need
them; a tensor map takes none.  The copy reads them so once.  Zeros behind a row along K add
nothing, and columns behind the last are not stored.

A copy may also turn an operand, where an instruction takes K contiguous alone: by tiles that go
through shared memory.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tvm import DataType, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script import builder as I

from tvm_iree_ext.schedules.gpu.emit.lanes import vectorized, where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulOperands, MatmulShape
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import vector_elements
from tvm_iree_ext.targets.gpu import GpuChip, gpu_chip, subgroup_size

_SUBGROUPS = 8  # of a workgroup that copies
_WORDS = 4  # that a lane copies: enough to wait for at once
_WORD_BYTES = 4  # that a lane stores at least
_EDGE = 64  # elements of a tile that is turned

# The model of when a copy pays.
TILE = 128
"""Rows or columns of a tile: an operand is read once for each tile across it."""
_ACCESSES_PER_US = 7.8e3  # of the lanes of a core, one element each, stored to shared memory, too
"""An H100 took 1269 us for 4095 x 4097 x 4093 of float16, element by element: 1040 more than
for vectors, of 1.07e9 accesses by 132 cores (`scripts/gpu-day`)."""
_DEPTH = 256  # of a part of K
_LEAST_US = 5.0  # that a kernel of its own must save: what a launch takes, and the model is rough
_TYPICAL = 4096  # what an extent that is known at call time counts as
_TBS = 1.0  # of a chip of which nothing is known


class PaddedOperands:
    """Operands of a product of which some are read from padded copies; see :class:`MatmulOperands`.

    The kernels that make these stand before that of the product.
    """

    def __init__(self, operands: MatmulOperands, shape: MatmulShape) -> None:
        self.inner, self.shape = operands, shape
        self.index_dtype = operands.index_dtype
        self.copies: dict[str, Any] = {}

    @property
    def sides(self) -> list[str]:
        """The operands that are copied."""
        return [side for side in SIDES if self.shape.pitch(side) is not None]

    @property
    def copied_first(self) -> list[str]:
        """The names of the blocks that make copies."""
        return [padded_name(side) for side in self.sides]

    def declare(self) -> None:
        """Name the func under construction, and add its parameters."""
        self.inner.declare()

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, m, n and k, without padding."""
        return self.inner.extents()

    def buffer(self, side: str) -> Any:
        """The array that is read: the copy, of groups, rows and columns, if there is one."""
        return self.copies[side] if side in self.copies else self.inner.buffer(side)

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element, of the copy if there is one."""
        if side not in self.copies:
            return self.inner.load(side, group, at)
        across, along = self._roles(side)
        return self.copies[side][group, at[across], at[along]]

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> Any | None:
        """Whether an element is there; all of a copy are."""
        return None if side in self.copies else self.inner.inside(side, at, run)

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Take a sum to the result."""
        self.inner.store(group, i, j, value)

    def emit_blocks(self) -> None:
        """Emit the copies as blocks, ``lhs_padded`` and ``rhs_padded``, to be scheduled."""
        for side in self.sides:
            extents = [self._const(extent) for extent in self._copied(side)]
            buffer = I.sblock_alloc_buffer(extents, self.shape.memory_dtype(side))
            IRBuilder.name(padded_name(side), buffer)
            with I.grid(*extents) as loops, I.sblock(padded_name(side)):
                g, i, j = (I.axis.spatial(e, loop) for e, loop in zip(extents, loops, strict=True))
                I.buffer_store(buffer, self._or_zero(side, self._load(side, g, i, j), j), [g, i, j])
            self.copies[side] = buffer

    def emit_kernel(self, target: Target) -> None:
        """Emit one kernel that makes all copies."""
        size = subgroup_size(target)
        lanes = _SUBGROUPS * size
        for side in self.sides:
            buffer = I.alloc_buffer(
                list(self._copied(side)), self.shape.memory_dtype(side), scope="global"
            )
            IRBuilder.name(padded_name(side), buffer)
            self.copies[side] = buffer
        copies = dict(self.copies)
        self.copies.clear()  # what is copied is read from where it is
        counts = [self._workgroups(side, lanes) for side in copies]
        with (
            I.launch_thread("blockIdx.x", sum(counts)) as number,
            I.launch_thread("threadIdx.x", lanes) as lane,
        ):
            first: Any = 0
            for count, (side, buffer) in zip(counts, copies.items(), strict=True):
                copy = self._turn_tile if self._turns(side) else self._copy_words
                with where(tirx.And(number >= first, number < first + count)):
                    copy(side, buffer, number - first, lane, lanes)
                first = first + count
        self.copies.update(copies)

    def _copy_words(self, side: str, buffer: Any, number: Any, lane: Any, lanes: int) -> None:
        """Copy a workgroup's words: lanes side by side, all read before the first is stored."""
        run, each = self._run(side), self._word(side)
        _, rows, pitch = self._copied(side)
        held = I.alloc_buffer((_WORDS * each,), str(buffer.dtype), scope="local")
        words, places = pitch // each, []
        for turn in range(_WORDS):
            word = I.Bind((self._index(number) * _WORDS + turn) * lanes + lane)
            line, column = I.Bind(word // words), I.Bind(word % words * each)
            place = [line // rows, line % rows, column]
            places.append((word, place))
            with where(word < self._words(side)):
                for start in range(0, each, run):
                    with vectorized(run) as at:
                        value = self._load(side, place[0], place[1], column + start + at)
                        value = self._or_zero(side, value, column + start)
                        I.buffer_store(held, value, [turn * each + start + at])
        for turn, (word, place) in enumerate(places):
            with where(word < self._words(side)), vectorized(each) as at:
                I.buffer_store(buffer, held[turn * each + at], [*place[:2], place[2] + at])

    def _turn_tile(self, side: str, buffer: Any, number: Any, lane: Any, lanes: int) -> None:
        """Turn a workgroup's tile: lanes side by side along the rows of both arrays."""
        _, rows, pitch = self._copied(side)
        run, each, dtype = min(self._run(side), _WORDS), self._word(side), str(buffer.dtype)
        pitch_there = _EDGE + each  # lanes that read columns find them in several banks
        tile = I.alloc_buffer((_EDGE * pitch_there,), dtype, scope="shared")
        _, along = self._roles(side)
        down, right = -(-rows // _EDGE), -(-pitch // _EDGE)
        group, first = number // (down * right), (number // right % down, number % right)
        row, column = (I.Bind(self._index(at) * _EDGE) for at in first)
        for turn in range(_EDGE * _EDGE // run // lanes):
            place = (turn * lanes + lane) * run
            k, i = place // _EDGE, place % _EDGE
            inside = tirx.And(column + k < self._extent(along), row + i < rows)
            with vectorized(run) as at:
                value = self._load(side, group, row + i + at, column + k)
                zero = tirx.const(0, dtype)
                I.buffer_store(
                    tile, tirx.if_then_else(inside, value, zero), [k * pitch_there + i + at]
                )
        wait()
        for turn in range(_EDGE * _EDGE // each // lanes):
            place = (turn * lanes + lane) * each
            i, k = place // _EDGE, place % _EDGE
            held = I.alloc_buffer((each,), dtype, scope="local")
            for at in range(each):
                I.buffer_store(held, tile[(k + at) * pitch_there + i], [at])
            with where(tirx.And(row + i < rows, column + k < pitch)), vectorized(each) as at:
                I.buffer_store(buffer, held[at], [group, row + i, column + k + at])

    def _turns(self, side: str) -> bool:
        return self.shape.order(side) != self.inner.shape.order(side)

    def _workgroups(self, side: str, lanes: int) -> Any:
        """The workgroups that make a copy."""
        groups, rows, pitch = self._copied(side)
        if self._turns(side):
            return groups * -(-rows // _EDGE) * -(-pitch // _EDGE)
        return -(-self._words(side) // (lanes * _WORDS))

    def _roles(self, side: str) -> tuple[str, str]:
        """The roles of rows and columns as they lie in memory."""
        roles = "mk" if side == "lhs" else "kn"
        across, along = (roles[dim] for dim in self.shape.order(side))
        return across, along

    def _extent(self, role: str) -> Any:
        return self.inner.extents()["gmnk".index(role)]

    def _copied(self, side: str) -> tuple[Any, Any, int]:
        """Extents of a copy: groups, rows, and columns with those behind."""
        pitch = self.shape.pitch(side)
        assert pitch is not None
        return self._extent("g"), self._extent(self._roles(side)[0]), pitch

    def _run(self, side: str) -> int:
        """Elements that a lane reads at once."""
        own = self.inner.shape
        bits = DataType(own.memory_dtype(side)).bits
        return vector_elements(bits, self.shape.access(side), own.row(side))

    def _word(self, side: str) -> int:
        """Elements that it stores at once."""
        least = 8 * _WORD_BYTES // DataType(self.shape.memory_dtype(side)).bits
        return least if self._turns(side) else max(self._run(side), least)

    def _words(self, side: str) -> Any:
        groups, rows, pitch = self._copied(side)
        return groups * rows * (pitch // self._word(side))

    def _load(self, side: str, group: Any, row: Any, column: Any) -> Any:
        across, along = self._roles(side)
        return self.inner.load(side, group, {across: row, along: column})

    def _or_zero(self, side: str, value: Any, column: Any) -> Any:
        inside = column < self._extent(self._roles(side)[1])
        return tirx.if_then_else(inside, value, tirx.const(0, self.shape.memory_dtype(side)))

    def _index(self, value: Any) -> Any:
        return tirx.Cast(self.index_dtype, value) if self.index_dtype != "int32" else value

    def _const(self, extent: Any) -> Any:
        return tirx.const(extent, self.index_dtype) if isinstance(extent, int) else extent


def padded_name(side: str) -> str:
    """Name of the copy of ``lhs`` or ``rhs``, and of the block that makes it."""
    return f"{side}_padded"


def odd_sides(shape: MatmulShape) -> list[str]:
    """The operands whose rows are no multiples of an access."""
    return [side for side in SIDES if shape.row(side) % shape.access(side)]


def sides_to_pad(
    shape: MatmulShape, target: Target, *, together: bool, turned: Collection[str] = ()
) -> tuple[str, ...]:
    """The operands for which a copy takes less time than it saves.

    Args:
        shape: the product.
        target: the GPU.
        together: whether only all of those count whose rows are no multiples of an access.
        turned: those that must be turned besides, whatever their rows are.
    """
    chip = gpu_chip(target)
    odd = [side for side in SIDES if side in turned or side in odd_sides(shape)]
    if not all(shape.can_be_padded(side, turned=side in turned) for side in odd):
        odd = [] if together else [side for side in odd if shape.can_be_padded(side)]
    gains = {side: _gain_us(shape, chip, side, turned=side in turned) for side in odd}
    if together:
        return tuple(odd) if sum(gains.values()) > _LEAST_US else ()
    return tuple(side for side in odd if gains[side] > _LEAST_US)


def _gain_us(shape: MatmulShape, chip: GpuChip, side: str, *, turned: bool) -> float:
    """The time that the product saves with rows of whole accesses, less what the copy takes."""
    m, n, k = (extent or _TYPICAL for extent in (shape.m, shape.n, shape.k))
    elements = (shape.groups or 1) * k * (m if side == "lhs" else n)
    bits = DataType(shape.memory_dtype(side)).bits
    narrow, wide = vector_elements(bits, shape.row(side)), shape.access(side)
    # What must be turned is turned by each tile else, which writes elements one by one.
    accesses = elements * (1.0 if turned else 1 / narrow - 1 / wide)
    parts = max(1, k // _DEPTH)
    tiles = (shape.groups or 1) * -(-m // TILE) * -(-n // TILE) * parts
    saved = saved_us(chip, accesses, n if side == "lhs" else m, tiles)
    return saved - copy_us(chip, 2 * elements * bits / 8)


def saved_us(chip: GpuChip, accesses: float, across: int, tiles: int) -> float:
    """The time that a product saves with fewer accesses to each row, by all tiles across it.

    ``tiles`` are all of the product, and of the parts of K: no more cores than these are busy.
    """
    each = accesses * -(-across // TILE)
    return each / (_ACCESSES_PER_US * min(tiles, chip.usual_cores))


def copy_us(chip: GpuChip, nbytes: float) -> float:
    """The time that a copy takes, of so many bytes read and written."""
    part = chip.parts[0] if chip.parts else None
    return nbytes / ((part.bandwidth_tbs if part else _TBS) * 1e6)
