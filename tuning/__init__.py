"""Tuning: trials of lowering configs, and the records that are kept of them."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.tuning import display, report
    from tvm_iree_ext.tuning.base.record_database import Database, best
    from tvm_iree_ext.tuning.base.task import EFFORTS, Task
    from tvm_iree_ext.tuning.fleet import fleet_address, fleet_device, fleet_measurer
    from tvm_iree_ext.tuning.fleet.fleet_measurer import FleetMeasurer
    from tvm_iree_ext.tuning.measuring.measurer import Measurement, Measurer
    from tvm_iree_ext.tuning.search.metaschedule_records import write_metaschedule
    from tvm_iree_ext.tuning.session import Session, tune
    from tvm_iree_ext.tuning.static.static_cost import static_cost
    from tvm_iree_ext.tuning.static.static_measurer import StaticMeasurer
    from tvm_iree_ext.tuning.suites import SUITES, program_tasks, suite

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
    "fleet_address",
    "fleet_device",
    "fleet_measurer",
    "program_tasks",
    "report",
    "static_cost",
    "suite",
    "tune",
    "write_metaschedule",
]

_MODULES = {
    "base.record_database": ("Database", "best"),
    "base.task": ("EFFORTS", "Task"),
    "fleet.fleet_address": ("fleet_address",),
    "fleet.fleet_device": ("fleet_device",),
    "fleet.fleet_measurer": ("FleetMeasurer", "fleet_measurer"),
    "measuring.measurer": ("Measurement", "Measurer"),
    "search.metaschedule_records": ("write_metaschedule",),
    "session": ("Session", "tune"),
    "static.static_cost": ("static_cost",),
    "static.static_measurer": ("StaticMeasurer",),
    "suites": ("SUITES", "program_tasks", "suite"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
