"""Pseudocode translated into NumPy functions: each name is an array over waves and lanes.

    function = translate("D0.f32 = S0.f32 + S1.f32", PseudocodeSetting())
    function.inputs, function.outputs        # ("S0", "S1"), ("D0",)
    (sum_,) = function(S0=..., S1=...)        # bits in, bits out

Operands and results are unsigned arrays of the bits; ``VCC``, ``EXEC`` and ``D0`` by ``[laneId]``
are Boolean arrays (``VCC[]``, ``EXEC[]``, ``D0[]`` among inputs and outputs), ``SCC`` is one, too.
Branches become selections: all sides are computed, since lanes differ.  Loops are unrolled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_iree_ext.emulator.amd.pseudocode import functions
from tvm_iree_ext.emulator.amd.pseudocode.expressions import PseudocodeExpressions
from tvm_iree_ext.emulator.amd.pseudocode.reading import Node, PseudocodeError, read
from tvm_iree_ext.emulator.amd.pseudocode.values import (
    TypedText,
    as_type,
    bits_of,
    converted,
    masked,
    number,
    stored,
    truth,
)

_IGNORED = ("TRAPSTS", "prev_mode")


@dataclass(frozen=True)
class PseudocodeSetting:
    """What of an instruction is known before it is executed.

    ``bits`` are the operands' widths where they are not 32; ``known`` are fields that the text asks
    for, such as OPSEL; ``start`` is the operand that the result is where no branch says otherwise.
    """

    bits: Mapping[str, int] = field(default_factory=dict)
    known: Mapping[str, int] = field(default_factory=dict)
    start: str = "D0"
    calls: Callable[[str], "Translated"] | None = None


@dataclass(frozen=True)
class Translated:
    """A function of arrays by name, and what it takes and gives.

    ``bits`` are those that each output has: 16 for a result of which the register's other half is
    another matter.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bits: tuple[int, ...]
    source: str
    run: Callable[..., tuple[Any, ...]]

    def __call__(self, **arrays: Any) -> tuple[Any, ...]:
        """The outputs."""
        return self.run(**{name.replace("[]", "_lanes"): one for name, one in arrays.items()})


def translate(text: str, setting: PseudocodeSetting) -> Translated:
    """An instruction's pseudocode as a function.

    Raises:
        PseudocodeError: for what this translation does not know.
    """
    translation = _Translation(setting)
    translation.body(read(text), "")
    return translation.finish()


