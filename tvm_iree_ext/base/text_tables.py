"""Tables for a terminal: columns where they fit its width, and a block for each row where not.

Nothing is ever cut: a cell that is wider than the terminal goes on in the next line.
"""

import shutil
import textwrap
from collections.abc import Collection, Sequence
from typing import TextIO

_GAP = "  "
_INDENT = "    "
_FILE_COLUMNS = 140  # of what is read in an editor


def width_of(stream: TextIO) -> int:
    """How many columns what is written to a stream may take."""
    return shutil.get_terminal_size().columns if stream.isatty() else _FILE_COLUMNS


def table_lines(
    header: Sequence[str],
    body: Sequence[Sequence[str]],
    width: int | None = None,
    *,
    left: Collection[int] = (0,),
) -> list[str]:
    """The lines of a table.

    Args:
        header: the columns' names.
        body: the cells of each row; the first says what the row is about.
        width: columns of the terminal; None for any number.
        left: the columns that are set left, such as texts; a last one among them may be ragged.
    """
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    if width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        return _blocks(header, body, width)
    rows = [header, ["─" * one for one in widths], *body]
    return [
        _GAP.join(
            cell.ljust(one) if place in left else cell.rjust(one)
            for place, (cell, one) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _blocks(header: Sequence[str], body: Sequence[Sequence[str]], width: int) -> list[str]:
    """For each row its first cell, and below it the others with their columns' names."""
    lines: list[str] = []
    for first, *others in body:
        lines += textwrap.wrap(first, width, subsequent_indent=_INDENT) or [""]
        line = ""
        for name, cell in zip(header[1:], others, strict=True):
            if not cell.strip():
                continue
            part = f"{name} {cell}"
            if line and len(_INDENT + line + _GAP + part) > width:
                lines += _wrapped(line, width)
                line = ""
            line += (_GAP if line else "") + part
        lines += _wrapped(line, width)
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    """A line of a block; more where one cell is wider than all."""
    if len(_INDENT + line) <= width:
        return [_INDENT + line] if line else []
    return textwrap.wrap(line, width, initial_indent=_INDENT, subsequent_indent=_INDENT + _GAP)
