"""Folders that appear whole or not at all.

A folder is filled inside a temporary one beside the place where it will stand, synced, and renamed.
Whoever fills one holds a lock on a file in it, so that what a killed process left behind can be
told from what a living one is filling, and is removed by the next.
Scratch folders are held so, too.
"""

import contextlib
import ctypes
import fcntl
import functools
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = ".tvm_iree_ext-"
_NAME = re.compile(re.escape(_PREFIX) + "[0-9a-f]{12}")
_LOCK = "tvm_iree_ext.lock"  # a folder without it is somebody else's, whatever its name
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextlib.contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A folder below ``parent`` to fill others in, removed at the end with what is left in it.

    Removes those that dead processes left.

    Raises:
        OSError: where ``parent`` cannot be written.
    """
    remove_abandoned(parent)
    with _held_folder(parent) as folder:
        yield folder


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder among the system's temporary ones, removed at the end with what is in it.

    The first that a process makes removes those of processes that were killed.
    """
    parent = Path(tempfile.gettempdir())
    _sweep(parent)
    with _held_folder(parent) as folder:
        yield folder


@functools.cache
def _sweep(parent: Path) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be listed can be written
        remove_abandoned(parent)


@contextlib.contextmanager
def _held_folder(parent: Path) -> Iterator[Path]:
    folder, lock = _locked_folder(parent)
    try:
        yield folder
    finally:
        _remove_staged(folder)
        os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove the temporary folders that dead processes left in ``parent``.

    Nothing is removed on a file system without locks, where the dead cannot be told.

    Raises:
        OSError: where ``parent`` cannot be read.
    """
    for folder in parent.iterdir():
        if not _NAME.fullmatch(folder.name) or not _is_own(folder):
            continue
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NONBLOCK)
        except OSError:  # gone, or not ours
            with contextlib.suppress(OSError):  # or of one killed before it made the lock: empty
                folder.rmdir()
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_staged(folder)
        except OSError:
            pass  # being filled, or there are no locks
        finally:
            os.close(lock)


def _is_own(path: Path) -> bool:
    """Whether it is a folder of this user's: others may put links where temporary files are."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, or a link or file.

    Raises:
        OSError: where it is not there, or not all can be removed.
    """
    if path.is_symlink() or not path.is_dir():  # rmtree would wait for the writer of a FIFO
        path.unlink()
    else:
        shutil.rmtree(path)


def _remove_staged(folder: Path) -> None:
    """Remove a temporary folder, the lock last: who is killed meanwhile leaves one with a lock."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name != _LOCK:
                remove(path)
    shutil.rmtree(folder, ignore_errors=True)


def sync(folder: Path) -> None:
    """Bring the files below ``folder``, and the folder itself, to the disk."""
    for path in [*folder.rglob("*"), folder]:
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
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except AttributeError:  # a C library older than 2018
        return False
    names = os.fsencode(one), os.fsencode(other)
    return renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0


def _locked_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(6)}"
        folder.mkdir(mode=0o700)
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # taken for abandoned in the instant before the lock was made
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # taken for abandoned in the instant before the lock
            os.close(lock)
            continue
        except OSError:  # a file system without locks
            return folder, lock
        if (folder / _LOCK).exists():
            return folder, lock
        os.close(lock)  # removed in that instant
