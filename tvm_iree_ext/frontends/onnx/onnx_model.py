"""Models of ONNX as front ends take them: read, checked, with types of all values.

Large constants stand beside the model as arrays, and in it as inputs: so the tools of the package
``onnx``, which pass models on as bytes, take it however large its weights are.  ``onnx`` is
imported when it is asked for: ``pip install 'tvm-iree-ext[onnx]'``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx.onnx_definitions import by_definitions
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied, graphs_of

ENTRY = "main"
"""The name of the function that a model becomes."""

Extents: TypeAlias = Sequence[int | str | None]
"""Of a tensor: numbers, or names and None for what a call says."""

Shapes: TypeAlias = Mapping[str, Extents | Sequence[Extents] | None]
"""Extents of inputs by name; of a sequence those of each tensor, of an absent option None."""


@dataclass(frozen=True)
class OnnxModel:
    """A ``ModelProto`` without its large constants, which are ``weights`` and inputs of it."""

    proto: Any
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def inputs(self) -> list[Any]:
        """What a caller gives, in order: ``ValueInfoProto``."""
        return [one for one in self.proto.graph.input if one.name not in self.weights]

    def whole(self) -> Any:
        """A ``ModelProto`` that holds all of its constants."""
        import onnx

        proto = copied(self.proto)
        given = [copied(one) for one in self.inputs]
        del proto.graph.input[:]
        proto.graph.input.extend(given)
        proto.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items()
        )
        return proto

    def functions(self) -> set[str]:
        """The operators of ONNX in it that ONNX defines by others, in graphs inside nodes, too."""
        return {node.op_type for node in self.nodes() if _is_function(node)}

    def graphs(self) -> Iterator[Any]:
        """Its graph, and those inside nodes: ``GraphProto``."""
        return graphs_of(self.proto.graph)

    def nodes(self) -> Iterator[Any]:
        """The nodes of all of these: ``NodeProto``."""
        return (node for graph in self.graphs() for node in graph.node)

    def expanded(self, names: Collection[str]) -> OnnxModel | None:
        """The model with the operators of these names replaced by what ONNX defines them by.

        None where ``onnx`` does not know the types that a definition hangs on, or has none.
        """
        try:
            proto = by_definitions(self.proto, names)
        except (RuntimeError, OnnxError):
            return None
        return replace(self, proto=typed(proto))


def typed(proto: Any) -> Any:
    """The model with the types and shapes of all values that follow, and all nodes named."""
    import onnx

    proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    for node in (node for graph in graphs_of(proto.graph) for node in graph.node):
        node.name = node.name or f"{node.op_type} {next(filter(None, node.output), '')}".strip()
    return proto


def _is_function(node: Any) -> bool:
    import onnx

    if not onnx.defs.has(node.op_type, node.domain):
        return False
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    return schema.has_function or schema.has_context_dependent_function
