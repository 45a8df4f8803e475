"""``tvm_iree_ext.build``: a kernel of an op, or a program of functions; ``lower``: its TensorIR."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, overload

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.base.suggestions import suggesting
from tvm_iree_ext.building import known_builds
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.runtime.kernel import Kernel

if TYPE_CHECKING:
    from tvm import ir

    from tvm_iree_ext.base.lowering_config import ConfigLike
    from tvm_iree_ext.programs.program_sources import ProgramLike
    from tvm_iree_ext.runtime.program import Program
    from tvm_iree_ext.targets.names import TargetLike

_LOG = logging.getLogger(__name__)


@overload
def build(
    source: Op,
    target: TargetLike = "llvm",
    config: ConfigLike | None = None,
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Kernel: ...


@overload
def build(
    source: ProgramLike,
    target: TargetLike = "llvm",
    config: None = None,
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Program: ...


@suggesting
def build(
    source: Op | ProgramLike,
    target: TargetLike = "llvm",
    config: ConfigLike | None = None,
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Kernel | Program:
    """Compile an op or a program for a target, or take it from the cache.

    Args:
        source: an op, which :mod:`tvm_iree_ext.ops` makes; a program, as
            :func:`tvm_iree_ext.mlir.import_program` gives it; a module of Relax or of TensorIR, a
            PrimFunc, or tensors of TE: operands and results, as ``te.create_prim_func`` takes them.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        config: tile sizes and choices of an op, also as plain JSON; by default the best of the
            records of tuning, exactly for this op or for the nearest shape, else the heuristic.
        database: files of records to look at instead of the user's and the shipped ones; ``()``
            for none.
        folder: where to write the artifact, past the cache; by default the cache keeps it.

    Returns:
        A kernel or a program to be called or exported.  One for another machine can only be
        exported.

    Raises:
        TargetError: for a target that is not known.
        ScheduleError: when no rule builds an op, or the config does not fit.
        TuningError: for a file of records that is named and cannot be read.
        BuildError: when TVM, the linker or the file system refuses.
        ArtifactError: when ``folder`` cannot be written, or holds something else.
    """
    if isinstance(source, Op):
        return _kernel(source, target, config, database, folder)
    # Only programs need these, and TVM, whose import takes longer than a cached build.
    from tvm_iree_ext.programs.program_build import build_program
    from tvm_iree_ext.programs.program_sources import program_of

    program = program_of(source)
    if config is not None:
        raise BuildError("a program takes no config: it has a kernel for each of its ops")
    return build_program(program, target, database=database, folder=folder)


def _kernel(
    op: Op,
    target: TargetLike,
    config: ConfigLike | None,
    database: DatabaseLike,
    folder: Path | str | None,
) -> Kernel:
    """The kernel that was built for the same request before, which takes no TVM; or a new one."""
    request = None if folder else known_builds.request_key(op, target, config, database)
    if request is not None and (known := known_builds.find(request)) is not None:
        _LOG.debug("%s: built before, %s", op, known.folder)
        return known
    from tvm_iree_ext.building import kernel_build

    kernel = kernel_build.build(op, target, config, database=database, folder=folder)
    if request is not None:
        known_builds.note(request, op, kernel, database)
    return kernel


@suggesting
def lower(
    op: Op,
    target: TargetLike = "llvm",
    config: ConfigLike | None = None,
    *,
    database: DatabaseLike = None,
) -> ir.IRModule:
    """The scheduled TensorIR of an op, to be put into a module of one's own.

    Its function is named ``op.entry`` and takes the operands and results of ``op.signature`` in
    order.  :func:`build` compiles it with passes of this package for vectors, memory and GPUs;
    TVM's pipeline for CPUs compiles it, too, without vector code of exponentials and the like.

    Args:
        op: which :mod:`tvm_iree_ext.ops` makes.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        config: as :func:`build` takes it.
        database: as :func:`build` takes it.

    Raises:
        TargetError: for a target that is not known.
        ScheduleError: when no rule builds the op, or the config does not fit.
        TuningError: for a file of records that is named and cannot be read.
        BuildError: for what is no op, or a config of another kind.
    """
    if not isinstance(op, Op):
        raise BuildError(
            f"lower takes an op of tvm_iree_ext.ops; {type(op).__name__} came, which build may take"
        )
    from tvm_iree_ext.building.kernel_build import config_of
    from tvm_iree_ext.records.record_choice import lowered
    from tvm_iree_ext.targets.names import make_target

    return lowered(op, make_target(target), config_of(config), database)[0]
