"""Operators of ONNX as functions of a model, which ``onnx``'s inliner then inlines.

Its own way, ``inline_schema_functions``, fails for a node that leaves an input out, and leaves
defaults of attributes out.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied, graphs_of

_DOMAIN = "tvm_iree_ext.definitions"


def by_definitions(proto: Any, names: Collection[str]) -> Any:
    """A copy of a model in which what ONNX defines operators of some names by stands for them.

    Args:
        proto: a ``ModelProto``, with the types of all values that follow.
        names: of operators of ONNX's own domain.

    Raises:
        OnnxError: where ``onnx`` has no definition for the types of a node.
        RuntimeError: where its inliner fails.
    """
    import onnx.inliner

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
    whole = onnx.inliner.inline_local_functions(copy)
    imports = [copied(one) for one in whole.opset_import if one.domain != _DOMAIN]
    del whole.opset_import[:]
    whole.opset_import.extend(imports)
    return whole


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
    for one in function.opset_import:  # the inliner leaves functions of other versions
        if not one.domain:
            one.version = version
    return function
