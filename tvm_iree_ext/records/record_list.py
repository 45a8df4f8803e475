"""Records in order, and what a notebook shows of them."""

from collections.abc import Sequence

from tvm_iree_ext.base.html_parts import Html, code, folded, muted, table, titled
from tvm_iree_ext.base.lowering_config import changed_fields
from tvm_iree_ext.records.record import Record, shape_text
from tvm_iree_ext.runtime.artifact_html import target_text, values_html

_MOST = 200  # of the records that are seen at once: a page of thousands is slow
_HEADER = ("op", "shape", "target", "µs", "heuristic's", "gain", "how", "config")


class RecordList(list[Record]):
    """A list of records, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return records_html(self)


def record_html(record: Record) -> Html:
    """A table of one record."""
    return records_html([record])


def records_html(records: Sequence[Record]) -> Html:
    """A row for each record: what it was tried for, how that went, and the config's own fields."""
    rows = [_row(record) for record in records[:_MOST]]
    more = len(records) - len(rows)
    shown = table(_HEADER, rows, left=(0, 1, 2, 6, 7))
    return Html(shown + muted(f"... and {more} more")) if more else shown


def file_html(path: str, best: Sequence[Record], records: Sequence[Record]) -> Html:
    """What a file holds: the best record of each task, and, folded, all of them."""
    failed = sum(record.status != "ok" for record in records)
    tasks = len({one.task for one in records})
    count = f"{len(records)} records, of {tasks} task{'s' if tasks > 1 else ''}; {failed} failed"
    if not records:
        return titled(path, "no records")
    every = folded("all records", records_html(records))
    return Html(titled(path, count) + records_html(best) + every)


def _row(record: Record) -> tuple[object, ...]:
    is_ok, baseline = record.status == "ok", record.baseline_us
    return (
        record.op,
        shape_text(record),
        target_text(record.target),
        f"{record.time_us:.4g}" if is_ok else "",
        "" if baseline is None else f"{baseline:.4g}",
        f"{baseline / record.time_us:.2f}x" if is_ok and baseline and record.time_us else "",
        _how(record),
        folded("config", values_html(changed_fields(record.config))),
    )


def _how(record: Record) -> object:
    if record.status != "ok":
        return folded(record.status, code(record.message)) if record.message else record.status
    text = f"{record.method} {record.date[:10]}".strip()
    return text if record.is_current else f"{text}, of another version: not used"
