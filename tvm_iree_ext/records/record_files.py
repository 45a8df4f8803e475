"""Files of records: the user's own, those that come with the package; and how one is read."""

import functools
import os
import warnings
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from tvm_iree_ext.base import limited_reading
from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.records.record import Record

VARIABLE = "TVM_IREE_EXT_RECORDS"
_BYTES = 1 << 30  # of a file, at most; a record has about a thousand

PathLike: TypeAlias = "str | os.PathLike[str]"


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


def read(path: Path) -> list[Record]:
    """The records of a file, in order; a line that is torn or foreign is skipped, with a warning.

    Raises:
        TuningError: where it cannot be read.
    """
    return [record for _, record in read_lines(path) if record is not None]


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
    for number, line in enumerate(text.split(b"\n"), 1):
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
