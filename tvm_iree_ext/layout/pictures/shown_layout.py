"""What a notebook shows of a layout and of a conversion: pictures as SVG.

A conversion is drawn as its two layouts, and below them where the registers of the result come
from: a row for each lane, a column for each register, in which lane and register of its source.
"""

from html import escape
from math import prod

import numpy as np

from tvm_iree_ext.base.errors import LayoutError
from tvm_iree_ext.layout.conversion import Conversion
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.layout.pictures.picture_svg import LayoutDrawing

# What is larger takes seconds to find, and megabytes to show.
_MOST_ELEMENTS, _MOST_LANES = 1 << 20, 1 << 16
_CELLS = 20  # boxes along an axis of a picture
_ROWS, _COLUMNS = 16, 16  # of the table of sources
_WIDEST = 1400  # pixels; pictures that are wider together stand below one another

# Pixels.
_MARGIN, _LINE = 24, 20
_NAME = 26  # height of a picture's name
_HEIGHT, _CHARACTER = 20, 6.5
_LABEL = 52  # width of a lane's name

# How far a register's value comes, its color, and what it says of it.
_FROM = (
    ("#eef1f4", "stays"),
    ("#cfe3ff", "from another register"),
    ("#ffdfa8", "from another lane"),
    ("#ffc2c2", "from another subgroup"),
)


def layout_svg(layout: NestedLayout) -> str | None:
    """The picture of a layout on the fewest lanes; None for one that is not well-formed, or large.

    The text of the layout is what is left to show then.
    """
    try:
        if not _is_drawn(layout):
            return None
        return LayoutDrawing(layout, None, None, _CELLS).svg()
    except LayoutError:
        return None


def conversion_svg(conversion: Conversion) -> str | None:
    """Both layouts, the verdict, and where each register's value comes from; None for a large one.

    Drawn is the subgroup that takes most from elsewhere.  A source is ``lane:register``, with the
    subgroup in front where that is another one.
    """
    layouts = (conversion.source, conversion.result)
    if not all(map(_is_drawn, layouts)):
        return None
    num_subgroups, subgroup_size, _ = conversion.source_lane.shape
    drawing = _ConversionDrawing(conversion)
    drawing.pictures(
        ("source", LayoutDrawing(conversion.source, num_subgroups, subgroup_size, _CELLS)),
        ("result", LayoutDrawing(conversion.result, num_subgroups, subgroup_size, _CELLS)),
    )
    drawing.sources()
    width, height = drawing.right + _MARGIN, drawing.bottom + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="layout-conversion" width="{width}"'
        f' height="{height}" viewBox="0 0 {width} {height}">\n<style>\n'
        ".layout-conversion text { font-family: Helvetica, Arial, sans-serif; fill: #1f2933 }\n"
        f'</style>\n<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(drawing.shapes)
        + "\n</svg>\n"
    )


def _is_drawn(layout: NestedLayout) -> bool:
    layout.verify()
    lanes = layout.subgroup_period * layout.lane_period
    return prod(layout.undistributed_shape) <= _MOST_ELEMENTS and lanes <= _MOST_LANES


