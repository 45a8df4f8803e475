"""Builds that need no compiler: what was asked for before, and the cache's entry that came.

To say which kernel an op gets takes TVM, whose import takes longer than all else of a cached build:
a target's CPU, a rule, its config.  All that follows from what a build is asked for and from what
is installed, so the answer is noted in the cache by these, and the next process finds it.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tvm_iree_ext.schedules
from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.codegen.gpu.cuda import find_tool
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record import family_key
from tvm_iree_ext.records.record_files import DatabaseLike, are_read_in_silence, looked_at
from tvm_iree_ext.runtime import cache, machine
from tvm_iree_ext.runtime.kernel import Kernel, load
from tvm_iree_ext.runtime.manifest import installed_versions

_TOOLS = ("ptxas", "nvdisasm")
SOURCES = (".py", ".json", ".h", ".cpp")
"""The files that decide what is built; tables of chips and what is exported are among them."""


def source_folders() -> list[Path]:
    """The folders of this package's code."""
    packages = (tvm_iree_ext, tvm_iree_ext.schedules)  # the latter lies elsewhere in a clone
    # In a clone the packages are folders of links, which rglob does not follow.
    return sorted({Path(str(package.__file__)).resolve().parent for package in packages})


def request_key(op: Op, target: object, config: object, database: DatabaseLike) -> str | None:
    """The name of a request, by all that the answer follows from.

    None where it cannot be told: for what is no JSON, which the build itself looks at.
    """
    if isinstance(target, Mapping):
        target = dict(target)
    try:
        asked = {
            **op.describe(),
            "target": target if isinstance(target, str | dict) else str(target),
            "config": config if config is None else _config(config),
            "records": [(str(path), *_state(path)) for path in looked_at(database)],
        }
        text = json.dumps({**asked, **_installed()}, sort_keys=True)
    except (TypeError, ValueError, OSError, AttributeError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def find(key: str) -> Kernel | None:
    """The kernel that was built for a request; None where none is known, or it is gone."""
    try:
        noted = json.loads(cache.noted(key) or "{}")
        return load(cache.entry_folder(noted["entry"]), lazy=noted["lazy"])
    except (ArtifactError, ValueError, TypeError, KeyError):
        return None  # the build says what is wrong with an entry, and makes it anew


def note(key: str, op: Op, kernel: Kernel, database: DatabaseLike) -> None:
    """Note the kernel of the cache that a request got, unless the records must warn again."""
    described = op.describe()
    family = family_key(
        op.name, described["operands"], described["attributes"], dict(kernel.target)
    )
    if are_read_in_silence(family, database):
        noted = {"entry": kernel.folder.name, "lazy": not kernel.is_opened}
        cache.note(key, json.dumps(noted))


def _config(config: Any) -> Any:
    return dict(config) if isinstance(config, Mapping) else config.to_json()


def _state(path: Path) -> tuple[int, ...]:
    """Changes with a file's contents."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _installed() -> dict[str, Any]:
    """All that is not asked for, and decides what is built."""
    return {
        "versions": dict(installed_versions()),
        "source": [(name, *_state(Path(name))) for name in sorted(_source_files())],
        "machine": [machine.this_machine(), *machine.cpu_model(), *sorted(machine.cpu_flags())],
        "processors": len(os.sched_getaffinity(0)),
        "tools": [importlib.util.find_spec("cuda") is not None, *map(find_tool, _TOOLS)],
    }


def _source_files() -> Iterator[str]:
    for top in source_folders():
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in names if name.endswith(SOURCES))
