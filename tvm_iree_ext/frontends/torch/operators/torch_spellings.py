"""Nodes of a graph in other words for the same, which need no second tracing."""

from typing import Any

import torch

aten = torch.ops.aten
_ARITHMETIC = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)
_SPELLINGS = {  # of Python's ``a & b`` in a function of the table, which IREE does not lower
    aten.__and__.Tensor: aten.bitwise_and.Tensor,
    aten.__or__.Tensor: aten.bitwise_or.Tensor,
    aten.__xor__.Tensor: aten.bitwise_xor.Tensor,
}
_COMPARISONS = tuple(getattr(aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge"))


def spell_out(graph: Any) -> None:
    """Write what IREE takes for something else, or does not lower, in other words for the same."""
    for node in graph.nodes:
        node.target = _SPELLINGS.get(node.target, node.target)
        if node.target in _COMPARISONS and type(node.args[1]) in (int, bool):
            x, number = node.args  # of constant floats with an integer IREE folds it wrongly
            node.args = (x, float(number) if x.meta["val"].is_floating_point() else number)
    _tell_types_of_numbers(graph)


def _tell_types_of_numbers(graph: Any) -> None:
    """Make numbers in the place of a first tensor, which IREE takes for float32, such of a type."""
    for node in graph.nodes:
        if node.op != "call_function" or len(node.args) < 2 or node.target not in _ARITHMETIC:
            continue
        number, other = node.args[:2]
        if isinstance(number, int | float) and isinstance(other, torch.fx.Node):
            kind = torch.result_type(other.meta["val"], number)
            with graph.inserting_before(node):
                tensor = graph.call_function(aten.full.default, ([], number), {"dtype": kind})
            tensor.meta = {**node.meta, "val": node.meta["val"].new_empty([], dtype=kind)}
            node.args = (tensor, *node.args[1:])
