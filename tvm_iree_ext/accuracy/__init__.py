"""Elementary functions measured in units in the last place, beside other libraries."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.accuracy import accuracy_report
    from tvm_iree_ext.accuracy.error_pictures import draw_errors
    from tvm_iree_ext.accuracy.functions import TYPES, named
    from tvm_iree_ext.accuracy.measuring import measure, measured_type

__all__ = ["TYPES", "accuracy_report", "draw_errors", "measure", "measured_type", "named"]

_MODULES = {
    "error_pictures": ("draw_errors",),
    "functions": ("TYPES", "named"),
    "measuring": ("measure", "measured_type"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
