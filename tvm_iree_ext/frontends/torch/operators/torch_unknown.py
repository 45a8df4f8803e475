"""PyTorch's operators that IREE's torch dialect has not, by PyTorch's own decompositions.

A program that holds such an operator would be refused as a whole, and then be traced and lowered
anew with all of its operators decomposed: which takes three times as long, and leaves less to see.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
RECURRENT = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)
"""Layers that IREE has none of, whose programs are decomposed as a whole."""


@functools.cache
def unknown() -> dict[Any, Callable[..., Any]]:
    """These operators, each with what PyTorch computes it by."""
    from iree.compiler import ir

    context = ir.Context()  # which knows the dialects of IREE's compiler
    return {
        operator: decomposition
        for operator, decomposition in torch.export.default_decompositions().items()
        if getattr(operator, "namespace", "") == "aten"
        and operator not in RECURRENT
        and all("Tensor" in str(result.type) for result in operator._schema.returns)  # no extents
        and not context.is_registered_operation(_name(operator._schema))
    }


def _name(schema: Any) -> str:
    """What an operator is called in the torch dialect."""
    name = f"torch.{schema.name.replace('::', '.')}"
    return f"{name}.{schema.overload_name}" if schema.overload_name else name
