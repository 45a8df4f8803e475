"""Compilers' output for GPU kernels: hot loops, spills, a kernel for a reader."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.inspection import hot_loop_counts, hot_loop_times, hot_loops, resource_sweep
    from tvm_iree_ext.inspection.inspected_kernel import (
        inspect_kernel,
        inspect_op,
        report_data,
        report_text,
    )

__all__ = [
    "hot_loop_counts",
    "hot_loop_times",
    "hot_loops",
    "inspect_kernel",
    "inspect_op",
    "report_data",
    "report_text",
    "resource_sweep",
]

_MODULES = {
    "inspected_kernel": ("inspect_kernel", "inspect_op", "report_data", "report_text"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
