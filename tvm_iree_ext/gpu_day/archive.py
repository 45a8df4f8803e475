"""The archive for a day with a GPU: one file, run by Python where there is a driver and NumPy."""

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import ml_dtypes
import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.dtypes import INTEGERS4, numpy_dtype
from tvm_iree_ext.gpu_day.packed_checks import Packed, PackTask, packed, tasks
from tvm_iree_ext.gpu_day.packed_models import ModelTask, packed_model
from tvm_iree_ext.gpu_day.packed_probes import ProbeTask, packed_probe, probe_tasks
from tvm_iree_ext.gpu_day.packed_programs import RecordedProgramTask, packed_program
from tvm_iree_ext.gpu_day.packed_speed import SpeedTask, packed_speed, speed_tasks
from tvm_iree_ext.gpu_day.speed_cases import CASES
from tvm_iree_ext.on_gpu.archive_file import CHECKS, PEAKS, PROGRAMS, SPEED
from tvm_iree_ext.processes import workers
from tvm_iree_ext.verify.kernel_checks import CheckCase

_LIMIT_S = 600.0  # for one case
_CARRIED = (
    "base/comparison.py", "base/tolerance.py", "runtime/launch", "runtime/launch_graph.py",
    "on_gpu", "bench/programs/models",
)  # fmt: skip
_PACKAGE = "tvm_iree_ext"
Task = PackTask | RecordedProgramTask | ProbeTask | SpeedTask | ModelTask

_MAIN = """import sys
from tvm_iree_ext.on_gpu.day import main

sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class PackOrder:
    """What is to be packed.

    Attributes:
        checks: targets, each with its cases, and whether PTX stands for the binary.
        programs: targets and files with recorded arrays beside them.
        peaks: targets whose chips are asked what they reach at most.
        speed: targets and names of kernels to be timed, see :mod:`.speed_cases`.
        models: targets and names of whole programs to be timed, see :mod:`.packed_models`.
    """

    checks: Sequence[tuple[str, Sequence[CheckCase], bool]] = ()
    programs: Sequence[tuple[str, Path]] = ()
    peaks: Sequence[str] = ()
    speed: Sequence[tuple[str, str]] = ()
    models: Sequence[tuple[str, str]] = ()

    @property
    def count(self) -> int:
        """How many cases that is."""
        configs = sum(1 + len(CASES[name].configs) for _, name in self.speed)
        checks = sum(len(cases) for _, cases, _ in self.checks)
        probes = sum(1 for _ in probe_tasks(self.peaks, Path()))
        return checks + len(self.programs) + probes + configs + len(self.models)


def speed_names(words: Sequence[str] | None = None) -> list[str]:
    """The kernels to be timed whose names contain one of the words; all without words."""
    return [name for name in CASES if words is None or any(word in name for word in words)]


def pack(path: Path | str, order: PackOrder, *, jobs: int = 1) -> Iterator[Packed]:
    """Write an archive; yields how each case went, as they end.

    The file is replaced when the new one is whole, after the last of them.
    """
    with scratch() as place:
        work: list[Task] = [
            task
            for target, cases, ptx in order.checks
            for task in tasks(cases, target, place / CHECKS, ptx=ptx)
        ]
        work += (
            RecordedProgramTask(file, target, str(place / CHECKS / f"program-{number:04}"))
            for number, (target, file) in enumerate(order.programs)
        )
        work += probe_tasks(order.peaks, place / PEAKS)
        work += speed_tasks(order.speed, place / SPEED)
        work += (
            ModelTask(name, target, str(place / PROGRAMS / f"{number:04}"))
            for number, (target, name) in enumerate(order.models)
        )
        for folder in (CHECKS, PEAKS, SPEED, PROGRAMS):
            (place / folder).mkdir()
        yield from workers.each(_done, _died, work, jobs, _LIMIT_S)
        write_archive(Path(path), place)


def _done(task: Task) -> Packed:
    match task:
        case PackTask():
            return packed(task)
        case RecordedProgramTask():
            return packed_program(task)
        case ModelTask():
            return packed_model(task)
        case ProbeTask():
            return packed_probe(task)
    return packed_speed(task)


def _died(task: Task, error: workers.WorkerDied) -> Packed:
    return Packed(task.name, 0, str(error))


def write_archive(path: Path, place: Path) -> None:
    """Write the folders of ``place`` and what runs them, and rename the file when it is whole."""
    with tempfile.NamedTemporaryFile(dir=path.resolve().parent, delete=False) as made:
        try:
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
                archive.writestr("__main__.py", _MAIN)
                for name, content in _modules():
                    archive.writestr(f"{_PACKAGE}/{name}", content)
                archive.writestr("formats.npz", _formats())
                folders = [place / one for one in (CHECKS, PEAKS, SPEED, PROGRAMS)]
                for one in sorted(path for folder in folders for path in folder.rglob("*")):
                    if one.is_file():
                        name = one.relative_to(place).as_posix()
                        archive.write(one, name, zipfile.ZIP_LZMA)
            made.flush()
            os.fsync(made.fileno())
            os.replace(made.name, path)
        except BaseException:
            os.unlink(made.name)
            raise


def _modules() -> Iterator[tuple[str, str]]:
    """The modules that run there, by their paths in the package; all packages are empty."""
    root = files(_PACKAGE)
    packages = {""}
    for name in _CARRIED:
        source = root / name
        paths = [name] if name.endswith(".py") else [
            f"{name}/{one.name}" for one in source.iterdir() if one.name.endswith(".py")
        ]  # fmt: skip
        for path in paths:
            parts = path.split("/")[:-1]
            packages |= {"/".join(parts[:count]) + "/" for count in range(1, len(parts) + 1)}
            if not path.endswith("/__init__.py"):
                yield path, (root / path).read_text(encoding="utf-8")
    for package in sorted(packages):
        yield f"{package}__init__.py", ""


def _formats() -> bytes:
    """The values of all types of a byte that NumPy lacks, by their bits."""
    words = np.arange(256, dtype=np.uint8)
    names = [name for name in dir(ml_dtypes) if name.startswith("float8_")]
    values = {name: words.view(getattr(ml_dtypes, name)).astype(np.float64) for name in names}
    values |= {name: (words & 15).view(numpy_dtype(name)).astype(np.int8) for name in INTEGERS4}
    file = io.BytesIO()
    np.savez(file, **values)
    return file.getvalue()
