"""Nodes of a model of ONNX that are written one by one, and what is known of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_evaluation import evaluated
from tvm_iree_ext.frontends.onnx.onnx_graphs import graphs_of

_MOST_KNOWN = 4096  # elements of a value that positions and conditions are computed from


class KnownNodes:
    """The nodes that a model is to have: of its graph, and of graphs inside it while those grow.

    ``inputs`` are its inputs so far: ``ValueInfoProto``.
    """

    def __init__(self, proto: Any) -> None:
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
        self._known: dict[str, np.ndarray] = {
            one.name: onnx.numpy_helper.to_array(one) for one in proto.graph.initializer
        }
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
        if name not in self._known:
            node = self._makers.get(name)
            if node is None:
                return None
            if node.op_type in ("Shape", "Size"):
                extents = self.extents(node.input[0])
                shape = [extent for extent in extents or [] if extent is not None]
                if extents is None or len(shape) < len(extents):
                    return None
                given = {node.input[0]: np.broadcast_to(np.zeros((), "bool"), shape)}
            else:
                values = {one: self.value(one) for one in node.input if one}
                given = {one: array for one, array in values.items() if array is not None}
                if len(given) < len(values):
                    return None
            results = evaluated(node, self._opsets, given)
            if results is None:
                return None
            self._known |= results
        array = self._known[name]
        return array if array.size <= _MOST_KNOWN else None

    def extents(self, name: str) -> list[int | None] | None:
        """The extents of a tensor, as far as they are known."""
        import onnx

        nodes = [node for several in self.written for node in several]
        inputs = list({one.name: one for one in self.inputs}.values())
        graph = onnx.helper.make_graph(
            nodes, "so far", inputs, [], list(self._proto.graph.initializer)
        )
        model = onnx.helper.make_model(graph, opset_imports=self._opsets)
        model.ir_version = self._proto.ir_version
        found = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        for one in (*found.input, *found.value_info):
            if one.name == name and one.type.tensor_type.HasField("shape"):
                axes = one.type.tensor_type.shape.dim
                return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]
        known = self._known.get(name)
        return None if known is None else list(known.shape)
