"""Sequences and options of ONNX: values of models that hold tensors, as those tensors.

How many tensors a sequence holds is known before a call, but for those that a caller gives: of
these the caller says it.  So the nodes that make, change and read sequences are gone once each
tensor has a name of its own; loops over sequences become their steps, one behind the other.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.base.errors import OnnxError
from tvm_iree_ext.frontends.onnx.onnx_graphs import copied, graphs_of, set_extents
from tvm_iree_ext.frontends.onnx.onnx_known_nodes import KnownNodes
from tvm_iree_ext.frontends.onnx.onnx_model import OnnxModel, Shapes, typed
from tvm_iree_ext.frontends.onnx.onnx_rewriting import Attributes


@dataclass(frozen=True)
class Option:
    """A value that may be absent, and is where ``value`` is None."""

    value: str | tuple[str, ...] | None


Item: TypeAlias = "str | tuple[str, ...] | Option"
"""What a name of a model stands for: the name of a tensor, those of a sequence, or an option."""

_Scope: TypeAlias = MutableMapping[str, Item]

_OPERATORS = (
    *("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"),
    *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "SequenceMap", "SplitToSequence"),
)
_MOST_STEPS = 256  # of a loop over sequences, each of which is written
_AXES_ARE_INPUTS = 13  # the version of ONNX from which on Unsqueeze takes them so


def without_sequences(model: OnnxModel, shapes: Shapes) -> OnnxModel:
    """The model with tensors alone: an input or output that is a sequence becomes its tensors.

    Tensor 2 of the input ``x`` is the input ``x_2``.  An option of an input is taken for one that
    is there.

    Raises:
        OnnxError: for a sequence whose length, or a place in it, hangs on what a call gives; the
            node or input is named.
    """
    if not _has_sequences(model.proto.graph):
        return model
    walk = _Walk(model)
    inputs, scope = walk.inputs(shapes)
    graph = walk.proto.graph
    for tensor in graph.initializer:
        scope[tensor.name] = tensor.name
    walk.nodes(graph.node, scope, keeps_names=True)
    outputs = [info for one in graph.output for info in walk.output(one, scope)]
    proto = copied(model.proto)
    for values, now in (
        (proto.graph.input, inputs),
        (proto.graph.output, outputs),
        (proto.graph.node, walk.known.written[0]),
    ):
        del values[:]
        values.extend(copied(one) for one in now)
    del proto.graph.value_info[:]
    return replace(model, proto=typed(proto))


def _has_sequences(graph: Any) -> bool:
    """Whether a graph, or one inside its nodes, has values that are no tensors."""
    return any(
        node.op_type in _OPERATORS and not node.domain
        for inner in graphs_of(graph)
        for node in inner.node
    ) or any(
        _kind(one.type) in ("sequence_type", "optional_type")
        for inner in graphs_of(graph)
        for one in (*inner.input, *inner.output)
    )


def _kind(kind: Any) -> str:
    return str(kind.WhichOneof("value") or "")


def _tensor_type(kind: Any) -> Any:
    """The type of the tensors in a value of this type."""
    while _kind(kind) in ("sequence_type", "optional_type"):
        kind = getattr(kind, _kind(kind)).elem_type
    return kind


def _refused(node: Any, why: str) -> OnnxError:
    name = node.name or next(filter(None, node.output), "")
    return OnnxError(f"{node.op_type} of node {name!r}: {why}")


class _Walk:
    """Nodes in their order, each written again with the tensors that its operands stand for."""

    def __init__(self, model: OnnxModel) -> None:
        self.proto = model.proto
        self.known = KnownNodes(model.proto, model.weights)
        self._version = next((one.version for one in self.proto.opset_import if not one.domain), 0)
        self._handlers: dict[str, Callable[[Any, list[Any], _Scope], list[Item]]] = {
            "ConcatFromSequence": self._concat,
            "Identity": lambda _, items, __: items,
            "If": self._if,
            "Loop": self._loop,
            "Optional": lambda _, items, __: [Option(items[0] if items else None)],
            "OptionalGetElement": self._get_element,
            "OptionalHasElement": self._has_element,
            "SequenceAt": self._at,
            "SequenceConstruct": lambda _, items, __: [tuple(items)],
            "SequenceEmpty": lambda *_: [()],
            "SequenceErase": self._erase,
            "SequenceInsert": self._insert,
            "SequenceLength": lambda _, items, __: [self.known.constant(np.int64(len(items[0])))],
            "SequenceMap": self._map,
            "SplitToSequence": self._split,
        }

    # Inputs and outputs.

    def inputs(self, shapes: Shapes) -> tuple[list[Any], _Scope]:
        """The inputs as tensors, and what the names of the model's inputs stand for."""
        scope: _Scope = {}
        for one in self.proto.graph.input:
            kind, tensor = _kind(one.type), _tensor_type(one.type)
            if kind == "tensor_type":
                self.known.inputs.append(one)
                scope[one.name] = one.name
                continue
            if _kind(tensor) != "tensor_type":
                raise OnnxError(f"input {one.name} holds what is no tensor")
            is_option = kind == "optional_type"
            said: Any = shapes.get(one.name)
            if is_option and said is None and one.name in shapes:
                scope[one.name] = Option(None)
                continue
            inner = one.type.optional_type.elem_type if is_option else one.type
            item: str | tuple[str, ...] = one.name
            if _kind(inner) == "sequence_type":
                if not _are_extents_of_several(said):
                    raise OnnxError(
                        f"input {one.name} is a sequence; say the extents of each of its tensors,"
                        f" as in shapes={{{one.name!r}: [(2, 3), (4, 3)]}}"
                    )
                item = tuple(self.known.fresh(f"{one.name}_{n}") for n in range(len(said)))
                for name, extents in zip(item, said, strict=True):
                    self._input(name, one.name, tensor, extents)
            else:
                self._input(one.name, one.name, tensor, said)
            scope[one.name] = Option(item) if is_option else item
        return self.known.inputs, scope

    def _input(self, name: str, of: str, kind: Any, extents: Any) -> None:
        """Take a tensor as an input, of the extents that a caller says, if any."""
        import onnx

        info = onnx.helper.make_value_info(name, copied(kind))
        if extents is not None:
            set_extents(info.type.tensor_type, of, extents)
        self.known.inputs.append(info)

    def output(self, declared: Any, scope: _Scope) -> list[Any]:
        """The outputs that one of the model becomes; the nodes that name them are written."""
        import onnx

        named = scope[declared.name]
        item = named.value if isinstance(named, Option) else named
        if item is None:
            raise OnnxError(f"output {declared.name} is an option that is absent")
        if isinstance(item, str):
            if item != declared.name:
                self.known.write("Identity", [item], [declared.name])
            kind = _tensor_type(declared.type)
            return [onnx.helper.make_value_info(declared.name, kind)]
        kind = onnx.TypeProto()
        kind.tensor_type.elem_type = _tensor_type(declared.type).tensor_type.elem_type
        outputs = []
        for number, name in enumerate(item):
            outer = self.known.fresh(f"{declared.name}_{number}")
            self.known.write("Identity", [name], [outer])
            outputs.append(onnx.helper.make_value_info(outer, kind))
        return outputs

    # Nodes.

    def nodes(self, nodes: Sequence[Any], scope: _Scope, *, keeps_names: bool = False) -> None:
        """Write nodes again; outside of graphs inside nodes, their results keep their names."""
        for node in nodes:
            items = [self._item(node, name, scope) for name in node.input]
            handler = None if node.domain else self._handlers.get(node.op_type)
            is_plain = node.op_type == "Identity" and isinstance(items[0], str)
            if handler is not None and not is_plain:
                results = handler(node, items, scope)
                scope.update(zip(node.output, results, strict=False))
                continue
            if not all(item is None or isinstance(item, str) for item in items):
                raise _refused(node, "expected tensors; a sequence or an option came")
            copy = self._copy(node, scope)
            copy.input[:] = [item or "" for item in items]
            for place, name in enumerate(node.output):
                if name:
                    copy.output[place] = name if keeps_names else self.known.fresh(name)
                    scope[name] = copy.output[place]
            self.known.append(copy)

    def _item(self, node: Any, name: str, scope: _Scope) -> Item | None:
        if name and name not in scope:
            raise _refused(node, f"{name} is neither made before it nor a dense constant")
        return scope[name] if name else None

    def _graph(self, graph: Any, arguments: Sequence[Any], scope: _Scope) -> list[Any]:
        """What the outputs of a graph inside a node stand for; its nodes are written here."""
        import onnx

        inner: _Scope = ChainMap({}, scope)
        for one, argument in zip(graph.input, arguments, strict=False):
            inner[one.name] = argument
        for tensor in graph.initializer:
            inner[tensor.name] = self.known.constant(onnx.numpy_helper.to_array(tensor))
        self.nodes(graph.node, inner)
        return [inner[one.name] for one in graph.output]

    def _copy(self, node: Any, scope: _Scope) -> Any:
        """A node whose graphs, if any, are written again."""
        import onnx

        copy = copied(node)
        for attribute in copy.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.CopyFrom(self._rewritten(attribute.g, scope))
        return copy

    def _rewritten(self, graph: Any, scope: _Scope) -> Any:
        """A graph inside a node, of tensors, whose values have names that no other value has."""
        import onnx

        inputs = []
        for one in graph.input:
            inputs.append(copied(one))
            inputs[-1].name = self.known.fresh(one.name)
        nodes, results = self._inside(graph, [one.name for one in inputs], scope)
        outputs = []
        for one, result in zip(graph.output, results, strict=True):
            if not isinstance(result, str):
                raise OnnxError(
                    f"{one.name} is a sequence or an option that a loop or a scan passes on; "
                    "expected tensors"
                )
            outputs.append(onnx.helper.make_value_info(result, _tensor_type(one.type)))
        return onnx.helper.make_graph(nodes, graph.name, inputs, outputs)

    def _inside(
        self, graph: Any, arguments: Sequence[Any], scope: _Scope
    ) -> tuple[list[Any], list[Any]]:
        """The nodes of a graph inside a node, and what its outputs stand for: names made in it."""
        written: list[Any] = []
        self.known.written.append(written)
        try:
            results = self._graph(graph, arguments, scope)
            free = {name for node in written for name in node.output}

            def own(name: str) -> str:
                if name not in free:  # made outside, or an output already
                    return self.known.node("Identity", name)
                free.remove(name)
                return name

            return written, [_renamed(item, own) for item in results]
        finally:
            self.known.written.pop()

    def _if(self, node: Any, items: list[Any], scope: _Scope) -> list[Item]:
        branches = Attributes(node).all()
        condition = self.known.value(items[0])
        if condition is not None:
            taken = branches["then_branch" if condition.item() else "else_branch"]
            return self._graph(taken, [], scope)
        written = {
            name: self._inside(branches[name], [], scope) for name in ("then_branch", "else_branch")
        }
        forms = [
            [_renamed(item, lambda _: "") for item in results] for _, results in written.values()
        ]
        if forms[0] != forms[1]:
            raise _refused(
                node,
                "its branches give sequences of different lengths, or an option that one has not,"
                " and its condition hangs on what a call gives; instead: it as constants=",
            )
        import onnx

        copy = copied(node)
        for attribute in copy.attribute:
            nodes, results = written[attribute.name]
            outputs = [
                onnx.helper.make_value_info(name, _tensor_type(one.type))
                for one, item in zip(attribute.g.output, results, strict=True)
                for name in _tensors(item)
            ]
            for one in outputs:
                one.type.tensor_type.ClearField("shape")  # of one element, not of each
            graph = onnx.helper.make_graph(nodes, attribute.g.name, [], outputs)
            attribute.g.CopyFrom(graph)
        copy.input[:] = [items[0]]
        del copy.output[:]

        def result(name: str) -> str:
            copy.output.append(self.known.fresh(name))
            return str(copy.output[-1])

        given = [
            _renamed(item, lambda _, outer=outer: result(outer))  # type: ignore[misc]
            for item, outer in zip(written["then_branch"][1], node.output, strict=True)
        ]
        self.known.append(copy)
        return given

    def _loop(self, node: Any, items: list[Any], scope: _Scope) -> list[Item]:
        body = Attributes(node)("body")
        states = list(items[2:])
        if all(isinstance(one, str) for one in states):
            with contextlib.suppress(OnnxError):  # of a sequence that its steps change or read
                copy = self._copy(node, scope)
                copy.input[:] = [item or "" for item in items]
                copy.output[:] = [self.known.fresh(name) if name else "" for name in node.output]
                self.known.append(copy)
                return list(copy.output)
        count = self._needed(node, items[0], "its number of steps") if items[0] else None
        is_asked = len(items) > 1 and bool(items[1])  # else the body's condition counts for nothing
        goes_on = items[1] if is_asked else self.known.constant(np.bool_(True))
        scanned: list[list[str]] = [[] for _ in range(len(node.output) - len(states))]
        step = 0
        while (count is None or step < count) and (
            not is_asked or self._needed(node, goes_on, "its condition")
        ):
            if step == _MOST_STEPS:
                raise _refused(node, f"more than {_MOST_STEPS} steps over sequences")
            arguments = [self.known.constant(np.int64(step)), goes_on, *states]
            goes_on, *results = self._graph(body, arguments, scope)
            states, several = results[: len(states)], results[len(states) :]
            for one, result in zip(scanned, several, strict=True):
                one.append(result)
            step += 1
        return [*states, *(self._stacked(node, one, 0) for one in scanned)]

    def _map(self, node: Any, items: list[Any], scope: _Scope) -> list[Item]:
        lengths = {len(one) for one in items if isinstance(one, tuple)}
        if len(lengths) > 1:
            raise _refused(node, f"its sequences have {sorted(lengths)} tensors; expected as many")
        results = [
            self._graph(
                Attributes(node)("body"),
                [one[place] if isinstance(one, tuple) else one for one in items],
                scope,
            )
            for place in range(len(items[0]))
        ]
        return [tuple(one[place] for one in results) for place in range(len(node.output))]

    # Sequences and options.

    def _has_element(self, _: Any, items: list[Any], __: _Scope) -> list[Item]:
        item = items[0] if items else None
        absent = item is None or item == Option(None)
        return [self.known.constant(np.bool_(not absent))]

    def _get_element(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        item = items[0]
        value = item.value if isinstance(item, Option) else item
        if value is None:
            raise _refused(node, "the option is absent")
        return [value]

    def _at(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        several = items[0]
        return [several[self._place(node, items[1], len(several), len(several) - 1)]]

    def _erase(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        several, where = items[0], items[1] if len(items) > 1 else None
        last = len(several) - 1
        place = self._place(node, where, len(several), last) if where or last < 0 else last
        return [(*several[:place], *several[place + 1 :])]

    def _insert(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        several, tensor = items[:2]
        place = len(several)
        if len(items) > 2 and items[2]:
            place = self._place(node, items[2], len(several), len(several))
        return [(*several[:place], tensor, *several[place:])]

    def _place(self, node: Any, where: str | None, count: int, last: int) -> int:
        """A place in a sequence of ``count`` tensors: negative ones count from its end."""
        place = self._needed(node, where, "the place") if where else last
        if not -count <= place <= last:
            raise _refused(node, f"place {place} of a sequence of {count} tensors")
        return place + count if place < 0 else place

    def _concat(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        said = Attributes(node)
        if said("new_axis", 0):
            return [self._stacked(node, items[0], said("axis"))]
        if not items[0]:
            raise _refused(node, "the sequence is empty")
        return [self.known.node("Concat", *items[0], axis=said("axis"))]

    def _stacked(self, node: Any, names: Sequence[str], axis: int) -> str:
        """Tensors of one shape along a new axis."""
        if not names:
            raise _refused(node, "no tensor is to be stacked, as of a loop of no step")
        if self._version < _AXES_ARE_INPUTS:
            lines = [self.known.node("Unsqueeze", one, axes=[axis]) for one in names]
        else:
            where = self.known.constant(np.array([axis], "i8"))
            lines = [self.known.node("Unsqueeze", one, where) for one in names]
        return self.known.node("Concat", *lines, axis=axis)

    def _split(self, node: Any, items: list[Any], _: _Scope) -> list[Item]:
        said = Attributes(node)
        x, axis = items[0], said("axis", 0)
        where = items[1] if len(items) > 1 else None
        sizes = self.known.value(where) if where else np.int64(1)
        if sizes is None:
            raise _refused(node, f"the sizes hang on a call; instead: {where} as constants=")
        if sizes.ndim == 0:
            extent = self._extent(node, x, axis)
            size = int(sizes)
            lengths = [min(size, extent - begin) for begin in range(0, extent, size)]
        else:
            lengths = [int(size) for size in sizes]
        parts, begin = [], 0
        for length in lengths:
            if where or said("keepdims", 1):
                bounds = (np.array([one], "i8") for one in (begin, begin + length, axis))
                parts.append(self.known.node("Slice", x, *map(self.known.constant, bounds)))
            else:
                parts.append(
                    self.known.node("Gather", x, self.known.constant(np.int64(begin)), axis=axis)
                )
            begin += length
        return [tuple(parts)]

    def _needed(self, node: Any, name: str | None, what: str) -> int:
        """A number that must be known."""
        value = None if name is None else self.known.value(name)
        if value is None:
            raise _refused(
                node, f"{what} hangs on what a call gives; instead: {name} as constants="
            )
        return int(value.item())

    def _extent(self, node: Any, name: str, axis: int) -> int:
        extents = self.known.extents(name)
        extent = None if extents is None else extents[axis]
        if extent is None:
            raise _refused(
                node,
                f"extent {axis} of {name} is not known; instead: the extents of inputs as shapes=",
            )
        return extent


def _are_extents_of_several(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(isinstance(one, Sequence) and not isinstance(one, str) for one in value)


def _tensors(item: Any) -> list[str]:
    if isinstance(item, Option):
        return [] if item.value is None else _tensors(item.value)
    return [item] if isinstance(item, str) else list(item)


def _renamed(item: Any, name: Callable[[str], str]) -> Any:
    """The same form, of other tensors."""
    if isinstance(item, Option):
        return Option(None if item.value is None else _renamed(item.value, name))
    return name(item) if isinstance(item, str) else tuple(name(one) for one in item)
