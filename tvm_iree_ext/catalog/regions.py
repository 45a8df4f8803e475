"""Regions over arrays, for references: from the same text that an op's region was traced from."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import expression
from tvm_iree_ext.errors import OpError
from tvm_iree_ext.ops.regions import Region

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "max": np.maximum,
    "min": np.minimum,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "select": np.where,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def numpy_region(op: str, region: Region) -> Callable[..., Any]:
    """The region as a function over arrays.

    Raises:
        OpError: for a region given as a Python callable, which knows TIR expressions only.
    """
    text = region.source
    if text is None:
        raise OpError(f"{op}: the reference needs the region as text, such as 'tanh(arg0)'")

    def call(*arguments: Any) -> Any:
        names = {f"arg{i}": argument for i, argument in enumerate(arguments)}
        return expression.evaluate(text, names, FUNCTIONS)

    return call
