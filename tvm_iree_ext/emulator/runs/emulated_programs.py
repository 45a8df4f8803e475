"""Programs for a GPU, whose functions are run on the emulator by the artifact's launch plans."""

from pathlib import Path

from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
from tvm_iree_ext.runtime.launch.gpu_targets import chip_of
from tvm_iree_ext.runtime.program import Program, load


def emulated_program(folder: Path | str, driver: EmulatedDriver | None = None) -> Program:
    """The program of an artifact for a GPU, whose calls are emulated.

    A kernel that writes an argument is an error, but for programs whose results lie in some.

    Raises:
        ArtifactError: for an artifact that is absent or damaged, or is no program's.
        TargetError: for a chip that is not emulated.
    """
    program = load(folder, lazy=True)
    if not isinstance(program, Program):
        raise ArtifactError(f"the artifact {folder} is no program")
    target = program.manifest.target
    results = [one for function in program.values() for one in function.signature.results]
    inputs_stay = not any(one.in_place_of for one in results)
    program.launch_by(
        driver or emulated_driver(str(target["kind"]), chip_of(target), inputs_stay=inputs_stay)
    )
    return program
