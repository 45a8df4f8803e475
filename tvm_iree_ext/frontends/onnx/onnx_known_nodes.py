"""Nodes of a model of ONNX that are written one by one, and what is known of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_evaluation import (
    MOST_ELEMENTS,
    evaluated,
    is_of_extents,
    of_extents,
)
from tvm_iree_ext.frontends.onnx.onnx_graphs import graphs_of


class KnownNodes:
    """The nodes that a model is to have: of its graph, and of graphs inside it while those grow.

    ``inputs`` are its inputs so far: ``ValueInfoProto``; ``weights`` its constants beside it.
    """

    def __init__(self, proto: Any, weights: Mapping[str, np.ndarray]) -> None:
        import onnx

        self.written: list[list[Any]] = [[]]
        self.inputs: list[Any] = []
        self._proto = proto
        self._names = {
            name
            for graph in graphs_of(proto.graph)
            for name in (
                *(one.name for one in (*graph.input, *graph.initializer)),
                *(name for node in graph.node for name in node.output),
            )
        }
        self._makers: dict[str, Any] = {}
        self._known: dict[str, np.ndarray] = dict(weights)
        for one in proto.graph.initializer:
            self._known[one.name] = onnx.numpy_helper.to_array(one)
        self._unknown: set[str] = set()
        self._extents: dict[str, list[int | None]] = {}
        self._opsets = list(proto.opset_import)

    def fresh(self, name: str) -> str:
        """A name like this that no value has."""
        now, number = name, 0
        while now in self._names:
            number += 1
            now = f"{name}_{number}"
        self._names.add(now)
        return now

    def append(self, node: Any) -> None:
        """Take a node behind those of the innermost graph."""
        self.written[-1].append(node)
        self._makers |= dict.fromkeys(filter(None, node.output), node)

    def write(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **said: Any) -> None:
        """Write a node whose results have these names."""
        import onnx

        self.append(onnx.helper.make_node(op, list(inputs), list(outputs), **said))

    def node(self, op: str, *inputs: str, **said: Any) -> str:
        """Write a node of one result, and return its name."""
        name = self.fresh(f"{op} of a sequence")
        self.write(op, inputs, [name], **said)
        return name

    def constant(self, array: Any) -> str:
        """Write a constant, and return its name."""
        import onnx

        array = np.asarray(array)
        name = self.node("Constant", value=onnx.numpy_helper.from_array(array))
        self._known[name] = array
        return name

    def value(self, name: str) -> np.ndarray | None:
        """The value of a tensor; None where it hangs on what a call gives, or is large."""
        wanted = [name]
        while wanted:
            one = wanted[-1]
            if one in self._known or one in self._unknown:
                wanted.pop()
                continue
            node = self._makers.get(one)
            missing = [] if node is None or is_of_extents(node) else self._missing(node)
            if missing:
                wanted += missing
                continue
            results = None if node is None else self._evaluated(node)
            if results is None:
                self._unknown.add(one)
            else:
                self._known |= results
        array = self._known.get(name)
        return array if array is not None and array.size <= MOST_ELEMENTS else None

    def _missing(self, node: Any) -> list[str]:
        """The operands of a node that were not asked for yet."""
        return [
            one for one in node.input if one and not (one in self._known or one in self._unknown)
        ]

    def _evaluated(self, node: Any) -> dict[str, np.ndarray] | None:
        """The results of a node by name, where its operands, or their extents, are known."""
        if is_of_extents(node):
            extents = self.extents(node.input[0])
            shape = [extent for extent in extents or [] if extent is not None]
            if extents is None or len(shape) < len(extents):
                return None
            given = {node.input[0]: of_extents(shape)}
        else:
            given = {one: self._known[one] for one in node.input if one in self._known}
            if any(one and one not in given for one in node.input):
                return None
            if any(array.size > MOST_ELEMENTS for array in given.values()):
                return None
        return evaluated(node, self._opsets, given)

    def extents(self, name: str) -> list[int | None] | None:
        """The extents of a tensor, as far as they are known."""
        import onnx

        if name not in self._extents:
            nodes = [node for several in self.written for node in several]
            inputs = list({one.name: one for one in self.inputs}.values())
            graph = onnx.helper.make_graph(
                nodes, "so far", inputs, [], list(self._proto.graph.initializer)
            )
            model = onnx.helper.make_model(graph, opset_imports=self._opsets)
            model.ir_version = self._proto.ir_version
            found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
            for one in (*found.input, *found.value_info):
                if one.type.tensor_type.HasField("shape"):
                    axes = one.type.tensor_type.shape.dim
                    self._extents[one.name] = [
                        axis.dim_value if axis.HasField("dim_value") else None for axis in axes
                    ]
        known = self._known.get(name)
        if name in self._extents:
            return self._extents[name]
        return None if known is None else list(known.shape)
