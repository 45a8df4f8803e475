"""Programs as tests: files with recorded arrays beside them, and functions that check themselves.

Each is read, imported, built and run in a process that it cannot take others down with, and that
is ended after a time limit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ExtError, MlirError, RecordError
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.reading.reader import read
from tvm_iree_ext.processes import limits, workers

if TYPE_CHECKING:
    from tvm_iree_ext.targets.names import TargetLike

LIMIT_S = 60.0
"""For one program or function, with all of its building."""

_HOST = "llvm"
Portable: TypeAlias = str | Mapping[str, Any]

_FUNCTIONS = ("func.func", "util.func")


@dataclass(frozen=True)
class ProgramOutcome:
    """How a program or function did: the message is what is wrong with it, or empty."""

    name: str
    message: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.message

    def __str__(self) -> str:
        return f"FAILED {self.name}: {self.message}" if self.message else f"ok {self.name}"


def check_programs(
    folder: Path | str,
    target: "TargetLike" = "llvm",
    *,
    simulate: bool = False,
    passes: bool = False,
    guard: bool = False,
    emulate: bool = False,
    jobs: int = 1,
    limit_s: float = LIMIT_S,
) -> Iterator[ProgramOutcome]:
    """Build and run every ``NAME.mlir`` of a folder on the arrays of its ``NAME.npz``.

    The results are compared with the file's, at the tolerance of their element types or as a
    ``NAME.json`` says: see :func:`.read_expectation`.  With ``simulate``
    kernels for a GPU run on the simulator, whose findings are failures.  With ``passes`` those of a
    CPU are checked stage by stage, as :func:`.check` does, and with both those
    of a GPU.  With ``guard`` a CPU's kernels are called with arrays beside pages that cannot be
    touched.  With ``emulate`` the machine code of a GPU's kernels is executed.

    Raises:
        RecordError: for a folder that cannot be read or has no ``.mlir``.
        TargetError: for a target that is not known.
    """
    try:
        files = sorted(path for path in Path(folder).iterdir() if path.suffix == ".mlir")
    except OSError as error:
        raise RecordError(f"cannot read {folder}: {error.strerror or error}") from None
    if not files:
        raise RecordError(f"{folder} has no .mlir file")
    how = _portable(target), simulate, passes, guard, emulate
    tasks = [_Program(path, *how) for path in files]
    return workers.each(_checked, _died, tasks, jobs, limit_s)


def run_checks(
    source: str | bytes | Path,
    target: "TargetLike" = "llvm",
    *,
    jobs: int = 1,
    limit_s: float = LIMIT_S,
) -> Iterator[ProgramOutcome]:
    """Run the functions of a file that take nothing, with the ``check.*`` ops in them.

    Raises:
        MlirError: for a file that cannot be read, or has no such function.
        TargetError: for a target that is not known.
    """
    module = read(source)
    names = [name for name in map(_test_name, module.operations) if name is not None]
    if not names:
        raise MlirError("there is no public function without arguments, as a test is")
    tasks = [_Function(module, name, _portable(target)) for name in names]
    return workers.each(_checked, _died, tasks, min(jobs, len(tasks)), limit_s)


def _test_name(operation: form.ParsedOperation) -> str | None:
    attributes = operation.attributes
    kind = attributes.get("function_type")
    if (
        operation.name not in _FUNCTIONS
        or not isinstance(kind, form.FunctionType)
        or kind.inputs
        or attributes.get("sym_visibility", "public") != "public"
        or not operation.regions[0]
    ):
        return None
    return str(attributes["sym_name"])


@dataclass(frozen=True)
class _Program:
    """A file, and the arrays beside it."""

    path: Path
    target: Portable
    simulate: bool
    passes: bool
    guard: bool
    emulate: bool

    @property
    def name(self) -> str:
        return self.path.stem

    def differences(self, folder: Path) -> Sequence[str]:
        from tvm_iree_ext.program_checks import program_case

        return program_case.of_file(
            self.path,
            self.target,
            folder,
            simulate=self.simulate,
            passes=self.passes,
            guard=self.guard,
            emulate=self.emulate,
        )


@dataclass(frozen=True)
class _Function:
    """A function that checks itself."""

    module: form.Module
    name: str
    target: Portable

    def differences(self, folder: Path) -> Sequence[str]:
        from tvm_iree_ext.program_checks import program_case

        return program_case.of_function(self.module, self.name, self.target, folder)


def _portable(target: "TargetLike") -> Portable:
    """A target as its processes take it; TVM, which takes long to import, says what others are."""
    if target == _HOST:
        return _HOST
    from tvm_iree_ext.targets.names import make_target, target_json

    return target_json(make_target(target))


def _checked(task: _Program | _Function) -> ProgramOutcome:
    """Outcome of a program or function, whatever goes wrong in it."""
    limits.no_core_file()
    import_module("tvm")  # before memory is limited
    limits.limit_memory(limits.machine_memory())  # so that the system need not end others
    try:
        with scratch() as place:
            wrong = task.differences(place / "program")
    except ExtError as error:
        return ProgramOutcome(task.name, _line(str(error)))
    except Exception as error:  # TVM and NumPy raise any kind; the others must still run
        return ProgramOutcome(task.name, _line(f"{type(error).__name__}: {error}"))
    return ProgramOutcome(task.name, _line("; ".join(wrong)))


def _line(text: str) -> str:
    """A message on one line."""
    return "; ".join(filter(None, map(str.strip, text.splitlines())))


def _died(task: _Program | _Function, error: workers.WorkerDied) -> ProgramOutcome:
    return ProgramOutcome(task.name, str(error))


def summary(outcomes: Iterable[ProgramOutcome]) -> str:
    """``N passed, M failed``."""
    passed = [outcome.passed for outcome in outcomes]
    return f"{sum(passed)} passed, {len(passed) - sum(passed)} failed"
