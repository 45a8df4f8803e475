"""Artifacts and kernels of any origin run on the emulator, on random arrays: what they do wrong.

tvm-iree-ext emulate FOLDER n=100                               an artifact for a GPU
tvm-iree-ext emulate mma:MFMA_F32_16x16x16_F16 --target rocm:gfx942   a matrix instruction
tvm-iree-ext emulate kernels.py:saxpy n=1000 --target cuda:sm_80      a function of a file
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import EmulationError
from tvm_iree_ext.codegen.gpu.cpp_export import export_device
from tvm_iree_ext.codegen.gpu.device_code import compile_device
from tvm_iree_ext.emulator.driver import EmulatedDriver
from tvm_iree_ext.emulator.findings import Fault
from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
from tvm_iree_ext.emulator.runs.emulated_targets import emulated_obstacle
from tvm_iree_ext.runtime.artifact import as_folder
from tvm_iree_ext.runtime.launch.gpu_targets import chip_of
from tvm_iree_ext.runtime.launch.launcher import Kernels, numpy_type
from tvm_iree_ext.runtime.launch.plan_steps import number
from tvm_iree_ext.simulator.runs.simulated_ops import default_target, named_kernel
from tvm_iree_ext.targets.gpu import chip_names, gpu_chip
from tvm_iree_ext.targets.names import TargetLike, make_target


@dataclass(frozen=True)
class Emulated:
    """What a run on the emulator has shown.

    ``executed`` are instructions, by their names, with how many waves have executed each;
    ``arrays`` are what the parameters hold afterwards.
    """

    chip: str
    launches: int
    findings: tuple[Fault, ...]
    executed: Mapping[str, int]
    arrays: Mapping[str, np.ndarray]

    def to_json(self) -> dict[str, Any]:
        """All but the arrays, as plain JSON values."""
        found = [
            {
                "kind": one.kind,
                "message": one.message,
                "instruction": one.instruction,
                "workgroup": one.where.workgroup,
                "wave": one.where.wave,
                "lane": one.where.lane,
                "address": one.address,
                "count": one.count,
            }
            for one in self.findings
        ]
        return {
            "chip": self.chip,
            "launches": self.launches,
            "findings": found,
            "executed": dict(self.executed),
        }

    def __str__(self) -> str:
        lines = [f"{self.launches} launches on {self.chip}"]
        lines += [f"{count:>10}  {name}" for name, count in self.executed.items()]
        lines += [str(one) for one in self.findings] or ["nothing found"]
        return "\n".join(lines)


def emulate_kernel(
    kernel: str,
    target: TargetLike | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    order: int = 0,
) -> Emulated:
    """Run an artifact, or a kernel by its name, on random arrays.

    Args:
        kernel: a folder with an artifact, or a name as
            :func:`~tvm_iree_ext.simulator.runs.simulated_ops.simulate_kernel` takes it.
        target: of a name; for a matrix instruction by default a chip that has it.
        sizes: the numbers that it takes, and the extents that it leaves open.
        seed: of the arrays, and of what memory and registers hold at first.
        order: in which order waves run.

    Raises:
        EmulationError: for code that is not emulated, or sizes that are missing.
        SimulationError: for a name that stands for no kernel.
        BuildError: where a kernel cannot be compiled.
        ArtifactError: for a folder that is no artifact.
        TargetError: for a chip that is not emulated.
    """
    if Path(kernel).is_dir():
        return _run(as_folder(kernel), sizes or {}, seed, order)
    if target is None:
        if not kernel.startswith("mma:"):
            raise EmulationError("a kernel needs a target, such as cuda:sm_80 or rocm:gfx942")
        target = default_target(kernel, [chip for chip in chip_names() if _is_emulated(chip)])
    code = compile_device(named_kernel(kernel), make_target(target))
    with scratch() as place:
        return _run(export_device(code, place / "kernel"), sizes or {}, seed, order)


def _is_emulated(chip: str) -> bool:
    return not emulated_obstacle(gpu_chip(chip).kind, chip)


def _run(folder: Path, sizes: Mapping[str, int], seed: int, order: int) -> Emulated:
    manifest = json.loads((folder / "manifest.json").read_text())
    kind, chip = str(manifest["target"]["kind"]), chip_of(manifest["target"])
    driver = emulated_driver(kind, chip, seed=seed, order=order, inputs_stay=False)
    kernels = Kernels(folder, library=driver)
    arguments = _arguments(kernels.plan, sizes, np.random.default_rng(seed))
    findings: tuple[Fault, ...] = ()
    try:
        kernels(*arguments.values())
    except EmulationError:
        findings = tuple(driver.device.memory.findings.all())
        if not findings:
            raise
    arrays = {name: one for name, one in arguments.items() if isinstance(one, np.ndarray)}
    return Emulated(chip, driver.launches, findings, _executed(driver), arrays)


def _executed(driver: EmulatedDriver) -> dict[str, int]:
    return dict(driver.device.executed.most_common())


def _arguments(
    plan: Mapping[str, Any], sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, Any]:
    """Random arrays, small integers of their types, and the numbers that were given."""
    given: dict[str, Any] = {}
    for one in plan["parameters"]:
        name = one["name"]
        try:
            if "shape" not in one:
                given[name] = sizes[name]
                continue
            shape = [number(extent, dict(sizes)) for extent in one["shape"]]
        except (KeyError, NameError) as error:
            missing = str(error).split("'")[1]
            raise EmulationError(f"the kernel takes a number {missing}; give {missing}=N") from None
        kind = numpy_type(one["dtype"])
        values = rng.integers(0, 4, shape)
        is_float = one["dtype"].startswith("bfloat16")
        given[name] = (values << 7 | 0x3F80 if is_float else values).astype(kind)
    return given
