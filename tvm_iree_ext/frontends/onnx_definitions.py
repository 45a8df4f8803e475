"""Operators of ONNX as functions of a model: for those that ``onnx``'s inliner does not inline.

Its ``inline_schema_functions`` asks for the type of each input, also of one that is left out,
and fails there; the same definitions are taken where they stand as functions in the model.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx_graphs import copied, graphs_of

_DOMAIN = "tvm_iree_ext.definitions"


def with_definitions(proto: Any, names: Collection[str]) -> Any:
    """A copy of a model in which operators of some names are calls of functions that it holds.

    Args:
        proto: a ``ModelProto``, with the types of all values that follow.
        names: of operators of ONNX's own domain.

    Raises:
        OnnxError: where ``onnx`` has no definition for the types of a node.
    """
    import onnx

    copy = copied(proto)
    graphs = list(graphs_of(copy.graph))
    kinds = {}
    for graph in graphs:
        for value in (*graph.input, *graph.value_info, *graph.output):
            kinds[value.name] = value.type
        for tensor in graph.initializer:
            kinds[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    version = next(one.version for one in proto.opset_import if not one.domain)
    functions: dict[str, Any] = {}
    for node in (node for graph in graphs for node in graph.node):
        if node.op_type in names and not node.domain:
            name = f"{node.op_type}_{len(functions)}"
            functions[name] = _definition(node, version, kinds)
            functions[name].domain, functions[name].name = _DOMAIN, name
            node.domain, node.op_type = _DOMAIN, name
    copy.functions.extend(functions.values())
    copy.opset_import.add(domain=_DOMAIN, version=1)
    return copy


def _definition(node: Any, version: int, kinds: Mapping[str, Any]) -> Any:
    """The function of a node, to which attributes that it leaves out are added."""
    import onnx

    schema = onnx.defs.get_schema(node.op_type, version)
    said = {one.name for one in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in said and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
    plain = schema.function_opset_versions
    by_types = schema.context_dependent_function_opset_versions
    of_version = max((one for one in (*plain, *by_types) if one <= version), default=None)
    if of_version is None:
        raise OnnxError(f"{node.op_type} of node {node.name!r} has no definition in ONNX")
    if of_version in plain:
        words = schema.get_function_with_opset_version(of_version)
    else:
        absent = onnx.TypeProto()
        types = [kinds.get(one, absent).SerializeToString() for one in node.input]
        words = schema.get_context_dependent_function_with_opset_version(
            of_version, node.SerializeToString(), types
        )
    function = onnx.FunctionProto()
    function.ParseFromString(words)
    return function
