"""PrimFunc attributes by which a schedule tells the GPU pipeline how to lower its kernel."""

from collections.abc import Mapping
from dataclasses import astuple

from tvm import tirx

from tvm_iree_ext.layout.analysis import Swizzle

OWN_BARRIERS = "tvm_iree_ext.own_barriers"
"""TVM adds no barriers between the kernel's accesses to shared memory."""

EXACT_BUFFERS = "tvm_iree_ext.exact_buffers"
"""The kernel accesses all of each buffer that it allocates: none is cut."""

SWIZZLES = "tvm_iree_ext.swizzles"
"""Shared buffers whose columns are permuted: name -> (row_elements, access_elements, per_phase)."""


def with_swizzles(func: tirx.PrimFunc, swizzles: Mapping[str, Swizzle]) -> tirx.PrimFunc:
    """The function with its shared buffers of these names swizzled when it is lowered."""
    numbers = {name: list(astuple(one)) for name, one in swizzles.items()}
    return func.with_attr(SWIZZLES, numbers)
