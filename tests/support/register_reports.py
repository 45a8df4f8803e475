"""What compilers report of the kernel of a function that takes the most registers."""

import pytest
from tvm import tirx
from tvm.target import Target

from tvm_iree_ext.codegen.gpu.device_code import KernelResources, compile_device, device_tools


def report(func: tirx.PrimFunc, target: Target) -> KernelResources:
    """The report; skips the test where there is no compiler that gives one."""
    if target.kind.name == "cuda" and "ptxas" not in device_tools(target):
        pytest.skip("no ptxas")
    code = compile_device(func, target)
    return max(code.resources.values(), key=lambda used: used.registers)
