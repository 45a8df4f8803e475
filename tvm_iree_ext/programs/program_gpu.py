"""Programs for GPUs: kernels in one binary, and a launch plan for each function."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.cpp_export import device_resources, write_program_files
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.launch_plans.program_launch_plan import planned_program, program_plan
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_lowering import ScheduledProgram
from tvm_iree_ext.runtime.artifact import write
from tvm_iree_ext.runtime.manifest import Function, ProgramManifest
from tvm_iree_ext.runtime.program import PARAMETERS
from tvm_iree_ext.targets.names import target_json


def write_device_program(
    name: str, program: ScheduledProgram, constants: Constants, target: Target, folder: Path
) -> None:
    """Compile a scheduled program for a GPU, and write the artifact.

    Raises:
        BuildError: where a compiler refuses, and for what a launch plan cannot say.
        ArtifactError: where the folder cannot be written, or holds something else.
    """
    kernels = kernel_module(program.module)
    code = compile_device(kernels, target)
    plans = function_plans(program.module, program.functions, constants, code.plans())
    manifest = ProgramManifest(
        name=name,
        functions=program.functions,
        parameters=constants.table(),
        target=target_json(target),
        kernels=program.kernels,
        launch=plans,
        resources={**device_resources(code), "provenance": program.origins},
    )

    def fill(place: Path) -> None:
        write_program_files(code, place)
        constants.write(place / PARAMETERS)

    write(folder, manifest, fill)


def kernel_module(mod: ir.IRModule) -> ir.IRModule:
    """The scheduled PrimFuncs of a program alone, each by its own name.

    Raises:
        BuildError: for a program that has none.
    """
    found = prim_functions(mod)
    if not found:
        raise BuildError("the program computes nothing: there is no kernel to compile")
    return ir.IRModule(
        {
            var.name_hint: func.with_attr("global_symbol", var.name_hint)
            for var, func in found.items()
        }
    )


def function_plans(
    mod: ir.IRModule,
    functions: Sequence[Function],
    constants: Constants,
    plans: Mapping[str, Plan],
) -> dict[str, Plan]:
    """The plan of each function, of those of the PrimFuncs.

    Raises:
        BuildError: for what a launch plan cannot say.
    """
    program = planned_program(relax_passes.plan(mod), plans)
    known = {parameter.name: parameter for parameter in constants.table()}
    return {
        function.name: program_plan(
            program, function.name, [known[name] for name in function.parameters]
        )
        for function in functions
    }
