"""Reading a layout from the text of its MLIR attribute; ``str(layout)`` is the inverse.

    #iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [2, 4], ...>

What iree-opt accepts is accepted: the seven parameters in their one order, decimal or hexadecimal
64-bit integers, any whitespace and ``//`` comments between tokens, and the long form
``#iree_vector_ext<nested_layout<...>>``.  One difference: IREE reads ``true`` as -1; here it is an
error.  Checked against iree-base-compiler 3.13.
"""

import re

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.nested import FIELDS, Ints, NestedLayout

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
_TOKEN = re.compile(r"#?[\w$.]+|.", re.ASCII)  # for messages: what stands where it should not
_PREFIX = re.compile(r"#iree_vector_ext(\.nested_layout<|<)")


def parse_layout(text: str) -> NestedLayout:
    """The layout whose MLIR attribute is ``text``.

    Raises:
        LayoutError: where the text departs from the attribute's form, with line, column, what was
            expected and what stands there; or when the lists differ in length.

    >>> scalar = NestedLayout((), (), (), (), (), (), ())
    >>> parse_layout(str(scalar)) == scalar
    True
    >>> parse_layout("#iree_vector_ext.nested_layout<batch_tile = [4]>")
    Traceback (most recent call last):
    tvm_iree_ext.base.errors.LayoutError: nested_layout: line 1, column 32: expected \
'subgroup_tile', found 'batch_tile'
    """
    return _Parser(text).layout()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def layout(self) -> NestedLayout:
        self.skip_space()
        prefix = _PREFIX.match(self.text, self.at)
        if prefix is None:
            raise self.error("'#iree_vector_ext.nested_layout<'")
        self.at = prefix.end()
        long_form = prefix[1] == "<"
        if long_form:
            self.word("nested_layout")
            self.symbol("<")
        lists = []
        for number, name in enumerate(FIELDS):
            if number:
                self.symbol(",")
            self.word(name)
            self.symbol("=")
            lists.append(self.integers())
        for _ in range(1 + long_form):
            self.symbol(">")
        self.skip_space()
        if self.at < len(self.text):
            raise self.error("the end of the attribute")
        return NestedLayout(*lists)

    def integers(self) -> Ints:
        self.symbol("[")
        if self.has("]"):
            return ()
        values = [self.integer()]
        while not self.has("]"):
            if not self.has(","):
                raise self.error("',' or ']'")
            values.append(self.integer())
        return tuple(values)

    def integer(self) -> int:
        sign = -1 if self.has("-") else 1
        self.skip_space()
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise self.error("an integer")
        value = sign * int(number[0], 16 if number[0].startswith("0x") else 10)
        if not -(2**63) <= value < 2**63:
            raise self.error("an integer of 64 bits")
        self.at = number.end()
        return value

    def word(self, expected: str) -> None:
        self.skip_space()
        word = _WORD.match(self.text, self.at)
        if word is None or word[0] != expected:
            raise self.error(f"'{expected}'")
        self.at = word.end()

    def symbol(self, expected: str) -> None:
        if not self.has(expected):
            raise self.error(f"'{expected}'")

    def has(self, symbol: str) -> bool:
        """Step over ``symbol`` if it comes next."""
        self.skip_space()
        found = self.text.startswith(symbol, self.at)
        self.at += found
        return found

    def skip_space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None  # the pattern matches nothing, too
        self.at = space.end()

    def error(self, expected: str) -> LayoutError:
        token = _TOKEN.match(self.text, self.at)
        found = f"'{token[0]}'" if token else "the end of the text"
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        return LayoutError(
            f"nested_layout: line {line}, column {column}: expected {expected}, found {found}"
        )
