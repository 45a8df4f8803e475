"""Files of records: appended to by any number of sessions, and put in order afterwards.

A line is written at once, under a lock, and is on the disk before the call returns: who is killed
loses the trial under way and no other.  A line that was cut off nevertheless, as when the machine
went down, is skipped when it is read.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.errors import TuningError
from tvm_iree_ext.base.html_parts import titled
from tvm_iree_ext.records.record import Record, task_key
from tvm_iree_ext.records.record_files import PathLike, read, read_lines
from tvm_iree_ext.records.record_list import RecordList, file_html


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

    def _repr_html_(self) -> str:
        try:
            records = self.records()
        except TuningError as error:  # it was removed since, perhaps
            return titled(error)
        return file_html(str(self.path), best(records, keep=1), records)

    def append(self, record: Record) -> None:
        """Add a record; it is on the disk when this returns.

        Raises:
            TuningError: where it cannot be written.
        """
        with _explained(self.path), _locked(self.path) as file:
            _write(file, _lines([record]))

    def records(self) -> RecordList:
        """All of them, in the order in which they were written."""
        return read(self.path)

    def of_task(self, described: dict[str, Any], target: dict[str, Any]) -> list[Record]:
        """Records of an op, as it describes itself, on a target as JSON; of any status."""
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
            _write(file, _lines(new))
        return len(new)

    def prune(self, keep: int = 3) -> int:
        """Leave the ``keep`` best of each task, and of each way of timing; returns how many go.

        Records of trials that failed and of other versions go, too; so does what is torn.  Lines
        of which nothing is known stay where they are, and the file is whose it was.

        Raises:
            TuningError: for ``keep`` below 1, or where the file cannot be written.
        """
        if keep < 1:
            raise TuningError(f"keep is {keep}; expected at least 1")
        with _explained(self.path), _locked(self.path):
            before = read_lines(self.path)
            kept = set(map(id, best((record for _, record in before if record), keep)))
            after = [
                line
                for line, record in before
                if id(record) in kept or (record is None and not _is_torn(line))
            ]
            _replace(self.path, after)
        return sum(record is not None and id(record) not in kept for _, record in before)

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
            _replace(path, _lines(records))
        return len(records)


def best(records: Iterable[Record], keep: int) -> RecordList:
    """The fastest of each task, as many as ``keep``, each config once; in order of the tasks."""
    tasks: dict[tuple[str, str, str], dict[str, Record]] = {}
    for record in records:
        if record.status == "ok" and record.is_current:
            configs = tasks.setdefault((record.task, record.rule, record.method), {})
            text = repr(sorted(record.config.items()))
            if text not in configs or record.time_us < configs[text].time_us:
                configs[text] = record
    return RecordList(
        record
        for configs in tasks.values()
        for record in sorted(configs.values(), key=lambda record: record.time_us)[:keep]
    )


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
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):  # else it was replaced while we waited
                yield file
                return
        finally:
            os.close(file)


def _is_at(file: int, path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(file), os.stat(path))


def _lines(records: Iterable[Record]) -> list[bytes]:
    return [record.to_line().rstrip("\n").encode() for record in records]


def _is_torn(line: bytes) -> bool:
    """Whether it is the beginning of a record, and nothing of anybody else's."""
    try:
        json.loads(line)
    except RecursionError:
        return False
    except ValueError:
        return line.startswith(b'{"op":')
    return False


def _write(file: int, lines: Iterable[bytes]) -> None:
    """Append lines in one go, behind an end for a line that was cut off."""
    data = b"".join(line + b"\n" for line in lines)
    if not data:
        return
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        data = b"\n" + data
    if (written := os.write(file, data)) < len(data):
        os.ftruncate(file, size)
        raise OSError(f"only {written} of {len(data)} bytes were taken")
    os.fsync(file)


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    """Put other lines into a file, all or none of them; it keeps its owner, its mode and links."""
    path = Path(os.path.realpath(path))
    # Always by this name: what a killed process left is written over by the next.
    new = path.with_name(f".{path.name}.new")
    with _locked(new) as file:
        try:
            os.ftruncate(file, 0)
            _write(file, lines)
            if path.exists():
                status = path.stat()
                with contextlib.suppress(PermissionError):  # only root gives files away
                    os.fchown(file, status.st_uid, status.st_gid)
                os.fchmod(file, stat.S_IMODE(status.st_mode))
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
