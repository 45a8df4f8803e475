"""Models of ONNX read: checked, of the caller's shapes and constants, without sequences.

``onnx`` is imported when it is asked for: ``pip install 'tvm-iree-ext[onnx]'``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.base.suggestions import did_you_mean
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied, set_extents
from tvm_iree_ext.frontends.onnx.onnx_model import ENTRY, OnnxModel, Shapes, typed
from tvm_iree_ext.frontends.onnx.onnx_sequences import without_sequences

_LARGE = 1024  # bytes of a constant that stands beside the model
_SIGNED = (*FLOATS, "int8", "int16", "int32", "int64")  # MLIR's own integers have no sign
_IR_VERSION = 10  # from 4 on constants are no inputs; from 8 on models have functions


def read_model(
    source: Any,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """Read a model, and give all of its values types and shapes as far as ``onnx`` knows them.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``, which is left as it is.
        shapes: extents of inputs, by name: numbers, or names and None for what a call says; for a
            sequence those of each tensor that it holds, and None for an option that is absent.
        constants: arrays of inputs that become constants.

    Raises:
        OnnxError: where ``onnx`` is not installed; for what is no valid model; for shapes and
            constants of what is no input; and for sequences whose lengths are not known.
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
    try:
        onnx.checker.check_model(proto)
        model = without_sequences(OnnxModel(proto, weights), shapes or {})
        _refuse_other_types(model.proto.graph)
        return replace(model, proto=typed(model.proto))
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
        if not inputs[name].elem_type:
            raise OnnxError(f"constants: {name} is no tensor")
        kind = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type)
        array = np.asarray(value)
        cast = array.astype(kind)
        if array.dtype != kind and not np.array_equal(cast, array):
            raise OnnxError(f"constants: {name} is {array.dtype}; expected {kind}")
        graph.initializer.append(onnx.numpy_helper.from_array(cast, name))


def _reshape(graph: Any, shapes: Shapes) -> None:
    """Give inputs that are tensors the extents that a caller says."""
    inputs = {one.name: one.type for one in graph.input}
    for name, shape in shapes.items():
        if name not in inputs:
            raise OnnxError(_no_input("shapes", name, inputs))
        if inputs[name].WhichOneof("value") == "tensor_type":
            set_extents(inputs[name].tensor_type, name, shape)


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
    """Refuse what no array is passed for: maps and strings."""
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
