"""Timed kernels under the roofs that the chip's measured peaks make, as an SVG.

It is written as text: the machine that has the GPU may lack every library that draws.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tvm_iree_ext.on_gpu.roofs import Roofs

_WIDTH, _HEIGHT = 960, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 50, 50
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
)  # fmt: skip
# White around a text, so that no line goes through it.
_STYLE = (
    "text{font:12px sans-serif;fill:#222;paint-order:stroke;stroke:#fff;stroke-width:3px}"
    ".small{font-size:10px}.title{font-size:15px}"
)


class _Axes:
    """Places of numbers on two logarithmic axes, in pixels."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x = _decades(xs)
        self.y = _decades(ys)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is."""
        across = (math.log10(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(y) - self.y[0]) / (self.y[1] - self.y[0])
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * width, _HEIGHT - _BOTTOM - up * height


def roofline_svg(title: str, rows: Sequence[Mapping[str, Any]], roofs: Roofs) -> str:
    """The picture: ours are filled, peers hollow, on the same line upright.

    Operations a second over operations for each byte that must be moved; a kernel that computes
    nothing, such as a sort, has no place in it.
    """
    timed = [row for row in rows if "us" in row and row["operations"] and row["bytes"]]
    points = [(row["operations"] / row["bytes"], _rate(row)) for row in timed]
    peaks = dict(sorted(roofs.operations.items(), key=lambda one: -one[1]))
    corners = [(peak / roofs.bytes, peak) for peak in peaks.values()]
    every = [*points, *corners]
    axes = _Axes([x for x, _ in every] or [1.0, 10.0], [y for _, y in every] or [1e9, 1e12])
    kinds = sorted({row.get("dtype", "") for row in timed})
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, "title"),
        *_grid(axes),
        *_roofs(axes, roofs, peaks),
        *_points(axes, timed, kinds),
        *_legend(kinds),
        "</svg>",
    ]
    return "\n".join(shapes) + "\n"


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["operations"] / row["us"] * 1e6)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _grid(axes: _Axes) -> Iterator[str]:
    (left, right), (low, high) = axes.x, axes.y
    for power in range(left, right + 1):
        x, bottom = axes.at(10.0**power, 10.0**low)
        yield _line(x, _TOP, x, bottom, "#dddddd")
        yield _text(x, bottom + 18, f"{10.0**power:g}", anchor="middle")
    for power in range(low, high + 1):
        start, y = axes.at(10.0**left, 10.0**power)
        yield _line(start, y, _WIDTH - _RIGHT, y, "#dddddd")
        yield _text(start - 8, y + 4, _with_unit(10.0**power), anchor="end")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, "operations per byte", anchor="middle")
    yield _text(_LEFT, _TOP - 8, "operations per second", "small")


def _roofs(axes: _Axes, roofs: Roofs, peaks: Mapping[str, float]) -> Iterator[str]:
    left, right = 10.0 ** axes.x[0], 10.0 ** axes.x[1]
    highest = max(peaks.values(), default=10.0 ** axes.y[1])
    # The slope, from where it enters the picture to the highest peak.
    start = max(left, 10.0 ** axes.y[0] / roofs.bytes)
    x, y = axes.at(start, start * roofs.bytes)
    to_x, to_y = axes.at(highest / roofs.bytes, highest)
    yield _line(x, y, to_x, to_y)
    angle = math.degrees(math.atan2(to_y - y, to_x - x))
    turned = f'<g transform="translate({x + 24:.1f} {y + 24 * (to_y - y) / (to_x - x):.1f})'
    label = _text(0, -5, f"{roofs.bytes / 1e12:.2f} TB/s", "small")
    yield f'{turned} rotate({angle:.1f})">{label}</g>'
    lowest_label = -math.inf
    for name, peak in peaks.items():
        x, y = axes.at(peak / roofs.bytes, peak)
        end, _ = axes.at(right, peak)
        yield _line(x, y, end, y)
        lowest_label = max(y + 4, lowest_label + 13)  # labels of near peaks stand apart
        yield _text(end + 6, lowest_label, f"{name} {_with_unit(peak)}", "small")


def _points(axes: _Axes, rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> Iterator[str]:
    for row in rows:
        x, y = axes.at(row["operations"] / row["bytes"], _rate(row))
        colour = _COLOURS[kinds.index(row.get("dtype", "")) % len(_COLOURS)]
        fill = "none" if row["who"] else colour
        who = row["who"] or row["config"] or "ours"
        label = f"{row['id']}, {who}: {_with_unit(_rate(row))}, {row['us']:.1f} us"
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}">'
            f"<title>{escape(label)}</title></circle>"
        )


def _legend(kinds: Sequence[str]) -> Iterator[str]:
    x = _WIDTH - _RIGHT - 150
    y = _HEIGHT - _BOTTOM - 18 * (len(kinds) + 1) - 8
    for number, kind in enumerate((*kinds, "a peer's")):
        colour = _COLOURS[number % len(_COLOURS)] if number < len(kinds) else "#555555"
        fill = colour if number < len(kinds) else "none"
        at = y + 18 * number
        yield f'<circle cx="{x}" cy="{at}" r="4" fill="{fill}" stroke="{colour}"/>'
        yield _text(x + 12, at + 4, kind or "of no type", "small")


def _with_unit(value: float) -> str:
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _line(x: float, y: float, to_x: float, to_y: float, colour: str = "#222222") -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{colour}" fill="none"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )
