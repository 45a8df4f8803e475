"""Simulations as an SVG drawing: findings, what memory costs, and the accesses that cost more.

A bar is the passes over banks, or the segments, of accesses to one buffer: dark what their width
needs, light what they take beyond it.  Below, of each that takes more, one access: a box for each
bank and pass with the lane that it serves, or for each word of a segment, filled where it is used.
"""

import math
import textwrap
from collections.abc import Sequence
from html import escape

from tvm_iree_ext.simulator.access_picture import bank_passes, touched_segments
from tvm_iree_ext.simulator.base.traffic import BANK_BYTES, Hardware, StatementTraffic
from tvm_iree_ext.simulator.simulated_launch import Simulation
from tvm_iree_ext.simulator.simulation_report import access_title, costliest, grouped

# Pixels.
_MARGIN, _WIDTH = 24, 900
_LINE = 18
_BAR_LEFT, _BAR_WIDTH = 330, 340
_CELL, _ROW_NAME = 22, 90
_MOST_ROWS = 24  # of a picture of one access
_CHARACTERS = 120  # of a line of text

_NEEDED, _BEYOND, _USED, _FREE = "#2f6fa7", "#f2b36b", "#8fc1e3", "#f4f6f8"
_STYLE = """
text { font-family: Helvetica, Arial, sans-serif; font-size: 12px; fill: #1f2933 }
.head { font-size: 17px; font-weight: bold }
.part { font-size: 13px; font-weight: bold }
.finding { fill: #b42318 }
.cell { font-size: 9px; text-anchor: middle }
.axis { font-size: 9px; fill: #66727f; text-anchor: middle }
rect { stroke: #ffffff; stroke-width: 1 }
"""


def simulation_svg(launches: Sequence[Simulation]) -> str:
    """The drawing of the launches, one below another, as the text of an SVG file."""
    drawing = _Drawing()
    for done in launches:
        drawing.launch(done)
    return drawing.svg()


class _Drawing:
    """Shapes so far, and how far down they reach."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.bottom = _MARGIN
        self.right = _WIDTH

    def svg(self) -> str:
        """The whole file."""
        width, height = self.right + _MARGIN, self.bottom + _MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
                f' viewBox="0 0 {width} {height}">',
                f"<style>{_STYLE}</style>",
                f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
                *self.shapes,
                "</svg>\n",
            ]
        )

    def launch(self, done: Simulation) -> None:
        """A launch: its findings, its traffic, its costliest accesses."""
        self.line(done.kernel, "head", 10)
        run, lanes = f"{done.workgroups} of {math.prod(done.grid)}", math.prod(done.block)
        self.line(f"{run} workgroups of {lanes} lanes")
        for finding in done.findings:
            for text in str(finding).splitlines():
                for piece in textwrap.wrap(text.strip(), _CHARACTERS):
                    self.line(piece, "finding")
        if not done.findings:
            self.line("nothing found")
        for space, unit in (("shared", "passes over the banks"), ("global", "segments")):
            table = grouped(access for access in done.accesses if access.space == space)
            if table:
                self.line(f"{space} memory: {unit}, and the fewest for that width", "part", 10)
                self.bars(table)
        for access in (*costliest(done, "shared"), *costliest(done, "global")):
            self.line(access_title(access), "part", 10)
            draw = self.banks if access.space == "shared" else self.segments
            draw(access, done.hardware)
        self.bottom += _LINE

    def bars(self, table: Sequence[Sequence[StatementTraffic]]) -> None:
        """A bar for each row, all in one scale."""
        most = max(sum(one.total for one in group) for group in table)
        for group in table:
            first = group[0]
            total, ideal = (sum(getattr(one, what) for one in group) for what in ("total", "ideal"))
            kind = "store" if first.store else "load"
            where = f"[{first.statement}]" + (f"..[{group[-1].statement}]" if group[1:] else "")
            self.line(f"{where} {kind} of {first.access_bytes} bytes, {first.buffer}")
            scale = _BAR_WIDTH / max(most, 1)
            top = self.bottom - 11
            needed = round(min(ideal, total) * scale)
            self.rectangle(_BAR_LEFT, top, needed, 12, _NEEDED)
            beyond = round(max(0, total - ideal) * scale)
            self.rectangle(_BAR_LEFT + needed, top, beyond, 12, _BEYOND)
            text = f"{total}, {ideal} needed; {first.worst} at worst"
            self.text(_BAR_LEFT + needed + beyond + 8, self.bottom, text)

    def banks(self, access: StatementTraffic, hardware: Hardware) -> None:
        """Boxes of banks by passes."""
        lanes, rows = bank_passes(access, hardware)
        self.line(f"lanes {lanes[0]} to {lanes[-1]}, {access.access_bytes} bytes each")
        self.bottom += _LINE
        left = _MARGIN + _ROW_NAME
        for bank in range(hardware.banks):
            self.text(left + (bank + 0.5) * _CELL, self.bottom, str(bank), "axis")
        self.text(_MARGIN, self.bottom, "bank")
        for number, row in enumerate(rows[:_MOST_ROWS]):
            self.row(f"pass {number + 1}", [row.get(bank, "") for bank in range(hardware.banks)])
        self.left_out(len(rows))

    def segments(self, access: StatementTraffic, hardware: Hardware) -> None:
        """Boxes of words by segments."""
        lanes, used, lanes_of = touched_segments(access, hardware)
        self.line(f"lanes {lanes[0]} to {lanes[-1]}, {access.access_bytes} bytes each")
        words = range(hardware.segment_bytes // BANK_BYTES)
        for number in sorted(used)[:_MOST_ROWS]:
            marks = [" " if word in used[number] else "" for word in words]
            self.row(f"byte {number * hardware.segment_bytes}", marks)
            end = _MARGIN + _ROW_NAME + len(words) * _CELL
            self.text(end + 8, self.bottom - 6, lanes_of[number])
        self.left_out(len(used))

    def row(self, name: str, cells: Sequence[str]) -> None:
        """A line of boxes, filled where a cell has a text."""
        self.bottom += _CELL
        self.text(_MARGIN, self.bottom - 6, name)
        for number, cell in enumerate(cells):
            left = _MARGIN + _ROW_NAME + number * _CELL
            self.rectangle(left, self.bottom - _CELL, _CELL, _CELL, _USED if cell else _FREE)
            if cell.strip():
                self.text(left + _CELL / 2, self.bottom - 8, cell, "cell")
        self.right = max(self.right, _MARGIN + _ROW_NAME + len(cells) * _CELL)

    def left_out(self, count: int) -> None:
        """Say how many rows were not drawn."""
        if count > _MOST_ROWS:
            self.line(f"and {count - _MOST_ROWS} more")

    def line(self, text: str, kind: str = "", gap: int = 0) -> None:
        """A line of text below everything."""
        self.bottom += _LINE + gap
        self.text(_MARGIN, self.bottom, text, kind)
        self.right = max(self.right, _MARGIN + 6 * len(text))

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A text at its baseline."""
        self.shapes.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def rectangle(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'
        )
