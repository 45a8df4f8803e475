"""What was measured as a table, as data, and as the tables of docs/accuracy.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from tvm_iree_ext.accuracy.functions import FUNCTIONS, TYPES
from tvm_iree_ext.accuracy.measuring import OURS, MeasuredFunction
from tvm_iree_ext.accuracy.peers import PEERS
from tvm_iree_ext.base.dtypes import mlir_name

HEADER = ("function", "type", "promise", OURS, *PEERS, "ours is worst at")
BEGIN, END = "<!-- the tables: tvm-iree-ext accuracy --page -->", "<!-- end of the tables -->"


def _units(most: float, wrong: int) -> str:
    """Units in the last place, and how many special results are wrong."""
    return f"{most:.3g}" + (f" ({wrong} special)" if wrong else "")


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:g}"


def report_row(row: MeasuredFunction) -> tuple[str, ...]:
    """The cells of one function of one type."""
    errors = row.errors
    units = [_units(errors[who].most, errors[who].wrong) if who in errors else "" for who in PEERS]
    ours = errors[OURS]
    verdict = "" if row.keeps_bound else " (promise broken)"
    place = ", ".join(f"{number:.9g}" for number in ours.wrong_place or ours.place)
    own = _units(ours.most, ours.wrong)
    return (row.name, mlir_name(row.dtype), _bound(row.bound), own, *units, place + verdict)


def row_data(row: MeasuredFunction) -> dict[str, Any]:
    """The same for JSON; operands are texts, since JSON has no infinity and no NaN."""
    return {
        "function": row.name,
        "type": row.dtype,
        "bound_ulp": row.bound,
        "samples": int(row.operands[0].size),
        "keeps_bound": row.keeps_bound,
        "libraries": {
            who: {
                "most_ulp": errors.most,
                "at": list(map(repr, errors.place)),
                "special_wrong": errors.wrong,
                "special_wrong_at": errors.wrong_place and list(map(repr, errors.wrong_place)),
            }
            for who, errors in row.errors.items()
        },
    }


def _markdown(header: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    header = list(header)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def promises_markdown() -> str:
    """The promised bounds of all functions, in units in the last place."""
    body = [
        (f"`{function.name}`", *(_bound(function.bounds.get(dtype)) for dtype in TYPES))
        for function in FUNCTIONS
    ]
    return _markdown(("function", *map(mlir_name, TYPES)), body)


def measured_markdown(data: Sequence[dict[str, Any]]) -> str:
    """What was measured, of rows that :func:`row_data` made."""
    body = []
    for row in data:
        libraries = row["libraries"]
        cells = [
            _units(libraries[who]["most_ulp"], libraries[who]["special_wrong"])
            if who in libraries
            else ""
            for who in (OURS, *PEERS)
        ]
        body.append((f"`{row['function']}` {mlir_name(row['type'])}", *cells))
    return _markdown(("function, type", OURS, *PEERS), body)


def page_with_tables(page: str, data: Sequence[dict[str, Any]]) -> str:
    """A page whose part between the markers is made anew."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    tables = f"## Promises\n\n{promises_markdown()}\n\n## Measured\n\n{measured_markdown(data)}"
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"
