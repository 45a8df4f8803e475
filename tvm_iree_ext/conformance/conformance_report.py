"""Outcomes as tables: by op and type, in all, and the reasons; and as those of the page."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tvm_iree_ext.conformance.outcomes import KINDS, Outcome
from tvm_iree_ext.conformance.refusals import reason

Row: TypeAlias = tuple[str, ...]

OP_HEADER: Row = ("op", "type", *KINDS)
TYPE_HEADER: Row = ("type", *KINDS)
REASON_HEADER: Row = ("cases", "what", "by", "reason", "such as")
ALL = "all"
_MOST = 160  # characters of a reason


def _counted(
    outcomes: Iterable[Outcome], key: Callable[[Outcome], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], Counter[str]]]:
    """How many of each kind, by key, in the order of the keys."""
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        found[key(one)][one.verdict.kind] += 1
    return sorted(found.items())


def _cells(counts: Counter[str]) -> Row:
    return tuple(str(counts[kind]) if counts[kind] else "" for kind in KINDS)


def op_rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """A row for each op and type."""
    counted = _counted(outcomes, lambda one: (one.case.op, one.case.dtype))
    return [(*key, *_cells(counts)) for key, counts in counted]


def type_rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each type, and one for all."""
    counted = _counted(outcomes, lambda one: (one.case.dtype,))
    whole = Counter[str](one.verdict.kind for one in outcomes)
    return [*((*key, *_cells(counts)) for key, counts in counted), (ALL, *_cells(whole))]


def reason_rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """A row for each reason of what is not right, the commonest first, with one of its cases.

    Wrong results are one reason of each op.
    """
    found: dict[Row, list[str]] = defaultdict(list)
    for one in outcomes:
        verdict = one.verdict
        if verdict.kind == "right":
            continue
        said = one.case.op if verdict.kind == "wrong" else reason(verdict.message)
        short = said if len(said) <= _MOST else said[: _MOST - 3] + "..."
        found[verdict.kind, verdict.by, short].append(one.case.name)
    order = sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), -len(item[1]), item))
    return [(str(len(names)), *key, names[0]) for key, names in order]


def noted(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How many are right with a note, by it: such as with inputs that were made constants."""
    verdicts = (one.verdict for one in outcomes)
    return Counter(one.message for one in verdicts if one.kind == "right" and one.message)


def marks(suite: str) -> tuple[str, str]:
    """Between which lines of docs/conformance.md a suite's tables stand."""
    begin = f"<!-- the tables: tvm-iree-ext conformance {suite} --page -->"
    return begin, f"<!-- end of the tables of {suite} -->"


def page_with_tables(page: str, suite: str, outcomes: Sequence[Outcome]) -> str:
    """The page with the tables of a suite anew.

    Raises:
        ValueError: for a page without the suite's marks.
    """
    begin, end = marks(suite)
    before, mark, rest = page.partition(begin)
    _, other, after = rest.partition(end)
    if not mark or not other:
        raise ValueError(f"the page has no lines {begin!r} and {end!r}")
    sections = [
        ("By type", _markdown(TYPE_HEADER, type_rows(outcomes))),
        (
            "Ops that are not right in all cases that were tried",
            _markdown(OP_HEADER, _not_right(outcomes)),
        ),
        ("Reasons", _markdown(REASON_HEADER, reason_rows(outcomes))),
    ]
    text = "\n\n".join(f"### {suite}: {title.lower()}\n\n{table}" for title, table in sections)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _not_right(outcomes: Iterable[Outcome]) -> list[Row]:
    """Rows of what was tried and is not right; why others are not tried stands in the reasons."""
    others = [place for place, kind in enumerate(KINDS) if kind not in ("right", "skipped")]
    return [row for row in op_rows(outcomes) if any(row[2 + place] for place in others)]


def _markdown(header: Row, body: Iterable[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *body]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    """A text that stands in a table: no bars, no tags."""
    return text.replace("|", "\\|").replace("<", "&lt;")
