"""From an op to a kernel: rule, lowering config, compilation."""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm import ir
from tvm.target import Target

from tvm_iree_ext.base.errors import BuildError, ScheduleError
from tvm_iree_ext.base.lowering_config import ConfigLike, LoweringConfig
from tvm_iree_ext.base.versions import check_pair
from tvm_iree_ext.building.artifact_identity import is_gpu, made_artifact, opens_later
from tvm_iree_ext.codegen.cpu import cpu_pipeline
from tvm_iree_ext.codegen.cpu.argument_guard import guarded
from tvm_iree_ext.codegen.gpu.cpp_export import device_resources, write_files
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.codegen.linker import compile_library
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.records.record_choice import choices
from tvm_iree_ext.records.record_files import DatabaseLike
from tvm_iree_ext.runtime.artifact import LIBRARY, write
from tvm_iree_ext.runtime.kernel import Kernel, load
from tvm_iree_ext.runtime.manifest import Manifest
from tvm_iree_ext.schedules.dispatch import Rule, choose
from tvm_iree_ext.targets.names import TargetLike, make_target, target_json

_LOG = logging.getLogger(__name__)


def build(
    op: Op,
    target: TargetLike = "llvm",
    config: ConfigLike | None = None,
    *,
    database: DatabaseLike = None,
    folder: Path | str | None = None,
) -> Kernel:
    """Compile an op for a target, or take the kernel from the cache.

    Args:
        op: what :mod:`tvm_iree_ext.ops` makes.
        target: see :mod:`tvm_iree_ext.targets.names`; by default this machine's CPU.
        config: tile sizes and choices, also as plain JSON; by default the best of the records of
            tuning, exactly for this op or for the nearest shape, else the rule's heuristic.
        database: files of records to look at instead of the user's and the shipped ones; ``()``
            for none.
        folder: where to write the artifact, past the cache; by default the cache keeps it.

    Returns:
        A kernel to be called or exported.  One for another machine, or for a GPU that is not here,
        can only be exported.

    Raises:
        TargetError: for a target that is not known.
        ScheduleError: when no rule builds the op, or the config does not fit.
        TuningError: for a file of records that is named and cannot be read.
        BuildError: when TVM, the linker or the file system refuses.
        ArtifactError: when ``folder`` cannot be written, or holds something else.
    """
    if not isinstance(op, Op):
        raise BuildError(f"build takes an op of tvm_iree_ext.ops; {type(op).__name__} came")
    check_pair()
    resolved = make_target(target)
    rule = choose(op, resolved)
    given = config_of(config)
    if given is not None:
        return _build(op, resolved, rule, given, "given", folder)
    for choice, origin in choices(op, resolved, rule.name, database):
        with contextlib.suppress(ScheduleError):  # the rule may refuse another shape's config
            return _build(op, resolved, rule, choice, origin, folder)
    return _build(op, resolved, rule, rule.heuristic(op, resolved), "heuristic", folder)


def _build(
    op: Op,
    target: Target,
    rule: Rule,
    config: LoweringConfig,
    provenance: str,
    folder: Path | str | None,
) -> Kernel:
    """The kernel with a config; ScheduleError where it does not fit."""
    manifest = Manifest(
        op=op.name,
        entry=op.entry,
        signature=op.passed_signature,
        attributes=op.attributes,
        target=target_json(target),
        config=config.to_json(),
        provenance=provenance,
    )

    def make(folder: Path) -> None:
        began = time.perf_counter()
        module = rule.lower(op, target, config)
        write_kernel = _write_gpu if is_gpu(target) else _write_cpu
        write_kernel(folder, manifest, module, target)
        taken = time.perf_counter() - began
        _LOG.info("%s: built in %.2f s by rule %s, %s config", op, taken, rule.name, provenance)

    def identity() -> dict[str, Any]:
        chosen = {"rule": rule.name, "config": manifest.config, "provenance": provenance}
        return {**op.describe(), **chosen}

    return load(made_artifact(target, identity, make, folder), lazy=opens_later(target))


def _write_cpu(folder: Path, manifest: Manifest, module: ir.IRModule, target: Target) -> None:
    cpu_pipeline.register()
    module = guarded(module, manifest.entry, manifest.signature)
    manifest = dataclasses.replace(manifest, is_guarded=True)

    def fill(path: Path) -> dict[str, Any]:
        return compile_library(module, target, path / LIBRARY, cpu_pipeline.CPU_PIPELINE)

    write(folder, manifest, fill)


def _write_gpu(folder: Path, manifest: Manifest, module: ir.IRModule, target: Target) -> None:
    code = compile_device(module, target)
    plan = code.plan()
    manifest = dataclasses.replace(manifest, launch=plan, resources=device_resources(code))
    write(folder, manifest, lambda place: write_files(code, plan, manifest.entry, place))


def config_of(config: ConfigLike | None) -> LoweringConfig | None:
    """A config that a user gives, also as plain JSON; None for none.

    Raises:
        BuildError: for anything else.
    """
    if config is None or isinstance(config, LoweringConfig):
        return config
    if isinstance(config, Mapping):
        return LoweringConfig.from_json(config)
    raise BuildError(f"config is {config!r}; expected a LoweringConfig or a dictionary")
