"""Reading PTX text, as NVRTC writes it, into functions of instructions.

Source: PTX ISA 9.0, *Syntax*, *Directives*.  What only debuggers and ``ptxas`` read is skipped.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.emulator.ptx.reading.scalar_types import bytes_of
from tvm_iree_ext.emulator.ptx.reading.syntax import (
    DroppedResult,
    NegatedPredicate,
    PtxAddress,
    PtxFunction,
    PtxImmediate,
    PtxInstruction,
    PtxLabel,
    PtxModule,
    PtxOperand,
    PtxRegister,
    PtxSymbol,
    PtxVariable,
    RegisterVector,
    ResultPair,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PIECE = re.compile(r'"[^"]*"|[{};:()]|::|[^{};:()"]+')
_NAME = r"[A-Za-z_$%][\w$]*"
_LABEL = re.compile(rf"^\s*({_NAME})\s*$")
_INSTRUCTION = re.compile(rf"^(?:@(!?)({_NAME})\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_VARIABLE = re.compile(
    rf"^(?P<head>(?:\.[\w:]+\s+(?:\d+\s+)?)+)(?P<name>{_NAME})\s*"
    r"(?P<extents>(?:\[\d*\])*)\s*(?:=\s*(?P<data>.*))?$",
    re.DOTALL,
)
_FUNCTION = re.compile(
    rf"\.(?P<kind>entry|func)\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>{_NAME})\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<rest>.*)$",
    re.DOTALL,
)
_RANGE = re.compile(rf"^({_NAME})<(\d+)>$")
_SPECIAL = re.compile(r"^%[a-z_]+\d*(\.[xyz])?$")
EXTENDED = ("addc", "subc", "madc")
"""Opcodes that take the carry flag; those with ``.cc`` give it."""

_SKIPPED = (".version", ".address_size", ".pragma", ".loc", ".file", ".section", ".noreturn")


def read(text: str) -> PtxModule:
    """A module of PTX.

    Raises:
        EmulationError: for what is no PTX, or a form that is not known here.
    """
    target = re.search(r"^\.target\s+(\w+)", text, re.MULTILINE)
    if target is None:
        raise EmulationError("no PTX: it has no .target")
    return _Reader(target[1]).read(_COMMENT.sub("", text))


@dataclass
class _Scope:
    """Names between two braces."""

    registers: dict[str, PtxRegister] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class _Reader:
    def __init__(self, target: str) -> None:
        self._module = PtxModule(target, {}, {})
        self._function: PtxFunction | None = None
        self._scopes: list[_Scope] = []
        self._special: dict[str, PtxRegister] = {}
        self._declared: set[str] = set()  # functions that are defined later
        self._unique = 0

    def read(self, text: str) -> PtxModule:
        for kind, content in _statements(text):
            if kind == "open":
                self._open(content)
            elif kind == "close":
                self._close()
            elif kind == "label":
                self._label(content)
            else:
                self._statement(content)
        return self._module

    def _open(self, head: str) -> None:
        if head:
            found = _FUNCTION.search(head)
            if found is None:
                raise EmulationError(f"PTX: {head!r} opens no function")
            function = PtxFunction(
                found["name"],
                found["kind"] == "entry",
                _variables(found["results"]),
                _variables(found["parameters"]),
            )
            if limit := re.search(r"\.maxntid\s+([\d, ]+)", found["rest"]):
                function.lanes = tuple(int(one) for one in limit[1].split(","))
            self._function, self._special = function, {}
            self._module.functions[function.name] = function
        self._scopes.append(_Scope())

    def _close(self) -> None:
        self._scopes.pop()
        if not self._scopes:
            self._function = None

    def _label(self, name: str) -> None:
        function = self._inside(name)
        function.body.append(PtxLabel(self._label_name(name)))

    def _label_name(self, name: str) -> str:
        """Labels between inner braces are their own: the same text may come several times."""
        if len(self._scopes) <= 1:
            return name
        labels = self._scopes[-1].labels
        if name not in labels:
            self._unique += 1
            labels[name] = f"{name}@{self._unique}"
        return labels[name]

    def _inside(self, what: str) -> PtxFunction:
        if self._function is None:
            raise EmulationError(f"PTX: {what!r} is outside of a function")
        return self._function

    def _statement(self, text: str) -> None:
        if not text.startswith("."):
            self._instruction(text)
        elif text.startswith(".reg"):
            self._registers(text)
        elif text.startswith(".branchtargets"):
            function = self._inside(text)
            label = function.body.pop()
            assert isinstance(label, PtxLabel)
            function.tables[label.name] = [one.strip() for one in text.split(None, 1)[1].split(",")]
        elif ".entry" in text or ".func" in text:
            found_function = _FUNCTION.search(text)  # that is defined later
            self._declared.add(found_function["name"] if found_function else "")
        elif text.split()[0] in _SKIPPED or text.startswith(".target"):
            return
        else:
            found = _variable(text)
            place = self._function.variables if self._function else self._module.variables
            place[found.name] = found

    def _registers(self, text: str) -> None:
        function = self._inside(text)
        words = text.split(None, 2)
        kind = words[1][1:]
        for name in words[2].split(","):
            name = name.strip()
            if found := _RANGE.match(name):
                names = [f"{found[1]}{number}" for number in range(int(found[2]))]
            else:
                names = [name]
            for one in names:
                made = PtxRegister(len(function.registers), one, kind)
                function.registers.append(made)
                self._scopes[-1].registers[one] = made

    def _instruction(self, text: str) -> None:
        function = self._inside(text)
        found = _INSTRUCTION.match(text)
        if found is None:
            raise EmulationError(f"PTX: {text!r} is no instruction")
        negated, guard, name, rest = found.groups()
        opcode, *modifiers = name.split(".")
        operands = tuple(self._operand(one) for one in _split(rest)) if rest else ()
        if opcode in EXTENDED or "cc" in modifiers:
            carry = self._register("%carry")
            assert carry is not None
            operands = (*operands, carry)
        predicate = self._register(guard) if guard else None
        if guard and predicate is None:
            raise EmulationError(f"PTX: {guard} in {text!r} is no register")
        whole = " ".join(text.split())
        function.body.append(
            PtxInstruction(opcode, tuple(modifiers), operands, predicate, bool(negated), whole)
        )

    def _register(self, name: str) -> PtxRegister | None:
        for scope in reversed(self._scopes):
            if (found := scope.registers.get(name)) is not None:
                return found
        if not _SPECIAL.match(name):
            return None
        if name not in self._special:
            function = self._inside(name)
            kind = "b64" if name.endswith("64") else "pred" if name == "%carry" else "b32"
            made = PtxRegister(len(function.registers), name, kind)
            function.registers.append(made)
            self._special[name] = made
        return self._special[name]

    def _operand(self, text: str) -> PtxOperand:
        if text == "_":
            return DroppedResult()
        if text[0] == "!":
            register = self._register(text[1:].strip())
            assert register is not None
            return NegatedPredicate(register)
        if text[0] in "{(":
            return RegisterVector(tuple(self._operand(one) for one in _split(text[1:-1])))
        if text[0] == "[":
            return self._address(text[1:-1])
        if "|" in text:
            first, second = text.split("|")
            return ResultPair(self._operand(first.strip()), self._operand(second.strip()))
        if (number := _immediate(text)) is not None:
            return number
        if (register := self._register(text)) is not None:
            return register
        return PtxSymbol(self._resolved(text))

    def _resolved(self, name: str) -> str:
        """A label of an inner scope by its unique name, other symbols as they are."""
        for scope in reversed(self._scopes[1:]):
            if name in scope.labels:
                return scope.labels[name]
        if len(self._scopes) > 1 and not name.startswith("$") and self._is_label(name):
            return self._label_name(name)
        return name

    def _is_label(self, name: str) -> bool:
        """Whether a name in inner braces may be of a label: it is that of nothing else."""
        function = self._inside(name)
        parameters = {one.name for one in (*function.parameters, *function.results)}
        known = {*function.variables, *self._module.variables, *self._module.functions}
        return name not in known | parameters | self._declared

    def _address(self, text: str) -> PtxAddress:
        first, *coordinates = _split(text)
        base, offset = first, 0
        if found := re.match(rf"^({_NAME}(?:\.\w+)?)\s*([+-]+)\s*(\d+)$", first):
            base, offset = found[1], int(found[3]) * (-1 if "-" in found[2] else 1)
        where = self._operand(base)
        assert isinstance(where, PtxRegister | PtxSymbol | PtxImmediate)
        at: tuple[PtxOperand, ...] = ()
        if coordinates:
            vector = self._operand(coordinates[0])
            at = vector.items if isinstance(vector, RegisterVector) else (vector,)
        return PtxAddress(where, offset, at)


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """``open`` and ``close`` of braces, ``label``, and what ends with a semicolon.

    A brace within a statement is a vector's or an initialiser's, but for a function's.
    """
    pending, depth = "", 0
    for found in _PIECE.finditer(text):
        piece = found[0]
        begun = pending.strip()
        if piece == "{":
            heads = ".entry" in begun or ".func" in begun
            if begun and not (heads and not depth):
                pending, depth = pending + piece, depth + 1
                continue
            yield "open", begun
            pending = ""
        elif piece == "}":
            if depth:
                pending, depth = pending + piece, depth - 1
                continue
            yield "close", ""
            pending = ""
        elif piece == ";":
            if begun:
                yield "statement", begun
            pending = ""
        elif piece == ":" and not depth and _LABEL.match(pending):
            yield "label", begun
            pending = ""
        elif not begun and piece.lstrip().startswith((".version", ".target", ".address_size")):
            pending = _after_lines(piece)  # these end with their lines
        else:
            pending += piece


def _after_lines(piece: str) -> str:
    lines = piece.lstrip().splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith((*_SKIPPED, ".target"))):
        lines.pop(0)
    return "\n".join(lines)


def _split(text: str) -> list[str]:
    """Operands between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    if last := text[start:].strip():
        parts.append(last)
    return parts


