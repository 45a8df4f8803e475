"""What an instruction's name says of the memory that it accesses: how much, and in which half.

CDNA's names (``GLOBAL_LOAD_SBYTE_D16_HI``) and RDNA's (``GLOBAL_LOAD_D16_HI_I8``) mean the same.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

_WORDS = {
    "UBYTE": "U8", "SBYTE": "I8", "USHORT": "U16", "SSHORT": "I16", "SHORT": "B16", "BYTE": "B8",
    "DWORDX2": "B64", "DWORDX3": "B96", "DWORDX4": "B128", "DWORDX8": "B256", "DWORDX16": "B512",
    "DWORD": "B32",
}  # fmt: skip
_SIZE = re.compile(r"(U|I|B)(8|16|32|64|96|128|256|512)$")


@dataclass(frozen=True)
class AccessForm:
    """An access of a lane: ``bytes`` of memory, which are a number with a sign or without.

    ``half`` is 0 or 1 for an access of one half of a register, of which the other stays.
    """

    bytes: int
    signed: bool = False
    half: int | None = None

    @property
    def element(self) -> Any:
        """The type of what is moved at once."""
        return {1: np.uint8, 2: np.uint16}.get(self.bytes, np.uint32)

    @property
    def count(self) -> int:
        """How many elements are moved."""
        return max(1, self.bytes // 4)

    def loaded(self, values: np.ndarray) -> list[np.ndarray]:
        """What the registers get: [count, ...] elements as words."""
        if self.bytes >= 4:
            return list(values)
        found = values[0]
        if self.signed:
            signed: Any = np.int8 if self.bytes == 1 else np.int16
            found = found.view(signed).astype(np.int32).view(np.uint32)
        else:
            found = found.astype(np.uint32)
        if self.half is not None:
            found = (found & np.uint32(0xFFFF)) << np.uint32(16 * self.half)
        return [found]

    @property
    def kept(self) -> int:
        """Bits of a register that a load does not write."""
        return {0: 0xFFFF0000, 1: 0xFFFF}[self.half] if self.half is not None else 0

    def stored(self, values: list[np.ndarray]) -> np.ndarray:
        """What memory gets: [count, ...] elements of the registers' words."""
        if self.bytes >= 4:
            return np.stack(values)
        shift = np.uint32(16 if self.half else 0)
        return (values[0] >> shift).astype(self.element)[None]


def access_form(name: str) -> AccessForm | None:
    """The form of a load or store by its name behind LOAD or STORE; None for others.

    >>> access_form("SBYTE_D16_HI")
    AccessForm(bytes=1, signed=True, half=1)
    """
    half = None
    if "D16" in name:
        half = 1 if "D16_HI" in name else 0
        name = re.sub(r"_?D16(_HI)?_?", "", name)
    name = _WORDS.get(name, name)
    match = _SIZE.match(name)
    if match is None:
        return None
    return AccessForm(int(match.group(2)) // 8, match.group(1) == "I", half)
