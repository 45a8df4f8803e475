"""Tables of rows by target and case, as aligned text or as Markdown."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class _Row(Protocol):
    @property
    def target(self) -> str: ...
    @property
    def case(self) -> str: ...


Row = TypeVar("Row", bound=_Row)


def lined_up(lines: Sequence[Sequence[str]], *, markdown: bool = False) -> str:
    """Lines of cells, the first of which are names, as aligned text or as a table of Markdown."""
    if markdown:
        ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
        return "\n".join(f"| {' | '.join(line)} |" for line in ruled)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(text.rstrip() for text in texts)


def markdown_table(rows: Sequence[Row], cell: Callable[[Sequence[Row]], str]) -> str:
    """A line for each target and a column for each case, of the rows of both."""
    cases = list(dict.fromkeys(row.case for row in rows))
    lines = [["target", *cases]]
    for target in dict.fromkeys(row.target for row in rows):
        of_target = [row for row in rows if row.target == target]
        found = (cell([row for row in of_target if row.case == case]) for case in cases)
        lines.append([f"`{target}`", *(one or "-" for one in found)])
    return lined_up(lines, markdown=True)
