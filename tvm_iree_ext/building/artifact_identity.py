"""Artifacts of ops and of programs: what each is known by in the cache, and where it is made."""

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm.target import Target

from tvm_iree_ext.building.known_builds import SOURCES, source_folders
from tvm_iree_ext.codegen.gpu.device_code import device_tools
from tvm_iree_ext.runtime import cache
from tvm_iree_ext.runtime.launch.gpu_targets import DLPACK_DEVICES
from tvm_iree_ext.runtime.manifest import installed_versions
from tvm_iree_ext.targets.host import obstacle
from tvm_iree_ext.targets.names import target_json


def made_artifact(
    target: Target,
    identity: Callable[[], Mapping[str, Any]],
    make: Callable[[Path], None],
    folder: Path | str | None,
) -> Path:
    """The folder of an artifact: ``folder``, where it is made anew, or the cache's.

    Args:
        target: what it is for.
        identity: gives all else that tells it from others, as plain JSON values.
        make: writes it into a folder.
        folder: None for the cache.
    """
    if folder is not None:
        make(Path(folder))
        return Path(folder)
    known = {
        **identity(),
        "target": target_json(target),
        "versions": {**installed_versions(), "source": source_fingerprint()},
        **({"tools": device_tools(target)} if is_gpu(target) else {}),
    }
    return cache.get_or_make(cache.key(known), make)


def is_gpu(target: Target) -> bool:
    """Whether kernels for a target are launched by a GPU's driver."""
    return target.kind.name in DLPACK_DEVICES


def opens_later(target: Target) -> bool:
    """Whether what is built here may be for another machine: it can be exported, unopened."""
    return is_gpu(target) or bool(obstacle(target))


@functools.cache
def source_fingerprint() -> str:
    """A hash of this package's code: an edited schedule must not find the old kernel."""
    digest = hashlib.sha256()
    for folder in source_folders():
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in SOURCES:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
