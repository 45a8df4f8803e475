"""A day with a GPU: one archive with kernels, operands and right results, run where a driver is.

Made here; what runs there, by Python and NumPy alone, is :mod:`tvm_iree_ext.on_gpu`.
"""

from tvm_iree_ext.gpu_day.archive import PackOrder, pack, speed_names
from tvm_iree_ext.gpu_day.large_checks import large_checks
from tvm_iree_ext.gpu_day.packed_checks import Packed
from tvm_iree_ext.gpu_day.packed_models import model_names

__all__ = ["PackOrder", "Packed", "large_checks", "model_names", "pack", "speed_names"]
