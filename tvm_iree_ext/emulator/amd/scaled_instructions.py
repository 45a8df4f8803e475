"""Matrix instructions of gfx950 that name the formats of A and B, with scales of blocks or without.

``V_MFMA_F32_16X16X128_F8F6F4`` and ``V_MFMA_F32_32X32X64_F8F6F4`` take A in the format that CBSZ
says and B in that of BLGP; ``V_MFMA_SCALE_*`` multiply each 32 elements along K by a power of two,
too.  Of an M x K tile of A, in groups ``g`` of 64 / M lanes that have its rows:

    elements   lane i + M g has row i, in element e of its registers
               8 bits:        k = 16 g + e            for e below 16
                              k = K / 2 + 16 g + e - 16   for others
               6 and 4 bits:  k = 32 g + e
    scale      lane i + M g has that of row i and k = 32 g ... 32 g + 31

B is the same with columns.  A scale is the byte of a lane's word that OP_SEL (its low bit) and
OP_SEL_HI (its high bit) say, 2**(byte - 127), and NaN for 255.

Sources: AMD's machine-readable ISA of CDNA 4 for the fields; "Matrix Core Programming on AMD CDNA3
and CDNA4" (AMD, 2025), sections 5.4 and 5.5, for 8 and 4 bits, scales and the numbers of formats;
AMD's composable_kernel, ``test/mx_mfma_op``, for 6 bits, and for which scale an element of 8 bits
meets; LLVM's "Syntax of AMDGPU Instruction Modifiers" and ``SIInstrInfo.td`` for the byte.
"""

import numpy as np

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.decoding import Instruction
from tvm_iree_ext.emulator.amd.matrix_instructions import CdnaProduct, MatrixForm
from tvm_iree_ext.emulator.amd.operands import Getter, vector_getter
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR, Array, CodeStep, Waves

_HELD = 32  # elements of a lane, and of a block
_RUN = 16  # of 8 bits, side by side along K
_FORMATS = ("FP8", "BF8", "FP6", "BF6", "FP4")
"""By number: the floats E4M3, E5M2, E2M3, E3M2 and E2M1."""

_SMALL = {"FP6": (2, 3, 1), "BF6": (3, 2, 3), "FP4": (2, 1, 1)}
"""Bits of the exponent and of the fraction, and the bias."""


def scaled_step(one: Instruction, first_accumulator: int) -> CodeStep | None:
    """What executes it; None for an instruction of another kind.

    Raises:
        EmulationError: for a number that is no format's.
    """
    _, _, shape = one.name.partition("_F32_")
    if not one.name.startswith("V_MFMA_") or not shape.endswith("_F8F6F4"):
        return None
    numbers = (one.get("cbsz"), one.get("blgp"))
    if max(numbers) >= len(_FORMATS):
        raise EmulationError(f"{one.name} has formats {numbers}, which are not known")
    a, b = (_FORMATS[number] for number in numbers)
    m, n, k = map(int, shape.removesuffix("_F8F6F4").split("X"))
    form = MatrixForm("MFMA", m, n, k, 1, "F32", a, b)
    return _ScaledProduct(one, form, first_accumulator).step()


class _ScaledProduct(CdnaProduct):
    """CBSZ and BLGP are formats; rows of A and columns of B meet their scales on the way."""

    def check(self) -> None:
        """All formats are known."""

    def tile(self, field: str, kind: str) -> Getter:
        is_a = field == "src0"
        lines, groups = self.form.m, 64 // self.form.m
        accumulator = bool(self.one.get("acc") >> (not is_a) & 1)
        rows = self.rows(field, _HELD * _bits(kind) // 32, accumulator, self.reads)
        scale = self._scale(0 if is_a else 1)
        at = _places(groups, kind)

        def get(waves: Waves) -> Array:
            held = self.numbers(self.words(waves, rows), kind)
            tile = np.empty((waves.count, lines, self.form.k))
            by_line = held.reshape(waves.count, groups, lines, _HELD).swapaxes(1, 2)
            tile[:, :, at.ravel()] = by_line.reshape(tile.shape)
            if scale is not None:
                factors = scale(waves).reshape(waves.count, groups, lines).swapaxes(1, 2)
                tile *= np.repeat(factors, _HELD, axis=-1)
            return tile[:, None]

        return get

    def numbers(self, words: Array, kind: str, is_signed: bool = True) -> Array:
        if kind not in _SMALL:
            return super().numbers(words, kind, is_signed)
        bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
        digits = bits.reshape(*words.shape[:-1], _HELD, -1)
        codes = digits @ (1 << np.arange(digits.shape[-1]))
        exponent_bits, fraction_bits, bias = _SMALL[kind]
        fraction = codes & (1 << fraction_bits) - 1
        exponent = codes >> fraction_bits & (1 << exponent_bits) - 1
        whole = fraction + (np.minimum(exponent, 1) << fraction_bits)
        size = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - bias - fraction_bits)
        return np.where(digits[..., -1], -size, size)

    def _scale(self, operand: int) -> Getter | None:
        """What gives the scale of each lane's block; None where the instruction has none."""
        one = self.one
        if not one.has(f"scale_src{operand}"):
            return None
        number = one.get(f"scale_src{operand}")
        if number >= FIRST_VECTOR or number < 128:
            self.reads.add(number)
        word = vector_getter(number, 32, one.chip)
        low, high = (one.get(field) >> operand & 1 for field in ("opsel", "opsel_hi"))
        shift = np.uint32(8 * (low + 2 * high))

        def get(waves: Waves) -> Array:
            byte = np.broadcast_to(word(waves), (waves.count, waves.lanes)) >> shift & 255
            power = np.ldexp(1.0, byte.astype(np.int64) - 127)
            return np.where(byte == 255, np.nan, power)

        return get


def _bits(kind: str) -> int:
    return int(kind[-1])


def _places(groups: int, kind: str) -> Array:
    """The place along K of ``[group, element]``."""
    group, element = np.ogrid[:groups, :_HELD]
    if _bits(kind) < 8:
        return np.asarray(_HELD * group + element)
    return np.asarray(_RUN * group + element % _RUN + groups * _RUN * (element // _RUN))
