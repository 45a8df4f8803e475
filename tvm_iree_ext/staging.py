"""Folders that appear whole or not at all.

A folder is filled under a temporary name in the place where it will stand, synced, and renamed.
Whoever fills one holds a lock on it, so that what a killed process left behind can be told from
what a living one is filling, and is removed by the next.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_ABANDONED_SECONDS = 24 * 3600  # without locks (Windows, some network file systems) age decides
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextlib.contextmanager
def staging(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty folder ``parent/prefix<random>``, removed at the end if it is still there.

    Removes those of the same prefix that dead processes left.

    Raises:
        OSError: where ``parent`` cannot be written.
    """
    _remove_abandoned(parent, prefix)
    folder, lock = _locked_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sync(folder: Path) -> None:
    """Bring the files below ``folder``, and the folder itself, to the disk."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir() and sys.platform == "win32":
            continue  # a folder cannot be opened there, and need not be
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def move_over(new: Path, old: Path) -> None:
    """Put ``new`` in the place of the folder ``old``, which ends up under the name of ``new``.

    In one step where the kernel and file system can exchange two names, else in two, the first
    of which is undone if the second fails.
    """
    if _exchange(new, old):
        return
    aside = new.with_name(new.name + ".old")
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except BaseException:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names; False where that cannot be done in one step."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except AttributeError:  # a C library older than 2018
        return False
    names = os.fsencode(one), os.fsencode(other)
    return renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int | None]:
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(6)}"
        folder.mkdir()
        if sys.platform == "win32":
            return folder, None
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # taken for abandoned in the instant before the lock
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        if sys.platform == "win32":
            _remove_if_old(folder)
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # gone, or not ours
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # being filled
        except OSError:
            _remove_if_old(folder)
        finally:
            os.close(lock)


def _remove_if_old(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
