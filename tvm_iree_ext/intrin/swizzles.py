"""Which shared buffers of a function have their columns permuted; lowering does it."""

from collections.abc import Mapping
from dataclasses import astuple

from tvm import tirx

from tvm_iree_ext.layout.analysis import Swizzle

SWIZZLES = "tvm_iree_ext.swizzles"
"""The attribute: buffer name -> (row_elements, access_elements, per_phase)."""


def with_swizzles(func: tirx.PrimFunc, swizzles: Mapping[str, Swizzle]) -> tirx.PrimFunc:
    """The function with its shared buffers of these names swizzled when it is lowered."""
    numbers = {name: list(astuple(one)) for name, one in swizzles.items()}
    return func.with_attr(SWIZZLES, numbers)
