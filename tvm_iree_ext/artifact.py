"""An artifact: a folder with a kernel's library and ``manifest.json``, which describes it.

It is written whole or not at all, and every file is checked against its SHA-256 when it is read.
Nothing here needs TVM: a deployment has the artifact, this package and the TVM runtime.
"""

import dataclasses
import errno
import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from tvm_iree_ext.errors import ArtifactError
from tvm_iree_ext.signature import Signature
from tvm_iree_ext.staging import move_over, staging, sync

MANIFEST = "manifest.json"
LIBRARY = "kernel.so"
_KIND = "tvm_iree_ext.artifact"
_FORMAT = 1

Provenance = Literal["heuristic", "record", "given"]


@functools.cache
def installed_versions() -> Mapping[str, str]:
    """The versions of this package and of the TVM packages that are installed."""
    found = {}
    for name in ("tvm-iree-ext", "apache-tvm", "apache-tvm-ffi"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


@dataclass(frozen=True)
class Manifest:
    """What an artifact holds.

    ``attributes``, ``target``, ``config``, ``resources`` are JSON: what the op was made with, the
    TVM target, the lowering config, and what :func:`tvm_iree_ext.linker.compile_library` found.
    """

    op: str  # "iree_linalg_ext.attention"
    entry: str  # the function's name in the library
    signature: Signature
    attributes: Mapping[str, Any]
    target: Mapping[str, Any]
    config: Mapping[str, Any]
    provenance: Provenance
    resources: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    files: Mapping[str, str] = field(default_factory=dict)  # name -> SHA-256
    format: int = _FORMAT

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields["signature"] = self.signature.to_json()
        return json.dumps({"kind": _KIND, **fields}, indent=2) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> "Manifest":
        """The inverse of :meth:`to_json`.

        Raises:
            ArtifactError: for broken JSON, another program's manifest, a newer format, or a field
                that is missing or malformed.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ArtifactError(f"is not valid JSON: {error}") from None
        if not isinstance(data, dict) or data.get("kind") != _KIND:
            raise ArtifactError(f"is not a manifest of tvm_iree_ext: its kind is not {_KIND!r}")
        if data.get("format") != _FORMAT:
            raise ArtifactError(
                f"has format {data.get('format')!r}; this version of tvm_iree_ext reads {_FORMAT}"
            )
        names = {f.name for f in dataclasses.fields(Manifest)}
        if missing := sorted(names - data.keys()):
            raise ArtifactError(f"lacks {', '.join(missing)}")
        for name, is_sound in _SOUND.items():
            if not is_sound(data[name]):
                raise ArtifactError(f"has a malformed {name}: {data[name]!r}")
        try:
            signature = Signature.from_json(data["signature"])
        except ValueError as error:
            raise ArtifactError(f"has a malformed signature: {error}") from None
        return Manifest(**{name: data[name] for name in names} | {"signature": signature})


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_resources(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    features = value.get("cpu_features", [])
    return isinstance(features, list) and all(map(_is_text, features))


_SOUND: dict[str, Callable[[Any], bool]] = {
    "op": _is_text,
    "entry": _is_text,
    "signature": lambda value: isinstance(value, list),
    "attributes": _is_object,
    "target": _is_object,
    "config": _is_object,
    "provenance": lambda value: value in get_args(Provenance),
    "resources": _is_resources,
    "versions": _is_texts,
    "files": lambda value: _is_texts(value) and all(map(_is_inside, value)),
}


def write(
    folder: Path | str,
    manifest: Manifest,
    fill: Callable[[Path], Mapping[str, Any] | None],
) -> Manifest:
    """Make an artifact at ``folder``: ``fill(path)`` creates its files, the rest is done here.

    What ``fill`` returns is added to the manifest's resources, as in
    ``write(folder, manifest, lambda path: compile_library(mod, target, path / LIBRARY))``.

    Whatever happens, ``folder`` afterwards is what it was before, or the complete artifact. An
    artifact that stands there is replaced.

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
            files = {
                path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(place.rglob("*"))
                if path.is_file()
            }
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
    """Raise ArtifactError where something other than an artifact or an empty folder stands."""
    problem = None
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        Manifest.from_json((folder / MANIFEST).read_bytes())
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


def read(folder: Path | str) -> Manifest:
    """The manifest of the artifact at ``folder``, each of whose files is there and undamaged.

    Raises:
        ArtifactError: when that is not so; it names the folder and the file.
    """
    folder = as_folder(folder)
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if not folder.exists():
            raise ArtifactError(f"no artifact at {folder}: there is no such folder") from None
        raise ArtifactError(f"no artifact at {folder}: it has no {MANIFEST}") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        manifest = Manifest.from_json(text)
    except ArtifactError as error:
        raise ArtifactError(f"{path} {error}") from None
    for name, expected in manifest.files.items():
        _check_file(folder, name, expected)
    return manifest


def _check_file(folder: Path, name: str, expected: str) -> None:
    path = folder / name
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise ArtifactError(f"the artifact {folder} is incomplete: {name} is missing") from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    if found != expected:
        raise ArtifactError(
            f"the artifact {folder} is damaged: {name} has SHA-256 {found[:16]}...;"
            f" the manifest says {expected[:16]}..."
        )
