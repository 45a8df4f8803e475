"""A function with another body, which is the same function where the body is."""

from typing import Any

from tvm import tirx


def with_body(func: tirx.PrimFunc, body: Any) -> tirx.PrimFunc:
    """The function with ``body`` as its body.

    TVM looks through all of a body for each function that is made: most passes change nothing.
    """
    return func if body.same_as(func.body) else func.with_body(body)
