"""Models of ONNX whose values of narrow types are words of 8 bits, which both front ends take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvm_iree_ext.frontends.onnx.onnx_graphs import copied
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, typed
from tvm_iree_ext.frontends.onnx.onnx_narrow import (
    FLOATS,
    WORDS,
    converted,
    name_of,
    number_of,
    source_of,
    wrapped,
)
from tvm_iree_ext.frontends.onnx.onnx_quantized import dequantize, quantize
from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Rewrite,
    Values,
    Writer,
)

_MOVES = {  # operators that move numbers, whatever they are
    *("Compress", "Concat", "Constant", "DepthToSpace", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "If", "Loop", "Reshape", "ReverseSequence"),
    *("Scan", "Shape", "Size", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
    *("Transpose", "Unsqueeze", "Where"),
}


def in_words(model: OnnxModel) -> OnnxModel | None:
    """A model whose values of narrow types are words; None where it has none.

    Also None where another operator takes one than conversions, quantisation, and those that only
    move numbers.
    """
    import onnx

    values = Values(model)
    names = {name for node in model.nodes() for name in (*node.input, *node.output) if name}
    narrow = {name for name in names if _is_narrow(values, name)}
    if not narrow:
        return None
    proto = copied(model.proto)
    graphs = list(replace(model, proto=proto).graphs())
    try:
        for graph in graphs:
            nodes = _wrapped_inputs(graph) if graph is proto.graph else []
            for node in graph.node:
                if narrow.isdisjoint((*node.input, *node.output)):
                    nodes.append(node)
                elif node.op_type in _MOVES:
                    nodes.append(_in_words(node))
                elif node.op_type in _CONVERSIONS:
                    writer = Writer(node, f"{node.output[0]}_words")
                    _CONVERSIONS[node.op_type](node, values, writer)
                    nodes += writer.nodes
                else:
                    return None
            written = [copied(node) for node in nodes]
            del graph.node[:]
            graph.node.extend(written)
    except NotRewritten:
        return None
    for graph in graphs:
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if word := WORDS.get(name_of(kind.elem_type)):
                kind.elem_type = onnx.TensorProto.DataType.Value(word)
        tensors = [_tensor(one) for one in graph.initializer]
        del graph.initializer[:]
        graph.initializer.extend(tensors)
    return replace(model, proto=typed(proto))


def _is_narrow(values: Values, name: str) -> bool:
    try:
        return name_of(values.kind(name)) in WORDS
    except NotRewritten:  # a sequence
        return False


def _tensor(tensor: Any) -> Any:
    """A constant in words, or as it is."""
    import onnx

    name = name_of(tensor.data_type)
    if name not in WORDS:
        return copied(tensor)
    array = onnx.numpy_helper.to_array(tensor)
    array = array.view("u1") if name in FLOATS else array.astype(WORDS[name].lower())
    return onnx.numpy_helper.from_array(array, tensor.name)


def _in_words(node: Any) -> Any:
    """A node that moves numbers; a constant becomes words."""
    if node.op_type != "Constant" or node.attribute[0].name != "value":
        return node
    node = copied(node)
    node.attribute[0].t.CopyFrom(_tensor(node.attribute[0].t))
    return node


def _wrapped_inputs(graph: Any) -> list[Any]:
    """Nodes by which inputs of integers with sign become numbers, where their words are bits."""
    import onnx

    nodes = []
    for value in graph.input:
        name = name_of(value.type.tensor_type.elem_type)
        if name not in ("INT4", "INT2"):
            continue
        own = onnx.helper.make_node("Identity", [], [value.name], name=f"words of {value.name}")
        value.name += "_words"
        write = Writer(own, value.name)
        write.give(wrapped(value.name, name, write))
        nodes += write.nodes
    return nodes


def _cast(node: Any, values: Values, write: Writer) -> None:
    said, x = Attributes(node), node.input[0]
    kind = said("to") if node.op_type == "Cast" else values.kind(node.input[1])
    source = source_of(values.kind(x))
    write.give(converted(number_of(x, values, write), source, kind, said, write))


_CONVERSIONS: Mapping[str, Rewrite] = {
    "Cast": _cast,
    "CastLike": _cast,
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
}
