"""Mutated MLIR through the importer: each text must give a program or a clear error, and soon."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tvm_iree_ext.base.errors import BuildError, ExtError, MlirError
from tvm_iree_ext.mlir.base.import_errors import UNFORESEEN
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.processes import limits, workers
from tvm_iree_ext.program_checks.mlir_mutations import case
from tvm_iree_ext.programs.program_build import build_program

__all__ = ["FuzzFinding", "case", "fuzz"]

LIMIT_S = 30.0
"""For one text; none takes a tenth of it."""

_MEMORY = 4 << 30  # that one may take beside what TVM has taken

Kind: TypeAlias = Literal["imported", "built", "refused", "wrong"]


@dataclass(frozen=True)
class FuzzFinding:
    """How a text did: what is ``wrong`` is neither a program nor a clear error."""

    index: int
    kind: Kind
    message: str = ""


def fuzz(
    texts: Sequence[str],
    indices: Sequence[int],
    seed: int,
    *,
    jobs: int = 1,
    build: bool = False,
    limit_s: float = LIMIT_S,
) -> Iterator[FuzzFinding]:
    """How the mutated texts of a seed do, in order; see :func:`.case`.

    Args:
        texts: what is mutated.
        indices: which cases.
        seed: of them.
        jobs: processes that import.
        build: whether what is imported is built, too.
        limit_s: how long one may take.
    """
    tasks = [_FuzzTask(index, case(seed, index, texts), build) for index in indices]
    return workers.each(_tried, _died, tasks, jobs, limit_s)


@dataclass(frozen=True)
class _FuzzTask:
    index: int
    text: str
    build: bool


def _tried(task: _FuzzTask) -> FuzzFinding:
    limits.no_core_file()
    limits.limit_memory(_MEMORY)
    return _outcome(task)


def _outcome(task: _FuzzTask) -> FuzzFinding:
    try:
        imported = import_program(task.text.encode("utf-8", "replace"))
    except MlirError as error:
        kind: Kind = "wrong" if UNFORESEEN in str(error) else "refused"
        return FuzzFinding(task.index, kind, str(error))
    except Exception as error:  # what is looked for
        return FuzzFinding(task.index, "wrong", f"{type(error).__name__}: {error}")
    if not task.build:
        return FuzzFinding(task.index, "imported")
    try:
        build_program(imported)
    except BuildError as error:
        return FuzzFinding(task.index, "wrong", f"BuildError: {error}")
    except ExtError as error:
        return FuzzFinding(task.index, "refused", str(error))
    except Exception as error:  # what is looked for
        return FuzzFinding(task.index, "wrong", f"{type(error).__name__}: {error}")
    return FuzzFinding(task.index, "built")


def _died(task: _FuzzTask, error: workers.WorkerDied) -> FuzzFinding:
    return FuzzFinding(task.index, "wrong", str(error))
