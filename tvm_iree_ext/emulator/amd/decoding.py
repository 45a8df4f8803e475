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
        return {
            name: (kind.name.removeprefix("FMT_NUM_").removeprefix("FMT_"), bits)
            for name, (kind, bits, _) in self.decoded.operands.items()
        }

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
        if text is None:
            raise EmulationError(f"{self.name} has no pseudocode")
        return text


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
    return Instruction(_decoded(text[place : place + _LONGEST], chip.isa), chip, place)


@functools.lru_cache(maxsize=1 << 16)
def _decoded(data: bytes, isa: str) -> Any:
    formats = _module(isa, "ins")
    try:
        renderer = importlib.import_module("tinygrad.renderer.amd")
        return renderer.decode_inst(data, isa)
    except ValueError:
        for name in _MORE_FORMATS[isa]:
            if renderer._matches(data, getattr(formats, name)):
                return getattr(formats, name).from_bytes(data)
    raise EmulationError(f"no {isa} instruction is {data[:8].hex()}")


def vector_registers(start: int, count: int) -> frozenset[int]:
    """Operands' numbers of vector registers."""
    return frozenset(range(FIRST_VECTOR + start, FIRST_VECTOR + start + count))
