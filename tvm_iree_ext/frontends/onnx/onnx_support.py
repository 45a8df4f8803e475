"""Which nodes of a model of ONNX are taken, by which front end, and which are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.base.model_support import ModelSupport, NodeSupport
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, Shapes, typed
from tvm_iree_ext.frontends.onnx.onnx_models import taken_by
from tvm_iree_ext.frontends.onnx.onnx_reading import read_model
from tvm_iree_ext.frontends.onnx.onnx_rewriting import NotRewritten, Values

_MOST = 4096  # elements of a constant that is part of a node's key


def support_onnx(
    model: Any, *, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None
) -> ModelSupport:
    """Say what becomes of each node of a model, without building anything.

    The model is imported as a whole.  Where no front end takes it, each node is tried alone, with
    the types that ``onnx`` infers for its inputs, and with its constants.

    Args:
        model: as of :func:`tvm_iree_ext.frontends.onnx.onnx_models.from_onnx`, as are the others.

    Raises:
        OnnxError: where ``onnx`` is not installed, and for what is no valid model.
    """
    read = read_model(model, shapes, constants)
    nodes = [node for node in read.proto.graph.node if node.op_type != "Constant"]
    try:
        front_end, _, final = taken_by(read)
    except OnnxError as error:
        return ModelSupport(tuple(_each_alone(read, nodes)), reason=str(error))
    kept = {(node.name, node.op_type) for node in final.nodes()}
    return ModelSupport(
        tuple(
            NodeSupport(
                node.name,
                node.op_type,
                "taken" if (node.name, node.op_type) in kept else "replaced",
                front_end,
            )
            for node in nodes
        ),
        front_end,
    )


def _each_alone(model: OnnxModel, nodes: list[Any]) -> Iterator[NodeSupport]:
    values = Values(model)
    known: dict[bytes, NodeSupport] = {}
    for node in nodes:
        try:
            alone = _alone(model, node, values)
        except NotRewritten as unknown:
            yield NodeSupport(node.name, node.op_type, "refused", reason=f"not tried: {unknown}")
            continue
        key = _key(alone)
        if key not in known:
            known[key] = _tried(alone, node)
        yield replace(known[key], name=node.name)


def _tried(alone: OnnxModel, node: Any) -> NodeSupport:
    try:
        front_end, _, final = taken_by(alone)
    except OnnxError as error:
        reason = str(error).partition("\n")[2]
        return NodeSupport(node.name, node.op_type, "refused", reason=reason)
    is_kept = any(one.op_type == node.op_type for one in final.nodes())
    return NodeSupport(node.name, node.op_type, "taken" if is_kept else "replaced", front_end)


def _alone(model: OnnxModel, node: Any, values: Values) -> OnnxModel:
    """A model of one node: its constants are constants, all else that it reads is an input."""
    import onnx

    inputs, initial, weights = [], [], {}
    for name in _read(node):
        try:
            array = values.constant(name)
        except NotRewritten:
            inputs.append(values.described(name))
            continue
        if name in model.weights:
            weights[name] = array
            inputs.append(values.described(name))
        else:
            initial.append(onnx.numpy_helper.from_array(array, name))
    outputs = [onnx.helper.make_value_info(one, onnx.TypeProto()) for one in node.output if one]
    graph = onnx.helper.make_graph([node], model.proto.graph.name, inputs, outputs, initial)
    proto = onnx.helper.make_model(graph, opset_imports=list(model.proto.opset_import))
    proto.ir_version = model.proto.ir_version
    proto = typed(proto)
    for output in proto.graph.output:
        if not output.type.tensor_type.elem_type:
            raise NotRewritten(f"the type of {output.name} is not known")
    return OnnxModel(proto, weights)


def _read(node: Any) -> list[str]:
    """The values that a node reads, those of graphs inside it, too; each once."""
    names = dict.fromkeys(filter(None, node.input))
    for attribute in node.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            made = {one.name for one in (*graph.input, *graph.initializer)}
            made |= {name for inner in graph.node for name in inner.output}
            outer = (name for inner in graph.node for name in _read(inner) if name not in made)
            names |= dict.fromkeys(outer)
            names |= {one.name: None for one in graph.output if one.name not in made}
    return list(names)


def _key(alone: OnnxModel) -> bytes:
    """What two nodes share that are alike but for names."""
    proto = type(alone.proto)()
    proto.CopyFrom(alone.proto)
    (node,) = proto.graph.node
    numbers: dict[str, str] = {}
    for name in [*_read(node), *node.output]:
        numbers.setdefault(name, str(len(numbers)))
    node.name = ""
    if not any(one.HasField("g") or one.graphs for one in node.attribute):
        for names in (node.input, node.output):
            names[:] = [numbers[name] if name else "" for name in names]
        for one in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
            one.name = numbers[one.name]
    weights = {numbers.get(name, name): _digest(array) for name, array in alone.weights.items()}
    return (
        bytes(proto.SerializeToString(deterministic=True)) + repr(sorted(weights.items())).encode()
    )


def _digest(array: np.ndarray) -> tuple[Any, ...]:
    return array.shape, str(array.dtype), array.tobytes() if array.size <= _MOST else b""
