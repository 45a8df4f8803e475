"""A layout as an SVG drawing: subgroups by colour, lanes by number and shade, registers in small.

One box is one element tile: its lane, and below, element by element, the register that holds it.
The boxes of lane 0 of subgroup 0 are outlined.  Each box has a tooltip.  Hatched strips stand for
what was left out, and say what it repeats.
"""

import colorsys
import contextlib
import os
import secrets
from html import escape
from pathlib import Path

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.layout.nested import NestedLayout
from tvm_iree_ext.layout.pictures.layout_picture import CoordinateRun, Picture, Slice, listed_text

# Pixels.
_MARGIN = 24
_STRIP = 22  # across a hatched strip
_LANE_LINE, _REGISTER_LINE = 16, 10  # in a box
_AXIS_CHARACTER = 5  # width, in the margins and on strips
_LARGEST_TILE = 64  # elements of a box whose registers are written out
_HELD_WIDTH = 180  # of one run in the list of what lane 0 holds
_TEXT_WIDTH = 4 * _HELD_WIDTH

_HUES = (0.58, 0.11, 0.38, 0.93, 0.76, 0.48, 0.02, 0.20)
_STYLE = """
.nested-layout text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2933 }
.nested-layout .head { font-size: 17px; font-weight: bold }
.nested-layout .lane { font-size: 12px; font-weight: bold; text-anchor: middle }
.nested-layout .register { font-size: 8px; fill: #45525f; text-anchor: middle }
.nested-layout .axis { font-size: 9px; fill: #66727f; text-anchor: middle }
.nested-layout .row { font-size: 9px; fill: #66727f; text-anchor: end }
.nested-layout .gap { font-size: 10px; fill: #66727f; text-anchor: middle }
.nested-layout .box { stroke: #ffffff; stroke-width: 1.5 }
.nested-layout .first { fill: none; stroke: #1f2933; stroke-width: 1.5 }
.nested-layout .strip { fill: url(#hatch); stroke: #ffffff; stroke-width: 1.5 }
"""
_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect width="6" height="6" fill="#f4f6f8"/>'
    '<rect width="2" height="6" fill="#e3e8ed"/></pattern></defs>'
)


def svg_picture(
    layout: NestedLayout,
    num_subgroups: int | None = None,
    subgroup_size: int | None = None,
    *,
    max_cells: int = 40,
) -> str:
    """A picture of ``layout`` as the text of an SVG file.

    Args:
        num_subgroups: by default as many as the layout needs.
        subgroup_size: lanes of a subgroup; by default as many as the layout needs.
        max_cells: boxes along an axis, before some are left out.

    Raises:
        LayoutError: when the layout is not well-formed or does not fit the hardware.
    """
    return LayoutDrawing(layout, num_subgroups, subgroup_size, max_cells).svg()


