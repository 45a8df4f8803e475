"""Models of ONNX as front ends take them: read, checked, with types of all values.

Large constants stand beside the model as arrays, and in it as inputs: so the tools of the package
``onnx``, which pass models on as bytes, take it however large its weights are.  ``onnx`` is
imported when it is asked for: ``pip install 'tvm-iree-ext[onnx]'``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.frontends.onnx.onnx_definitions import by_definitions
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied, graphs_of

ENTRY = "main"
"""The name of the function that a model becomes."""

Shapes: TypeAlias = Mapping[str, Sequence[int | str | None]]
"""Extents of inputs by name: numbers, or names and None for what a call says."""

_LARGE = 1024  # bytes of a constant that stands beside the model
_SIGNED = (*FLOATS, "int8", "int16", "int32", "int64")  # MLIR's own integers have no sign
_IR_VERSION = 10  # from 4 on constants are no inputs; from 8 on models have functions


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


def read_model(
    source: Any,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """Read a model, and give all of its values types and shapes as far as ``onnx`` knows them.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``, which is left as it is.
        shapes: extents of inputs, by name: numbers, or names and None for what a call says.
        constants: arrays of inputs that become constants.

    Raises:
        OnnxError: where ``onnx`` is not installed; for what is no valid model, and for shapes and
            constants of what is no input.
    """
    try:
        import onnx.checker
        import onnx.inliner
        import onnx.shape_inference
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise OnnxError(
            f"onnx is not installed: {error}; pip install 'tvm-iree-ext[onnx]'"
        ) from None
    try:
        proto = _loaded(source)
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto, convert_version=True)
    except (DecodeError, OSError, RuntimeError, onnx.checker.ValidationError) as error:
        name = source if isinstance(source, str | os.PathLike) else "the model"
        raise OnnxError(f"{name} cannot be read: {error}") from None
    graph = proto.graph
    if not graph.node and not graph.output:
        raise OnnxError("the model has no graph: no nodes, and no outputs")
    graph.name = ENTRY
    if all(one.domain for one in proto.opset_import):  # what it is brought to is of ONNX's own
        proto.opset_import.add(domain="", version=onnx.defs.onnx_opset_version())
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    _bind(graph, constants or {})
    _reshape(graph, shapes or {})
    weights = _set_aside(graph)
    _refuse_other_types(graph)
    try:
        onnx.checker.check_model(proto)
        return OnnxModel(typed(proto), weights)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxError(f"the model is not valid: {error}") from None


def _loaded(source: Any) -> Any:
    """A ``ModelProto`` of the caller's source, to be changed."""
    import onnx

    if isinstance(source, onnx.ModelProto):
        return copied(source)
    if isinstance(source, bytes):
        return onnx.load_from_string(source)
    if isinstance(source, str | os.PathLike):
        return onnx.load(source)
    raise OnnxError(f"expected a path, bytes or an onnx.ModelProto; {type(source).__name__} came")


def _bind(graph: Any, constants: Mapping[str, Any]) -> None:
    """Make constants of inputs."""
    import onnx

    inputs = {one.name: one.type.tensor_type for one in graph.input}
    for name, value in constants.items():
        if name not in inputs:
            raise OnnxError(_no_input("constants", name, inputs))
        kind = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type)
        array = np.asarray(value)
        cast = array.astype(kind)
        if array.dtype != kind and not np.array_equal(cast, array):
            raise OnnxError(f"constants: {name} is {array.dtype}; expected {kind}")
        graph.initializer.append(onnx.numpy_helper.from_array(cast, name))


def _reshape(graph: Any, shapes: Shapes) -> None:
    """Give inputs the extents that a caller says."""
    inputs = {one.name: one.type.tensor_type for one in graph.input}
    for name, shape in shapes.items():
        if name not in inputs:
            raise OnnxError(_no_input("shapes", name, inputs))
        kind = inputs[name]
        if kind.HasField("shape") and len(kind.shape.dim) != len(shape):
            raise OnnxError(
                f"shapes: {name} has {len(shape)} extents; the model's has {len(kind.shape.dim)}"
            )
        kind.ClearField("shape")
        kind.shape.SetInParent()  # also for a tensor of no axes
        for extent in shape:
            axis = kind.shape.dim.add()
            if isinstance(extent, str):
                axis.dim_param = extent
            elif extent is not None:
                axis.dim_value = extent


def _no_input(what: str, name: str, inputs: Collection[str]) -> str:
    hint = did_you_mean(name, inputs)
    return f"{what}: the model has no input {name!r}; it has {', '.join(inputs)}{hint}"


def _set_aside(graph: Any) -> dict[str, np.ndarray]:
    """Take large constants out of a graph, which then has inputs of their names.

    An input that has a constant, its default, is no input afterwards.
    """
    import onnx

    names = {one.name for one in graph.initializer}
    inputs = [copied(one) for one in graph.input if one.name not in names]
    small, weights = [], {}
    for tensor in graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.nbytes < _LARGE or str(array.dtype) not in _SIGNED:
            small.append(copied(tensor))
            continue
        weights[tensor.name] = array
        inputs.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, array.shape)
        )
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(small)
    graph.input.extend(inputs)
    return weights


def _refuse_other_types(graph: Any) -> None:
    """Refuse what no array is passed for: sequences, maps, options, and strings."""
    import onnx

    for what, values in (("input", graph.input), ("output", graph.output)):
        for one in values:
            kind = one.type.WhichOneof("value")
            element = one.type.tensor_type.elem_type
            if kind == "tensor_type" and element == onnx.TensorProto.STRING:
                kind = "string"
            elif kind == "tensor_type":
                if what == "output" or one.type.tensor_type.HasField("shape"):
                    continue
                raise OnnxError(f"{what} {one.name} has no shape; say it by shapes=")
            said = str(kind).removesuffix("_type")
            raise OnnxError(f"{what} {one.name} is of type {said}; expected a tensor of numbers")


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
