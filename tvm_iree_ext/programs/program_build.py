"""From an imported program to an artifact: fused, scheduled, compiled as one library."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from tvm import ir, relax
from tvm.relax.vm_build import _ffi_api as vm_api
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError, ExtError
from tvm_iree_ext.base.garbage import collector_at_rest
from tvm_iree_ext.base.versions import check_pair
from tvm_iree_ext.building.artifact_identity import is_gpu, made_artifact, opens_later
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.base import relax_passes
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.memory_plan import memory_of
from tvm_iree_ext.programs.program_constants import Constants
from tvm_iree_ext.programs.program_gpu import write_device_program
from tvm_iree_ext.programs.program_lowering import scheduled_program
from tvm_iree_ext.programs.program_sources import ProgramLike, program_of
from tvm_iree_ext.programs.trusted_kernels import with_trusted_kernels
from tvm_iree_ext.records.record_choice import fingerprint
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.runtime.artifact import LIBRARY, write
from tvm_iree_ext.runtime.manifest import ProgramManifest
from tvm_iree_ext.runtime.program import BYTECODE, PARAMETERS, Program, load
from tvm_iree_ext.targets.names import TargetLike, make_target, target_json


@collector_at_rest()
def build_program(
    program: ProgramLike,
    target: TargetLike = "llvm",
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Program:
    """Compile a program for a target, or take it from the cache.

    Args:
        program: what :mod:`tvm_iree_ext.mlir` makes of a file, a module of Relax or TensorIR, a
            PrimFunc, or TE's operands and results.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        database: files of records whose configs the ops get, instead of the user's and the
            shipped ones; ``()`` for none.
        folder: where to write the artifact, past the cache; by default the cache keeps it.

    Raises:
        TargetError: for a target that is not known.
        ScheduleError: when no rule builds an op of the program.
        TuningError: for a file of records that is named and cannot be read.
        BuildError: when TVM, the linker or the file system refuses.
        ArtifactError: when ``folder`` cannot be written, or holds something else.
    """
    check_pair()
    resolved, imported = make_target(target), program_of(program)

    def make(place: Path) -> None:
        _write(imported, resolved, database, place)

    def identity() -> dict[str, Any]:
        return _identity(imported, resolved, database)

    try:
        folder = made_artifact(resolved, identity, make, folder)
    except ExtError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        what = str(error).strip().partition("\n")[0]  # TVM's passes raise any of them
        name = imported.name or "the program"
        raise BuildError(f"{name} cannot be built: {type(error).__name__}: {what}") from error
    program = load(folder, lazy=opens_later(resolved))
    assert isinstance(program, Program)
    return program


def _identity(imported: Imported, target: Target, database: DatabaseLike) -> dict[str, Any]:
    """What says whether two builds are the same."""
    digest = hashlib.sha256(ir.save_json(imported.module).encode())
    held = {f"state {name}": value for name, value in imported.states.items()}
    for name, value in sorted({**imported.parameters, **held}.items()):
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).view(np.uint8).data)
    return {
        "program": imported.name,
        "excess precision": imported.excess_precision,
        "module": digest.hexdigest(),
        "functions": [
            [f.name, f.signature.to_json(), f.states, f.stores] for f in imported.functions
        ],
        "ops": {key: op.describe() for key, op in imported.ops.items()},
        "records": fingerprint(target, database),
    }


def _write(imported: Imported, target: Target, database: DatabaseLike, folder: Path) -> None:
    """Compile, and write the artifact."""
    constants = Constants()
    try:
        scheduled = scheduled_program(imported, target, constants, database)
        if is_gpu(target):
            write_device_program(imported.name, scheduled, constants, target, folder)
            return
        planned = relax_passes.plan(scheduled.module)
        memory = {name: one.to_json() for name, one in memory_of(planned).items()}
        mod = relax_passes.lower(with_trusted_kernels(planned))
    except ExtError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        name = imported.name or "the program"
        raise BuildError(f"TVM cannot lower {name}: {error}") from error
    manifest = ProgramManifest(
        name=imported.name,
        functions=scheduled.functions,
        parameters=constants.table(),
        target=target_json(target),
        kernels=scheduled.kernels,
    )

    def fill(place: Path) -> dict[str, Any]:
        executable = relax.ExecBuilder()
        kernels = vm_api.VMCodeGen(executable, mod)
        library = ir.IRModule(prim_functions(kernels))
        resources = compile_library(library, target, place / LIBRARY, cpu_pipeline.CPU_PIPELINE)
        bytecode = vm_api.VMLink(executable, target, None, [], {})
        # The format's name is a file's suffix, too.
        path = place / BYTECODE
        bytecode.write_to_file(str(path), "relax.VMExecutable")
        constants.write(place / PARAMETERS)
        return {
            **resources,
            "kernels": len(library.functions),
            "memory": memory,
            "provenance": scheduled.origins,
            "needs_runtime": True,
        }

    cpu_pipeline.register()
    write(folder, manifest, fill)
