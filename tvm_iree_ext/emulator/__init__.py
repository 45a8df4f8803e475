"""Machine code for GPUs executed on the CPU: what a driver is asked to launch, and runs here."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.emulator.driver import EmulatedDriver
    from tvm_iree_ext.emulator.findings import KINDS, Fault
    from tvm_iree_ext.emulator.runs.emulated_artifacts import Emulated, emulate_kernel
    from tvm_iree_ext.emulator.runs.emulated_devices import emulated_driver
    from tvm_iree_ext.emulator.runs.emulated_ops import emulate_op, emulated_kernel
    from tvm_iree_ext.emulator.runs.emulated_programs import emulated_program

__all__ = [
    "KINDS",
    "Emulated",
    "EmulatedDriver",
    "Fault",
    "emulate_kernel",
    "emulate_op",
    "emulated_driver",
    "emulated_kernel",
    "emulated_program",
]

_MODULES = {
    "driver": ("EmulatedDriver",),
    "findings": ("KINDS", "Fault"),
    "runs.emulated_artifacts": ("Emulated", "emulate_kernel"),
    "runs.emulated_devices": ("emulated_driver",),
    "runs.emulated_ops": ("emulate_op", "emulated_kernel"),
    "runs.emulated_programs": ("emulated_program",),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
