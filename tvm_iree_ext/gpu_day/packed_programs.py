"""Recorded programs as they are packed: an artifact, the recorded arguments and results."""

from dataclasses import dataclass
from pathlib import Path

from tvm_iree_ext.base.dtypes import numpy_dtype
from tvm_iree_ext.base.errors import ExtError
from tvm_iree_ext.gpu_day.packed_checks import Packed, keep_loaded, write_case
from tvm_iree_ext.gpu_day.packed_plans import check_plan
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.program_checks import recorded_arrays
from tvm_iree_ext.programs.program_build import build_program


@dataclass(frozen=True)
class RecordedProgramTask:
    """A program to be packed: ``NAME.mlir``, with ``NAME.npz`` beside it."""

    path: Path
    target: str
    folder: str

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"program {self.path.stem}"


def packed_program(task: RecordedProgramTask) -> Packed:
    """Pack the program's ``main``."""
    folder, settings = Path(task.folder), task.path.with_suffix(".json")
    try:
        arrays = recorded_arrays.read_arrays(task.path.with_suffix(".npz"))
        expectation = recorded_arrays.read_expectation(settings) if settings.exists() else None
        main = build_program(import_program(task.path), task.target, folder=folder).main
        check_plan(folder, task.name)
        signature = main.signature
        given = recorded_arrays.arguments(main.name, signature, arrays)
        dtypes = [numpy_dtype(one.dtype) for one in signature.results]
        results = [
            (f"out{place}", signature.results[place].dtype, want, allowed)
            for place, want, allowed in recorded_arrays.expected(
                signature, dtypes, arrays, expectation
            )
        ]
    except ExtError as error:
        return Packed(task.name, 0, str(error))
    if len(results) < len(signature.results):
        return Packed(task.name, 0, "results that are not compared have no shape")
    keep_loaded(folder)
    arguments = {f"in{place}": one for place, one in enumerate(given)}
    write_case(folder, task.name, "program", task.target, arguments, results)
    return Packed(task.name, 1)
