"""The parts of an operation's text: attributes, clauses such as ``ins(...)``, operands, types."""

import re
from dataclasses import dataclass, field

from tvm_iree_ext.mlir.reading.older_text import Refused, Span, Text, Unfit, WordCursor, entries

_BRACKETS = ("(", "[", "<", "{")


@dataclass(frozen=True)
class Clause:
    """``name(value)``, or ``name = value`` and, for an older im2col, ``* factor``."""

    whole: Span
    value: Span
    factor: Span | None = None


@dataclass
class Form:
    """An operation: ``NAME <{properties}> {attributes} CLAUSES``, as far as its clauses go."""

    text: Text
    name: str
    named: Span
    properties: Span | None
    attributes: Span | None
    clauses: dict[str, Clause]
    words: WordCursor  # behind the clauses
    known: dict[str, Span | None] = field(default_factory=dict)  # of properties and attributes

    def of(self, name: str) -> str:
        """The value of a clause on one line.

        Raises:
            Unfit: where there is none.
        """
        if name not in self.clauses:
            raise Unfit
        return self.text[self.clauses[name].value]

    def operands(self, name: str) -> tuple[list[str], list[str]]:
        """The values in ``name(%a, %b : type, type)``, and their types."""
        clause = self.clauses.get(name)
        if clause is None:
            return [], []
        return names_and_types(self.text, clause.value)


def names_and_types(text: Text, group: Span) -> tuple[list[str], list[str]]:
    """The values and the types of ``(%a, %b : type, type)``.

    Raises:
        Unfit: for another form.
    """
    halves = text.parts(group.inside, ":")
    if len(halves) != 2:
        raise Unfit
    values, types = ([text[one] for one in text.parts(half)] for half in halves)
    if len(values) != len(types):
        raise Unfit
    return values, types


def custom_form(text: Text, name: str, named: Span) -> Form:
    """The parts of an operation in its own form.

    Raises:
        Unfit: for brackets that do not match.
    """
    words = WordCursor(text, named.end)
    properties = words.group() if words.peek() == "<" else None
    attributes = words.group() if words.peek() == "{" else None
    clauses = clauses_of(text, words)
    form = Form(text, name, named, properties, attributes, clauses, words)
    for dictionary in (properties, attributes):
        if dictionary is not None:
            form.known |= entries(text, dictionary)
    return form


def clauses_of(text: Text, words: WordCursor) -> dict[str, Clause]:
    """The clauses that come next, by name.

    Raises:
        Unfit: for a word that is no clause.
    """
    clauses = {}
    while re.fullmatch(r"[a-z]\w*", words.peek()) and words.peek() != "into":
        start = words.place
        name = text[words.take()]
        equals = words.skip("=")
        if not equals and words.peek() != "(":
            raise Unfit
        value = words.group() if words.peek() in _BRACKETS else words.take()
        factor = words.group() if equals and words.skip("*") else None
        clauses[name] = Clause(Span(start, words.at), value, factor)
    return clauses


@dataclass(frozen=True)
class Map:
    """``(dims) -> (results)``, by the names in the text."""

    dims: list[str]
    results: list[str]


_MAP = r"affine_map\s*<\s*\(([^()<>]*)\)\s*(?:\[[^\]]*\]\s*)?->\s*\(([^()<>]*)\)\s*>"


def map_of(text: Text, value: str) -> Map:
    """An affine map, written out or by the name that the text gives it.

    Raises:
        Unfit: for another form.
    """
    if value.startswith("#"):
        text.spend(len(text.text))
        found = re.search(rf"^[ \t]*{re.escape(value)}\s*=\s*{_MAP}", text.text, re.MULTILINE)
    else:
        found = re.fullmatch(_MAP, value)
    if found is None:
        raise Unfit
    dims, results = (
        [one.strip() for one in part.split(",") if one.strip()] for part in found.groups()
    )
    return Map(dims, results)


def extents(kind: str) -> list[int | None]:
    """The extents of a tensor or memref; None where one is known in a call only.

    Raises:
        Unfit: for another type.
    """
    found = re.match(r"(?:tensor|memref|vector)\s*<((?:(?:\d{1,18}|\?)x)*)", kind)
    if found is None:
        raise Unfit
    return [None if one == "?" else int(one) for one in found[1].split("x")[:-1]]


def integers(name: str, what: str, values: list[str]) -> list[int]:
    """Numbers that an older spelling must say to be brought up to date.

    Raises:
        Refused: for what is known in a call only.
    """
    if not all(re.fullmatch(r"-?\d{1,18}", one) for one in values):
        raise Refused(f"{name}: {what} must be numbers in this older spelling")
    return [int(one) for one in values]
