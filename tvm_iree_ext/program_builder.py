"""From an imported program to an artifact: fused, scheduled, compiled as one library."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tvm import ir, relax, tirx
from tvm.relax.vm_build import _ffi_api as vm_api
from tvm.target import Target

from tvm_iree_ext import cache, pipeline, program_passes
from tvm_iree_ext.artifact import LIBRARY, write
from tvm_iree_ext.builder import source_fingerprint
from tvm_iree_ext.errors import BuildError, ExtError
from tvm_iree_ext.linker import compile_library
from tvm_iree_ext.manifest import Function, Parameter, ProgramManifest, installed_versions
from tvm_iree_ext.mlir.imported import OP_ATTRIBUTE, Imported
from tvm_iree_ext.program import ALIGNMENT, BYTECODE, PARAMETERS, Program, load
from tvm_iree_ext.program_contractions import AroundContractions
from tvm_iree_ext.program_passes import OPAQUE, prim_functions, relax_functions, with_functions
from tvm_iree_ext.program_sorts import SortByKeys
from tvm_iree_ext.schedules.cpu.loops import schedule_loops
from tvm_iree_ext.target.host import obstacle
from tvm_iree_ext.target.names import TargetLike, make_target, target_json
from tvm_iree_ext.tuned import DatabaseLike, fingerprint, lowered
from tvm_iree_ext.versions import check_pair


def build_program(
    imported: Imported,
    target: TargetLike = "llvm",
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Program:
    """Compile an imported program for a target, or take it from the cache.

    Args:
        imported: what :mod:`tvm_iree_ext.mlir` makes of a file.
        target: see :mod:`tvm_iree_ext.target.names`; by default this machine's CPU.
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
    resolved = make_target(target)

    def make(place: Path) -> None:
        _write(imported, resolved, database, place)

    lazy = bool(obstacle(resolved))
    try:
        if folder is None:
            identity = _identity(imported, resolved, database)
            folder = cache.get_or_make(cache.key(identity), make)
        else:
            make(Path(folder))
    except ExtError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        what = str(error).strip().partition("\n")[0]  # TVM's passes raise any of them
        name = imported.name or "the program"
        raise BuildError(f"{name} cannot be built: {type(error).__name__}: {what}") from error
    program = load(folder, lazy=lazy)
    assert isinstance(program, Program)
    return program


def _identity(imported: Imported, target: Target, database: DatabaseLike) -> dict[str, Any]:
    """What says whether two builds are the same."""
    digest = hashlib.sha256(ir.save_json(imported.module).encode())
    for name, value in sorted(imported.parameters.items()):
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).view(np.uint8).data)
    return {
        "program": imported.name,
        "module": digest.hexdigest(),
        "functions": [[f.name, f.signature.to_json()] for f in imported.functions],
        "ops": {key: op.describe() for key, op in imported.ops.items()},
        "target": target_json(target),
        "records": fingerprint(target, database),
        "versions": {**installed_versions(), "source": source_fingerprint()},
    }


def _write(imported: Imported, target: Target, database: DatabaseLike, folder: Path) -> None:
    """Compile, and write the artifact."""
    constants = Constants(imported.parameters)
    origins: dict[str, str] = {}
    try:
        mod, functions = _lowered(imported, target, database, constants, origins)
    except ExtError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:  # TVM's checks raise all three
        name = imported.name or "the program"
        raise BuildError(f"TVM cannot lower {name}: {error}") from error
    manifest = ProgramManifest(
        name=imported.name,
        functions=functions,
        parameters=constants.table(),
        target=target_json(target),
    )

    def fill(place: Path) -> dict[str, Any]:
        executable = relax.ExecBuilder()
        kernels = vm_api.VMCodeGen(executable, mod)
        library = ir.IRModule(prim_functions(kernels))
        resources = compile_library(library, target, place / LIBRARY, pipeline.CPU_PIPELINE)
        bytecode = vm_api.VMLink(executable, target, None, [], {})
        # The format's name is a file's suffix, too.
        path = place / BYTECODE
        bytecode.write_to_file(str(path), "relax.VMExecutable")
        constants.write(place / PARAMETERS)
        return {
            **resources,
            "kernels": len(library.functions),
            "provenance": origins,
            "needs_runtime": True,
        }

    pipeline.register()
    write(folder, manifest, fill)


class Constants:
    """The constants of a program, by name: each array once."""

    def __init__(self, parameters: Mapping[str, np.ndarray]) -> None:
        # Not ascontiguousarray, which makes rank 1 of rank 0.
        self._arrays = {name: np.asarray(array, order="C") for name, array in parameters.items()}
        self._names: dict[tuple[Any, ...], str] = {}

    def name(self, array: np.ndarray) -> str:
        """The name of a constant of the module itself."""
        key = str(array.dtype), array.shape, array.tobytes()
        if key not in self._names:
            self._names[key] = f"constant.{len(self._names)}"
            self._arrays[self._names[key]] = array
        return self._names[key]

    def table(self) -> tuple[Parameter, ...]:
        """Where each lies in the file."""
        table, offset = [], 0
        for name, array in self._arrays.items():
            table.append(Parameter(name, str(array.dtype), array.shape, offset))
            offset += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return tuple(table)

    def write(self, path: Path) -> None:
        """Write the file."""
        with path.open("wb") as file:
            for entry, array in zip(self.table(), self._arrays.values(), strict=True):
                file.seek(entry.offset)
                file.write(array.reshape(-1).view(np.uint8).data if array.size else b"")


def _lowered(
    imported: Imported,
    target: Target,
    database: DatabaseLike,
    constants: Constants,
    origins: dict[str, str],
) -> tuple[ir.IRModule, tuple[Function, ...]]:
    """The module for the virtual machine, and its functions as the manifest lists them.

    Where the config of an op's kernel comes from is added to ``origins``.
    """
    entries = [*(function.name for function in imported.functions), *imported.helpers]
    ops = dict(imported.ops)
    mod = SortByKeys(imported.module, ops).run()
    mod = AroundContractions(mod, ops).run()
    private = {var: _private(function) for var, function in prim_functions(mod).items()}
    mod = program_passes.fuse(with_functions(mod, private), entries)
    builder = relax.BlockBuilder(mod)
    own_results = program_passes.OwnResults(builder)
    lifted: dict[str, list[str]] = {}
    for var, function in relax_functions(mod).items():
        given = int(function.attrs["num_input"])
        named = [parameter.name for parameter in function.params[given:]]
        function, added = program_passes.lift_constants(function, constants.name)
        lifted[var.name_hint] = [*named, *added]
        builder.update_func(var, own_results(function))
    mod = builder.get()
    scheduled = {}
    for var, function in prim_functions(mod).items():
        name, key = var.name_hint, _op_key(function)
        if key is None:
            scheduled[var] = schedule_loops(function, target, name)
        else:
            module, origins[name] = lowered(ops[key], target, database=database)
            scheduled[var] = module[ops[key].entry].with_attr("global_symbol", name)
    mod = program_passes.lower(with_functions(mod, scheduled))
    functions = tuple(
        Function(entry.name, entry.signature, tuple(lifted[entry.name]))
        for entry in imported.functions
    )
    return mod, functions


def _private(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function as one that is kept only where it is called; an op's is not fused."""
    function = function.without_attr("global_symbol")
    return function if _op_key(function) is None else function.with_attr("op_pattern", OPAQUE)


def _op_key(function: tirx.PrimFunc) -> str | None:
    attrs = function.attrs
    return str(attrs[OP_ATTRIBUTE]) if attrs is not None and OP_ATTRIBUTE in attrs else None