def save_svg(
    path: str | os.PathLike[str],
    layout: NestedLayout,
    num_subgroups: int | None = None,
    subgroup_size: int | None = None,
) -> None:
    """Write :func:`svg_picture` to a file, which is there whole or not at all.

    Raises:
        LayoutError: when the layout is not well-formed or does not fit the hardware.
        BuildError: when the file cannot be written; what stood there before is untouched.
    """
    drawing = svg_picture(layout, num_subgroups, subgroup_size)
    path = Path(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(drawing)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise BuildError(f"layout: cannot write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # there is none after the replacement
            partial.unlink()


class LayoutDrawing:
    """Shapes from top to bottom; ``bottom`` is where the next one may start.

    Arguments and errors are those of :func:`svg_picture`.
    """

    def __init__(
        self,
        layout: NestedLayout,
        num_subgroups: int | None,
        subgroup_size: int | None,
        max_cells: int,
    ) -> None:
        layout.verify()
        self.picture = picture = Picture(
            layout,
            layout.subgroup_period if num_subgroups is None else num_subgroups,
            layout.lane_period if subgroup_size is None else subgroup_size,
            max_cells,
            max_cells,
        )
        self.shapes: list[str] = []
        self.labels: list[str] = []
        self.bottom = self.right = 0
        self.tile = (1, 1, *layout.element_tile)[-2:]
        self.writes_registers = self.tile[0] * self.tile[1] <= _LARGEST_TILE
        lane_width = 8 * len(str(picture.subgroup_size - 1)) + 12
        labels = [run.label for run in picture.columns if not run.gap]
        least = max(lane_width, _AXIS_CHARACTER * max(map(len, labels)) + 6)
        self.box = (least, 22)
        if self.writes_registers:
            register_width = 5 * len(str(picture.registers_per_lane - 1)) + 5
            self.box = (
                max(least, self.tile[1] * register_width + 4),
                _LANE_LINE + self.tile[0] * _REGISTER_LINE + 4,
            )
        self.local_x = _MARGIN
        if layout.rank > 1:
            self.local_x += _AXIS_CHARACTER * max(len(row.label) for row in picture.rows) + 8
        local_width = _AXIS_CHARACTER * max(len(row.local) for row in picture.rows) + 8
        self.left = self.local_x + max(56, local_width) if layout.rank else _MARGIN
        self.draw()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.right + _MARGIN, self.bottom + _MARGIN

    def svg(self, x: int = 0, y: int = 0) -> str:
        """The whole file; or a part of another drawing, at a place in that."""
        width, height = self.size
        place = f' x="{x}" y="{y}"' if x or y else ""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="nested-layout"{place}'
            f' width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            f"<style>{_STYLE}</style>\n{_HATCH}\n"
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        )
        return head + "\n".join(self.shapes + self.labels) + "\n</svg>\n"

    def draw(self) -> None:
        """All of it, from the title down."""
        self.text(_MARGIN, 34, "head", self.picture.title)
        self.bottom, self.right = 34, _MARGIN + 9 * len(self.picture.title)
        self.line(self.picture.holding)
        self.line(
            "bold: the lane; small: the register of each element in that lane"
            if self.writes_registers
            else "bold: the lane"
        )
        if self.picture.lane_note:
            self.line(self.picture.lane_note)
        self.legend()
        for part in self.picture.slices:
            self.slice(part)
        self.held()

    def legend(self) -> None:
        """One swatch for each group of subgroups that hold the same."""
        x, y = _MARGIN, self.bottom + 12
        for group in self.picture.subgroup_groups:
            label = f"subgroup{'s' if len(group) > 1 else ''} {listed_text(group)}"
            width = 24 + 7 * len(label) + 14
            if x > _MARGIN and x + width > _TEXT_WIDTH:
                x, y = _MARGIN, y + 22
            self.rectangle(
                x, y, 16, 14, "box", self.fill(group[0], self.picture.subgroup_size // 2)
            )
            self.text(x + 22, y + 11, "note", label)
            x += width
            self.right = max(self.right, x)
        self.bottom = y + 14

    def held(self) -> None:
        """The list of what lane 0 of subgroup 0 holds."""
        self.bottom += 12
        self.line("Lane 0 of subgroup 0 (outlined) holds, by register:")
        top, runs = self.bottom, self.picture.held_by_first_lane
        for at, run in enumerate(runs):
            row, column = divmod(at, 4)
            self.text(_MARGIN + column * _HELD_WIDTH, top + 18 * (row + 1), "note", run)
            self.bottom = top + 18 * (row + 1)
            self.right = max(self.right, _MARGIN + (column + 1) * _HELD_WIDTH)

    def slice(self, part: Slice) -> None:
        """One grid of boxes, with its margins."""
        self.bottom += 14
        if part.gap:
            self.line(f"... and {part.gap}")
            return
        if part.title:
            self.line(part.title)
        rank = self.picture.layout.rank
        top = self.bottom + (34 if rank else 8)
        columns = self.places(self.picture.columns, self.left, 0)
        rows = self.places(self.picture.rows, top, 1)
        (_, x, width), (_, y, height) = columns[-1], rows[-1]
        self.right, self.bottom = max(self.right, x + width), y + height
        if rank:
            self.text(self.left - 8, top - 18, "row", "coordinate")
            self.text(self.left - 8, top - 6, "row", "local index")
            for column, x, width in columns:
                self.text(x + width / 2, top - 18, "axis", column.label)
                self.text(x + width / 2, top - 6, "axis", column.local)
        for row, y, height in rows:
            if rank > 1:
                self.text(self.local_x - 8, y + height / 2 + 3, "row", row.label)
                self.text(self.left - 8, y + height / 2 + 3, "row", row.local)
            for column, x, _ in columns:
                if not row.gap and not column.gap:
                    self.cell(part, row, column, x, y)
        edge, end = self.left + sum(size for _, _, size in columns), self.bottom
        for column, x, width in columns:
            if column.gap:
                self.strip("columns", column, x, top, width, end - top)
        for row, y, height in rows:
            if row.gap:
                self.strip("rows", row, self.left, y, edge - self.left, height)

    def places(
        self, runs: list[CoordinateRun], start: int, axis: int
    ) -> list[tuple[CoordinateRun, int, int]]:
        """Each run, its first pixel, and its pixels."""
        places = []
        for run in runs:
            size = self.box[axis]
            if run.gap:
                size = _STRIP if axis else max(_STRIP, _AXIS_CHARACTER * len(run.label) + 8)
            places.append((run, start, size))
            start += size
        return places

    def cell(self, part: Slice, row: CoordinateRun, column: CoordinateRun, x: int, y: int) -> None:
        """The box of one element tile."""
        cell = self.picture.cell(part.at, row, column)
        width, height = self.box
        where = [str(at) for at in part.at]
        where += [run.label for run in (row, column)][2 - min(2, self.picture.layout.rank) :]
        registers = cell.registers.reshape(-1).tolist()
        tip = (
            f"({', '.join(where)}): lane {cell.lane} of subgroup {cell.subgroup},"
            f" registers {listed_text(registers[:16])}{' ...' if len(registers) > 16 else ''}"
        )
        self.shapes.append(f"<g><title>{escape(tip, quote=False)}</title>")
        self.rectangle(x, y, width, height, "box", self.fill(cell.subgroup, cell.lane))
        self.text(x + width / 2, y + (13 if self.writes_registers else 15), "lane", str(cell.lane))
        if self.writes_registers:
            pitch = (width - 4) / self.tile[1]
            for i, line in enumerate(cell.registers.tolist()):
                for j, register in enumerate(line):
                    at_x, at_y = x + 2 + (j + 0.5) * pitch, y + _LANE_LINE + _REGISTER_LINE * i + 8
                    self.text(at_x, at_y, "register", str(register))
        if cell.subgroup == cell.lane == 0:
            self.rectangle(x + 2, y + 2, width - 4, height - 4, "first", "none")
        self.shapes.append("</g>")

    def strip(self, what: str, run: CoordinateRun, x: int, y: int, width: int, height: int) -> None:
        """A hatched strip; its text stands near its start, where it crosses no other, or below."""
        self.rectangle(x, y, width, height, "strip", "url(#hatch)")
        length = _AXIS_CHARACTER * len(run.gap) + 16
        if length > max(width, height):
            self.line(f"{what} {run.label}: {run.gap}")
            return
        if height > width:
            at = f"{x + width / 2 + 3:g} {y + length / 2:g}"
            self.text(0, 0, "gap", run.gap, f' transform="translate({at}) rotate(-90)"')
        else:
            self.text(x + length / 2, y + height / 2 + 4, "gap", run.gap)
        # Drawn last: a strip that crosses must not cover it.
        self.labels.append(self.shapes.pop())

    def fill(self, subgroup: int, lane: int) -> str:
        """The hue of a subgroup; paler for low lanes."""
        order = [group[0] for group in self.picture.subgroup_groups].index(subgroup)
        hue = _HUES[order % len(_HUES)] + 0.045 * (order // len(_HUES))
        lightness = 0.91 - 0.19 * lane / max(1, self.picture.subgroup_size - 1)
        red, green, blue = colorsys.hls_to_rgb(hue % 1, lightness, 0.62)
        return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"

    def line(self, text: str) -> None:
        """A line of text below everything."""
        self.bottom += 20
        self.text(_MARGIN, self.bottom, "note", text)
        self.right = max(self.right, _MARGIN + 6 * len(text))

    def text(self, x: float, y: float, kind: str, text: str, turn: str = "") -> None:
        """A text at its baseline."""
        self.shapes.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}"{turn}>{escape(text, quote=False)}</text>'
        )

    def rectangle(self, x: int, y: int, width: int, height: int, kind: str, fill: str) -> None:
        """A filled rectangle."""
        self.shapes.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"'
            f' fill="{fill}"/>'
        )
