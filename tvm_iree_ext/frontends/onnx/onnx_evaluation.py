"""Single nodes of ONNX computed by ``onnx`` itself, for values that are known before a call."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST_ELEMENTS = 4096
"""Of a value that is computed so: axes, extents, positions, and small tables."""

_LEFT = (
    *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
    "RandomUniformLike",
)


def evaluated(
    node: Any, opsets: Sequence[Any], given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """The results of a node by name; None where ``onnx`` does not compute them.

    ``given`` has its inputs.  Nodes with graphs inside, and those that draw numbers, are left.
    """
    import onnx.reference

    if node.op_type in _LEFT or any(one.HasField("g") or one.graphs for one in node.attribute):
        return None
    unknown = onnx.TypeProto()
    graph = onnx.helper.make_graph(
        [node],
        "node",
        [onnx.helper.make_value_info(name, unknown) for name in given],
        [onnx.helper.make_value_info(name, unknown) for name in node.output if name],
    )
    try:
        run = onnx.reference.ReferenceEvaluator(
            onnx.helper.make_model(graph, opset_imports=list(opsets))
        )
        results = [np.asarray(one) for one in run.run(None, dict(given))]
    except Exception:  # of any kind: then it is left to the front end
        return None
    if any(one.dtype.kind in "OU" for one in results):
        return None
    return dict(zip(filter(None, node.output), results, strict=True))


def is_of_extents(node: Any) -> bool:
    """Whether a node gives what the extents of its operand alone say."""
    return node.op_type in ("Shape", "Size") and not node.domain


def of_extents(shape: Sequence[int]) -> np.ndarray:
    """An array of these extents, which stands for the operand of such a node."""
    return np.broadcast_to(np.zeros((), "bool"), shape)
