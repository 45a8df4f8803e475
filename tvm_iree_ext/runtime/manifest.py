"""Contents of ``manifest.json``, of a kernel's artifact and of a program's.

It begins with the SHA-256 of all the rest: what is read is what was written.  That finds damage;
it keeps nobody out who can write the folder, since anybody can compute it.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, TypeVar

from tvm_iree_ext.base import versions
from tvm_iree_ext.base.dtypes import COMPLEX_PARTS, is_dtype
from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.base.limited_reading import json_value, shown
from tvm_iree_ext.base.signature import Signature

_FORMAT = 2

# Where a config comes from; a record's has more words: "record exact", "record nearest 512x512".
_PROVENANCE = re.compile(r"heuristic|given|record .+")

_Self = TypeVar("_Self", bound="Contents")


@functools.cache
def installed_versions() -> Mapping[str, str]:
    """The versions of this package and of the TVM packages that are installed."""
    others = {name: versions.installed(name) or "none" for name in versions.PAIR}
    return {versions.WHOLE: versions.__version__, **others}


class Contents:
    """Fields of every manifest; a frozen dataclass for each kind of artifact extends it.

    Fields are JSON, or have ``to_json``.
    """

    kind: ClassVar[str]
    may_lack: ClassVar[frozenset[str]] = frozenset()  # fields that came later

    target: Mapping[str, Any]
    resources: Mapping[str, Any]
    files: "Mapping[str, File]"

    def to_json(self) -> str:
        """The text of ``manifest.json``."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return sealed({"kind": self.kind, **fields})

    @classmethod
    def from_object(cls: type[_Self], data: Mapping[str, Any]) -> _Self:
        """The manifest that a JSON object describes; ArtifactError where it describes none."""
        if data.get("format") != _FORMAT:
            came = shown(data.get("format"))
            raise ArtifactError(f"has format {came}; this version of tvm_iree_ext reads {_FORMAT}")
        names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        names -= cls.may_lack - data.keys()
        if missing := sorted({*names, _CHECKSUM} - data.keys()):
            raise ArtifactError(f"lacks {', '.join(missing)}")
        if data[_CHECKSUM] != (checksum := _checksum(data)):
            raise ArtifactError(
                f"is damaged: it has SHA-256 {checksum[:16]}..., and says {shown(data[_CHECKSUM])}"
            )
        for name, is_sound in _SOUND.items():
            if name in names and not is_sound(data[name]):
                raise ArtifactError(f"has a malformed {name}: {shown(data[name])}")
        files = {name: File(**file) for name, file in data["files"].items()}
        return cls(**cls.converted({**{name: data[name] for name in names}, "files": files}))

    @classmethod
    def converted(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The fields, each of which is sound, by what they stand for."""
        return data


@dataclass(frozen=True)
class File:
    """How a file of the artifact must be.

    A large one, such as one of weights, has in place of its SHA-256 that of the ``sums`` of its
    pages, each as words of 64 bits: they are taken ten times as fast.
    """

    bytes: int
    sha256: str = ""
    sums: str = ""

    @property
    def digest(self) -> str:
        """What tells it from another."""
        return self.sha256 or self.sums

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        named = {"sha256": self.sha256, "sums": self.sums}
        return {"bytes": self.bytes, **{name: one for name, one in named.items() if one}}

    @staticmethod
    def is_sound(data: Any) -> bool:
        """Whether this is what :meth:`to_json` writes."""
        match data:
            case {"bytes": int(count), "sha256": str()} | {"bytes": int(count), "sums": str()}:
                return len(data) == 2 and type(count) is int and count >= 0
        return False


_CHECKSUM = "checksum"


def sealed(fields: Mapping[str, Any]) -> str:
    """The text of a manifest with these fields, under their checksum."""
    rest = {name: value for name, value in fields.items() if name != _CHECKSUM}
    return json.dumps({_CHECKSUM: _checksum(rest), **rest}, indent=2) + "\n"


def _checksum(fields: Mapping[str, Any]) -> str:
    """The SHA-256 of what the fields hold but the checksum; their order and blanks do not count."""
    rest = {name: value for name, value in fields.items() if name != _CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value.to_json() if hasattr(value, "to_json") else value


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    has_name = bool(path.parts) and "\0" not in name and name.isprintable()
    return has_name and not path.is_absolute() and ".." not in path.parts


def _is_files(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(map(_is_inside, value))
        and all(map(File.is_sound, value.values()))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_target(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_text(value.get(name, "")) for name in ("kind", "mtriple")
    )


def _is_count_or_none(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


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
    "config": _is_object,
    "launch": _is_object,
    "provenance": lambda value: _is_text(value) and bool(_PROVENANCE.fullmatch(value)),
    "name": _is_text,
    "functions": lambda value: isinstance(value, list) and len(value) > 0,
    "parameters": lambda value: isinstance(value, list),
    "kernels": lambda value: isinstance(value, list),
    "target": _is_target,
    "resources": _is_resources,
    "versions": _is_texts,
    "files": _is_files,
    "is_guarded": lambda value: isinstance(value, bool),
}


@dataclass(frozen=True)
class Manifest(Contents):
    """Manifest of a kernel's artifact.

    ``attributes``, ``target``, ``config``, ``resources`` are JSON: what the op was made with, the
    TVM target, the lowering config, and what :func:`.compile_library` found.
    ``launch`` is the plan by which the kernels of a GPU are launched; that of a CPU has none.
    """

    kind = "tvm_iree_ext.artifact"
    may_lack = frozenset({"launch", "is_guarded"})

    op: str  # "iree_linalg_ext.attention"
    entry: str  # the function's name in the library
    signature: Signature
    attributes: Mapping[str, Any]
    target: Mapping[str, Any]
    config: Mapping[str, Any]
    provenance: str  # "heuristic", "given", or from which record of tuning
    launch: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    files: Mapping[str, File] = field(default_factory=dict)
    is_guarded: bool = False  # the library itself refuses arrays that do not fit
    format: int = _FORMAT

    @classmethod
    def converted(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The fields, with the signature."""
        try:
            return {**data, "signature": Signature.from_json(data["signature"])}
        except ValueError as error:
            raise ArtifactError(f"has a malformed signature: {error}") from None


@dataclass(frozen=True)
class Parameter:
    """A constant of a program: where its elements are in the file of parameters."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Any) -> "Parameter":
        """The inverse of :meth:`to_json`; ValueError for all else."""
        match data:
            case {"name": str(name), "dtype": str(dtype), "shape": list(shape), "offset": int(at)}:
                if is_dtype(dtype) and all(type(e) is int and e >= 0 for e in shape) and at >= 0:
                    return Parameter(name, dtype, tuple(shape), at)
        raise ValueError(f"no parameter: {shown(data)}")


@dataclass(frozen=True)
class Function:
    """A function of a program: what a caller gives and gets, and the constants passed behind.

    ``states`` are passed between them: tensors that the program keeps, named as the parameters
    that they begin as.  Of the results the last ``stores`` are such.
    """

    name: str
    signature: Signature  # also of complex operands
    parameters: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    stores: int = 0

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        held = {"states": list(self.states), "stores": self.stores} if self.states else {}
        return {
            "name": self.name,
            "signature": self.signature.to_json(),
            "parameters": list(self.parameters),
            **held,
        }

    @staticmethod
    def from_json(data: Any) -> "Function":
        """The inverse of :meth:`to_json`; ValueError for all else."""
        match data:
            case {"name": str(name), "signature": list(operands), "parameters": list(used)}:
                states, stores = data.get("states", []), data.get("stores", 0)
                is_list = isinstance(states, list) and type(stores) is int
                if is_list and all(map(_is_text, [*used, *states])) and 0 <= stores <= len(states):
                    signature = _signature(operands)
                    return Function(name, signature, tuple(used), tuple(states), stores)
        raise ValueError(f"no function: {shown(data)}")


def _signature(data: list[Any]) -> Signature:
    """A signature that may have complex operands, and no result."""
    complexes = {
        place: operand["dtype"]
        for place, operand in enumerate(data)
        if isinstance(operand, dict) and operand.get("dtype") in [*COMPLEX_PARTS]
    }
    real = [
        {**operand, "dtype": COMPLEX_PARTS[complexes[place]]} if place in complexes else operand
        for place, operand in enumerate(data)
    ]
    operands = Signature.from_json(real, may_be_void=True).operands
    return Signature(
        tuple(
            dataclasses.replace(operand, dtype=complexes.get(place, operand.dtype))
            for place, operand in enumerate(operands)
        )
    )


@dataclass(frozen=True)
class ProgramKernel:
    """What a kernel of a program computes, and what of the program it came of.

    Counts are None where extents tell that only a call knows; the bytes of plain loops are then
    those of their operands, and operations of theirs are not counted.
    """

    name: str  # in the library
    computes: str  # an op's name, "plain loops", or "compiled loop"
    sources: tuple[str, ...]  # operations and where they stand: "linalg.matmul at 12:5"
    dtype: str = "float32"  # whose multiply-adds bound it
    flops: int | None = None
    bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {**dataclasses.asdict(self), "sources": list(self.sources)}

    @staticmethod
    def from_json(data: Any) -> "ProgramKernel":
        """The inverse of :meth:`to_json`; ValueError for all else."""
        match data:
            case {
                "name": str(name),
                "computes": str(computes),
                "sources": list(sources),
                "dtype": str(dtype),
                "flops": flops,
                "bytes": count,
            }:
                is_known = is_dtype(dtype) and all(map(_is_text, sources))
                if is_known and _is_count_or_none(flops) and _is_count_or_none(count):
                    return ProgramKernel(name, computes, tuple(sources), dtype, flops, count)
        raise ValueError(f"no kernel: {shown(data)}")


@dataclass(frozen=True)
class ProgramManifest(Contents):
    """Manifest of a program's artifact: functions that share a library and constants.

    ``launch`` has, for a GPU, the plan of each function, by name.
    """

    kind = "tvm_iree_ext.program"
    may_lack = frozenset({"launch", "kernels"})

    name: str
    functions: tuple[Function, ...]
    parameters: tuple[Parameter, ...]
    target: Mapping[str, Any]
    kernels: tuple[ProgramKernel, ...] = ()
    launch: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    files: Mapping[str, File] = field(default_factory=dict)
    format: int = _FORMAT

    @classmethod
    def converted(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The fields, with functions and parameters."""
        try:
            functions = tuple(map(Function.from_json, data["functions"]))
            parameters = tuple(map(Parameter.from_json, data["parameters"]))
            kernels = tuple(map(ProgramKernel.from_json, data.get("kernels", ())))
        except ValueError as error:
            raise ArtifactError(f"has a malformed function, parameter or kernel: {error}") from None
        known = {parameter.name for parameter in parameters}
        for function in functions:
            names = (*function.parameters, *function.states)
            if unknown := [name for name in names if name not in known]:
                raise ArtifactError(f"has no parameter {unknown[0]!r}, of {function.name}")
        return {**data, "functions": functions, "parameters": parameters, "kernels": kernels}


@dataclass(frozen=True)
class DeviceManifest(Contents):
    """Manifest of an artifact of GPU kernels that are no op's.

    ``launch`` is the plan by which they are launched, ``resources`` the compiler's own figures.
    """

    kind = "tvm_iree_ext.device_code"

    name: str
    launch: Mapping[str, Any]
    target: Mapping[str, Any]
    resources: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    files: Mapping[str, File] = field(default_factory=dict)
    format: int = _FORMAT


_KINDS = {kind.kind: kind for kind in (Manifest, ProgramManifest, DeviceManifest)}


def parse(text: str | bytes) -> Manifest | ProgramManifest | DeviceManifest:
    """The manifest that a text is.

    Raises:
        ArtifactError: for broken JSON, another program's manifest, a newer format, or a field
            that is missing or malformed.
    """
    try:
        data = json_value(text)
    except ValueError as error:
        raise ArtifactError(f"is not valid JSON: {error}") from None
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArtifactError(f"is not a manifest of tvm_iree_ext: its kind is not {Manifest.kind!r}")
    return _KINDS[kind].from_object(data)
