"""A layout in a terminal: subgroups by colour, lanes by number, local indices in the margins.

A cell is one element tile.  The margins give the coordinate of its first element, and that
element's local index: where in the lane's part it is.  Without colour, or with more subgroups than
colours, a cell reads ``subgroup:lane``.
"""

from tvm_iree_ext.layout.nested import Ints, NestedLayout
from tvm_iree_ext.layout.pictures.layout_picture import CoordinateRun, Picture, Slice, listed_text

_BACKGROUNDS = (153, 222, 151, 218, 183, 216, 123, 250)  # xterm-256, all light: text is black


def text_picture(
    layout: NestedLayout,
    num_subgroups: int | None = None,
    subgroup_size: int | None = None,
    *,
    color: bool = True,
    width: int = 100,
    max_rows: int = 40,
) -> str:
    """A picture of ``layout`` for a terminal, in ``width`` characters where that can be.

    Args:
        num_subgroups: by default as many as the layout needs.
        subgroup_size: lanes of a subgroup; by default as many as the layout needs.
        color: whether to mark subgroups by ANSI background colours.
        max_rows: cells from top to bottom of a slice, before some are left out.

    Raises:
        LayoutError: when the layout is not well-formed or does not fit the hardware.

    >>> pairs = NestedLayout((2,), (2,), (1,), (2,), (2,), (1,), (1,))
    >>> print(text_picture(pairs, color=False))
    16 over 2 subgroups of 2 lanes
    each lane holds 4; each element has 1 owner
    <BLANKLINE>
    column   0   2   4   6   8  10  12  14
     local   0   0   2   2   0   0   2   2
           0:0 0:1 0:0 0:1 1:0 1:1 1:0 1:1
    <BLANKLINE>
    a cell is 2 elements of subgroup:lane
    lane 0 of subgroup 0 holds, by register:
      0..1: (0..1)   2..3: (4..5)
    """
    layout.verify()
    num_subgroups = layout.subgroup_period if num_subgroups is None else num_subgroups
    subgroup_size = layout.lane_period if subgroup_size is None else subgroup_size
    for max_columns in range(64, 3, -1):
        picture = Picture(layout, num_subgroups, subgroup_size, max_rows, max_columns)
        table = _Table(picture, color)
        if table.width <= width:
            break
    lines = [picture.title, picture.holding, ""]
    for part in picture.slices:
        lines += [*table.lines(part), ""]
    return "\n".join([*lines, *table.legend(width)])


def _labels(run: CoordinateRun) -> tuple[str, str]:
    """Coordinate and local index in the margin: of the first element; a gap shows its range."""
    if run.gap:
        return run.label, run.local
    return str(run.start), run.local.partition(".")[0]


class _Table:
    """One grid for all slices of a picture."""

    def __init__(self, picture: Picture, color: bool) -> None:
        self.picture = picture
        groups = picture.subgroup_groups
        color = color and len(groups) <= len(_BACKGROUNDS)
        self.backgrounds = (
            {group[0]: _BACKGROUNDS[at] for at, group in enumerate(groups)} if color else {}
        )
        self.names_subgroup = not color and len(groups) > 1
        ranked = picture.layout.rank
        self.row_margin = ranked > 1
        headed = [("column", "local")] if ranked else [("", "")]
        headed += [_labels(column) for column in picture.columns]
        self.header = list(zip(*headed, strict=True)) if ranked else []
        widest_cell = len(self._text(groups[-1][0], picture.subgroup_size - 1))
        self.widths = [
            max(len(head), len(local), widest_cell if at else 0)
            for at, (head, local) in enumerate(headed)
        ]
        self.row_width = 0
        if self.row_margin:
            rows, local = zip(*map(_labels, picture.rows), strict=True)
            self.row_width = max(map(len, ["row", *rows]))
            self.widths[0] = max(self.widths[0], *map(len, local))

    @property
    def width(self) -> int:
        """Characters of a line of cells."""
        return self.row_width + sum(width + 1 for width in self.widths)

    def lines(self, part: Slice) -> list[str]:
        if part.gap:
            return [f"({part.gap})"]
        lines = [part.title] if part.title else []
        for at, texts in enumerate(self.header):
            lines.append(self._line("row" if at and self.row_margin else "", texts))
        for row in self.picture.rows:
            cells = [self._cell(part.at, row, column) for column in self.picture.columns]
            label, local = _labels(row) if self.row_margin else ("", "")
            lines.append(self._line(label, [local, *cells]))
        for name, runs in (("rows", self.picture.rows), ("columns", self.picture.columns)):
            lines += [f"{name} {run.label}: {run.gap}" for run in runs if run.gap]
        return lines

    def legend(self, width: int) -> list[str]:
        picture, lines = self.picture, []
        tile = "x".join(map(str, picture.layout.element_tile)) or "1"
        cell = "a cell is 1 element of" if tile == "1" else f"a cell is {tile} elements of"
        if self.backgrounds:
            swatches = [
                self._painted(group[0], f" subgroup {listed_text(group)} ")
                for group in picture.subgroup_groups
            ]
            lines.append(f"{cell} a lane of  " + " ".join(swatches))
        elif self.names_subgroup:
            shared = [group for group in picture.subgroup_groups if len(group) > 1]
            stands = "".join(f"; {group[0]} is subgroups {listed_text(group)}" for group in shared)
            lines.append(f"{cell} subgroup:lane{stands}")
        else:
            same = ", the same in all subgroups" if picture.num_subgroups > 1 else ""
            lines.append(f"{cell} a lane{same}")
        if picture.lane_note:
            lines.append(picture.lane_note)
        lines.append("lane 0 of subgroup 0 holds, by register:")
        held = picture.held_by_first_lane
        column = max(map(len, held)) + 3
        across = max(1, (width - 2) // column)
        for start in range(0, len(held), across):
            lines.append("  " + "".join(f"{run:{column}}" for run in held[start : start + across]))
        return [line.rstrip() for line in lines]

    def _line(self, row: str, texts: list[str] | tuple[str, ...]) -> str:
        padded = [
            text if text.startswith("\x1b") else f"{text:>{width}}"
            for text, width in zip(texts, self.widths, strict=True)
        ]
        margin = f"{row:>{self.row_width}} " if self.row_margin else ""
        return (margin + " ".join(padded)).rstrip()

    def _cell(self, at: Ints, row: CoordinateRun, column: CoordinateRun) -> str:
        if row.gap or column.gap:
            return "..."
        cell = self.picture.cell(at, row, column)
        width = self.widths[1 + self.picture.columns.index(column)]
        return self._painted(cell.subgroup, f"{self._text(cell.subgroup, cell.lane):>{width}}")

    def _text(self, subgroup: int, lane: int) -> str:
        return f"{subgroup}:{lane}" if self.names_subgroup else str(lane)

    def _painted(self, subgroup: int, text: str) -> str:
        if not self.backgrounds:
            return text
        return f"\x1b[48;5;{self.backgrounds[subgroup]};38;5;16m{text}\x1b[0m"
