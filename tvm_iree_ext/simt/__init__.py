"""A simulator of lowered GPU kernels: what they compute, what they do wrong, what accesses cost."""

from tvm_iree_ext.simt.findings import KINDS, Finding
from tvm_iree_ext.simt.launch import Simulation, device_functions, simulate
from tvm_iree_ext.simt.mbarrier import TensorMap
from tvm_iree_ext.simt.picture import access_picture
from tvm_iree_ext.simt.report import report_data, report_text
from tvm_iree_ext.simt.traffic import Access, Hardware

__all__ = [
    "KINDS",
    "Access",
    "Finding",
    "Hardware",
    "Simulation",
    "TensorMap",
    "access_picture",
    "device_functions",
    "report_data",
    "report_text",
    "simulate",
]
