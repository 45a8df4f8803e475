"""Values of pseudocode while it is translated: text with a type, or a number that is known."""

from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.emulator.amd.pseudocode.reading import PseudocodeError

_WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class TypedText:
    """Python text that computes an array, its type, and the NumPy type that holds it.

    ``kind`` is u, i, f, b (bits), bf (bfloat16 and bf8), fp (fp8) or bool; of bf and fp the bits
    are held.  A number that is known has ``known``, and kind None where it takes any type.
    """

    text: str
    kind: str | None
    bits: int
    store: str
    known: Any = None


def store_of(kind: str | None, bits: int) -> str:
    """The NumPy type, by its name in translated text, that holds a type."""
    if kind == "bool":
        return "bool"
    letter = kind if kind in ("i", "f") else "u"
    width = next((width for width in _WIDTHS if width >= bits), 0)
    if not width or (letter == "f" and width != bits):
        raise PseudocodeError(f"no array holds {kind}{bits}")
    return f"{letter}{width}"


def number(value: Any, kind: str | None = None, bits: int = 32) -> TypedText:
    """A number that is known."""
    if kind is None:
        return TypedText(repr(value), None, bits, "i32" if bits <= 32 else "i64", value)
    if kind not in ("f", "bool"):
        value = int(value) & ((1 << bits) - 1)
        if kind == "i" and value >> (bits - 1):
            value -= 1 << bits
    store = store_of(kind, bits)
    text = repr(bool(value)) if kind == "bool" else f"{store}({value!r})"
    if kind == "f" and value != value:
        text = f"{store}(nan)"
    elif kind == "f" and abs(value) == float("inf"):
        text = f"{store}({'-' if value < 0 else ''}inf)"
    return TypedText(text, kind, bits, store, value)


def stored(value: TypedText, store: str) -> str:
    """Its text, in another NumPy type by value."""
    if value.store == store and value.kind is not None:
        return value.text
    if value.known is not None:
        kind, bits = store[0], int(store[1:])
        return number(value.known, kind, bits).text
    return f"{value.text}.astype({store})"


def bits_of(value: TypedText) -> TypedText:
    """Its bits, in an unsigned type."""
    if value.kind == "bool":
        known = None if value.known is None else int(value.known)
        if known is not None:
            return number(known, "u", 1)
        return TypedText(f"{value.text}.astype(u32)", "u", 1, "u32")
    if value.known is not None and value.kind != "f":
        return number(value.known, "u", value.bits)
    if value.store[0] == "u":
        return TypedText(value.text, "b", value.bits, value.store)
    store = f"u{value.store[1:]}"
    found = TypedText(f"{value.text}.view({store})", "b", value.bits, store)
    return found if value.bits == int(store[1:]) else masked(found, value.bits)


def masked(value: TypedText, bits: int) -> TypedText:
    """The low bits of an unsigned value."""
    if value.known is not None:
        return number(value.known, "u", bits)
    mask = (1 << bits) - 1
    return TypedText(f"({value.text} & {value.store}({mask}))", "b", bits, value.store)


def as_type(value: TypedText, kind: str, bits: int) -> TypedText:
    """Its bits taken for another type: cut off where there are more, zeros above where fewer."""
    if value.kind == kind and value.bits == bits and kind != "b":
        return value
    if value.kind == kind == "i" and value.bits < bits:
        return converted(value, kind, bits)
    whole = bits_of(value)
    store = store_of("u", bits)
    if whole.known is not None and kind != "f":
        return number(whole.known, kind, bits)
    text = whole.text if whole.store == store else f"{whole.text}.astype({store})"
    if whole.known is not None:
        text = f"{store}({whole.known})"
    exact = int(store[1:]) == bits
    if kind in ("u", "b", "bf", "fp"):
        found = TypedText(text, kind, bits, store)
        if exact or whole.bits <= bits:
            return found
        return TypedText(masked(found, bits).text, kind, bits, store)
    if kind == "i":
        text, width = f"{text}.view(i{store[1:]})", int(store[1:])
        if not exact:
            text = f"(({text} << {width - bits}) >> {width - bits})"
        return TypedText(text, "i", bits, f"i{width}")
    if whole.bits < bits:
        raise PseudocodeError(f"{whole.bits} bits are taken for f{bits}")
    return TypedText(f"{text}.view(f{bits})", "f", bits, f"f{bits}")


def converted(value: TypedText, kind: str, bits: int) -> TypedText:
    """Its value in another type, as a cast or an assignment converts it."""
    if value.known is not None and kind in ("u", "i", "b", "f", "bool"):
        return number(value.known, kind, bits)
    if value.kind == "bool" and kind != "bool":
        store = store_of(kind, bits)
        return TypedText(f"{value.text}.astype({store})", kind, bits, store)
    if kind == "bool":
        return TypedText(truth(value), "bool", 1, "bool")
    if value.kind == "bf" and value.bits == 16 and kind == "f":
        wide = TypedText(f"fn.from_bfloat({value.text})", "f", 32, "f32")
        return wide if bits == 32 else converted(wide, kind, bits)
    if kind == "bf" and value.kind == "f":
        return TypedText(f"fn.to_bfloat({stored(value, 'f32')})", "bf", 16, "u16")
    if kind == "b" or (value.kind == "b" and kind == "f"):
        return as_type(value, kind, bits)
    store = store_of(kind, bits)
    text = stored(value, store)
    if kind == "u" and value.bits > bits and int(store[1:]) != bits:
        return masked(TypedText(text, "u", bits, store), bits)
    return TypedText(text, kind, bits, store)


def truth(value: TypedText) -> str:
    """Text of a Boolean array, or of a Boolean."""
    if value.kind == "bool":
        return value.text
    if value.known is not None:
        return repr(bool(value.known))
    return f"({value.text} != 0)"


def common(left: TypedText, right: TypedText) -> tuple[str, int]:
    """The type in which two values are combined: floats before integers, wide, unsigned."""
    for one, other in ((left, right), (right, left)):
        if one.kind is None and one.known is not None:
            if other.kind is None:
                return "i", max(one.bits, other.bits)
            if isinstance(one.known, float) and other.kind != "f":
                return "f", 32
            if other.kind == "bool":
                return "u", 32
            return other.kind if other.kind != "b" else "u", other.bits
    if "f" in (left.kind, right.kind) or "bf" in (left.kind, right.kind):
        floats = [
            32 if one.kind == "bf" else one.bits for one in (left, right) if one.kind in ("f", "bf")
        ]
        return "f", max(floats)
    bits = max(32 if one.kind == "bool" else one.bits for one in (left, right))
    signed = all(one.kind == "i" or (one.bits < bits) for one in (left, right))
    return ("i" if signed and "i" in (left.kind, right.kind) else "u"), bits
