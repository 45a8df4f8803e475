"""Test suites of ONNX, PyTorch and JAX through our front doors: see docs/conformance.md."""

from typing import TYPE_CHECKING

from tvm_iree_ext.base.lazy import on_demand

if TYPE_CHECKING:
    from tvm_iree_ext.conformance import conformance_report
    from tvm_iree_ext.conformance.outcomes import KINDS, Outcome, SuiteCase
    from tvm_iree_ext.conformance.running import chosen, run
    from tvm_iree_ext.conformance.suite import SUITES, suite_named

__all__ = [
    "KINDS",
    "SUITES",
    "Outcome",
    "SuiteCase",
    "chosen",
    "conformance_report",
    "run",
    "suite_named",
]

_MODULES = {
    "outcomes": ("KINDS", "SuiteCase", "Outcome"),
    "running": ("chosen", "run"),
    "suite": ("SUITES", "suite_named"),
}

__getattr__, __dir__ = on_demand(globals(), __all__, _MODULES)
