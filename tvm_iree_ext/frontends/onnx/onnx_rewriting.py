"""Nodes of a model of ONNX replaced by others: what is known of values, and what writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.frontends.onnx.onnx_graphs import copied
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, typed

Rewrite: TypeAlias = "Callable[[Any, Values, Writer], None]"
"""Writes what gives the outputs of a node, or raises NotRewritten."""


_VERSION = 18
"""Of ONNX: rewrites write axes as inputs, as Squeeze takes them from 13 on and ReduceL2 from 18."""

_SCAN = 9
"""From which version on Scan has no axis of batches."""


class Kind(IntEnum):
    """Element types, as ``onnx.TensorProto`` numbers them: ``onnx`` is imported when it is used."""

    FLOAT = 1
    UINT8 = 2
    UINT16 = 4
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    BFLOAT16 = 16


class NotRewritten(Exception):
    """A node stays as it is, since a rewrite does not know enough or does not take it."""


class Values:
    """Types, extents and constants of a model's values, those of graphs inside nodes, too."""

    def __init__(self, model: OnnxModel) -> None:
        import onnx

        self._kinds: dict[str, Any] = {}
        self._constants: dict[str, Any] = dict(model.weights)
        for graph in model.graphs():
            for one in (*graph.input, *graph.value_info, *graph.output):
                self._kinds[one.name] = one.type.tensor_type
            for tensor in graph.initializer:
                self._constants[tensor.name] = tensor
            for node in graph.node:
                if node.op_type == "Constant" and node.output:
                    self._constants[node.output[0]] = node
        self._read = onnx.numpy_helper.to_array

    def kind(self, name: str) -> int:
        """The element type, as ``onnx.TensorProto`` numbers it.

        Raises:
            NotRewritten: where it is not known.
        """
        found: Any = self._constants.get(name)
        kind = self._kinds.get(name)
        if kind is not None and kind.elem_type:
            return int(kind.elem_type)
        if found is not None:
            import onnx

            return int(onnx.helper.np_dtype_to_tensor_dtype(self.constant(name).dtype))
        raise NotRewritten(f"the type of {name} is not known")

    def described(self, name: str) -> Any:
        """The ``ValueInfoProto`` of a value.

        Raises:
            NotRewritten: where its type is not known.
        """
        import onnx

        kind = self._kinds.get(name)
        if kind is None or not kind.elem_type:
            raise NotRewritten(f"the type of {name} is not known")
        return onnx.helper.make_value_info(name, onnx.TypeProto(tensor_type=kind))

    def extents(self, name: str) -> tuple[int | None, ...]:
        """The extents, None where one is open; NotRewritten where the rank is not known."""
        kind = self._kinds.get(name)
        if kind is not None and kind.HasField("shape"):
            extents = kind.shape.dim
            return tuple(one.dim_value if one.HasField("dim_value") else None for one in extents)
        if name in self._constants:
            return tuple(self.constant(name).shape)
        raise NotRewritten(f"the extents of {name} are not known")

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents; NotRewritten where one is not a number."""
        known = [extent for extent in self.extents(name) if extent is not None]
        if len(known) < self.rank(name):
            raise NotRewritten(f"the extents of {name} are not known")
        return tuple(known)

    def rank(self, name: str) -> int:
        """How many axes it has; NotRewritten where it is not known."""
        return len(self.extents(name))

    def constant(self, name: str) -> np.ndarray:
        """The array; NotRewritten where the value is none."""
        found = self._constants.get(name)
        if found is None:
            raise NotRewritten(f"{name} is no constant")
        if isinstance(found, np.ndarray):
            return found
        if not hasattr(found, "op_type"):
            return np.asarray(self._read(found))
        return _constant(found)


def _constant(node: Any) -> np.ndarray:
    """What a node Constant gives."""
    import onnx

    if len(node.attribute) != 1:
        raise NotRewritten(f"{node.output[0]} has no value")
    (attribute,) = node.attribute
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return np.asarray(onnx.numpy_helper.to_array(value))
    kinds = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
    if attribute.name not in kinds:
        raise NotRewritten(f"{node.output[0]} is of strings or sparse")
    return np.array(value, kinds[attribute.name])


class Writer:
    """The nodes that stand in place of one; their values have names that begin with its."""

    def __init__(self, node: Any, prefix: str) -> None:
        self.nodes: list[Any] = []
        self._node, self._prefix = node, prefix

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Write a node of one result, and return its name."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Write a node of several results, and return their names."""
        import onnx

        names = [f"{self._prefix}_{len(self.nodes)}_{place}" for place in range(count)]
        self.nodes.append(onnx.helper.make_node(op, list(inputs), names, **attributes))
        self.nodes[-1].name = f"{op} of {self._node.name}"
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A constant of an array."""
        import onnx

        tensor = onnx.numpy_helper.from_array(np.asarray(value, dtype))
        return self("Constant", value=tensor)

    def give(self, name: str, place: int = 0) -> None:
        """Make a value an output of the node that is replaced."""
        if place < len(self._node.output) and (output := self._node.output[place]):
            import onnx

            self.nodes.append(onnx.helper.make_node("Identity", [name], [output]))
            self.nodes[-1].name = f"{self._node.op_type} {output}"


@dataclass(frozen=True)
class Attributes:
    """The attributes of a node by name, with defaults."""

    node: Any

    def __call__(self, name: str, default: Any = None) -> Any:
        """The value of one."""
        import onnx

        for one in self.node.attribute:
            if one.name == name:
                return onnx.helper.get_attribute_value(one)
        return default

    def all(self) -> dict[str, Any]:
        """All that there are, by name."""
        return {one.name: self(one.name) for one in self.node.attribute}

    def text(self, name: str, default: str = "") -> str:
        """The value of one that is a text."""
        return str(self(name, default.encode()).decode())


def given(node: Any, place: int) -> str:
    """The name of an input that may be left out; empty where it is."""
    return str(node.input[place]) if len(node.input) > place else ""


def rounded(x: str, kind: int, write: Writer) -> str:
    """Numbers of float32 as integers: the nearest, of two the even one, within the type's range.

    By way of int32: IREE's front end takes every integer of few bits for one with sign where it
    comes of a float.
    """
    import onnx

    info = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(kind))
    return within(write("Round", x), (int(info.min), int(info.max)), kind, write)


def within(x: str, bounds: tuple[int, int], kind: int, write: Writer) -> str:
    """Whole numbers of float32 as integers of a type, between two bounds."""
    import onnx

    least, most = (write.constant(one, "f4") for one in bounds)
    return write(
        "Cast", write("Cast", write("Clip", x, least, most), to=onnx.TensorProto.INT32), to=kind
    )


def newer(model: OnnxModel) -> OnnxModel | None:
    """A model of an older version of ONNX, in that whose operators rewrites are of.

    None for one of that version or later, and where ``onnx`` does not bring it there.
    """
    import onnx.version_converter

    (version,) = (one.version for one in model.proto.opset_import if not one.domain)
    if version >= _VERSION:
        return None
    if version < _SCAN and any(node.op_type == "Scan" for node in model.nodes()):
        return None  # of batches, which onnx takes for the later one
    try:
        proto = onnx.version_converter.convert_version(model.proto, _VERSION)
    except (RuntimeError, ValueError):
        return None
    return replace(model, proto=typed(proto))


def rewritten(
    model: OnnxModel, names: Collection[str], rewrites: Mapping[str, Rewrite]
) -> OnnxModel | None:
    """The model with nodes of these operators replaced, where a rewrite takes them.

    None where none does.
    """
    if not any(node.op_type in names and node.op_type in rewrites for node in model.nodes()):
        return None
    model = newer(model) or model
    proto = copied(model.proto)
    values, count = Values(model), 0
    for graph in replace(model, proto=proto).graphs():
        nodes: list[Any] = []
        for node in graph.node:
            if node.op_type not in names or node.op_type not in rewrites:
                nodes.append(node)
                continue
            writer = Writer(node, f"{next(filter(None, node.output), node.op_type)}_rewritten")
            try:
                rewrites[node.op_type](node, values, writer)
            except NotRewritten:
                nodes.append(node)
                continue
            nodes += writer.nodes
            count += 1
        copies = [copied(node) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    return replace(model, proto=typed(proto)) if count else None
