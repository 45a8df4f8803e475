"""Records in a database of MetaSchedule's: each is an annotation in the trace of a tuning record.

The folder of a ``JSONDatabase`` has a line for each tuning record:

    [workload, [[instructions, decisions], run_secs, target, args_info]]

An annotation is the instruction ``["Annotate", [block, value], [key], []]``; TVM writes a text as a
value between quotes. Tuning records without ours, such as other people's, hold nothing for us.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = "tvm_iree_ext.record"
"""The key of the annotation; its value is a record's line."""

TUNING_RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"
"""The files of a JSONDatabase."""


def is_metaschedule(path: Path) -> bool:
    """Whether a file is that of a database of MetaSchedule's."""
    return path.name == TUNING_RECORDS


def record_lines(text: bytes) -> Iterator[bytes]:
    """The lines of the records in a file of tuning records; a torn line is handed out as it is."""
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        try:
            instructions = json.loads(line)[1][0][0]
        except (ValueError, LookupError, TypeError, RecursionError):
            yield line
            continue
        yield from (found for one in instructions for found in _annotated(one))


def _annotated(instruction: Any) -> Iterator[bytes]:
    match instruction:
        case ["Annotate", [_, str(value)], [key], *_] if key == RECORD:
            yield value[1:-1].encode()
