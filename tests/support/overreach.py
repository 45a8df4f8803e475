"""A random program whose kernels load the element behind the one that they mean."""

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.access_checks.guarded_programs import guarded_results
from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.pass_seam import chosen
from tvm_iree_ext.programs.program_build import build_program
from tvm_iree_ext.random_programs.doors.doors import find_door
from tvm_iree_ext.random_programs.trials import trial
from tvm_iree_ext.random_programs.trials.task import ProgramTask


@tirx.transform.prim_func_pass(opt_level=0)
def loads_the_next(func, _mod, _ctx):
    def load(node):
        if node.source.scope() != "global" or not node.indices:
            return node
        return tirx.BufferLoad(node.source, [*node.indices[:-1], node.indices[-1] + 1])

    return func.with_body(tvm_ffi.structural_map(func.body, (TensorLoad, load)))


def guarded(task: ProgramTask) -> str:
    """Guarded calls of a task's program, in this process, which never builds rightly again."""
    cpu_pipeline.chosen = lambda every: (lambda own: [own[0], loads_the_next, *own[1:]])(
        chosen(every)
    )
    web = trial.web_of(task)
    door = find_door(task.setting.door)
    imported = door.read(door.text(web), web)
    with scratch() as folder:
        results = guarded_results(
            lambda: build_program(imported, folder=folder / "program"),
            lambda program: trial._arguments(program.main.signature, web),
        )
        return str(list(results))
