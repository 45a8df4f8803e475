"""MessagePack read: the form of a code object's metadata (https://msgpack.org, its "spec.md")."""

import struct
from typing import Any

_FIXED = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED = {
    0xC4: (">B", "bytes"), 0xC5: (">H", "bytes"), 0xC6: (">I", "bytes"),
    0xD9: (">B", "text"), 0xDA: (">H", "text"), 0xDB: (">I", "text"),
    0xDC: (">H", "list"), 0xDD: (">I", "list"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip
_SHORT = ((0xE0, 0xFF, ""), (0xA0, 0xBF, "text"), (0x90, 0x9F, "list"), (0x80, 0x8F, "map"))


def unpack(data: bytes) -> Any:
    """The value that bytes hold.

    Raises:
        ValueError: for bytes that are no MessagePack.
    """
    try:
        return _value(data, 0)[0]
    except (struct.error, IndexError) as error:
        raise ValueError(f"MessagePack that ends early: {error}") from None


def _value(data: bytes, at: int) -> tuple[Any, int]:
    first = data[at]
    at += 1
    if first < 0x80:
        return first, at
    for low, high, what in _SHORT:
        if low <= first <= high:
            return _sized(data, at, what, first - low) if what else (first - 256, at)
    if first in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[first], at
    if first in _FIXED:
        return struct.unpack_from(_FIXED[first], data, at)[0], at + struct.calcsize(_FIXED[first])
    if first in _SIZED:
        form, what = _SIZED[first]
        (count,) = struct.unpack_from(form, data, at)
        return _sized(data, at + struct.calcsize(form), what, count)
    raise ValueError(f"MessagePack has no byte {first:#x}")


def _sized(data: bytes, at: int, what: str, count: int) -> tuple[Any, int]:
    if what in ("text", "bytes"):
        if at + count > len(data):
            raise ValueError("MessagePack that ends early")
        part = data[at : at + count]
        return (part.decode() if what == "text" else part), at + count
    values = []
    for _ in range(count * (2 if what == "map" else 1)):
        value, at = _value(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2], strict=True)) if what == "map" else values), at
