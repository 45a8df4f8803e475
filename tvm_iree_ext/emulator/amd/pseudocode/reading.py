"""The pseudocode of AMD's ISA manuals as a tree.

    D0.f32 = fma(S0.f32, S1.f32, D0.f32)
    D0.u64[laneId] = S0.i32 < S1.i32
    if exponent(S1.f32) == 255 then ... elsif ... else ... endif
    for i in 0 : 31 do ... break ... endfor
    tmp[31 : 16].f16 = S0[15 : 0].f16;  declare in : 32'F[3];  16'0U;  64'U(x);  { high, low }

An expression is a tuple whose first element says what it is:

    ("number", value, kind, bits)     kind and bits are None where the text gives no type
    ("name", "S0")
    ("typed", expression, "f", 32)    ``.f32``
    ("member", expression, "IEEE")    ``.IEEE``
    ("bit", expression, index)        ``[index]``
    ("slice", expression, high, low)  ``[high : low]``, and ``[low +: width]``
    ("call", "fma", [arguments])
    ("cast", "u", 64, expression)     ``64'U(...)``
    ("concat", [high, ..., low])
    ("unary", "-", expression)
    ("binary", "+", left, right)
    ("choice", condition, then, otherwise)

A statement is one, too:

    ("assign", [targets], "=", expression)   the operator is =, += or -=
    ("if", [(condition, body), ...], otherwise)
    ("for", "i", first, last, body)
    ("declare", "in", kind, bits, count)     count is None for one
    ("lambda", "SAT8", ["n"], body)          the body is statements, or one ("value", expression)
    ("return", expression),  ("break",),  ("value", expression)
"""

import re
from typing import Any

Node = tuple[Any, ...]

_TOKENS = re.compile(
    r"""
    \s+ | //[^\n]* |
    (?P<cast>\d+'(?:BF|[UIFB])(?![0-9A-Za-z])) |
    (?P<literal>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UIF]?) |
    (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?) |
    (?P<name>[A-Za-z_]\w*) |
    (?P<operator><<|>>|<=|>=|==|!=|<>|&&|\|\||\*\*|\+:|\+=|-=|\|=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    """,
    re.VERBOSE,
)
_KINDS = {"U": "u", "I": "i", "F": "f", "B": "b", "BF": "bf"}
_TYPE = re.compile(r"(u|i|f|bf|b|fp|bff)(\d+)$")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_ENDS = ("endif", "elsif", "else", "endfor", ")")


class PseudocodeError(ValueError):
    """Text that is no pseudocode as this module reads it, or means what cannot be computed."""


def read(text: str) -> list[Node]:
    """The statements of an instruction's pseudocode.

    Raises:
        PseudocodeError: for text that is something else, such as a sentence.
    """
    reader = _Reader(_tokens(text))
    statements = reader.statements()
    if reader.peek() != "":
        raise PseudocodeError(f"{reader.peek()!r} stands where a statement should: {text!r}")
    return statements


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise PseudocodeError(f"{text[at : at + 20]!r} is no token of pseudocode")
        if match.lastgroup:
            found.append(match.group())
        at = match.end()
    return found


def _number(text: str, bits: int | None = None, kind: str | None = None) -> Node:
    """A literal, such as ``0x10ULL`` or ``1.0F``; its suffix says the type where nothing else."""
    plain = text if text.startswith("0x") else text.rstrip("UILF")
    if text.startswith("0x"):
        plain = text.rstrip("UL")
    suffix = text[len(plain) :]
    if "." in plain or suffix == "F":
        width = bits or (32 if suffix == "F" else 64)
        return ("number", float(plain), "f", width)
    value = int(plain, 0)
    if kind is None and suffix:
        kind = "u" if "U" in suffix else "i"
        bits = bits or (64 if "LL" in suffix else 32)
    return ("number", value, kind or ("u" if bits else None), bits)


