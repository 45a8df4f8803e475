"""Instructions decoded by tinygrad's tables, and what its tables say of them.

The decoders, operand formats and pseudocode in ``tinygrad`` are made from AMD's machine-readable
ISA and its manuals (``tinygrad.renderer.amd``, ``tinygrad.runtime.autogen.amd``).
"""

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.chips import ChipFacts
from tvm_iree_ext.emulator.amd.wave_state import FIRST_VECTOR

_LONGEST = 24  # bytes of an instruction
_MORE_FORMATS = {"rdna3": ("MUBUF",), "rdna4": ("VBUFFER",), "cdna": ()}

# Of an instruction with scales, which the tables tell from two instructions by its second half
# alone: V_MFMA_LD_SCALE_B32.  Source: LLVM's VOP3PInstructions.td.
_LOADS_SCALES = 0xD3AC

_PACKED = 0b110100111  # the encoding of VOP3P
# Matrix instructions of CDNA 2 which the tables, of CDNA 3 and 4, lack or number otherwise: their
# opcode, their name, and an opcode of the tables with the same operands.  Source: "CDNA2
# Instruction Set Architecture", section "VOP3P-MAI".
_OLDER_PRODUCTS = {
    0x54: ("V_MFMA_I32_32X32X8_I8", 0x56),
    0x55: ("V_MFMA_I32_16X16X16_I8", 0x57),
    0x63: ("V_MFMA_F32_32X32X4_2B_BF16", 0x5D),
    0x64: ("V_MFMA_F32_16X16X4_4B_BF16", 0x5E),
    0x65: ("V_MFMA_F32_4X4X4_16B_BF16", 0x5F),
    0x66: ("V_MFMA_F32_32X32X8_BF16", 0x60),
    0x67: ("V_MFMA_F32_16X16X16_BF16", 0x61),
}


class Instruction:
    """A decoded instruction of a chip."""

    def __init__(self, decoded: Any, chip: ChipFacts, place: int) -> None:
        self.decoded, self.chip, self.place = decoded, chip, place
        self.format: str = type(decoded).__name__
        self.op = getattr(decoded, "op", None)
        self.name: str = "" if self.op is None else self.op.name
        self.fields = {name for name, _ in decoded._fields}

    def __repr__(self) -> str:
        return repr(self.decoded)

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(self.decoded.size())

    @property
    def plain_name(self) -> str:
        """Its name without the encoding: ``V_ADD_F32``."""
        return self.name.removesuffix("_E32").removesuffix("_E64")

    def get(self, field: str, default: int = 0) -> int:
        """A field's number; a register's is its number as an operand."""
        if field not in self.fields:
            return default
        value = getattr(self.decoded, field)
        return int(getattr(value, "offset", value))

    def has(self, field: str) -> bool:
        """Whether it has a field."""
        return field in self.fields

    @property
    def literal(self) -> int | None:
        """The constant behind it."""
        return self.get("literal") if self.has("literal") else None

    @functools.cached_property
    def operands(self) -> Mapping[str, tuple[str, int]]:
        """The format, such as ``F32``, and bits of each operand by its field's name."""
        found = {
            name: (kind.name.removeprefix("FMT_NUM_").removeprefix("FMT_"), bits)
            for name, (kind, bits, _) in self.decoded.operands.items()
        }
        # The tables name some operands as another encoding of the instruction does.
        others = {name.removeprefix("v"): one for name, one in found.items() if name[:4] == "vsrc"}
        return {**others, **found}

    def bits(self, field: str, default: int = 32) -> int:
        """An operand's bits."""
        return self.operands[field][1] if field in self.operands else default

    def form(self, field: str) -> str:
        """An operand's format: ``F32``, ``PK2_F16``."""
        return self.operands[field][0] if field in self.operands else ""

    @property
    def pseudocode(self) -> str:
        """The manual's text of what it does.

        Raises:
            EmulationError: where the manual has none.
        """
        text = tables(self.chip.isa).get(self.op)
        if text is None:  # of an encoding; another may have it
            name = self.name.removesuffix("_E32").removesuffix("_E64")
            text = named_pseudocode(self.chip.isa).get(name)
        if text is None:
            raise EmulationError(f"{self.name} has no pseudocode")
        return text.replace("D.b", "D0.b")  # so in V_BITOP3 alone


@functools.cache
def tables(isa: str) -> Mapping[Any, str]:
    """The pseudocode of an instruction set by opcode."""
    return dict(_module(isa, "str_pcode").PCODE)


@functools.cache
def named_pseudocode(isa: str) -> Mapping[str, str]:
    """The pseudocode of an instruction set by name without the encoding."""
    found: dict[str, str] = {}
    for opcode, text in tables(isa).items():
        found.setdefault(opcode.name.removesuffix("_E32").removesuffix("_E64"), text)
    return found


def _module(isa: str, name: str) -> Any:
    try:
        return importlib.import_module(f"tinygrad.runtime.autogen.amd.{isa}.{name}")
    except ImportError as error:
        raise EmulationError(
            "AMD's code is emulated by tables of tinygrad: install tvm-iree-ext[emulate]"
        ) from error


def decode(text: bytes, place: int, chip: ChipFacts) -> Instruction:
    """The instruction at a place of the code.

    Raises:
        EmulationError: for bytes that are no instruction that the tables have.
    """
    data = text[place : place + _LONGEST]
    if chip.name == "gfx90a":
        first = int.from_bytes(data[:4], "little")
        if first >> 23 == _PACKED and (first >> 16 & 0x7F) in _OLDER_PRODUCTS:
            name, number = _OLDER_PRODUCTS[first >> 16 & 0x7F]
            word = first & ~(0x7F << 16) | number << 16
            found = Instruction(
                _decoded(word.to_bytes(4, "little") + data[4:], chip.isa), chip, place
            )
            found.name = name
            return found
    return Instruction(_decoded(data, chip.isa), chip, place)


@functools.lru_cache(maxsize=1 << 16)
def _decoded(data: bytes, isa: str) -> Any:
    formats = _module(isa, "ins")
    try:
        renderer = importlib.import_module("tinygrad.renderer.amd")
        found = renderer.decode_inst(data, isa)
        if type(found).__name__ == "VOP3PX2" and found.x2encoding != _LOADS_SCALES:
            return renderer.decode_inst(data[:8], isa)  # one instruction before another
        return found
    except ValueError:
        for name in _MORE_FORMATS[isa]:
            if renderer._matches(data, getattr(formats, name)):
                return getattr(formats, name).from_bytes(data)
    raise EmulationError(f"no {isa} instruction is {data[:8].hex()}")


def vector_registers(start: int, count: int) -> frozenset[int]:
    """Operands' numbers of vector registers."""
    return frozenset(range(FIRST_VECTOR + start, FIRST_VECTOR + start + count))
