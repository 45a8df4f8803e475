"""A simulator of lowered GPU kernels: what they compute, what they do wrong, what accesses cost."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.simulator.access_picture import access_picture
    from tvm_iree_ext.simulator.base.findings import KINDS, Finding
    from tvm_iree_ext.simulator.base.traffic import Hardware, StatementTraffic
    from tvm_iree_ext.simulator.machine.memory_barriers import TensorMap
    from tvm_iree_ext.simulator.runs.simulated_ops import (
        simulate_function,
        simulate_kernel,
        simulate_op,
    )
    from tvm_iree_ext.simulator.runs.simulated_programs import simulate_program
    from tvm_iree_ext.simulator.simulated_launch import Simulation, device_functions, simulate
    from tvm_iree_ext.simulator.simulation_report import report_data, report_text
    from tvm_iree_ext.simulator.simulation_svg import simulation_svg

__all__ = [
    "KINDS",
    "Finding",
    "Hardware",
    "Simulation",
    "StatementTraffic",
    "TensorMap",
    "access_picture",
    "device_functions",
    "report_data",
    "report_text",
    "simulate",
    "simulate_function",
    "simulate_kernel",
    "simulate_op",
    "simulate_program",
    "simulation_svg",
]

_MODULES = {
    "access_picture": ("access_picture",),
    "base.findings": ("KINDS", "Finding"),
    "base.traffic": ("StatementTraffic", "Hardware"),
    "machine.memory_barriers": ("TensorMap",),
    "runs.simulated_ops": ("simulate_function", "simulate_kernel", "simulate_op"),
    "runs.simulated_programs": ("simulate_program",),
    "simulated_launch": ("Simulation", "device_functions", "simulate"),
    "simulation_report": ("report_data", "report_text"),
    "simulation_svg": ("simulation_svg",),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
