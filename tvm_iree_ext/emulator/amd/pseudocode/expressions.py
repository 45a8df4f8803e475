"""PseudocodeExpressions of pseudocode as Python text over NumPy arrays."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.emulator.amd.pseudocode.reading import Node, PseudocodeError
from tvm_iree_ext.emulator.amd.pseudocode.values import (
    TypedText,
    as_type,
    bits_of,
    common,
    converted,
    masked,
    number,
    stored,
    truth,
)

_CONVERSION = re.compile(r"(bf16|bf8|fp8|[uif]\d+)_to_(bf16|bf8|fp8|[uif]\d+)$")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_SPECIAL = {"INF": float("inf"), "NAN": float("nan")}
_LIMITS = {  # what a quotient becomes that is too small or too large
    "UNDERFLOW_F32": (0.0, 32), "OVERFLOW_F32": (float("inf"), 32),
    "UNDERFLOW_F64": (0.0, 64), "OVERFLOW_F64": (float("inf"), 64),
}  # fmt: skip
_SAME_TYPE = {
    "abs": "np.abs", "floor": "np.floor", "trunc": "np.trunc", "sqrt": "np.sqrt", "sin": "np.sin",
    "cos": "np.cos", "log2": "np.log2", "fract": "fn.fract", "mantissa": "fn.mantissa",
    "cvtToQuietNAN": "",
}  # fmt: skip
_QUESTIONS = {
    "isNAN": "np.isnan", "isQuietNAN": "fn.is_quiet_nan", "isSignalNAN": "fn.is_signal_nan",
    "isEven": "fn.is_even", "sign": "fn.sign",
}  # fmt: skip


class PseudocodeExpressions:
    """Translates expressions; statements are the subclass's."""

    def __init__(
        self,
        bits: Mapping[str, int],
        known: Mapping[str, int],
        calls: Callable[[str], Any] | None,
    ) -> None:
        self.variables: dict[str, TypedText] = {}
        self.arrays: dict[str, list[TypedText]] = {}
        self.lambdas: dict[str, tuple[list[str], list[Node]]] = {}
        self.modes: dict[str, str] = {}
        self.inputs: dict[str, None] = {}
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._bits, self._known, self._calls = bits, known, calls

    def inlined(self, name: str, arguments: Sequence[TypedText]) -> TypedText:
        """The value of a lambda."""
        raise NotImplementedError

    def temporary(self, text: str) -> str:
        """A name for the value of a text."""
        if text.isidentifier():
            return text
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def width(self, name: str) -> int:
        """Bits of an operand, a result or a register."""
        return self._bits.get(name, 64 if name in ("EXEC", "VCC") else 32)

    def aliased(self, node: Node) -> Node:
        """Of a register of the lane itself: the operand that it is."""
        if node[0] == "bit" and node[1] == ("bit", ("name", "VGPR"), ("name", "laneId")):
            register = self.base_name(node[2])
            return ("name", {"SRC0": "S0", "SRC1": "S1", "VDST": "D0"}[register])
        if node[0] == "bit" and node[1] == ("name", "S") and "S" not in self.variables:
            return ("name", f"S{self.known(node[2])}")
        return node

    def base_name(self, node: Node) -> str:
        """The name that types and indices are written behind."""
        node = self.aliased(node)
        while node[0] in ("typed", "bit", "slice", "member"):
            node = node[1]
        if node[0] != "name":
            raise PseudocodeError(f"{node} has no name")
        return str(node[1])

    def known(self, node: Node) -> int:
        """The number that an expression is; it must be known."""
        value = self.value(node)
        if value.known is None:
            raise PseudocodeError(f"{node} is not known")
        return int(value.known)

    def value(self, node: Node) -> TypedText:
        """The value of an expression."""
        node = self.aliased(node)
        return getattr(self, f"_{node[0]}")(*node[1:])

    def _number(self, value: Any, kind: str | None, bits: int | None) -> TypedText:
        if kind is None:
            return number(value)
        return number(value, kind, bits or 32)

    def _name(self, name: str) -> TypedText:
        if name in self.variables:
            return self.variables[name]
        if name in self._known:
            return number(self._known[name], "u", 32)
        if name in _SPECIAL:
            return number(_SPECIAL[name], "f", 64)
        if name in _LIMITS:
            return number(_LIMITS[name][0], "f", _LIMITS[name][1])
        if name == "PI":
            return number(3.141592653589793, "f", 64)
        if name in ("ROUND_MODE", "ROUND_TOWARD_ZERO", "ROUND_NEAREST_EVEN", "prev_mode"):
            return TypedText(name, None, 32, "u32")
        return self._input(name)

    def _input(self, name: str) -> TypedText:
        """An array that is given."""
        self.inputs[name] = None
        if name == "SCC" or name.endswith("[]"):
            return TypedText(name.replace("[]", "_lanes"), "bool", 1, "bool")
        if name not in ("S0", "S1", "S2", "D0", "EXEC", "VCC", "M0", "SIMM16", "SIMM32", "laneId",
                        "MEM", "DATA", "DATA2"):  # fmt: skip
            raise PseudocodeError(f"{name} is not known")
        bits = self.width(name)
        return TypedText(name, "b", bits, "u64" if bits > 32 else "u32")

    def _typed(self, inner: Node, kind: str, bits: int) -> TypedText:
        inner = self.aliased(inner)
        if inner[0] == "name" and inner[1] in _SPECIAL and kind == "f":
            return number(_SPECIAL[inner[1]], "f", bits)
        if inner[0] == "name" and inner[1] == "DENORM":
            return TypedText("DENORM", "f", bits, f"f{bits}")
        return as_type(self.value(inner), kind, bits)

    def _member(self, inner: Node, word: str) -> TypedText:
        name = f"{self.base_name(inner)}.{word}"
        if name in self._known:
            return number(self._known[name], "u", 8)
        raise PseudocodeError(f"{name} is not known")

    def _bit(self, inner: Node, index: Node) -> TypedText:
        if index == ("name", "laneId"):
            name = f"{self.base_name(inner)}[]"
            return self.variables.get(name) or self._input(name)
        if inner[0] == "name" and inner[1] in self.arrays:
            return self._element(self.arrays[inner[1]], self.value(index))
        place, whole = self.value(index), bits_of(self.value(inner))
        if place.known is not None:
            return self._cut(whole, int(place.known), int(place.known))
        shift = stored(place, whole.store)
        return TypedText(f"(({whole.text} >> {shift}) & {whole.store}(1))", "u", 1, whole.store)

    def _element(self, array: Sequence[TypedText], place: TypedText) -> TypedText:
        if place.known is not None:
            return array[int(place.known)]
        index, found = self.temporary(place.text), array[-1]
        for count, one in reversed(list(enumerate(array[:-1]))):
            text = f"where({index} == {count}, {one.text}, {found.text})"
            found = TypedText(self.temporary(text), one.kind, one.bits, one.store)
        return found

    def _slice(self, inner: Node, high: Node, low: Node) -> TypedText:
        whole = bits_of(self.value(inner))
        top, bottom = self.value(high), self.value(low)
        if top.known is None or bottom.known is None:
            raise PseudocodeError("a slice whose place is not known")
        if top.known < bottom.known:  # [0 : 31]: the bits in the opposite order
            return TypedText(f"fn.reverse_bits({whole.text})", "b", whole.bits, whole.store)
        return self._cut(whole, int(top.known), int(bottom.known))

    def _cut(self, whole: TypedText, high: int, low: int) -> TypedText:
        width = high - low + 1
        if whole.known is not None:
            return number(whole.known >> low & ((1 << width) - 1), "u", width)
        if low >= whole.bits:
            return number(0, "u", width)
        text = f"({whole.text} >> {low})" if low else whole.text
        if high + 1 >= whole.bits == int(whole.store[1:]):
            return TypedText(text, "b", width, whole.store)
        return masked(TypedText(text, "b", whole.bits, whole.store), width)

    def _cast(self, kind: str, bits: int, inner: Node) -> TypedText:
        value = self.value(inner)
        if kind == "b":
            return as_type(value, "b", bits)
        if kind in ("f", "bf") and value.kind in ("u", "i", "b", None) and value.kind != "f":
            if isinstance(value.known, float):
                return number(value.known, "f", bits)
            return as_type(value, kind, bits)
        if kind in ("u", "i") and value.kind in ("f", "bf"):
            raise PseudocodeError("a float is cast to an integer")
        return converted(value, kind, bits)

    def _concat(self, parts: Sequence[Node]) -> TypedText:
        values = [bits_of(self.value(part)) for part in parts]
        bits = sum(value.bits for value in values)
        if bits > 64:
            raise PseudocodeError(f"{bits} bits in one value")
        if all(value.known is not None for value in values):
            whole = 0
            for value in values:
                whole = whole << value.bits | value.known
            return number(whole, "u", bits)
        store, low, texts = ("u64" if bits > 32 else "u32"), 0, []
        for value in reversed(values):
            if value.known != 0:
                text = stored(value, store)
                texts.append(f"({text} << {low})" if low else text)
            low += value.bits
        return TypedText(f"({' | '.join(texts) or f'{store}(0)'})", "b", bits, store)

    def _choice(self, condition: Node, then: Node, otherwise: Node) -> TypedText:
        asked = self.value(condition)
        if asked.known is not None:
            return self.value(then if asked.known else otherwise)
        one, other = self.value(then), self.value(otherwise)
        if one.kind == other.kind == "bool":
            text = f"where({truth(asked)}, {one.text}, {other.text})"
            return TypedText(text, "bool", 1, "bool")
        kind, bits = common(one, other)
        if one.kind == other.kind == "b":
            kind = "b"
        one, other = converted(one, kind, bits), converted(other, kind, bits)
        store = one.store if int(one.store[1:]) >= int(other.store[1:]) else other.store
        text = f"where({truth(asked)}, {stored(one, store)}, {stored(other, store)})"
        return TypedText(text, kind, bits, store)

    def _unary(self, how: str, inner: Node) -> TypedText:
        value = self.value(inner)
        if how == "!":
            if value.known is not None:
                return number(not value.known, "bool", 1)
            return TypedText(f"~{truth(value)}", "bool", 1, "bool")
        if value.known is not None:
            known = -value.known if how == "-" else ~int(value.known)
            return number(known, value.kind, value.bits)
        if how == "~" and value.kind == "bool":
            return TypedText(f"~{value.text}", "bool", 1, "bool")
        if value.kind == "bf":
            value = converted(value, "f", 32)
        found = TypedText(f"({how}{value.text})", value.kind, value.bits, value.store)
        if value.kind != "f" and value.bits != int(value.store[1:]):
            return masked(found, value.bits)
        return found

    def _binary(self, how: str, left: Node, right: Node) -> TypedText:
        return self.combined(how, self.value(left), self.value(right))

    def combined(self, how: str, left: TypedText, right: TypedText) -> TypedText:
        """The value of two operands and an operator."""
        if left.known is not None and right.known is not None:
            return self._folded(how, left, right)
        if "DENORM" in (right.text, left.text):
            asked = left if right.text == "DENORM" else right
            return TypedText(f"fn.is_denormal({asked.text})", "bool", 1, "bool")
        if how in ("&&", "||"):
            return self._logical(how, left, right)
        if how in ("<<", ">>"):
            return self._shifted(how, left, right)
        if how == "**":
            power = stored(right, "i32")
            return TypedText(f"fn.pow2({left.store}, {power})", "f", left.bits, left.store)
        if left.kind == right.kind == "bool":
            word = {"==": "==", "!=": "!="}.get(how, how)
            return TypedText(f"({left.text} {word} {right.text})", "bool", 1, "bool")
        kind, bits = common(left, right)
        one, other = converted(left, kind, bits), converted(right, kind, bits)
        if how == "<>":
            a, b = self.temporary(one.text), self.temporary(other.text)
            return TypedText(f"(({a} < {b}) | ({a} > {b}))", "bool", 1, "bool")
        store = one.store if int(one.store[1:]) >= int(other.store[1:]) else other.store
        text = f"({stored(one, store)} {how} {stored(other, store)})"
        if how in _COMPARISONS:
            return TypedText(text, "bool", 1, "bool")
        found = TypedText(text, kind, bits, store)
        if kind != "f" and bits != int(store[1:]) and how in ("+", "-", "*"):
            found = masked(found, bits) if kind == "u" else found
        return found

    def _folded(self, how: str, left: TypedText, right: TypedText) -> TypedText:
        a, b = left.known, right.known
        operators: dict[str, Callable[[], Any]] = {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b,
            "<<": lambda: a << b, ">>": lambda: a >> b, "&": lambda: a & b, "|": lambda: a | b,
            "^": lambda: a ^ b, "**": lambda: a**b, "==": lambda: a == b, "!=": lambda: a != b,
            "<": lambda: a < b, ">": lambda: a > b, "<=": lambda: a <= b, ">=": lambda: a >= b,
            "&&": lambda: bool(a and b), "||": lambda: bool(a or b),
        }  # fmt: skip
        found = operators[how]()
        if isinstance(found, bool):
            return number(found, "bool", 1)
        if left.kind is None and right.kind is None:
            return number(found)
        kind, bits = common(left, right)
        return number(found, kind, bits)

    def _logical(self, how: str, left: TypedText, right: TypedText) -> TypedText:
        for one, other in ((left, right), (right, left)):
            if one.known is not None:
                if bool(one.known) == (how == "||"):
                    return number(how == "||", "bool", 1)
                return TypedText(truth(other), "bool", 1, "bool")
        return TypedText(f"({truth(left)} {how[0]} {truth(right)})", "bool", 1, "bool")

    def _shifted(self, how: str, left: TypedText, right: TypedText) -> TypedText:
        if left.kind is None:
            left = converted(left, "i", left.bits)
        if left.kind == "bool":
            left = converted(left, "u", 32)
        width = int(left.store[1:])
        kind = "u" if left.kind == "b" else left.kind
        amount = stored(right, left.store)
        small = (1 << right.bits) <= width
        if right.known is not None:
            small = right.known < width
        if small:
            text = f"({left.text} {how} {amount})"
        else:
            text = f"fn.{'shl' if how == '<<' else 'shr'}({left.text}, {right.text})"
        found = TypedText(text, kind, max(left.bits, 1), left.store)
        if how == "<<" and left.bits != width:
            return TypedText(found.text, kind, width, left.store)
        return found

    def _call(self, name: str, arguments: Sequence[Node]) -> TypedText:
        values = [self.value(one) for one in arguments]
        if name in self.lambdas:
            return self.inlined(name, values)
        if name in _SAME_TYPE:
            (one,) = values
            one = converted(one, "f", 32) if one.kind == "bf" else one
            inner = f"{_SAME_TYPE[name]}({one.text})" if _SAME_TYPE[name] else one.text
            return TypedText(inner, one.kind, one.bits, one.store, None)
        if name in _QUESTIONS:
            return TypedText(f"{_QUESTIONS[name]}({values[0].text})", "bool", 1, "bool")
        if match := _CONVERSION.match(name):
            return self._converted(values[0], match.group(1), match.group(2))
        if name.startswith("v_"):
            return self._instruction(name, values)
        special = getattr(self, f"_call_{name}", None)
        if special is None:
            raise PseudocodeError(f"no function {name}")
        return special(*values)

    def _call_fma(self, *values: TypedText) -> TypedText:
        bits = max(value.bits for value in values)
        texts = [stored(converted(value, "f", bits), f"f{bits}") for value in values]
        return TypedText(f"fn.fma({', '.join(texts)})", "f", bits, f"f{bits}")

    def _call_pow(self, base: TypedText, power: TypedText) -> TypedText:
        if base.known != 2.0:
            raise PseudocodeError("a power of another base than 2")
        return TypedText(f"np.exp2({power.text})", "f", power.bits, power.store)

    def _call_ldexp(self, value: TypedText, power: TypedText) -> TypedText:
        text = f"fn.ldexp({value.text}, {stored(power, 'i32')})"
        return TypedText(text, "f", value.bits, value.store)

    def _call_exponent(self, value: TypedText) -> TypedText:
        return TypedText(f"fn.exponent({value.text})", "i", 32, "i32")

    def _call_signext(self, value: TypedText) -> TypedText:
        return value

    def _call_signext_from_bit(self, value: TypedText, width: TypedText) -> TypedText:
        text = f"fn.sign_extend({value.text}, {width.text})"
        return TypedText(text, "i", value.bits, value.store)

    def _converted(self, value: TypedText, source: str, target: str) -> TypedText:
        ocp = bool(self._known.get("OCP", 0))
        if source in ("fp8", "bf8"):
            text = f"fn.from_float8({bits_of(value).text}, {source == 'bf8'}, {ocp})"
            return TypedText(text, "f", 32, "f32")
        if target in ("fp8", "bf8"):
            text = f"fn.to_float8({value.text}, {target == 'bf8'}, {ocp})"
            return TypedText(text, "u", 8, "u8")
        if source == "f32" and target == "f16":
            to_zero = self.modes.get("ROUND_MODE") == "ROUND_TOWARD_ZERO"
            return TypedText(f"fn.to_half({value.text}, {to_zero})", "f", 16, "f16")
        if target == "bf16":
            return converted(value, "bf", 16)
        kind, bits = target[0], int(target.lstrip("uif"))
        if source == "bf16" or (source[0] == "f" and kind == "f"):
            return converted(value, "f", bits)
        if source[0] == "f":
            store = f"{kind}{bits}"
            return TypedText(f"fn.to_integer({value.text}, {store})", kind, bits, store)
        if kind == "f" or bits > value.bits:
            # An operand of bits is the integer that the function's name says.
            typed = as_type(value, source[0], int(source[1:]))
            return converted(typed, kind, bits)
        store = f"{kind}{bits}"
        return TypedText(f"fn.clamp_integer({value.text}, {store})", kind, bits, store)

    def _instruction(self, name: str, values: Sequence[TypedText]) -> TypedText:
        """Another instruction's result."""
        if self._calls is None:
            raise PseudocodeError(f"no instruction {name}")
        called = self._calls(name.upper())
        key = f"op_{name}"
        self.constants[key] = called.run
        given = dict(zip(("S0", "S1", "S2"), values, strict=False))
        given["D0"] = number(0, "u", 32)  # every lane gets a result
        texts = []
        for operand in called.inputs:
            whole = bits_of(given[operand])
            texts.append(f"{operand}={stored(whole, 'u64' if whole.bits > 32 else 'u32')}")
        kind, bits = values[0].kind or "u", values[0].bits
        width = called.bits[0]
        whole = TypedText(
            f"{key}({', '.join(texts)})[0]", "b", width, "u64" if width > 32 else "u32"
        )
        return as_type(whole, kind, bits)
