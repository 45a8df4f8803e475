"""Files of records: the user's own, those that come with the package; and how one is read."""

import functools
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tvm_iree_ext.base import limited_reading
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.metaschedule_lines import (
    TUNING_RECORDS,
    is_metaschedule,
    record_lines,
)
from tvm_iree_ext.records.record import Record
from tvm_iree_ext.records.record_list import RecordList

VARIABLE = "TVM_IREE_EXT_RECORDS"
_BYTES = 1 << 30  # of a file, at most; a record has about a thousand

PathLike: TypeAlias = "str | os.PathLike[str]"
DatabaseLike: TypeAlias = "PathLike | JsonDatabase | Sequence[PathLike | JsonDatabase] | None"
"""A file of records or several, or databases of MetaSchedule's, as folders or open; none of them;
or None for the user's and the shipped ones."""


class JsonDatabase(Protocol):
    """A database of MetaSchedule's that is open: its ``JSONDatabase``."""

    path_tuning_record: str


def user_records() -> Path:
    """The user's file: ``$TVM_IREE_EXT_RECORDS``, else one where the user's data are kept."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "tvm_iree_ext" / "records.jsonl"


@functools.cache
def shipped_records() -> tuple[Path, ...]:
    """The files that come with the package."""
    folder = Path(str(files("tvm_iree_ext.records"))) / "shipped"
    return tuple(sorted(folder.glob("*.jsonl")))


def read(path: Path) -> RecordList:
    """The records of a file, in order; a line that is torn or foreign is skipped, with a warning.

    A folder is one of MetaSchedule's databases.

    Raises:
        TuningError: where it cannot be read.
    """
    return RecordList(one for _, one in read_lines(_file(path)) if one is not None)


def read_lines(path: Path) -> list[tuple[bytes, Record | None]]:
    """The lines of a file that are not blank, without their ends, and the records that they are.

    Raises:
        TuningError: where it cannot be read.
    """
    try:
        text = limited_reading.content(path, _BYTES)
    except OSError as error:
        raise TuningError(f"{path}: {error.strerror or error}") from None
    lines: list[tuple[bytes, Record | None]] = []
    every = record_lines(text) if is_metaschedule(path) else text.split(b"\n")
    for number, line in enumerate(every, 1):
        if not line.strip():
            continue
        try:
            lines.append((line, Record.from_line(line.decode("utf-8", "replace"))))
        except TuningError as error:
            warnings.warn(
                f"{path}, line {number}, is skipped: it {error}", RuntimeWarning, stacklevel=2
            )
            lines.append((line, None))
    return lines


def looked_at(database: DatabaseLike = None) -> list[Path]:
    """The files of records that a build looks at.

    Raises:
        TuningError: for what names no file.
    """
    if database is None:
        return [path for path in (user_records(), *shipped_records()) if path.exists()]
    if isinstance(database, Sequence) and not isinstance(database, str):
        return [_file(one) for one in database]
    return [_file(database)]


def _file(given: Any) -> Path:
    """A file of records, or that of a database of MetaSchedule's.

    Raises:
        TuningError: for what names no file.
    """
    path = getattr(given, "path_tuning_record", given)
    if not isinstance(path, str | os.PathLike):
        raise TuningError(
            f"database is {given!r}; expected a file of records, a database of MetaSchedule's (its"
            " folder, or JSONDatabase), or several of these"
        )
    inside = Path(path) / TUNING_RECORDS
    return inside if inside.is_file() else Path(path)


def by_family(path: Path) -> dict[str, list[Record]]:
    """The records of a file by family; see :func:`read`."""
    return _contents(path).by_family


def are_read_in_silence(family: str, database: DatabaseLike = None) -> bool:
    """Whether a build that looks for records of a family is warned of nothing."""
    every = [_contents(path) for path in looked_at(database)]
    return all(
        one.is_whole and all(record.is_current for record in one.by_family.get(family, ()))
        for one in every
    )


@dataclass(frozen=True)
class _Contents:
    """A file's records by family, and whether each line is one."""

    by_family: dict[str, list[Record]]
    is_whole: bool


def _contents(path: Path) -> _Contents:
    try:
        status = path.stat()
    except OSError as error:
        raise TuningError(f"{path}: {error.strerror or error}") from None
    return _read_contents(path, status.st_mtime_ns, status.st_size, status.st_ino)


@functools.lru_cache(32)
def _read_contents(path: Path, *_state: int) -> _Contents:
    found: dict[str, list[Record]] = {}
    lines = read_lines(path)
    for _, record in lines:
        if record is not None:
            found.setdefault(record.family, []).append(record)
    return _Contents(found, all(one is not None for _, one in lines))
