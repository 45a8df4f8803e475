"""JAX's arrays of callers: which of them have elements, and results that are such."""

import sys
from typing import Any

from tvm_iree_ext.base.errors import CallError


def is_jax(value: Any) -> bool:
    """Whether it is an array of JAX's, traced or not; JAX is not imported for that."""
    jax = sys.modules.get("jax")
    return jax is not None and hasattr(jax, "Array") and isinstance(value, jax.Array)


def check_not_traced(name: str, value: Any) -> None:
    """Raise CallError for an array that JAX traces, which has no elements in memory."""
    if is_jax(value) and isinstance(value, sys.modules["jax"].core.Tracer):
        raise CallError(
            f"{name} is traced by JAX and has no elements in memory; within what is traced take"
            " the function that jax_fn gives"
        )


def as_jax(tensor: Any) -> Any:
    """An array over the memory of a tensor of TVM's, or, where that is misaligned, a copy."""
    return sys.modules["jax"].numpy.from_dlpack(tensor)
