"""Records of tuning: a line of JSON each, where they lie, and which an op gets."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.records import record_files
    from tvm_iree_ext.records.record import Record, shape_text
    from tvm_iree_ext.records.record_list import RecordList

__all__ = [
    "Record",
    "RecordList",
    "record_files",
    "shape_text",
]

_MODULES = {
    "record": ("Record", "shape_text"),
    "record_list": ("RecordList",),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
