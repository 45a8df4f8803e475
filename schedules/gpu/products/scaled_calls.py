"""What a product of blocks with scales leaves to the vendor's instructions.

On AMD's chips a lane loads its runs of an operand; its scales are a byte of a register, or, on
gfx1250, all along K.  On NVIDIA's, 8x8 matrices of words are loaded by ``ldmatrix``, and a word has
the scales of several instructions along K.  Lanes that would have the same scales have those of
other tiles.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.intrin import amd, fragments, nvidia
from tvm_iree_ext.intrin.nvidia_scaled import ChosenScales, scaled_call
from tvm_iree_ext.schedules.gpu.emit.lanes import vector
from tvm_iree_ext.targets.mma.mma_kinds import Mma, MmaOperand

_RUN = 16  # elements

Word = Callable[[Any, Any], Any]
"""The place of a word in shared memory, of a row of the instruction and a byte of its K."""


@dataclass(frozen=True)
class ScalePlaces:
    """Where the scales of an operand's instructions lie in a lane's registers.

    Attributes:
        count: bytes of a register that are used: scales side by side along K.
        instructions: along K, that share a register.
        tiles: beside each other, that have a register in different lanes.
    """

    count: int
    instructions: int
    tiles: int
    _stride: int  # lanes from those of a tile to those of the next

    @staticmethod
    def of(scale: MmaOperand) -> "ScalePlaces":
        """Those of an instruction's scales."""
        own = scale.elements_per_lane
        k = scale.dims.index("Ks")
        together = 4 // own if scale.lane_replication > 1 and scale.thread[k] == 1 else 1
        return ScalePlaces(own * together, together, scale.lane_replication, scale.replica_stride)

    def registers(self, tiles: int, k_tiles: int) -> int:
        """Of a lane, for so many tiles and instructions along K."""
        return -(-tiles // self.tiles) * -(-k_tiles // self.instructions)

    def register(self, tile: int, k_tile: int, k_tiles: int) -> int:
        """The register that has an instruction's scales."""
        return tile // self.tiles * -(-k_tiles // self.instructions) + k_tile // self.instructions

    def held(self, register: int, k_tiles: int, lane: Any) -> tuple[Any, int]:
        """The tile, and the first instruction along K, whose scales a lane has in a register."""
        words = -(-k_tiles // self.instructions)
        tile: Any = register // words * self.tiles
        if self.tiles > 1:
            tile = tile + lane // self._stride % self.tiles
        return tile, register % words * self.instructions

    def chosen(self, word: Any, tile: int, k_tile: int) -> ChosenScales:
        """An instruction's scales of the words of its register."""
        byte = k_tile % self.instructions * (self.count // self.instructions)
        return ChosenScales(word, byte, tile % self.tiles)


class ScaledCalls(Protocol):
    """A vendor's instructions with scales."""

    def fragment(self, side: str, shared: Any, word: Word, lane: Any) -> Any:
        """An operand's registers, from shared memory."""

    def multiplied(self, a: Any, b: Any, c: Any, scales: tuple[ChosenScales, ChosenScales]) -> Any:
        """The sums after an instruction."""


def calls_of(mma: Mma) -> ScaledCalls:
    """The calls of a kind."""
    return _Nvidia(mma) if mma.vendor == "nvidia" else _Amd(mma)


@dataclass(frozen=True)
class _Amd:
    mma: Mma

    def fragment(self, side: str, shared: Any, word: Word, lane: Any) -> Any:
        operand = self.mma.operand(side)
        runs = []
        for register in range(0, operand.elements_per_lane, _RUN):
            index = dict(
                zip(operand.dims, fragments.coords(operand, lane, None, register), strict=True)
            )
            k = index["Ks"] * self.mma.scale_block + index["Kb"]
            runs.append(word(index["M" if side == "lhs" else "N"], k * operand.slot_bits // 8))
        words = _RUN * operand.slot_bits // 32
        if words == 4:
            parts = [shared[vector(run, words)] for run in runs]
        else:  # two side by side; as wide as rows are aligned
            width = 4 if words == 2 else 2
            places = [run + at for run in runs[::2] for at in range(0, 2 * words, width)]
            parts = [shared[vector(place, width)] for place in places]
        if len(parts) == 1:
            return I.Bind(parts[0])
        return I.Bind(tirx.Shuffle(parts, list(range(operand.registers))))

    def multiplied(self, a: Any, b: Any, c: Any, scales: tuple[ChosenScales, ChosenScales]) -> Any:
        words, halves = [one.word for one in scales], [one.thread for one in scales]
        return amd.call(self.mma, a, b, c, words, halves)


@dataclass(frozen=True)
class _Nvidia:
    mma: Mma

    def fragment(self, side: str, shared: Any, word: Word, lane: Any) -> Any:
        operand = _in_bytes(self.mma.operand(side))
        count = operand.registers
        registers = I.alloc_buffer((count,), "uint32", scope="local")
        line = operand.dims.index("M" if side == "lhs" else "N")

        def pointer(at: Any) -> Any:
            return tirx.address_of(shared[word(at[line], at[1 - line])])

        def store(start: int, _count: int, value: Any) -> None:
            I.buffer_store(registers, tirx.reinterpret("uint32", value), [start // 4])

        nvidia.ldmatrix(operand, False, lane, pointer, store)
        return registers[vector(0, count)]

    def multiplied(self, a: Any, b: Any, c: Any, scales: tuple[ChosenScales, ChosenScales]) -> Any:
        return scaled_call(self.mma, a, b, c, scales)


def _in_bytes(operand: MmaOperand) -> MmaOperand:
    """An operand of NVIDIA's with K as one dim, of bytes of its registers."""
    blocks, places = (operand.dims.index(dim) for dim in ("Ks", "Kb"))
    line = 3 - blocks - places
    order = (line, blocks) if line < blocks else (blocks, line)
    halves = operand.outer[blocks] * operand.outer[places]
    lanes = operand.thread[blocks] * operand.thread[places]
    along = {
        "outer": halves, "thread": lanes, "tstrides": operand.tstrides[places], "element": 4,
        "subgroup": 1, "sstrides": 0,
    }  # fmt: skip
    tiles: dict[str, Any] = {
        name: tuple(value if dim == blocks else getattr(operand, name)[dim] for dim in order)
        for name, value in along.items()
    }
    k, own = order.index(blocks), order.index(line)
    return replace(
        operand,
        dims=tuple("K" if dim == blocks else operand.dims[dim] for dim in order),
        dtype="i8",
        reg_order=(f"o{k}", f"o{own}", f"e{own}", f"e{k}"),
        elements_per_lane=4 * operand.registers,
        **tiles,
    )