_NAMES: dict[str, Any] = {
    **{f"u{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"i{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"f{bits}": getattr(np, f"float{bits}") for bits in (16, 32, 64)},
    "np": np, "where": np.where, "fn": functions, "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip


class _Translation(PseudocodeExpressions):
    """The statements of one instruction."""

    def __init__(self, setting: PseudocodeSetting) -> None:
        super().__init__(setting.bits, setting.known, setting.calls)
        self._setting = setting
        self._live = ""  # lanes that have not left the loop
        self._written: dict[str, None] = {}

    def finish(self) -> Translated:
        outputs = tuple(self._written)
        if not outputs:
            raise PseudocodeError("no result is written")
        results = [self._result(name) for name in outputs]
        parameters = ", ".join(name.replace("[]", "_lanes") for name in self.inputs)
        values = "".join(f"{text}, " for text, _ in results)
        lines = [f"def run({parameters}):", *self.lines, f"return ({values})"]
        source = "\n    ".join(lines)
        scope: dict[str, Any] = {**_NAMES, **self.constants}
        exec(compile(source, "<pseudocode>", "exec"), scope)
        bits = tuple(width for _, width in results)
        return Translated(tuple(self.inputs), outputs, bits, source, scope["run"])

    def _result(self, name: str) -> tuple[str, int]:
        value = self.variables[name]
        if name.endswith("[]") or name == "SCC":
            text = truth(value)
            return (f"np.bool_({text})" if value.known is not None else text), 1
        whole = bits_of(value)
        return stored(whole, "u64" if whole.bits > 32 else "u32"), whole.bits

    def body(self, statements: Sequence[Node], mask: str) -> None:
        """Translate statements for the lanes of a mask; for all where it is empty."""
        for statement in statements:
            self._statement(statement, mask)

    def _statement(self, node: Node, mask: str) -> None:
        what = node[0]
        if what == "assign":
            self._assign(node, mask)
        elif what == "if":
            self._if(node, mask)
        elif what == "for":
            self._for(node, mask)
        elif what == "declare":
            _, name, kind, bits, count = node
            if name == "S":  # the operands, by their numbers
                return
            zero = number(0, "u" if kind == "b" else kind, min(bits, 64))
            self.arrays.pop(name, None)
            if count is not None:
                self.arrays[name] = [zero] * count
            else:
                self.variables[name] = zero
        elif what == "lambda":
            self.lambdas[node[1]] = (node[2], node[3])
        elif what == "break":
            self._live = self.temporary(f"{self._live or 'True'} & ~({mask})") if mask else "False"
        elif what == "return":
            self._store("return", self.value(node[1]), mask)
        elif what != "value":
            raise PseudocodeError(f"no statement {what}")

    def _if(self, node: Node, mask: str) -> None:
        _, branches, otherwise = node
        rest = mask
        for condition, body in branches:
            value = self.value(condition)
            if value.known is not None:
                if value.known:
                    self.body(body, rest)
                    return
                continue
            holds = self.temporary(truth(value))
            self.body(body, self.temporary(f"{rest} & {holds}") if rest else holds)
            rest = self.temporary(f"{rest} & ~{holds}" if rest else f"~{holds}")
        self.body(otherwise, rest)

    def _for(self, node: Node, mask: str) -> None:
        _, name, first, last, body = node
        start, end = self.value(first).known, self.value(last).known
        if start is None or end is None:
            raise PseudocodeError(f"the bounds of the loop over {name} are not known")
        before, self._live = self._live, ""
        for count in range(start, end + 1):
            self.variables[name] = number(count)
            inside = " & ".join(filter(None, (mask, self._live)))
            self.body(body, self.temporary(inside) if "&" in inside else inside)
        self._live = before

    def _assign(self, node: Node, mask: str) -> None:
        _, targets, how, expression = node
        value = self.value(expression)
        for target in reversed(targets):
            if how != "=":
                old = self.value(target)
                value = self.combined({"+=": "+", "-=": "-", "|=": "|"}[how], old, value)
            self._assign_to(target, value, mask)

    def _assign_to(self, target: Node, value: TypedText, mask: str) -> None:
        target = self.aliased(target)
        what, inner = target[0], target[1]
        if what == "name":
            self._assign_name(inner, value, mask)
        elif what == "member" or (what == "typed" and inner[0] == "member"):
            if inner[0] == "name" and inner[1] in _IGNORED:
                return
            raise PseudocodeError(f"{target} is assigned to")
        elif what == "typed" and inner[0] == "name":
            self._store(inner[1], converted(value, target[2], target[3]), mask)
        elif what == "typed":
            self._assign_to(inner, converted(value, target[2], target[3]), mask)
        elif what == "slice":
            self._insert(inner, self.known(target[2]), self.known(target[3]), value, mask)
        elif what == "bit" and target[2] == ("name", "laneId"):
            name = self.base_name(inner)
            self._store(f"{name}[]", TypedText(truth(value), "bool", 1, "bool", value.known), mask)
        elif what == "bit":
            self._assign_element(inner, target[2], value, mask)
        else:
            raise PseudocodeError(f"{target} is assigned to")

    def _assign_name(self, name: str, value: TypedText, mask: str) -> None:
        if name == "ROUND_MODE" or name in _IGNORED:
            self.modes[name] = value.text if value.known is None else str(value.known)
        elif name == "VCC" and value.known is not None:  # a mask's bit, in V_DIV_SCALE
            self._store("VCC[]", number(bool(value.known), "bool", 1), mask)
        elif name in ("D0", "D1", "EXEC", "VCC", "MEM"):
            self._store(name, as_type(value, "u", self.width(name)), mask)
        elif (old := self.variables.get(name)) is not None and old.kind is not None:
            self._store(name, self._like(value, old), mask)
        else:
            self._store(name, value, mask)

    def _like(self, value: TypedText, old: TypedText) -> TypedText:
        """A variable takes the type of what it is given, unless it is a number without one."""
        if value.kind is None:
            return converted(value, old.kind or "i", old.bits)
        return value

    def _assign_element(self, base: Node, index: Node, value: TypedText, mask: str) -> None:
        place = self.value(index)
        name = base[1] if base[0] == "name" else ""
        if name in self.arrays:
            if place.known is None:
                raise PseudocodeError(f"an element of {name} that is not known is assigned to")
            old = self.arrays[name][place.known]
            new = converted(value, old.kind or "u", old.bits)
            self.arrays[name][place.known] = self._merged(new, old, mask) if mask else new
            return
        if place.known is not None:
            self._insert(base, place.known, place.known, value, mask)
            return
        old = bits_of(self.value(base))
        one = f"{old.store}(1)"
        shift = self.temporary(stored(place, old.store))
        cleared = f"({old.text} & ~({one} << {shift}))"
        bit = stored(bits_of(converted(value, "u", 1)), old.store)
        text = self.temporary(f"{cleared} | (({bit} & {one}) << {shift})")
        self._store(self.base_name(base), TypedText(text, "u", old.bits, old.store), mask)

    def _insert(self, base: Node, high: int, low: int, value: TypedText, mask: str) -> None:
        """Write bits of a variable, an element or a result."""
        base = self.aliased(base)
        width = high - low + 1
        element = base[0] == "bit"
        name = self.base_name(base)
        if width < 0:  # [0 : 31]: the bits in the opposite order
            raise PseudocodeError("bits are assigned to in the opposite order")
        old = self._old(base, name, high)
        if width == old.bits and not element:
            self._store(name, as_type(value, "u", width), mask)
            return
        new = bits_of(value)
        if new.bits > width:
            new = masked(new, width)
        keep = ((1 << old.bits) - 1) & ~(((1 << width) - 1) << low)
        text = f"({old.text} & {old.store}({keep}))" if old.known != 0 else f"{old.store}(0)"
        moved = stored(new, old.store)
        moved = f"({moved} << {low})" if low else moved
        text = moved if old.known == 0 else f"{text} | {moved}"
        found = TypedText(self.temporary(text), "u", old.bits, old.store)
        if element:
            self._assign_to(base, found, mask)
        else:
            self._store(name, found, mask)

    def _old(self, base: Node, name: str, high: int) -> TypedText:
        if name in self.variables or base[0] == "bit" or name in ("D0", "M0"):
            return bits_of(self.value(base))
        return number(0, "u", 64 if high >= 32 else 32)

    def _store(self, name: str, value: TypedText, mask: str) -> None:
        if value.known is None:
            value = TypedText(self.temporary(value.text), value.kind, value.bits, value.store)
        if mask:
            old = self._previous(name)
            if old is not None:
                value = self._merged(value, old, mask)
        self.variables[name] = value
        if name in ("D0", "D1", "SCC", "EXEC", "VCC", "MEM") or name.endswith("[]"):
            self._written[name] = None

    def _previous(self, name: str) -> TypedText | None:
        if name in self.variables:
            return self.variables[name]
        if name == "D0":
            return self.value(("name", self._setting.start))
        if name in ("SCC", "VCC[]", "EXEC[]"):
            return self.value(("name", name))
        return None

    def _merged(self, value: TypedText, old: TypedText, mask: str) -> TypedText:
        if value.known is not None and value.known == old.known and value.kind == old.kind:
            return value
        kind = value.kind or old.kind or "i"
        bits = value.bits if value.kind is not None else old.bits
        if kind == "bool":
            text = f"where({mask}, {truth(value)}, {truth(old)})"
            return TypedText(self.temporary(text), kind, 1, "bool")
        new = value if value.kind is not None else converted(value, kind, bits)
        same = old.kind in ("b", "u", "i") and kind in ("f", "bf", "fp", "b")
        before = as_type(old, kind, bits) if same else converted(old, kind, bits)
        store = new.store
        text = f"where({mask}, {stored(new, store)}, {stored(before, store)})"
        return TypedText(self.temporary(text), kind, bits, store)

    def inlined(self, name: str, arguments: Sequence[TypedText]) -> TypedText:
        """The value of a lambda for arguments."""
        parameters, body = self.lambdas[name]
        before = dict(self.variables)
        self.variables.update(zip(parameters, arguments, strict=True))
        self.variables.pop("return", None)
        if len(body) == 1 and body[0][0] == "value":
            found = self.value(body[0][1])
        else:
            self.body(body, "")
            found = self.variables["return"]
        self.variables = before
        return found
