"""The kernel of a product of blocks with scales, on instructions that take the scales.

    for workgroup: a tile of rows and columns
        sums = 0
        for step of K:
            elements of lhs and rhs, read before, to shared memory, as many bits as they have
            read those of the next step, and their scales, into registers
            for instruction: sums += (lhs * scales) * (rhs * scales)
        each lane stores what it holds of the sums

In global memory an element is a byte.  A lane reads runs of 16, which it stores as 4, 3 or 2 words
of shared memory, for floats of 8, 6 or 4 bits.  There 16 bytes of a row are at other places in each
row, or rows of 6-bit floats are padded, such that lanes that read rows below each other meet
different banks.  Scales go from global memory to the lanes that the
instruction wants them in.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import amd, fragments
from tvm_iree_ext.intrin.byte_permutations import permuted
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand, dtype_bits

RUN = 16
"""Elements that a lane reads at once, of a byte each."""

_WORDS = 4  # of 32 bits, that are read
_BANK_WORDS = 64
_ONE = 127  # the scale 1


@dataclass(frozen=True)
class ScaledTiles:
    """The numbers of a kernel.

    Attributes:
        mma: the instruction.
        subgroups: of a workgroup, along m and n.
        tiles: instructions of a subgroup, along m and n.
        k_tiles: instructions along k of a step.
    """

    mma: Mma
    subgroups: tuple[int, int]
    tiles: tuple[int, int]
    k_tiles: int

    @property
    def depth(self) -> int:
        """Elements along k of a step."""
        return self.k_tiles * self.mma.k

    def extent(self, side: str) -> int:
        """Rows, or columns, of a workgroup's tile."""
        at = SIDES.index(side)
        return self.subgroups[at] * self.tiles[at] * (self.mma.m, self.mma.n)[at]

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return self.subgroups[0] * self.subgroups[1] * self.mma.subgroup_size

    def run_words(self, side: str) -> int:
        """Words of a run in shared memory."""
        return RUN * dtype_bits(self.mma.operand(side).dtype) // 32

    def row_words(self, side: str) -> int:
        """Words of a row in shared memory: those of 6-bit floats an odd number of fours."""
        words = self.depth // RUN * self.run_words(side)
        return words | _WORDS if self.run_words(side) == 3 else words

    def word(self, side: str, row: Any, run: Any) -> Any:
        """The place in shared memory of a row's run."""
        words, row_words = self.run_words(side), self.row_words(side)
        if words == 3:
            return row * row_words + run * words
        units, together = row_words // _WORDS, _WORDS // words
        rows = max(1, _BANK_WORDS // row_words)  # that have all banks
        unit = (run // together) ^ (row // rows % units)
        return (row * units + unit) * _WORDS + run % together * words

    def passes(self, side: str) -> int:
        """Runs of a step that a lane reads."""
        return -(-self.extent(side) * (self.depth // RUN) // self.lanes)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a workgroup."""
        return sum(4 * self.extent(side) * self.row_words(side) for side in SIDES)

    @property
    def registers(self) -> int:
        """Registers of a lane for sums, for fragments, and for what is on its way."""
        sums = self.tiles[0] * self.tiles[1] * self.mma.operand("acc").registers
        held = zip(SIDES, self.tiles, strict=True)
        factors = sum(count * (self.mma.operand(side).registers + 2) for side, count in held)
        return sums + factors + sum(_WORDS * self.passes(side) for side in SIDES)


def scaled_matmul(tiles: ScaledTiles, operands: Any, scales: dict[str, str]) -> tirx.PrimFunc:
    """The func of a product; ``scales`` names the operands with those of ``lhs`` and ``rhs``."""
    return _Kernel(tiles, operands, scales).func()


class _Kernel:
    def __init__(self, tiles: ScaledTiles, operands: Any, scales: dict[str, str]) -> None:
        self.tiles, self.operands, self.scales = tiles, operands, scales
        self.mma = tiles.mma
        self.group: Any = 0

    def func(self) -> tirx.PrimFunc:
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            groups, m, n, self.k = self.operands.extents()
            self.extents = {"lhs": m, "rhs": n}
            rows, columns = (-(-self.extents[side] // self.tiles.extent(side)) for side in SIDES)
            with ExitStack() as stack:
                number = stack.enter_context(I.launch_thread("blockIdx.x", rows * columns))
                if groups != 1:
                    self.group = stack.enter_context(I.launch_thread("blockIdx.y", groups))
                subgroups = self.tiles.lanes // self.mma.subgroup_size
                subgroup = stack.enter_context(I.launch_thread("threadIdx.y", subgroups))
                self.lane = stack.enter_context(
                    I.launch_thread("threadIdx.x", self.mma.subgroup_size)
                )
                self.number = I.Bind(subgroup * self.mma.subgroup_size + self.lane)
                self.own = {
                    "lhs": I.Bind(subgroup // self.tiles.subgroups[1]),
                    "rhs": I.Bind(subgroup % self.tiles.subgroups[1]),
                }
                self.first = {
                    "lhs": I.Bind(number // columns * self.tiles.extent("lhs")),
                    "rhs": I.Bind(number % columns * self.tiles.extent("rhs")),
                }
                self._workgroup()
        return builder.get()

    def _workgroup(self) -> None:
        tiles, steps = self.tiles, -(-self.k // self.tiles.depth)
        self.shared, self.read = {}, {}
        self.now, self.next = {}, {}
        for side, count in zip(SIDES, tiles.tiles, strict=True):
            words = tiles.extent(side) * tiles.row_words(side)
            self.shared[side] = I.alloc_buffer((words,), "uint32", scope="shared")
            IRBuilder.name(f"{side}_shared", self.shared[side])
            self.read[side] = _registers(tiles.passes(side) * _WORDS, "uint32")
            if side in self.scales:
                self.now[side], self.next[side] = (
                    _registers(count * tiles.k_tiles, "uint8") for _ in range(2)
                )
        acc = self.mma.operand("acc")
        self.sums = [
            [_registers(acc.registers, "float32") for _ in range(tiles.tiles[1])]
            for _ in range(tiles.tiles[0])
        ]
        for sums in (one for row in self.sums for one in row):
            zero = tirx.Broadcast(tirx.const(0, "float32"), acc.registers)
            I.buffer_store(sums, zero, [vector(0, acc.registers)])
        self._read_step(0)
        with I.serial(0, steps) as step:
            wait()
            for side in SIDES:
                self._write(side)
            wait()
            self._read_step(step + 1)
            for k_tile in range(tiles.k_tiles):
                self._multiply(k_tile)
        for i, row in enumerate(self.sums):
            for j, sums in enumerate(row):
                self._store(sums, i, j)

    # From global memory to shared memory.

    def _runs(self, side: str) -> Any:
        """The row, in the tile, and the run in it that a lane moves, for each of its passes."""
        count = self.tiles.depth // RUN
        down = self.tiles.lanes // count
        for number in range(self.tiles.passes(side)):
            yield self.number // count + number * down, self.number % count

    def _at(self, side: str, row: Any, k: Any) -> dict[str, Any]:
        """The place of an element, of the last row where there is none."""
        role, extent = ("m" if side == "lhs" else "n"), self.extents[side]
        return {role: tirx.min(self.first[side] + row, extent - 1), "k": k}

    def _read_step(self, step: Any) -> None:
        """What lanes move of a step; beyond the last one, something that is there."""
        depth = self.tiles.depth
        for side in SIDES:
            for number, (row, run) in enumerate(self._runs(side)):
                k = step * depth + run * RUN
                at = self._at(side, row, tirx.min(k, self.k - RUN))
                words = tirx.reinterpret(f"uint32x{_WORDS}", self._elements(side, at))
                if self.k % depth:
                    zero = tirx.Broadcast(tirx.const(0, "uint32"), _WORDS)
                    words = tirx.Select(k < self.k, words, zero)
                I.buffer_store(self.read[side], words, [vector(number * _WORDS, _WORDS)])
        for side, name in self.scales.items():
            for number, (row, block) in enumerate(self._scale_places(side)):
                k = step * depth + block * self.mma.scale_block
                at = self._at(side, row, tirx.min(k, self.k - 1))
                value = self.operands.load(name, self.group, at)
                I.buffer_store(self.next[side], value, [number])

    def _elements(self, side: str, at: dict[str, Any]) -> Any:
        """The bytes of a run of elements."""
        element = self.operands.load(side, self.group, at)
        *before, last = element.indices
        run = tirx.BufferLoad(element.source, [*before, vector(last, RUN)])
        return tirx.reinterpret(f"uint8x{RUN}", run)

    def _scale_places(self, side: str) -> Any:
        """The row, in the tile, and the block in the step whose scale a lane has."""
        operand = self.mma.operand(f"{side}_scale")
        index = dict(zip(operand.dims, fragments.coords(operand, self.lane, None, 0), strict=True))
        role = "M" if side == "lhs" else "N"
        for tile in range(self.tiles.tiles[SIDES.index(side)]):
            for k_tile in range(self.tiles.k_tiles):
                blocks = operand.extent("K")
                yield self._row(side, tile) + index[role], k_tile * blocks + index["Ks"]

    def _row(self, side: str, tile: int) -> Any:
        """The first row, or column, of an instruction in the workgroup's tile."""
        at = SIDES.index(side)
        size = (self.mma.m, self.mma.n)[at]
        return (self.own[side] * self.tiles.tiles[at] + tile) * size

    def _write(self, side: str) -> None:
        """What was read of a step to shared memory, in as few bits as its elements have."""
        words = self.tiles.run_words(side)
        read, rows = self.read[side], self.tiles.extent(side)
        whole = self.tiles.passes(side) * self.tiles.lanes == rows * (self.tiles.depth // RUN)
        for number, (row, run) in enumerate(self._runs(side)):
            place = self.tiles.word(side, row, run)
            raw = [read[number * _WORDS + word] for word in range(_WORDS)]
            with where(None if whole else row < rows):
                if words == _WORDS:
                    value = read[vector(number * _WORDS, _WORDS)]
                    I.buffer_store(self.shared[side], value, [vector(place, _WORDS)])
                elif words == 2:
                    value = tirx.Shuffle(_packed(raw, words), [0, 1])
                    I.buffer_store(self.shared[side], value, [vector(place, words)])
                else:  # rows are aligned to no vector of three
                    for word, value in enumerate(_packed(raw, words)):
                        I.buffer_store(self.shared[side], value, [place + word])
        if side in self.scales:
            now, following = self.now[side], self.next[side]
            for number in range(int(now.shape[0])):
                I.buffer_store(now, following[number], [number])

    # From shared memory to the sums.

    def _fragment(self, side: str, tile: int, k_tile: int) -> Any:
        """An instruction's operand: a lane's two runs, as words."""
        operand = self.mma.operand(side)
        words, place = self.tiles.run_words(side), self._row(side, tile)
        runs = []
        for register in (0, RUN):
            index = dict(
                zip(
                    operand.dims,
                    fragments.coords(operand, self.lane, None, register),
                    strict=True,
                )
            )
            row = index["M" if side == "lhs" else "N"]
            k = index["Ks"] * self.mma.scale_block + index["Kb"] + k_tile * self.mma.k
            runs.append(self.tiles.word(side, place + row, k // RUN))
        shared = self.shared[side]
        if words == _WORDS:
            parts = [shared[vector(run, _WORDS)] for run in runs]
        else:  # side by side; as wide as rows are aligned
            width = _WORDS if words == 2 else 2
            parts = [shared[vector(runs[0] + at, width)] for at in range(0, 2 * words, width)]
        if len(parts) == 1:
            return I.Bind(parts[0])
        return I.Bind(tirx.Shuffle(parts, list(range(operand.registers))))

    def _multiply(self, k_tile: int) -> None:
        factors: dict[str, list[Any]] = {}
        scales: dict[str, list[Any]] = {}
        for side, count in zip(SIDES, self.tiles.tiles, strict=True):
            factors[side] = [self._fragment(side, tile, k_tile) for tile in range(count)]
            scales[side] = [
                self.now[side][tile * self.tiles.k_tiles + k_tile]
                if side in self.scales
                else tirx.const(_ONE, "uint8")
                for tile in range(count)
            ]
        count = self.mma.operand("acc").registers
        for i, row in enumerate(self.sums):
            for j, sums in enumerate(row):
                value = amd.call(
                    self.mma,
                    factors["lhs"][i],
                    factors["rhs"][j],
                    sums[vector(0, count)],
                    (scales["lhs"][i], scales["rhs"][j]),
                )
                I.buffer_store(sums, value, [vector(0, count)])

    def _store(self, sums: Any, i: int, j: int) -> None:
        """A lane's sums of an instruction, as far as the result reaches."""
        acc: MmaOperand = self.mma.operand("acc")
        corner = [self.first[s] + self._row(s, at) for s, at in zip(SIDES, (i, j), strict=True)]
        for register in range(acc.elements_per_lane):
            inside = fragments.coords(acc, self.lane, None, register)
            row, column = (first + at for first, at in zip(corner, inside, strict=True))
            there = tirx.And(row < self.extents["lhs"], column < self.extents["rhs"])
            with where(there):
                self.operands.store(self.group, row, column, sums[register])


def _registers(count: int, dtype: str) -> Any:
    return I.alloc_buffer((count,), dtype, scope="local")


def _packed(raw: list[Any], words: int) -> list[Any]:
    """A run's elements in so many words: of 4 words with an element in each byte.

    Written such that LLVM finds the instruction that takes some bits of one word and the others of
    another.
    """

    def const(value: int) -> Any:
        return tirx.const(value, "uint32")

    def joined(word: Any, shift: int, low: int, high: int) -> Any:
        """The bits ``low`` of a word, and those ``high`` of it moved down."""
        return (word & const(low)) | ((word >> const(shift)) & const(high))

    if words == 2:
        pairs = [joined(word, 4, 0x000F000F, 0xFFF0FFF0) for word in raw]
        halves = [tirx.reinterpret("int32", pair) for pair in pairs]
        made = (permuted((halves[at], halves[at + 1]), (0, 2, 4, 6), "rocm") for at in (0, 2))
        return [tirx.reinterpret("uint32", word) for word in made]
    pairs = [joined(word, 2, 0x003F003F, 0xFFC0FFC0) & const(0x0FFF0FFF) for word in raw]
    a, b, c, d = (I.Bind(joined(pair, 4, 0xFFF, 0xFFFFF000)) for pair in pairs)  # 24 bits each
    return [
        a | b << const(24),
        b >> const(8) | c << const(16),
        c >> const(16) | d << const(8),
    ]
