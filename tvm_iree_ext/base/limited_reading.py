"""Bounded reading of foreign input: files that are files, JSON of bounded depth.

A FIFO keeps whoever opens it waiting, a device may never end, JSON that is nested deeply ends what
walks over it, and half a character what writes it.  All of these are refused here, before anything
is made of them.
"""

import errno
import json
import math
import os
import stat
from typing import Any, BinaryIO

_DEPTH = 64  # lists and objects within one another; what we write has a dozen
_PIECE = 1 << 20
_SHOWN = 200
_INTEGERS = range(-(1 << 63), 1 << 64)


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file, open for reading; links are followed.

    Raises:
        OSError: for what cannot be opened, and what is no regular file.
    """
    # Else opening a FIFO waits for somebody to write into it.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(status.st_mode) and not _is_null(status):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def _is_null(status: os.stat_result) -> bool:
    """Whether it is ``/dev/null``, by which users name an empty file."""
    return os.path.samestat(status, os.stat(os.devnull))


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file, not more than ``most``.

    Raises:
        OSError: as :func:`opened`, and for a file that has more.
    """
    pieces, count = [], 0
    with opened(path) as file:
        # By pieces: the size that a file is said to have may be another by now.
        while piece := file.read(min(_PIECE, most + 1 - count)):
            pieces.append(piece)
            count += len(piece)
            if count > most:
                raise OSError(errno.EFBIG, f"it has more than {most} bytes", os.fspath(path))
    return b"".join(pieces)


def json_value(text: str | bytes) -> Any:
    """Parse a JSON text: finite numbers, integers of 64 bits, nothing nested too deeply.

    Texts hold whole characters: JSON can write one half of a pair.

    Raises:
        ValueError: for all else.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {_DEPTH} times") from None
    layer = [value]
    for _ in range(_DEPTH):
        for one in layer:
            if isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"it holds {one}, which is no number of JSON")
            if isinstance(one, int) and one not in _INTEGERS:
                raise ValueError("it holds an integer of more than 64 bits")
            if isinstance(one, str) and not one.isascii():
                one.encode()  # a UnicodeEncodeError is a ValueError
        layer = [inner for one in layer for inner in _inside(one)]
        if not layer:
            return value
    raise ValueError(f"it is nested more than {_DEPTH} times")


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else ()


def shown(value: Any) -> str:
    """A value for a message, which need not hold all of it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
