"""MLIR's text by its words, and what is changed in it: what rules for older spellings stand on.

A comment is passed over and a string is one word, so that nothing in them is taken for code.
Brackets are matched without recursion.  What is put in the place of words has the line breaks that
they had, so that each line keeps its number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

STRING = r'"(?:[^"\\\n]|\\[^\n])*"?'
_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_WORD = re.compile(
    rf"{STRING}|->|[<>=]=|[%@#!^](?:[\w$.]|-(?!>))+|[A-Za-z_][\w$.]*|\d[\w.]*|.",
    re.ASCII | re.DOTALL,
)
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MOST_WORDS = 200_000  # looked at, beside one for two characters; a rule that wants more gives up
_LONG = 16  # characters of a long word or gap that count as a word


class Unfit(Exception):
    """What follows an operation's name is not of a form that a rule knows."""


class Refused(Exception):
    """An older spelling that has no meaning today; the message names the newer one."""


@dataclass(frozen=True)
class Span:
    """A piece of the text."""

    start: int
    end: int

    @property
    def inside(self) -> "Span":
        """What stands between a pair of brackets."""
        return Span(self.start + 1, self.end - 1)


@dataclass
class Text:
    """A text, what is to be put in the place of its pieces, and how many words may be read yet."""

    text: str
    changes: list[tuple[Span, str]] = field(default_factory=list)
    left: int = 0

    def __post_init__(self) -> None:
        self.left = _MOST_WORDS + len(self.text) // 2

    def __getitem__(self, span: Span) -> str:
        """A piece on one line, without its comments."""
        parts: list[str] = []
        last = span.start
        for word in self.words(span):
            gap = " " if parts and word.start > last else ""
            parts.append(gap + self.text[word.start : word.end])
            last = word.end
        return "".join(parts)

    def words(self, span: Span) -> Iterator[Span]:
        """The words of a piece, in order.

        Raises:
            Unfit: when too many have been read.
        """
        at = span.start
        while True:
            found = _SPACE.match(self.text, at, span.end)
            word = _WORD.match(self.text, found.end() if found else at, span.end)
            if word is None:
                return
            self.spend(word.end() - at)
            at = word.end()
            yield Span(word.start(), at)

    def spend(self, characters: int) -> None:
        """Note that so many characters were looked at.

        Raises:
            Unfit: when that is too many.
        """
        self.left -= 1 + characters // _LONG
        if self.left < 0:
            raise Unfit

    def replace(self, span: Span, new: str) -> None:
        """Put ``new``, which is one line, in the place of a piece."""
        if new == self.text[span.start : span.end]:
            return
        self.changes.append((span, new + "\n" * self.text.count("\n", span.start, span.end)))

    def insert(self, at: int, new: str) -> None:
        """Put ``new`` before a place."""
        self.replace(Span(at, at), new)

    def parts(self, span: Span, between: str = ",") -> list[Span]:
        """The parts of a piece that a word separates, but not within brackets; none are empty.

        Raises:
            Unfit: for brackets that do not match.
        """
        words = WordCursor(self, span.start, span.end)
        parts: list[Span] = []
        first: Span | None = None
        last = Span(span.start, span.start)
        while word := words.peek():
            if word == between:
                words.take()
                if first is None:
                    raise Unfit
                parts.append(Span(first.start, last.end))
                first = None
                continue
            last = words.group() if word in _CLOSES else words.take()
            first = first or last
        return parts if first is None else [*parts, Span(first.start, last.end)]

    def changed(self) -> str:
        """The text with all changes."""
        parts, at = [], 0
        for span, new in sorted(self.changes, key=lambda change: (change[0].start, change[0].end)):
            if span.start < at:  # within what has been replaced
                continue
            parts += [self.text[at : span.start], new]
            at = span.end
        return "".join([*parts, self.text[at:]])


class WordCursor:
    """A cursor over the words of a text."""

    def __init__(self, text: Text, start: int, end: int | None = None) -> None:
        self.text = text
        self._words = text.words(Span(start, len(text.text) if end is None else end))
        self._next = next(self._words, None)
        self.at = start  # where the word that was taken last ends

    def peek(self) -> str:
        """The next word; empty at the end."""
        return "" if self._next is None else self.text.text[self._next.start : self._next.end]

    @property
    def place(self) -> int:
        """Where the next word begins."""
        return self.at if self._next is None else self._next.start

    def take(self, expected: str | None = None) -> Span:
        """The next word, and go on.

        Raises:
            Unfit: at the end of the text, and for another word than is expected.
        """
        word = self._next
        if word is None or (expected is not None and self.peek() != expected):
            raise Unfit
        self._next = next(self._words, None)
        self.at = word.end
        return word

    def skip(self, word: str) -> bool:
        """Go on where the next word is this one."""
        if self.peek() != word:
            return False
        self.take()
        return True

    def group(self) -> Span:
        """A pair of brackets and all between them.

        Raises:
            Unfit: where there is none.
        """
        start, waiting = self.place, []
        while True:
            word = self.peek()
            if word in _CLOSES:
                waiting.append(_CLOSES[word])
            elif not waiting or (word in _CLOSES.values() and waiting.pop() != word):
                raise Unfit
            self.take()
            if not waiting:
                return Span(start, self.at)


def entries(text: Text, dictionary: Span) -> dict[str, Span | None]:
    """The names and values of ``{a = 1, b}``, ``<{a = 1}>`` or ``<a = 1>``.

    Raises:
        Unfit: for another form.
    """
    inside = dictionary.inside
    words = WordCursor(text, inside.start, inside.end)
    if words.peek() == "{":
        inside = words.group().inside
    found: dict[str, Span | None] = {}
    for part in text.parts(inside):
        one = WordCursor(text, part.start, part.end)
        name = text[one.take()]
        if not one.peek():
            found[name] = None
            continue
        one.take("=")
        found[name] = Span(one.place, part.end)
    return found


def list_of(value: str) -> list[str]:
    """The elements of ``[1, 2]``, ``array<i64: 1, 2>`` or ``dense<[1, 2]> : tensor<2xi64>``.

    Raises:
        Unfit: for another form.
    """
    found = re.fullmatch(
        r"(?:array<i\d+(?: ?: ?(?P<array>[^<>\[\]]*))?>|\[(?P<list>[^\[\]]*)\]"
        r"|dense<\[?(?P<dense>[^<>\[\]]*)\]?> ?: ?(?:tensor|vector)<(?P<count>\d{1,18})xi\d+>)",
        value.strip(),
    )
    if found is None:
        raise Unfit
    inside = found["array"] or found["list"] or found["dense"] or ""
    elements = [one.partition(":")[0].strip() for one in inside.split(",") if one.strip()]
    if found["count"] and len(elements) == 1:
        if int(found["count"]) > 64:
            raise Unfit
        elements *= int(found["count"])
    return elements


def array(kind: str, elements: list[str]) -> str:
    """``array<i64: 1, 2>``."""
    return f"array<{kind}: {', '.join(elements)}>" if elements else f"array<{kind}>"
