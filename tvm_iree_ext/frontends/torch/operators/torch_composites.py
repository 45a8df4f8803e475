"""PyTorch's operators that are made of others, which IREE's front end does not see through."""

from typing import Any

import torch

from tvm_iree_ext.frontends.torch.operators import torch_transforms

aten = torch.ops.aten
_COMPOSITE = (
    *("linalg_cond", "linalg_matrix_norm", "linalg_matrix_power", "linalg_matrix_rank"),
    *("linalg_multi_dot", "linalg_norm", "linalg_pinv", "linalg_tensorsolve", "linalg_vander"),
    *("matrix_power", "nuclear_norm", "pinverse"),
)


def in_parts(program: Any, known: Any) -> Any:
    """An exported program with the parts of such operators, those that are ``known`` left whole."""
    foreign = {
        node.target
        for node in program.graph.nodes
        if torch_transforms.is_foreign(node) or (node.target not in known and _is_composite(node))
    }
    if not foreign:
        return program
    every = torch.export.default_decompositions().items()  # a table that takes a while
    parts = {
        operator: one
        for operator, one in every
        if operator in foreign or (operator not in known and _is_named(operator))
    }
    return program.run_decompositions(parts) if foreign & {*parts} else program


def _is_composite(node: Any) -> bool:
    return node.op == "call_function" and _is_named(node.target)


def _is_named(operator: Any) -> bool:
    packet = getattr(operator, "overloadpacket", None)
    return getattr(packet, "__name__", "") in _COMPOSITE
