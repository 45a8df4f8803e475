"""Tuning: trials of lowering configs, and the records that are kept of them."""

from typing import TYPE_CHECKING

from tvm_iree_ext.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.tuning.measure import Measurement, Measurer
    from tvm_iree_ext.tuning.records import Database, best

__all__ = [
    "Database",
    "Measurement",
    "Measurer",
    "best",
]

_HOME = {
    "Database": "records",
    "Measurement": "measure",
    "Measurer": "measure",
    "best": "records",
}

__getattr__, __dir__ = on_demand(globals(), __all__, _HOME)
