"""Ops built for a GPU, exported, and run on the emulator by the artifact's own launch plan."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import ArtifactError
from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.building.kernel_build import build
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.runtime import artifact
from tvm_iree_ext.runtime.gpu_function import GpuFunction
from tvm_iree_ext.runtime.kernel import Kernel
from tvm_iree_ext.runtime.launch.gpu_targets import chip_of
from tvm_iree_ext.runtime.manifest import Manifest
from tvm_iree_ext.targets.names import TargetLike, make_target, target_json


def emulated_kernel(folder: Path | str, driver: EmulatedDriver | None = None) -> Kernel:
    """The kernel of an artifact for a GPU, whose calls are emulated.

    Raises:
        ArtifactError: for an artifact that is absent or damaged, or is no kernel's.
        TargetError: for a chip that is not emulated.
    """
    folder = artifact.as_folder(folder)
    manifest = artifact.read(folder)
    if not isinstance(manifest, Manifest):
        raise ArtifactError(f"the artifact {folder} is no kernel of an op")
    if driver is None:
        driver = emulated_driver(str(manifest.target["kind"]), chip_of(manifest.target))
    inputs = len(manifest.signature.arguments)
    function = GpuFunction(folder, manifest.op, manifest.launch, inputs, library=driver)
    return Kernel(folder, manifest, function)


def emulate_op(
    op: Op,
    target: TargetLike,
    operands: Mapping[str, Any],
    config: LoweringConfig | None = None,
    *,
    seed: int = 0,
    order: int = 0,
) -> dict[str, np.ndarray]:
    """The results, by name, of an op that is built, and whose code is executed.

    Args:
        op: what :mod:`tvm_iree_ext.ops` makes.
        target: a GPU, such as ``rocm:gfx942``.
        operands: arrays and numbers by name, as the signature's arguments.
        config: by default that which :func:`~tvm_iree_ext.building.kernel_build.build` takes.
        seed: of what registers and memory hold at first.
        order: in which order waves run; see :class:`~tvm_iree_ext.emulator.driver.EmulatedDevice`.

    Raises:
        ScheduleError: when no rule builds the op, or the config does not fit.
        BuildError: when TVM, a compiler or the file system refuses.
        TargetError: for a chip that is not emulated.
        CallError: for operands that do not fit the signature.
        EmulationError: naming every finding, and for code that is not emulated.
    """
    resolved = make_target(target)
    kind, chip = resolved.kind.name, chip_of(target_json(resolved))
    driver = emulated_driver(kind, chip, seed=seed, order=order)
    with scratch() as place:
        build(op, resolved, config, folder=place / "kernel")
        kernel = emulated_kernel(place / "kernel", driver)
        results = kernel(*(operands[operand.name] for operand in op.signature.arguments))
    several = results if isinstance(results, tuple) else (results,)
    names = [operand.name for operand in op.signature.results]
    return dict(zip(names, several, strict=True))