_INTEGER = re.compile(r"^(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = re.compile(r"^(-?)0([fFdD])([0-9a-fA-F]+)$")


def _immediate(text: str) -> PtxImmediate | None:
    """A constant (PTX ISA, *Constants*)."""
    if found := _INTEGER.match(text):
        digits = found[2]
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            value = int(digits, 8)
        else:
            value = int(digits, 0)
        return PtxImmediate(-value if found[1] else value)
    if found := _FLOAT.match(text):
        bits = 32 if found[2] in "fF" else 64
        value = int(found[3], 16)
        return PtxImmediate(value ^ (1 << bits - 1) if found[1] else value, bits)
    if re.match(r"^-?\d+\.\d*(e[+-]?\d+)?$", text, re.IGNORECASE):
        return PtxImmediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    return None


def _variables(text: str | None) -> list[PtxVariable]:
    return [_variable(one) for one in _split(text or "")]


def _variable(text: str) -> PtxVariable:
    found = _VARIABLE.match(" ".join(text.split()))
    if found is None:
        raise EmulationError(f"PTX: {text!r} declares no variable")
    words = found["head"].split()
    alignment = 0
    space, kind = "", ""
    for place, word in enumerate(words):
        if word == ".align":
            alignment = int(words[place + 1])
        elif word in (".param", ".shared", ".local", ".global", ".const"):
            space = word[1:]
        elif re.match(r"^\.(pred|[busf]\d+|f16x2|b128)$", word) and not kind:
            kind = word[1:]
    extents = [int(one) if one else 0 for one in re.findall(r"\[(\d*)\]", found["extents"])]
    count = 1
    for extent in extents:
        count *= extent
    size = bytes_of(kind)
    data = _data(found["data"], kind) if found["data"] else b""
    return PtxVariable(found["name"], space, kind, count, count * size, alignment or size, data)


def _data(text: str, kind: str) -> bytes:
    """The bytes of an initialiser of numbers; names (addresses) are of nobody here."""
    numbers = [_immediate(one) for one in re.split(r"[{},\s]+", text) if one]
    size = bytes_of(kind)
    mask = (1 << 8 * size) - 1
    return b"".join((one.value & mask if one else 0).to_bytes(size, "little") for one in numbers)
