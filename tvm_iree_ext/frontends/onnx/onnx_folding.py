"""What a model of ONNX computes from constants and extents alone, computed by ``onnx``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_evaluation import (
    MOST_ELEMENTS,
    evaluated,
    is_of_extents,
    of_extents,
)
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, typed
from tvm_iree_ext.frontends.onnx.onnx_rewriting import NotRewritten, Values


def folded(model: OnnxModel) -> OnnxModel | None:
    """The model with such values as constants, and branches taken whose conditions are such.

    None where there is none.
    """
    proto = copied(model.proto)
    values = Values(model)
    found: dict[str, np.ndarray] = {}
    nodes, count = [], 0
    for node in proto.graph.node:
        branch = _branch(node, values, found)
        if branch is not None:
            nodes += branch
            count += 1
            continue
        results = _computed(node, proto.opset_import, values, found)
        if results is None:
            nodes.append(node)
            continue
        count += 1
        for name, array in results.items():
            found[name] = array
            nodes.append(_constant(name, array))
    if not count:
        return None
    copies = [copied(node) for node in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(copies)
    return replace(model, proto=typed(proto))


def _constant(name: str, array: np.ndarray) -> Any:
    import onnx

    tensor = onnx.numpy_helper.from_array(array, name)
    return onnx.helper.make_node("Constant", [], [name], f"Constant {name}", value=tensor)


def _value(name: str, values: Values, found: dict[str, np.ndarray]) -> np.ndarray:
    array = found[name] if name in found else values.constant(name)
    if array.size > MOST_ELEMENTS:
        raise NotRewritten(f"{name} has {array.size} elements")
    return array


def _computed(
    node: Any, opsets: Any, values: Values, found: dict[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """The results of a node by name; None where they are not known here."""
    if node.op_type == "Constant":
        return None
    try:
        if is_of_extents(node):
            given = {node.input[0]: of_extents(values.shape(node.input[0]))}
        else:
            given = {name: _value(name, values, found) for name in node.input if name}
    except NotRewritten:
        return None
    results = evaluated(node, opsets, given)
    if results is None or any(one.size > MOST_ELEMENTS for one in results.values()):
        return None
    return results


def _branch(node: Any, values: Values, found: dict[str, np.ndarray]) -> list[Any] | None:
    """The nodes of the branch of an ``If`` whose condition is known."""
    import onnx

    if node.op_type != "If":
        return None
    try:
        taken = bool(_value(node.input[0], values, found).item())
    except NotRewritten:
        return None
    wanted = "then_branch" if taken else "else_branch"
    (graph,) = (one.g for one in node.attribute if one.name == wanted)
    nodes = [_constant(one.name, onnx.numpy_helper.to_array(one)) for one in graph.initializer]
    nodes += graph.node
    for one, output in zip(graph.output, node.output, strict=True):
        nodes.append(onnx.helper.make_node("Identity", [one.name], [output], f"If {output}"))
    return nodes
