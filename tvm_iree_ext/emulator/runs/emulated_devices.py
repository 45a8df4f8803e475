"""The emulated GPU that a target names, as the library of a driver."""

from collections.abc import Mapping
from importlib.util import find_spec

from tvm_iree_ext.base.errors import TargetError
from tvm_iree_ext.codegen.gpu.cuda import nvrtc_obstacle
from tvm_iree_ext.emulator.amd.chips import CHIPS
from tvm_iree_ext.emulator.amd.execution import load_code_object
from tvm_iree_ext.emulator.driver import EmulatedDriver, Loader
from tvm_iree_ext.emulator.ptx.running.launch import load_ptx
from tvm_iree_ext.targets.gpu import gpu_chip

LOADERS: Mapping[str, Loader] = {"rocm": load_code_object, "cuda": load_ptx}
"""The emulator of each kind of target."""


def emulated_obstacle(kind: str, chip: str, *, builds: bool = False) -> str:
    """Why kernels of a target are not emulated, for a message; empty where they are.

    With ``builds`` they are to be built first, for which PTX needs NVRTC.
    """
    if kind not in LOADERS:
        return f"target {kind} is not emulated; {' and '.join(LOADERS)} are"
    if kind == "cuda" and builds and (why := nvrtc_obstacle()):
        return f"target cuda:{chip} is emulated by its PTX: {why}"
    if kind == "rocm" and find_spec("tinygrad") is None:
        return f"target rocm:{chip} is emulated by tinygrad's tables; install tvm-iree-ext[emulate]"
    if kind == "rocm" and chip not in CHIPS:
        return f"target rocm:{chip} is not emulated; of rocm {', '.join(CHIPS)} are"
    return ""


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
