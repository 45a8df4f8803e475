"""Parts of HTML that notebooks show: escaped text, tables, bars, a curve.

Colors are those of the page, or seen on a light and on a dark one; styles stand in the elements,
since a sheet would hold for the whole page.
"""

import html
import math
from collections.abc import Collection, Iterable, Sequence

BLUE = "#4c8bf5"
_CELL = "padding:2px 10px 2px 0;vertical-align:top;text-align:"
_RULE = "border-bottom:1px solid rgba(128,128,128,.5);"
_SCROLLED_ROWS = 20  # of a table, from which on it is scrolled
_CURVE = (320, 90)  # pixels
_MARGIN = 4


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def escaped(value: object) -> Html:
    """A value as text between tags or in an attribute; what is HTML already stays."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Parts behind one another."""
    return Html(escaped(between).join(map(escaped, parts)))


def code(value: object) -> Html:
    """A value in the font of programs, broken anywhere it has to be."""
    return Html(f'<code style="white-space:pre-wrap;word-break:break-word">{escaped(value)}</code>')


def muted(value: object) -> Html:
    """A remark."""
    return Html(f'<span style="opacity:.65">{escaped(value)}</span>')


def titled(title: object, remark: object = "") -> Html:
    """The head of a view, with a remark behind it."""
    behind = f" {muted(remark)}" if remark else ""
    return Html(f'<div style="margin:4px 0"><b>{escaped(title)}</b>{behind}</div>')


def table(
    header: Sequence[object], body: Sequence[Sequence[object]], *, left: Collection[int] = (0,)
) -> Html:
    """A table, in a frame of its own where it is long.

    Args:
        header: the columns' names; none where the first cell of each row says what the row has.
        body: the cells of each row.
        left: the columns that are set left; others are of numbers.
    """

    def row(cells: Sequence[object], tag: str, rule: str = "") -> str:
        inside = "".join(
            f'<{tag} style="{_CELL}{"left" if place in left else "right"};{rule}">'
            f"{escaped(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )
        return f"<tr>{inside}</tr>"

    head = f"<thead>{row(header, 'th', _RULE)}</thead>" if header else ""
    rows = "".join(row(cells, "td") for cells in body)
    whole = f'<table style="border-collapse:collapse">{head}<tbody>{rows}</tbody></table>'
    scrolled = "max-height:30em;overflow:auto" if len(body) > _SCROLLED_ROWS else "overflow-x:auto"
    return Html(f'<div style="{scrolled}">{whole}</div>')


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """A row for each fact that there is: what it is of, and the fact."""
    rows = [(Html(f"<b>{escaped(name)}</b>"), fact) for name, fact in pairs if str(fact)]
    return table((), rows, left=(0, 1))


def folded(summary: object, inside: Html) -> Html:
    """A part that is seen once its summary is clicked."""
    return Html(f"<details><summary>{escaped(summary)}</summary>{inside}</details>")


def bar(share: float, text: object) -> Html:
    """A text above a bar as long as a share of its cell, from 0 to 1."""
    width = 100 * min(max(share, 0.0), 1.0)
    return Html(
        f'<div style="min-width:9em;background:linear-gradient(to right,{BLUE}66 {width:.1f}%,'
        f'rgba(128,128,128,.12) {width:.1f}%);padding:0 4px">{escaped(text)}</div>'
    )


def step_curve(values: Sequence[float], tries: Sequence[float | None], label: object) -> Html:
    """A curve that goes by steps, from a first value on, as an SVG; the least is at its foot.

    Args:
        values: after each step, the first before any.
        tries: what each step tried, a dot each, at the upper edge where it is above all values;
            None for one without a value.
        label: what a reader is told who points at it.
    """
    width, height = _CURVE
    low, high = min(values), max(values)
    low, high = 0.95 * low, 1.5 * high or 1.0
    across = (width - 2 * _MARGIN) / max(1, len(values) - 1)

    def x(step: int) -> str:
        return f"{_MARGIN + across * step:.1f}"

    def y(value: float) -> str:
        share = (min(value, high) - low) / (high - low)
        return f"{height - _MARGIN - (height - 2 * _MARGIN) * share:.1f}"

    path = f"M{x(0)} {y(values[0])}"
    path += "".join(f"H{x(step)}V{y(value)}" for step, value in enumerate(values[1:], 1))
    dots = "".join(
        f'<circle cx="{x(step)}" cy="{y(tried)}" r="2" fill="{BLUE}" fill-opacity=".45"/>'
        for step, tried in enumerate(tries, 1)
        if tried is not None and math.isfinite(tried)
    )
    start = y(values[0])
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" style="min-width:{width}px">'
        f"<title>{escaped(label)}</title>"
        f'<path d="M{x(0)} {start}H{width - _MARGIN}" stroke="#888" stroke-dasharray="3 3"/>{dots}'
        f'<path d="{path}" fill="none" stroke="{BLUE}" stroke-width="1.5"/></svg>'
    )
