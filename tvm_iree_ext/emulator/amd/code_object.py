"""AMD's code objects read as HIP reads them: kernels, their descriptors, and how they are called.

Sources: LLVM's "User Guide for AMDGPU Backend", sections "ELF Code Object", "Code Object V5
Metadata" and "Kernel Descriptor"; the ELF-64 object file format.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.amd.chips import CHIPS, ChipFacts
from tvm_iree_ext.runtime.launch.message_pack import unpack

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DESCRIPTOR = struct.Struct("<IIIIq20xIIIHH")
_PROGRAM_BITS, _NOTE, _SYMBOLS = 1, 7, 2  # SHT_PROGBITS, SHT_NOTE, SHT_SYMTAB
_RELOCATIONS, _NO_BITS, _ALLOCATED = 4, 8, 2  # SHT_RELA, SHT_NOBITS, SHF_ALLOC
_RELOCATION = struct.Struct("<QQq")
_ABSOLUTE, _RELATIVE = 3, 13  # R_AMDGPU_ABS64, R_AMDGPU_RELATIVE64
_METADATA = 32  # NT_AMDGPU_METADATA
_AMDGPU = 224  # EM_AMDGPU


@dataclass(frozen=True)
class KernelDescriptor:
    """What the hardware is told of a kernel before it starts."""

    lds_bytes: int
    scratch_bytes: int
    argument_bytes: int
    entry: int  # from the descriptor's own address
    resources: tuple[int, int, int]  # COMPUTE_PGM_RSRC1 to 3
    properties: int
    preload: int

    def resource(self, number: int, high: int, low: int) -> int:
        """Bits of COMPUTE_PGM_RSRC1 to 3."""
        return self.resources[number - 1] >> low & ((1 << (high - low + 1)) - 1)


@dataclass(frozen=True)
class KernelCode:
    """A kernel of a code object.

    ``text`` is the code of all the object's kernels, ``start`` where this one begins there, and
    ``base`` the address of its first byte: in the object, or on a device where it was loaded.
    """

    name: str
    chip: ChipFacts
    text: bytes
    base: int
    start: int
    descriptor: KernelDescriptor
    metadata: Mapping[str, Any]

    @property
    def lanes(self) -> int:
        """Lanes of a wave."""
        return int(self.metadata[".wavefront_size"])

    @property
    def argument_sizes(self) -> tuple[int, ...]:
        """Bytes of each argument that a launch gives."""
        return tuple(one[".size"] for one in self.given_arguments)

    @property
    def given_arguments(self) -> list[Mapping[str, Any]]:
        """The arguments but the hidden ones, which the runtime fills in."""
        return [
            one
            for one in self.metadata.get(".args", ())
            if not one[".value_kind"].startswith("hidden")
        ]

    @property
    def vector_registers(self) -> int:
        """How many the hardware gives a lane, accumulators among them."""
        granules = self.descriptor.resource(1, 5, 0) + 1
        return granules * (4 if not self.chip.is_cdna and self.lanes == 64 else 8)

    @property
    def first_accumulator(self) -> int:
        """The register that is the first accumulator, on chips that have them."""
        return 4 * (self.descriptor.resource(3, 5, 0) + 1)


def read_code_object(image: bytes) -> Mapping[str, KernelCode] | None:
    """The kernels of a code object, by name; None for what is none.

    Raises:
        EmulationError: for a code object of a chip that is not emulated, or that HIP refuses.
    """
    if image[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", image, 18)[0] != _AMDGPU:
        return None
    machine = struct.unpack_from("<I", image, 48)[0] & 0xFF
    chip = next((one for one in CHIPS.values() if one.machine == machine), None)
    if chip is None:
        known = ", ".join(CHIPS)
        raise EmulationError(f"a code object for machine {machine:#x}; emulated are {known}")
    elf = _Elf(image)
    metadata = elf.metadata()
    kernels = {}
    for one in metadata["amdhsa.kernels"]:
        name = one[".name"]
        address = elf.symbols[one[".symbol"]]
        fields = _DESCRIPTOR.unpack(elf.at(address, 64)[: _DESCRIPTOR.size])
        lds, scratch, arguments, _, entry, third, first, second, properties, preload = fields
        resources = (first, second, third)
        made = KernelDescriptor(lds, scratch, arguments, entry, resources, properties, preload)
        section = elf.section_of(address + entry)
        text = image[section[4] : section[4] + section[5]]
        start = address + entry - section[3]
        kernels[name] = KernelCode(name, chip, text, section[3], start, made, one)
    return kernels


@dataclass(frozen=True)
class LoadedImage:
    """What of a code object is in a GPU's memory, from its address 0 on.

    ``addresses`` are places with 8 bytes each that hold an address of the object.
    """

    contents: bytes
    addresses: Mapping[int, int]

    def at(self, base: int) -> bytes:
        """The contents as they are at an address."""
        found = bytearray(self.contents)
        for place, value in self.addresses.items():
            struct.pack_into("<Q", found, place, base + value)
        return bytes(found)


def loaded_image(image: bytes) -> LoadedImage:
    """A code object as a driver loads it.

    Raises:
        EmulationError: for a relocation that is not known.
    """
    return _Elf(image).loaded()


class _Elf:
    """An ELF file's sections and symbols."""

    def __init__(self, image: bytes) -> None:
        self._image = image
        (start,) = struct.unpack_from("<Q", image, 40)
        count, _names = struct.unpack_from("<HH", image, 60)
        self._sections = [
            _SECTION.unpack_from(image, start + number * _SECTION.size) for number in range(count)
        ]
        self.symbols = dict(self._symbols())

    def section_of(self, address: int) -> tuple[int, ...]:
        """The section with contents in which an address is."""
        for section in self._sections:
            if section[1] == _PROGRAM_BITS and section[3] <= address < section[3] + section[5]:
                return section
        raise EmulationError(f"no section of the code object has the address {address:#x}")

    def at(self, address: int, size: int) -> bytes:
        """Bytes at an address."""
        section = self.section_of(address)
        start = section[4] + address - section[3]
        return self._image[start : start + size]

    def loaded(self) -> LoadedImage:
        """The sections that are in memory, and the relocations among them."""
        parts = [one for one in self._sections if one[2] & _ALLOCATED and one[1] != _NO_BITS]
        contents = bytearray(max((one[3] + one[5] for one in parts), default=0))
        for one in parts:
            contents[one[3] : one[3] + one[5]] = self._image[one[4] : one[4] + one[5]]
        addresses = {}
        for one in parts:
            if one[1] != _RELOCATIONS:
                continue
            table = self._sections[one[6]]
            for place in range(one[4], one[4] + one[5], _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(self._image, place)
                kind, symbol = info & 0xFFFFFFFF, info >> 32
                if kind not in (_ABSOLUTE, _RELATIVE):
                    raise EmulationError(f"the code object has a relocation of type {kind}")
                if kind == _ABSOLUTE:
                    at = table[4] + symbol * _SYMBOL.size
                    addend += _SYMBOL.unpack_from(self._image, at)[4]
                addresses[offset] = addend
        return LoadedImage(bytes(contents), addresses)

    def _symbols(self) -> Mapping[str, int]:
        found = {}
        for section in self._sections:
            if section[1] != _SYMBOLS:
                continue
            texts = self._sections[section[6]][4]
            for place in range(section[4], section[4] + section[5], _SYMBOL.size):
                name, _, _, _, value, _ = _SYMBOL.unpack_from(self._image, place)
                end = self._image.index(b"\0", texts + name)
                found[self._image[texts + name : end].decode()] = value
        return found

    def metadata(self) -> Mapping[str, Any]:
        """The note with the metadata of all kernels."""
        for section in self._sections:
            if section[1] != _NOTE:
                continue
            at = section[4]
            while at < section[4] + section[5]:
                name, size, kind = struct.unpack_from("<III", self._image, at)
                start = at + 12 + -(-name // 4) * 4
                if kind == _METADATA:
                    return dict(unpack(self._image[start : start + size]))
                at = start + -(-size // 4) * 4
        raise EmulationError("the code object has no metadata")