class _ConversionDrawing:
    """Shapes from top to bottom; ``bottom`` is where the next one may start."""

    def __init__(self, conversion: Conversion) -> None:
        self.conversion = conversion
        self.shapes: list[str] = []
        self.bottom, self.right = 0, _MARGIN

    def pictures(self, *named: tuple[str, LayoutDrawing]) -> None:
        """The layouts under their names: beside one another, or below where that is too wide."""
        is_beside = sum(drawing.size[0] for _, drawing in named) <= _WIDEST
        x = top = 0
        for name, drawing in named:
            width, height = drawing.size
            self.text(x + _MARGIN, top + _NAME, name, 14, weight="bold")
            self.shapes.append(drawing.svg(x, top + _NAME))
            self.bottom = max(self.bottom, top + _NAME + height)
            self.right = max(self.right, x + width)
            x, top = (x + width, top) if is_beside else (x, self.bottom)

    def sources(self) -> None:
        """The verdict, and the sources of one subgroup's registers."""
        conversion = self.conversion
        lanes, registers = conversion.source_lane.shape[1:]
        steps = _steps(conversion)
        subgroup = int(np.argmax((steps >= 2).sum(axis=(1, 2))))
        self.line(conversion.movement.value, 14, "bold")
        for reason in conversion.reason.split("; "):
            self.line(reason)
        self.bottom += 8
        self.line(
            f"Where registers (columns) of lanes (rows) of subgroup {subgroup} in the result come"
            " from, as lane:register in the source"
        )
        self.legend({int(step) for step in np.unique(steps[subgroup])})
        sources = [
            [_source_text(conversion, subgroup, lane, register) for register in range(registers)]
            for lane in range(min(lanes, _ROWS))
        ]
        shown = min(registers, _COLUMNS)
        longest = max(len(text) for row in sources for text in row[:shown])
        width = round(_CHARACTER * longest) + 10
        left, top = _MARGIN + _LABEL, self.bottom + 2 * _LINE - 6
        for register in range(shown):
            x = left + width * register
            self.text(x + width / 2, top - 6, str(register), 10, "middle")
        for lane, row in enumerate(sources):
            y = top + _HEIGHT * lane
            self.text(left - 8, y + 14, f"lane {lane}", 10, "end")
            for register, text in enumerate(row[:shown]):
                x, fill = left + width * register, _FROM[steps[subgroup, lane, register]][0]
                self.shapes.append(
                    f'<rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" fill="{fill}"'
                    ' stroke="#ffffff" stroke-width="1.5"/>'
                )
                self.text(x + width / 2, y + 14, text, 11, "middle")
        self.bottom = top + _HEIGHT * len(sources)
        self.right = max(self.right, left + width * shown)
        more = [
            f"{count - limit} more {what}"
            for what, count, limit in (("lanes", lanes, _ROWS), ("registers", registers, _COLUMNS))
            if count > limit
        ]
        if more:
            self.line(f"... and {', '.join(more)}")

    def legend(self, steps: set[int]) -> None:
        """A swatch for each way that is taken."""
        x = _MARGIN
        for step in sorted(steps):
            fill, text = _FROM[step]
            self.shapes.append(
                f'<rect x="{x}" y="{self.bottom + 10}" width="16" height="14" fill="{fill}"/>'
            )
            self.text(x + 22, self.bottom + 21, text)
            x += 22 + round(_CHARACTER * len(text)) + 16
        self.bottom += 24
        self.right = max(self.right, x)

    def line(self, text: str, size: int = 12, weight: str = "normal") -> None:
        """A line of text below everything."""
        self.bottom += _LINE
        self.text(_MARGIN, self.bottom, text, size, weight=weight)
        self.right = max(self.right, _MARGIN + round(size * 0.52 * len(text)))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 12,
        anchor: str = "start",
        weight: str = "normal",
    ) -> None:
        """A text at its baseline."""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
            f' font-weight="{weight}">{escape(text, quote=False)}</text>'
        )


def _steps(conversion: Conversion) -> np.ndarray:
    """How far each register's value comes, as a place in ``_FROM``: ``[H, L, R]``."""
    subgroups, lanes, registers = np.indices(conversion.source_lane.shape)
    steps = (conversion.source_register != registers).astype(int)
    steps[conversion.source_lane != lanes] = 2
    steps[conversion.source_subgroup != subgroups] = 3
    return steps


def _source_text(conversion: Conversion, subgroup: int, lane: int, register: int) -> str:
    place = subgroup, lane, register
    text = f"{conversion.source_lane[place]}:{conversion.source_register[place]}"
    other = int(conversion.source_subgroup[place])
    return text if other == subgroup else f"{other}:{text}"
