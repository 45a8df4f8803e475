"""The emulated GPU that a target names, as the library of a driver."""

from collections.abc import Mapping

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.emulator.amd.execution import load_code_object
from tvm_iree_ext.emulator.driver import EmulatedDriver, Loader
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx
from tvm_iree_ext.emulator.runs.emulated_targets import emulated_obstacle
from tvm_iree_ext.targets.gpu import gpu_chip

LOADERS: Mapping[str, Loader] = {"rocm": load_code_object, "cuda": load_ptx}
"""The emulator of each kind of target."""


def emulated_driver(
    kind: str, chip: str, *, seed: int = 0, order: int = 0, inputs_stay: bool = True
) -> EmulatedDriver:
    """A driver with one GPU; see :class:`~tvm_iree_ext.emulator.driver.EmulatedDriver`.

    Raises:
        TargetError: for a chip that is not emulated.
    """
    if why := emulated_obstacle(kind, chip):
        raise TargetError(why)
    return EmulatedDriver(
        kind,
        chip,
        LOADERS[kind],
        seed=seed,
        order=order,
        shared_bytes=gpu_chip(chip).shared_memory_bytes,
        inputs_stay=inputs_stay,
    )
