"""Tuning: trials of lowering configs, and the records that are kept of them."""

from typing import TYPE_CHECKING

from tvm_iree_ext.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.tuning import display, fleet, fleet_address, fleet_device, report
    from tvm_iree_ext.tuning.fleet import FleetMeasurer
    from tvm_iree_ext.tuning.measure import Measurement, Measurer
    from tvm_iree_ext.tuning.records import Database, best
    from tvm_iree_ext.tuning.session import Session, tune
    from tvm_iree_ext.tuning.static_cost import static_cost
    from tvm_iree_ext.tuning.static_measure import StaticMeasurer
    from tvm_iree_ext.tuning.suites import SUITES, program_tasks, suite
    from tvm_iree_ext.tuning.task import EFFORTS, Task

__all__ = [
    "EFFORTS",
    "SUITES",
    "Database",
    "FleetMeasurer",
    "Measurement",
    "Measurer",
    "Session",
    "StaticMeasurer",
    "Task",
    "best",
    "display",
    "fleet",
    "fleet_address",
    "fleet_device",
    "program_tasks",
    "report",
    "static_cost",
    "suite",
    "tune",
]

_HOME = {
    "EFFORTS": "task",
    "SUITES": "suites",
    "Database": "records",
    "FleetMeasurer": "fleet",
    "Measurement": "measure",
    "Measurer": "measure",
    "Session": "session",
    "StaticMeasurer": "static_measure",
    "Task": "task",
    "best": "records",
    "program_tasks": "suites",
    "static_cost": "static_cost",
    "suite": "suites",
    "tune": "session",
}

__getattr__, __dir__ = on_demand(globals(), __all__, _HOME)
