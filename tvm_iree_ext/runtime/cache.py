"""Built kernels, kept: a folder of artifacts, one per description of a build.

Several processes may fill and read it at once. An entry appears whole, by a rename; of two that
build the same, the first to finish wins, and the other takes the winner's. An entry that turns
out damaged is built again.
"""

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tvm_iree_ext.base.atomic_folder import remove, remove_abandoned, staging
from tvm_iree_ext.base.errors import ArtifactError, BuildError
from tvm_iree_ext.runtime import artifact

VARIABLE = "TVM_IREE_EXT_CACHE"
_NOTES = "notes"


def root() -> Path:
    """The cache's folder: ``$TVM_IREE_EXT_CACHE``, else ``tvm_iree_ext`` in the user's caches."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "tvm_iree_ext"


def key(description: Mapping[str, Any]) -> str:
    """The name of the entry for what ``description`` (JSON) says: op, target, config, versions.

    Raises:
        TypeError: for a value that is not JSON.
    """
    text = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def get_or_make(key: str, make: Callable[[Path], object]) -> Path:
    """The folder of the artifact named ``key``; where there is none, ``make(folder)`` writes it.

    ``make`` writes an artifact (:func:`.write`) to the path that it is given,
    which is not yet the final one. If it raises, or is interrupted, the cache is as before.

    Raises:
        BuildError: where the cache cannot be read and written; and what ``make`` raises.
    """
    entry = entry_folder(key)
    if _is_sound(entry):
        return entry
    with contextlib.ExitStack() as stack:
        with _explained():
            entry.parent.mkdir(parents=True, exist_ok=True)
            # In the root, whatever the key: the next build of any kernel removes what is left.
            place = stack.enter_context(staging(root()))
        make(place / "artifact")
        with _explained():
            _settle(place, entry)
    return entry


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Let what the file system refuses be a BuildError that says what to do."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"cannot write the kernel cache {root()}: {error.strerror or error}:"
            f" {error.filename};"
            f" set {VARIABLE} to a folder that can be written"
        ) from error


def _is_sound(entry: Path) -> bool:
    """Whether an undamaged artifact stands at ``entry``; warns of a damaged one."""
    try:
        artifact.read(entry)
    except ArtifactError as error:
        if os.path.lexists(entry):  # else there is none, or none that may be seen
            warnings.warn(f"built again: {error}", RuntimeWarning, stacklevel=4)
        return False
    return True


def entry_folder(key: str) -> Path:
    """Where the artifact named ``key`` stands, if it does."""
    return root() / key[:2] / key


def note(key: str, text: str) -> None:
    """Keep a short text by the name ``key``, until the cache is cleared; where it can be written.

    It is kept whole or not at all.
    """
    place = _note_file(key)
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_name(f"{key}.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        os.replace(made, place)


def noted(key: str) -> str | None:
    """The text that is kept by the name ``key``."""
    try:
        return _note_file(key).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _note_file(key: str) -> Path:
    return root() / _NOTES / key[:2] / key


def _settle(place: Path, entry: Path) -> None:
    """Move the finished artifact to ``entry``, unless a sound one has appeared there meanwhile."""
    made = place / "artifact"
    artifact.read(made)
    try:
        os.rename(made, entry)
        return
    except OSError:
        if not os.path.lexists(entry):
            raise
    try:
        artifact.read(entry)
    except ArtifactError:
        with contextlib.suppress(FileNotFoundError):  # another process has moved it
            os.rename(entry, place / "damaged")
        _settle(place, entry)


def size() -> tuple[int, int]:
    """How many entries the cache has, and their bytes."""
    entries = [path.parent for path in root().glob(f"??/*/{artifact.MANIFEST}")]
    total = 0
    for entry in entries:
        for path in entry.rglob("*"):
            with contextlib.suppress(OSError):  # another process removes it
                total += path.lstat().st_size * path.is_file()
    return len(entries), total


def clear() -> None:
    """Remove all entries, and nothing else that may stand in the folder or is being built there.

    Raises:
        BuildError: where an entry cannot be removed.
    """
    try:
        if root().is_dir():
            remove_abandoned(root())
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(root() / _NOTES)
        for parent in root().glob("[0-9a-f]" * 2):
            for entry in parent.glob("[0-9a-f]" * 64):
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    remove(entry)
    except OSError as error:
        raise BuildError(f"cannot clear the kernel cache {root()}: {error}") from error
