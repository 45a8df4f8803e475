"""One program tried at one door, in this process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_iree_ext.access_checks.cpu_stage_run import checks_after, first_wrong, results_twice
from tvm_iree_ext.access_checks.gpu_stage_run import first_wrong_on_device
from tvm_iree_ext.access_checks.guarded_programs import guarded_results
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError, ExtError, SimulationError
from tvm_iree_ext.base.signature import Signature
from tvm_iree_ext.mlir.base.import_errors import UNFORESEEN
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.program_checks.recorded_arrays import as_operand
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.random_programs.doors.doors import find_door
from tvm_iree_ext.random_programs.drawing import oracle
from tvm_iree_ext.random_programs.drawing.generate import random_web
from tvm_iree_ext.random_programs.drawing.web import Web
from tvm_iree_ext.random_programs.trials import reproduction
from tvm_iree_ext.random_programs.trials.task import ProgramTask, Setting, TrialOutcome
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.simulator.runs.simulated_programs import main_point, simulate_program


def web_of(task: ProgramTask) -> Web:
    """The program of a task."""
    if isinstance(task.program, Web):
        return task.program
    door, recipe = find_door(task.setting.door), task.program
    return random_web(
        recipe.seed,
        recipe.dtype,
        ops=door.ops,
        takes=door.takes,
        least=door.least,
        most=min(recipe.most, door.most),
    )


def tried(task: ProgramTask) -> TrialOutcome:
    """Outcome of a task, unless it ends the process."""
    web, door = web_of(task), find_door(task.setting.door)
    wanted = oracle.expected(web)
    try:
        said = _wrong(door.read(door.text(web), web), web, task.setting, wanted)
    except SimulationError as error:
        return TrialOutcome("wrong", str(error), web)
    except BuildError as error:
        return TrialOutcome("foreign", f"BuildError: {error}", web)
    except ExtError as error:
        return TrialOutcome("foreign" if UNFORESEEN in str(error) else "refused", str(error), web)
    except Exception as error:  # what is looked for
        return TrialOutcome("foreign", f"{type(error).__name__}: {error}", web)
    return TrialOutcome("wrong", said, web) if said else TrialOutcome("right", "", web)


def _wrong(imported: Imported, web: Web, setting: Setting, wanted: Any) -> str:
    """The first error in an imported program's results, by all checks that a setting asks for."""

    def checked(call: Callable[[], Sequence[np.ndarray]]) -> str:
        try:
            return oracle.difference(wanted, call())
        except SimulationError as error:
            return str(error)

    def wrong_after(stage: str) -> str:
        with checks_after(stage), _built(imported, setting) as program:
            main = program.main
            return checked(lambda: results_twice(main, _arguments(main.signature, web)))

    if setting.passes and setting.simulate:
        wrong = first_wrong_on_device(lambda: checked(lambda: run(imported, web, setting)))
    elif setting.passes:
        wrong = first_wrong(wrong_after)
    else:
        wrong = oracle.difference(wanted, run(imported, web, setting))
    if wrong or not setting.guard:
        return wrong
    with scratch() as folder:
        guarded = guarded_results(
            lambda: build_program(imported, setting.target, folder=folder / "program"),
            lambda program: _arguments(program.main.signature, web),
        )
        differences = (oracle.difference(wanted, results) for results in guarded)
        return next(filter(None, differences), "")


def beside(task: ProgramTask) -> str:
    """The error in the framework's own results; empty where it agrees, or has none."""
    web, door = web_of(task), find_door(task.setting.door)
    if door.beside is None:
        return ""
    try:
        given = door.beside(door.text(web), web)
    except Exception as error:  # of any kind
        return f"{type(error).__name__}: {error}"
    return oracle.difference(oracle.expected(web), given)


def script(task: ProgramTask) -> str:
    """The program as a file of Python."""
    setting = task.setting
    door = find_door(setting.door)
    return reproduction.script(web_of(task), door, setting.target, simulate=setting.simulate)


def run(imported: Imported, web: Web, setting: Setting) -> Sequence[np.ndarray]:
    """The results of a program that was imported."""
    if setting.simulate:
        given = _arguments(main_point(imported).signature, web)
        return simulate_program(imported, setting.target, given).check().results
    with _built(imported, setting) as program:
        results: Any = program.main(*_arguments(program.main.signature, web))
    several = results if isinstance(results, tuple) else (results,)
    return [np.asarray(one) for one in several]


@contextmanager
def _built(imported: Imported, setting: Setting) -> Iterator[Program]:
    """The program, in a folder that does not last."""
    with scratch() as folder:
        yield build_program(imported, setting.target, folder=folder / "program")


def _arguments(signature: Signature, web: Web) -> list[Any]:
    """The arrays of a web, in the element types of a program; scalars as such."""
    operands, arrays = signature.arguments, web.arrays()
    taken = [as_operand(o.name, array, o) for o, array in zip(operands, arrays, strict=True)]
    return [
        array[()] if operand.role == "scalar" and not array.ndim else array
        for operand, array in zip(operands, taken, strict=True)
    ]
