"""Checks of a program by its recorded arrays, and of a function by its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.access_checks.cpu_stage_run import checks_after, first_wrong, results_twice
from tvm_iree_ext.access_checks.gpu_stage_run import first_wrong_on_device
from tvm_iree_ext.access_checks.guarded_programs import guarded_results
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.base.errors import SimulationError
from tvm_iree_ext.base.tolerance import EXACT, Tolerance
from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program
from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.mlir.importer import import_module
from tvm_iree_ext.mlir.importing.imported import Check
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.program_checks import recorded_arrays
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.simulator.runs.simulated_programs import main_point, simulate_program
from tvm_iree_ext.targets.names import TargetLike


def of_file(
    path: Path,
    target: TargetLike,
    folder: Path,
    *,
    simulate: bool,
    passes: bool,
    guard: bool,
    emulate: bool,
) -> Sequence[str]:
    """Build a file in a folder and run it on the arrays beside it; what is wrong, for messages.

    Simulated, nothing is built, and what the simulator finds is wrong, too.  With ``passes`` so is
    what is found by checks in the kernels, stage by stage; with ``guard`` arrays of kernels lie
    beside pages that cannot be touched; with ``emulate`` the machine code of a GPU's is executed.
    """
    arrays = recorded_arrays.read_arrays(path.with_suffix(".npz"))
    settings = path.with_suffix(".json")
    expectation = recorded_arrays.read_expectation(settings) if settings.exists() else None
    imported = import_program(path)

    def simulated() -> str:
        signature = main_point(imported).signature
        given = recorded_arrays.arguments("main", signature, arrays)
        try:
            done = simulate_program(imported, target, given).check()
        except SimulationError as error:
            return str(error)
        return "; ".join(recorded_arrays.differences(signature, done.results, arrays, expectation))

    if simulate:
        wrong = first_wrong_on_device(simulated) if passes else simulated()
        return [wrong] if wrong else []

    def wrong_after(stage: str) -> str:
        with checks_after(stage):
            main = build_program(
                imported, target, folder=folder.with_name(stage.replace(" ", "_"))
            ).main
        try:
            given = recorded_arrays.arguments(main.name, main.signature, arrays)
            results = results_twice(main, given)
        except SimulationError as error:
            return str(error)
        return "; ".join(recorded_arrays.differences(main.signature, results, arrays, expectation))

    if passes:
        wrong = first_wrong(wrong_after)
        return [wrong] if wrong else []
    if guard:
        guarded = guarded_results(
            lambda: build_program(imported, target, folder=folder),
            lambda program: recorded_arrays.arguments(
                program.main.name, program.main.signature, arrays
            ),
        )
        signature = main_point(imported).signature
        every = (
            recorded_arrays.differences(signature, one, arrays, expectation) for one in guarded
        )
        return next(filter(None, every), [])
    main = build_program(imported, target, folder=folder).main
    if emulate:
        main = emulated_program(folder).main
    results = _several(main(*recorded_arrays.arguments(main.name, main.signature, arrays)))
    return recorded_arrays.differences(main.signature, results, arrays, expectation)


def of_function(module: form.Module, name: str, target: TargetLike, folder: Path) -> Sequence[str]:
    """Build a function in a folder and run it; what its checks find wrong, for messages."""
    imported = import_module(module, only=[name])
    function = build_program(imported, target, folder=folder)[name]
    (entry,) = (entry for entry in imported.functions if entry.name == name)
    results = [np.asarray(result) for result in _several(function())]
    return [wrong for check in entry.checks if (wrong := _difference(check, results))]


def _several(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple) else (results,)


def _difference(check: Check, results: Sequence[np.ndarray]) -> str:
    """The difference found by a check, for a message; empty when there is none."""
    got, allowed = results[check.got], EXACT
    match check.kind:
        case "true" | "all_true":
            got, want = got != 0, np.ones(got.shape, bool)
        case "false":
            got, want = got != 0, np.zeros(got.shape, bool)
        case _:
            assert check.want is not None
            want = results[check.want]
    if check.kind == "almost_eq":
        allowed = Tolerance(check.absolute, check.relative)
    wrong = first_difference(f"check.expect_{check.kind} at {check.place}: got", got, want, allowed)
    return wrong
