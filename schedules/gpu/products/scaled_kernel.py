"""The kernel of a product of blocks with scales, on instructions that take the scales.

    for workgroup: a tile of rows and columns
        sums = 0
        for step of K:
            elements of lhs and rhs, read before, to shared memory, as many bits as they have
            read those of the next step, and their scales, into registers
            for instruction: sums += (lhs * scales) * (rhs * scales)
        each lane stores what it holds of the sums

In global memory an element is a byte.  A lane reads runs of 16, which it stores as 4, 3 or 2 words
of shared memory, for floats that the instruction has in 8, 6 or 4 bits.  There 16 bytes of a row
are at other places in each row, or rows of 6-bit floats are padded, such that lanes that read rows
below each other meet different banks.  Scales go from global memory to the lanes that the
instruction wants them in; a sign of theirs, which no instruction looks at, goes to the elements.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import fragments
from tvm_iree_ext.schedules.gpu.emit.lanes import vector, where
from tvm_iree_ext.schedules.gpu.emit.launches import wait
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES
from tvm_iree_ext.schedules.gpu.products.packed_runs import (
    RUN,
    RUN_WORDS,
    packed,
    read_run,
    turned,
)
from tvm_iree_ext.schedules.gpu.products.scale_words import ONE, ScaleWords, word_type
from tvm_iree_ext.schedules.gpu.products.scaled_calls import ScalePlaces, calls_of
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand
from tvm_iree_ext.targets.mma.scaled_kinds import FIRST_BIT

_BANK_WORDS = {"amd": 64, "nvidia": 32}


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
        return RUN * self.mma.operand(side).slot_bits // 32

    def row_words(self, side: str) -> int:
        """Words of a row in shared memory: those of 6-bit floats an odd number of fours."""
        words = self.depth // RUN * self.run_words(side)
        return words | RUN_WORDS if self.run_words(side) == 3 else words

    def word(self, side: str, row: Any, run: Any) -> Any:
        """The place in shared memory of a row's run."""
        words, row_words = self.run_words(side), self.row_words(side)
        if words == 3:
            return row * row_words + run * words
        units, together = row_words // RUN_WORDS, RUN_WORDS // words
        rows = max(1, _BANK_WORDS[self.mma.vendor] // row_words)  # that have all banks
        unit = (run // together) ^ (row // rows % units)
        return (row * units + unit) * RUN_WORDS + run % together * words

    def scale_places(self, side: str) -> ScalePlaces:
        """Where the scales of ``lhs`` or ``rhs`` lie in a lane's registers."""
        return ScalePlaces.of(self.mma.operand(f"{side}_scale"))

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
        return sums + factors + sum(RUN_WORDS * self.passes(side) for side in SIDES)


def scaled_matmul(tiles: ScaledTiles, operands: Any, scales: dict[str, str]) -> tirx.PrimFunc:
    """The func of a product; ``scales`` names the operands with those of ``lhs`` and ``rhs``."""
    return _Kernel(tiles, operands, scales).func()


class _Kernel:
    def __init__(self, tiles: ScaledTiles, operands: Any, scales: dict[str, str]) -> None:
        self.tiles, self.operands, self.scales = tiles, operands, scales
        self.mma, self.calls = tiles.mma, calls_of(tiles.mma)
        self.kind = "cuda" if tiles.mma.vendor == "nvidia" else "rocm"
        self.group: Any = 0

    def func(self) -> tirx.PrimFunc:
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            self.operands.declare()
            groups, m, n, self.k = self.operands.extents()
            self.extents = {"lhs": m, "rhs": n}
            block = int(self.mma.scale_block or 0)
            self.scale_words = {
                side: ScaleWords(self.operands, name, block, self.k)
                for side, name in self.scales.items()
            }
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
        self.now, self.next, self.signs = {}, {}, {}
        for side, count in zip(SIDES, tiles.tiles, strict=True):
            words = tiles.extent(side) * tiles.row_words(side)
            scope = "shared.dyn" if self.kind == "cuda" else "shared"
            self.shared[side] = I.alloc_buffer((words,), "uint32", scope=scope)
            IRBuilder.name(f"{side}_shared", self.shared[side])
            self.read[side] = _registers(tiles.passes(side) * RUN_WORDS, "uint32")
            if side in self.scales:
                places = tiles.scale_places(side)
                held, kind = places.registers(count, tiles.k_tiles), word_type(places.count)
                self.now[side], self.next[side] = (_registers(held, kind) for _ in range(2))
                if self._is_signed(side):
                    self.signs[side] = _registers(tiles.passes(side), "uint8")
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

    def _line(self, side: str, row: Any) -> dict[str, Any]:
        """The place of a row of the tile, of the last one where there is none."""
        role, extent = ("m" if side == "lhs" else "n"), self.extents[side]
        return {role: tirx.min(self.first[side] + row, extent - 1)}

    def _read_step(self, step: Any) -> None:
        """What lanes move of a step; beyond the last one, something that is there."""
        depth = self.tiles.depth
        for side in SIDES:
            for number, (row, run) in enumerate(self._runs(side)):
                k = step * depth + run * RUN
                at = self._line(side, row) | {"k": tirx.min(k, self.k - RUN)}
                words = read_run(self.operands, side, self.group, at)
                if self.k % depth:
                    zero = tirx.Broadcast(tirx.const(0, "uint32"), RUN_WORDS)
                    words = tirx.Select(k < self.k, words, zero)
                I.buffer_store(self.read[side], words, [vector(number * RUN_WORDS, RUN_WORDS)])
                if side in self.signs:
                    scale = self._byte(side, row, k)
                    I.buffer_store(self.signs[side], scale, [number])
        for side in self.scales:
            count = self.tiles.scale_places(side).count
            for number, (row, block) in enumerate(self._scale_places(side)):
                k = step * depth + block * self.mma.scale_block
                I.buffer_store(self.next[side], self._scales(side, row, k, count), [number])

    def _is_signed(self, side: str) -> bool:
        return self.mma.operand(f"{side}_scale").dtype == "ue4m3"

    def _byte(self, side: str, row: Any, k: Any) -> Any:
        """The bits of a scale, or of the last one along k."""
        return self.scale_words[side].byte(self.group, self._line(side, row), k)

    def _scales(self, side: str, row: Any, k: Any, count: int) -> Any:
        """Scales of so many blocks along k, as one word of bytes."""
        return self.scale_words[side].word(self.group, self._line(side, row), k, count)

    def _scale_places(self, side: str) -> Any:
        """The row, in the tile, and the block in the step whose scale a lane has."""
        operand = self.mma.operand(f"{side}_scale")
        index = dict(zip(operand.dims, fragments.coords(operand, self.lane, None, 0), strict=True))
        role = "M" if side == "lhs" else "N"
        places, blocks = self.tiles.scale_places(side), operand.extent("K")
        for number in range(int(self.next[side].shape[0])):
            tile, k_tile = places.held(number, self.tiles.k_tiles, self.lane)
            yield self._row(side, tile) + index[role], k_tile * blocks + index["Ks"]

    def _row(self, side: str, tile: Any) -> Any:
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
            with where(None if whole else row < rows):
                if words == RUN_WORDS:
                    value = read[vector(number * RUN_WORDS, RUN_WORDS)]
                    if first := FIRST_BIT.get(self.mma.operand(side).dtype):
                        value = value << tirx.Broadcast(tirx.const(first, "uint32"), RUN_WORDS)
                    I.buffer_store(self.shared[side], value, [vector(place, RUN_WORDS)])
                    continue
                raw = [read[number * RUN_WORDS + word] for word in range(RUN_WORDS)]
                run_words = packed(raw, words, self.kind)
                if side in self.signs:
                    run_words = [word ^ turned(self.signs[side][number]) for word in run_words]
                if words == 2:
                    value = tirx.Shuffle(run_words, [0, 1])
                    I.buffer_store(self.shared[side], value, [vector(place, words)])
                else:  # rows are aligned to no vector of three
                    for word, value in enumerate(run_words):
                        I.buffer_store(self.shared[side], value, [place + word])
        if side in self.scales:
            now, following = self.now[side], self.next[side]
            for number in range(int(now.shape[0])):
                I.buffer_store(now, following[number], [number])

    # From shared memory to the sums.

    def _fragment(self, side: str, tile: int, k_tile: int) -> Any:
        """An instruction's operand."""
        first, bits = self._row(side, tile), self.mma.operand(side).slot_bits

        def word(row: Any, byte: Any) -> Any:
            run = 8 * byte // (bits * RUN) + k_tile * (self.mma.k // RUN)
            return self.tiles.word(side, first + row, run)

        return self.calls.fragment(side, self.shared[side], word, self.lane)

    def _chosen(self, side: str, tile: int, k_tile: int) -> Any:
        """An instruction's scales; ones where the operand has none."""
        places = self.tiles.scale_places(side)
        if side in self.scales:
            register = places.register(tile, k_tile, self.tiles.k_tiles)
            return places.chosen(self.now[side][register], tile, k_tile)
        one = ONE[self.mma.operand(f"{side}_scale").dtype]
        ones = sum(one << 8 * at for at in range(places.count))
        return places.chosen(tirx.const(ones, word_type(places.count)), tile, k_tile)

    def _multiply(self, k_tile: int) -> None:
        factors, scales = (
            {
                side: [made(side, tile, k_tile) for tile in range(count)]
                for side, count in zip(SIDES, self.tiles.tiles, strict=True)
            }
            for made in (self._fragment, self._chosen)
        )
        count = self.mma.operand("acc").registers
        for i, row in enumerate(self.sums):
            for j, sums in enumerate(row):
                value = self.calls.multiplied(
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
