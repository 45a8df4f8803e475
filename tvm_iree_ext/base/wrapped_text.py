"""Prose for a terminal: lines that are wider than it go on below, set in."""

import re
import sys
import textwrap

from tvm_iree_ext.base.text_tables import width_of

_DEEPER = "    "
_ENTRY = re.compile(r"\s+[\w*]+(, [\w*]+)*: ")  # as in the list of a function's arguments


def print_wrapped(text: str, label: str = "") -> None:
    """Print a text behind a label, below which it goes on where the terminal is too narrow.

    What is no terminal gets one line, for the tools that read lines.
    """
    lines = [label + text]
    if sys.stdout.isatty():
        wrapped = _filled(text, width_of(sys.stdout), label, " " * len(label) or _DEEPER)
        lines = wrapped or [label]
    print(*lines, sep="\n")


def refilled(text: str, width: int) -> str:
    """A docstring whose paragraphs fit a width; what is not wider stays as it stands.

    A paragraph is lines of one indent, or an entry with what stands deeper below it.
    """
    lines: list[str] = []
    for paragraph in _paragraphs(text):
        if max(map(len, paragraph)) <= width:
            lines += paragraph
            continue
        indent = _indent(paragraph[0])
        is_entry = _ENTRY.match(paragraph[0])
        deeper = " " * indent + (_DEEPER if is_entry else "")
        together = " ".join(one.strip() for one in paragraph)
        lines += _filled(together, width, " " * indent, deeper)
    return "\n".join(lines)


def _paragraphs(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    for line in text.splitlines():
        if found and _goes_on(found[-1], line):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _goes_on(paragraph: list[str], line: str) -> bool:
    """Whether a line belongs to what stands above it."""
    if not line.strip() or not paragraph[0].strip() or _ENTRY.match(line):
        return False
    if len(paragraph) == 1 and _ENTRY.match(paragraph[0]):
        return _indent(line) > _indent(paragraph[0])
    return _indent(line) == _indent(paragraph[-1])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _filled(text: str, width: int, first: str, below: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, len(below) + 20),  # a terminal of no width would set letters below another
        initial_indent=first,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )
