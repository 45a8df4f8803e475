"""Files of records: appended to by any number of sessions, and put in order afterwards.

A line is written at once, under a lock, and is on the disk before the call returns: who is killed
loses the trial under way and no other.  A line that was cut off nevertheless, as when the machine
went down, is skipped when it is read.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm_iree_ext.errors import TuningError
from tvm_iree_ext.record import Record, task_key
from tvm_iree_ext.record_files import PathLike, read


class Database:
    """A file of records, made where there is none; ``build`` takes it, as it takes a path.

    Raises:
        TuningError: where the file cannot be made.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        with _explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    def append(self, record: Record) -> None:
        """Add a record; it is on the disk when this returns.

        Raises:
            TuningError: where it cannot be written.
        """
        with _explained(self.path), _locked(self.path) as file:
            _write(file, [record])

    def records(self) -> list[Record]:
        """All of them, in the order in which they were written."""
        return read(self.path)

    def of_task(self, described: dict[str, Any], target: dict[str, Any]) -> list[Record]:
        """Those of an op, as it describes itself, on a target as JSON; of any status."""
        task = task_key(described["op"], described["operands"], described["attributes"], target)
        return [record for record in self.records() if record.task == task]

    def merge(self, others: Iterable[PathLike]) -> int:
        """Add the records of other files that this one does not have; returns how many.

        Raises:
            TuningError: for a file that cannot be read, or where this one cannot be written.
        """
        incoming = [record for other in others for record in read(Path(other))]
        with _explained(self.path), _locked(self.path) as file:
            have = {record.to_line() for record in read(self.path)}
            new = list({line: r for r in incoming if (line := r.to_line()) not in have}.values())
            _write(file, new)
        return len(new)

    def prune(self, keep: int = 3) -> int:
        """Leave the ``keep`` best of each task, and of each way of timing; returns how many go.

        Records of trials that failed and of other versions go, too; so does what is torn.

        Raises:
            TuningError: for ``keep`` below 1, or where the file cannot be written.
        """
        if keep < 1:
            raise TuningError(f"keep is {keep}; expected at least 1")
        with _explained(self.path), _locked(self.path):
            before = read(self.path)
            kept = best(before, keep)
            _replace(self.path, kept)
        return len(before) - len(kept)

    def export(self, path: PathLike, keep: int | None = None) -> int:
        """Write the records to another file, by default all; returns how many there are.

        With ``keep`` the best of each task, as by :meth:`prune`.

        Raises:
            TuningError: where the file cannot be written, or is this one.
        """
        path = Path(path)
        if path.exists() and path.samefile(self.path):
            raise TuningError(f"{path} is the file to be exported; name another one")
        records = self.records() if keep is None else best(self.records(), keep)
        with _explained(path):
            _replace(path, records)
        return len(records)


def best(records: Iterable[Record], keep: int) -> list[Record]:
    """The fastest of each task, as many as ``keep``, each config once; in order of the tasks."""
    tasks: dict[tuple[str, str, str], dict[str, Record]] = {}
    for record in records:
        if record.status == "ok" and record.is_current:
            configs = tasks.setdefault((record.task, record.rule, record.method), {})
            text = repr(sorted(record.config.items()))
            if text not in configs or record.time_us < configs[text].time_us:
                configs[text] = record
    return [
        record
        for configs in tasks.values()
        for record in sorted(configs.values(), key=lambda record: record.time_us)[:keep]
    ]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TuningError(f"cannot write records to {path}: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, open for appending, that nobody else writes until the end of the block."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):  # else it was replaced while we waited
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(file), os.stat(path))


def _write(file: int, records: Iterable[Record]) -> None:
    """Append lines in one go, behind an end for a line that was cut off."""
    text = "".join(record.to_line() for record in records)
    if not text:
        return
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        text = "\n" + text
    data = text.encode()
    if (written := os.write(file, data)) < len(data):
        os.ftruncate(file, size)
        raise OSError(f"only {written} of {len(data)} bytes were taken")
    os.fsync(file)


def _replace(path: Path, records: Iterable[Record]) -> None:
    """Put another file in the place of this one, whole or not at all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
    try:
        _write(file, records)
        os.rename(new, path)
    except BaseException:
        os.unlink(new)
        raise
    finally:
        os.close(file)
