"""Whole programs to be timed, as they are packed: an artifact, arguments, and what is right.

Weights are drawn from a seed, and those of PyTorch's models take most of an artifact.  Of the large
ones the pack only says which of the model's they are, and how their dims are ordered: the machine
with the GPU draws them again, for which it needs PyTorch.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.bench.programs.contenders import ProgramSubject, host_array, leaves
from tvm_iree_ext.bench.programs.listed_programs import PROGRAMS
from tvm_iree_ext.bench.programs.program_trial import reference
from tvm_iree_ext.frontends.jax.jax_functions import from_jax
from tvm_iree_ext.frontends.torch.torch_modules import from_torch
from tvm_iree_ext.gpu_day.packed_checks import Packed, in_words, keep_loaded
from tvm_iree_ext.gpu_day.packed_plans import check_plan
from tvm_iree_ext.runtime.launch.launcher import PARAMETERS, numpy_type
from tvm_iree_ext.runtime.program import Program

_SMALL_BYTES = 1 << 16  # of a constant that is packed as it is


@dataclass(frozen=True)
class ModelTask:
    """A program of the list to be packed."""

    name: str
    target: str
    folder: str


def model_names(words: Sequence[str]) -> list[str]:
    """The programs of the list whose names contain one of the words."""
    return [name for name in PROGRAMS if any(word in name for word in words)]


def packed_model(task: ModelTask) -> Packed:
    """Pack a program."""
    case, folder, title = PROGRAMS[task.name], Path(task.folder), f"program {task.name}"
    try:
        with scratch() as place:
            subject = ProgramSubject(case.framework, case.make(), place)
            program = _built(subject, task.target, folder)
            check_plan(folder, title, timed=True)
            arguments = [host_array(one) for one in leaves(subject, subject.model.arguments)]
            want = reference(case, subject)
            keep_loaded(folder)
            weights = _named_weights(subject, folder)
    except (ExtError, RuntimeError) as error:
        return Packed(title, 0, f"{type(error).__name__}: {error}")
    np.savez(folder / "operands.npz", allow_pickle=False, **_numbered(map(in_words, arguments)))
    np.savez(folder / "results.npz", allow_pickle=False, **_numbered(want))
    described = {
        "id": task.name,
        "config": "",
        "target": task.target,
        "framework": case.framework,
        "module": case.module,
        "results": [
            [list(one.shape), result.dtype]
            for one, result in zip(want, program.main.signature.results, strict=True)
        ],
        "weights": weights,
        "tolerance": [case.relative, case.absolute],
    }
    (folder / "case.json").write_text(json.dumps(described))
    return Packed(title, 1)


_RAW = "raw.npz"


def _built(subject: ProgramSubject, target: str, folder: Path) -> Program:
    model = subject.model
    build = from_torch if subject.framework == "torch" else from_jax
    return build(model.function, *model.arguments, target=target, folder=folder, **model.options)


def _named_weights(subject: ProgramSubject, folder: Path) -> dict[str, Any]:
    """Take large weights out of the artifact's constants; returns where each belongs.

    What is left of the constants lies in ``raw.npz``, by their offsets.
    """
    file = folder / PARAMETERS
    size = file.stat().st_size if file.exists() else 0
    if not size:
        return {}
    manifest = json.loads((folder / "manifest.json").read_text())
    known = dict(_orders(subject))
    named, raw = [], {}
    with file.open("rb") as stream:
        for one in manifest["parameters"]:
            stream.seek(one["offset"])
            content = stream.read(math.prod(one["shape"]) * numpy_type(one["dtype"]).itemsize)
            found = known.get(_digest(content))
            if found and len(content) >= _SMALL_BYTES:
                named.append([one["offset"], *found])
            else:
                raw[str(one["offset"])] = np.frombuffer(content, np.uint8)
    file.unlink()
    np.savez(folder / _RAW, allow_pickle=False, **raw)
    return {"file": PARAMETERS, "size": size, "named": named}


def _orders(subject: ProgramSubject) -> Iterator[tuple[str, tuple[str, list[int]]]]:
    """Digests of a model's weights with their dims in any order: their names, and the order."""
    state: dict[str, Any] = getattr(subject.model.function, "state_dict", dict)()
    for name, weight in state.items():
        array = host_array(weight)
        if array.nbytes < _SMALL_BYTES:
            continue
        for order in permutations(range(array.ndim)):
            content = np.ascontiguousarray(array.transpose(order)).tobytes()
            yield _digest(content), (name, list(order))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _numbered(arrays: Any) -> dict[str, np.ndarray]:
    return {str(place): array for place, array in enumerate(arrays)}
