"""An artifact: a folder with a kernel's or a program's files, and ``manifest.json``.

It is written whole or not at all.  When it is read every file is checked against its size and
SHA-256, which the manifest has, or the sums of its pages, and the manifest against its own.
Nothing here needs TVM: a deployment has the artifact, this package and the TVM runtime.
"""

import dataclasses
import errno
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import numpy as np

from tvm_iree_ext.base import limited_reading
from tvm_iree_ext.base.atomic_folder import move_over, staging, sync
from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.base.suggestions import near_file
from tvm_iree_ext.runtime.manifest import (
    Contents,
    DeviceManifest,
    File,
    Manifest,
    ProgramManifest,
    parse,
)

MANIFEST = "manifest.json"
LIBRARY = "kernel.so"
_MANIFEST_BYTES = 1 << 26  # at most; that of a program with a thousand launches has one or two MB
_PIECE = 1 << 20
_PAGE = 4096
_LARGE = 1 << 26  # bytes of a file whose pages are summed; SHA-256 takes a second for one or two GB
_Contents = TypeVar("_Contents", bound=Manifest | ProgramManifest | DeviceManifest)


def write(
    folder: Path | str,
    manifest: _Contents,
    fill: Callable[[Path], Mapping[str, Any] | None],
) -> _Contents:
    """Make an artifact at ``folder``: ``fill(path)`` creates its files, the rest is done here.

    What ``fill`` returns is added to the manifest's resources, as in
    ``write(folder, manifest, lambda path: compile_library(mod, target, path / LIBRARY))``.

    Whatever happens, ``folder`` afterwards is what it was before, or the complete artifact. An
    artifact that stands there is replaced, unless its folder holds other files besides.

    Returns:
        ``manifest`` with the resources and the files' checksums.

    Raises:
        ArtifactError: where the folder cannot be written, or holds something else.
    """
    folder = as_folder(folder)
    _check_replaceable(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staging(folder.parent) as parent:
            place = parent / "artifact"
            place.mkdir()
            resources = {**manifest.resources, **(fill(place) or {})}
            files = {}
            for path in sorted(place.rglob("*")):
                if path.is_file():
                    with limited_reading.opened(path) as file:
                        files[path.relative_to(place).as_posix()] = _described(file)
            manifest = dataclasses.replace(manifest, resources=resources, files=files)
            (place / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
            sync(place)
            _put(place, folder)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise ArtifactError(
            f"cannot write the artifact {folder}: {error.strerror or error}{where}"
        ) from error
    return manifest


def as_folder(name: Path | str) -> Path:
    """The absolute path of an artifact's folder, links followed.

    Raises:
        ArtifactError: for what no folder can be called.
    """
    try:
        return Path(name).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a null byte, or links in a circle
        raise ArtifactError(f"{str(name)!r} cannot be the folder of an artifact: {error}") from None


def _put(made: Path, folder: Path) -> None:
    """Move the finished artifact to ``folder``, over what may have been written there meanwhile."""
    try:
        os.rename(made, folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        _check_replaceable(folder)
        move_over(made, folder)


def _check_replaceable(folder: Path) -> None:
    """Raise ArtifactError where something other than an artifact or an empty folder stands.

    An artifact's folder must hold its files alone, since the folder is replaced as a whole.
    """
    problem = None
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        manifest = parse(limited_reading.content(folder / MANIFEST, _MANIFEST_BYTES))
        if foreign := _not_of(manifest, folder):
            more = f", as are {len(foreign) - 1} more" if len(foreign) > 1 else ""
            problem = f"{foreign[0]} in it is no file of the artifact that stands there{more}"
    except NotADirectoryError:
        problem = "a file of that name exists"
    except FileNotFoundError:
        problem = "the folder exists and holds other things"
    except ArtifactError as error:
        problem = f"a {MANIFEST} stands there which {error}"
    except OSError as error:
        problem = str(error.strerror or error)
    if problem:
        raise ArtifactError(f"cannot write the artifact {folder}: {problem}")


def _not_of(manifest: Contents, folder: Path) -> list[str]:
    """Paths in an artifact's folder, directly or below, that are none of its files."""
    files = {PurePosixPath(name) for name in (*manifest.files, MANIFEST)}
    ours = files.union(*(file.parents for file in files))
    names = (PurePosixPath(path.relative_to(folder).as_posix()) for path in folder.rglob("*"))
    return sorted(str(name) for name in names if name not in ours)


def read(folder: Path | str) -> Manifest | ProgramManifest | DeviceManifest:
    """The manifest of the artifact at ``folder``, each of whose files is there and undamaged.

    Raises:
        ArtifactError: when that is not so; it names the folder and the file.
    """
    folder = as_folder(folder)
    path = folder / MANIFEST
    try:
        text = limited_reading.content(path, _MANIFEST_BYTES)
    except FileNotFoundError:
        if not folder.exists():
            hint = near_file(folder)
            raise ArtifactError(f"no artifact at {folder}: there is no such folder{hint}") from None
        raise ArtifactError(f"no artifact at {folder}: it has no {MANIFEST}") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        manifest = parse(text)
    except ArtifactError as error:
        raise ArtifactError(f"{path} {error}") from None
    for name, expected in manifest.files.items():
        _check_file(folder, name, expected)
    return manifest


def check_unchanged(folder: Path, manifest: Manifest | ProgramManifest) -> None:
    """Ask whether the artifact at ``folder`` is still the one whose manifest was read there.

    Raises:
        ArtifactError: when it is not; as :func:`read`.
    """
    if read(folder) != manifest:
        raise ArtifactError(f"the artifact {folder} was replaced since it was loaded; load it anew")


def _described(file: BinaryIO) -> File:
    """The size and SHA-256 of a file that is open at its beginning; of a large one its sums'."""
    if os.fstat(file.fileno()).st_size >= _LARGE:
        return _summed(file)
    return _hashed(file)


def _summed(file: BinaryIO) -> File:
    """The size of a file that is open at its beginning, and the SHA-256 of its pages' sums."""
    digest, count = hashlib.sha256(), 0
    piece = np.empty(_PIECE, np.uint8)
    while came := file.readinto(piece.data):  # type: ignore[attr-defined]
        count += came
        pages = -(-came // _PAGE)
        piece[came : pages * _PAGE] = 0
        words = piece[: pages * _PAGE].view(np.uint64).reshape(pages, -1)
        digest.update(np.add.reduce(words, axis=1).data)
    return File(count, sums=digest.hexdigest())


def _hashed(file: BinaryIO) -> File:
    """The size and SHA-256 of a file that is open at its beginning."""
    digest, count = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        digest.update(piece)
        count += len(piece)
    return File(count, digest.hexdigest())


def _check_file(folder: Path, name: str, expected: File) -> None:
    path = folder / name
    try:
        with limited_reading.opened(path) as file:
            count = os.fstat(file.fileno()).st_size
            # One of another size is not read: it may have no end worth waiting for.
            describe = _summed if expected.sums else _hashed
            came = describe(file) if count == expected.bytes else File(count)
    except FileNotFoundError:
        raise ArtifactError(f"the artifact {folder} is incomplete: {name} is missing") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    if came.bytes != expected.bytes:
        raise ArtifactError(
            f"the artifact {folder} is damaged: {name} has {came.bytes} bytes;"
            f" the manifest says {expected.bytes}"
        )
    if came != expected:
        raise ArtifactError(
            f"the artifact {folder} is damaged: {name} has SHA-256"
            f" {came.digest[:16]}...;"
            f" the manifest says {expected.digest[:16]}..."
        )