class _Reader:
    """Recursive descent."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at = tokens, 0

    def peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        found = self.peek()
        if not found or (wanted is not None and found != wanted):
            raise PseudocodeError(f"{found!r} stands where {wanted!r} should")
        self._at += 1
        return found

    def statements(self) -> list[Node]:
        found: list[Node] = []
        while True:
            while self.peek() == ";":
                self.take()
            if self.peek() in ("", *_ENDS):
                return found
            found.append(self.statement())

    def statement(self) -> Node:
        first = self.peek()
        if first == "if":
            return self._if()
        if first == "for":
            return self._for()
        if first == "declare":
            return self._declare()
        if first == "break":
            self.take()
            return ("break",)
        if first == "return":
            self.take()
            return ("return", self.expression())
        if self.peek(1) == "=" and self.peek(2) == "lambda":
            return self._lambda()
        target = self.expression()
        if self.peek() not in ("=", "+=", "-=", "|="):
            return ("value", target)
        targets, how = [target], self.take()
        value = self.expression()
        while self.peek() == "=":
            self.take()
            targets.append(value)
            value = self.expression()
        return ("assign", targets, how, value)

    def _if(self) -> Node:
        branches, otherwise = [], []
        self.take("if")
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.statements()))
            word = self.take()
            if word == "else":
                otherwise = self.statements()
                self.take("endif")
            if word in ("else", "endif"):
                return ("if", branches, otherwise)
            if word != "elsif":
                raise PseudocodeError(f"{word!r} ends a branch")

    def _for(self) -> Node:
        self.take("for")
        name = self.take()
        self.take("in")
        first = self.expression()
        self.take(":")
        last = self.expression()
        self.take("do")
        body = self.statements()
        self.take("endfor")
        return ("for", name, first, last, body)

    def _declare(self) -> Node:
        self.take("declare")
        name = self.take()
        self.take(":")
        bits, kind = self.take().split("'")
        count = None
        if self.peek() == "[":
            self.take()
            count = int(self.take())
            self.take("]")
        return ("declare", name, _KINDS[kind], int(bits), count)

    def _lambda(self) -> Node:
        name = self.take()
        self.take("=")
        self.take("lambda")
        self.take("(")
        parameters = []
        while self.peek() != ")":
            parameters.append(self.take())
            if self.peek() == ",":
                self.take()
        self.take(")")
        self.take("(")
        body = self.statements()
        self.take(")")
        return ("lambda", name, parameters, body)

    def expression(self) -> Node:
        condition = self._level(0)
        if self.peek() != "?":
            return condition
        self.take()
        then = self.expression()
        self.take(":")
        return ("choice", condition, then, self.expression())

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self.peek() in _LEVELS[level]:
            how = self.take()
            left = ("binary", how, left, self._level(level + 1))
        return left

    def _unary(self) -> Node:
        if self.peek() in ("-", "+", "~", "!"):
            how = self.take()
            inner = self._unary()
            return inner if how == "+" else ("unary", how, inner)
        base = self._postfix(self._primary())
        if self.peek() == "**":
            self.take()
            return ("binary", "**", base, self._unary())
        return base

    def _primary(self) -> Node:
        first = self.take()
        if first == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if first == "{":
            parts = [self.expression()]
            while self.peek() == ",":
                self.take()
                parts.append(self.expression())
            self.take("}")
            return ("concat", parts)
        if "'" in first:
            bits, rest = first.split("'")
            if rest in _KINDS:
                self.take("(")
                inner = self.expression()
                self.take(")")
                return ("cast", _KINDS[rest], int(bits), inner)
            kind = {"U": "u", "I": "i", "F": "f"}.get(rest[-1]) if rest[:2] != "0x" else "u"
            return _number(rest, int(bits), kind)
        if first[0].isdigit():
            return _number(first)
        if not (first[0].isalpha() or first[0] == "_"):
            raise PseudocodeError(f"{first!r} begins no expression")
        if self.peek() == "(":
            self.take()
            arguments = []
            while self.peek() != ")":
                arguments.append(self.expression())
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return ("call", first, arguments)
        return ("name", first)

    def _postfix(self, node: Node) -> Node:
        while self.peek() in (".", "["):
            if self.take() == ".":
                word = self.take()
                typed = _TYPE.match(word)
                node = (
                    ("typed", node, typed.group(1), int(typed.group(2)))
                    if typed
                    else ("member", node, word)
                )
                continue
            high = self.expression()
            if self.peek() == ":":
                self.take()
                node = ("slice", node, high, self.expression())
            elif self.peek() == "+:":
                self.take()
                width = self.expression()
                top = ("binary", "-", ("binary", "+", high, width), ("number", 1, None, None))
                node = ("slice", node, top, high)
            else:
                node = ("bit", node, high)
            self.take("]")
        return node
