"""A graph of dynamo's as a module of tensors alone, and the rest of it beside that.

Dynamo passes extents and numbers as inputs, takes extents as results, writes inputs and returns
views of them.  A program takes and gives tensors, in memory of their own.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import MlirError
from tvm_iree_ext.frontends.torch.torch_fast_paths import in_parts

_VALUE = "example_value"  # what dynamo knows of a node: a FakeTensor, or a number


@dataclass(frozen=True)
class _Computed:
    """A result that the module gives."""

    node: Any


@dataclass(frozen=True)
class _InputView:
    """A result in the memory of an input; numbers may be PyTorch's symbols."""

    place: int
    shape: Sequence[Any]
    strides: Sequence[Any]
    offset: Any


class DynamoGraph:
    """What of a graph is the module, and what is done beside it.

    Args:
        graph: a ``torch.fx.GraphModule`` of dynamo's.
        examples: its inputs, tensors and extents.
        is_frozen: whether parameters are the module's own and no inputs of it.
    """

    def __init__(self, graph: Any, examples: Sequence[Any], *, is_frozen: bool) -> None:
        import torch

        self._graph, self._examples = graph, examples
        self._inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._passed: list[int] = []  # tensors that the module takes
        self._frozen: list[int] = []
        self._numbers: list[int] = []  # tensors that stand for a number of Python's
        self._written: list[int] = []
        self._symbols: dict[Any, int] = {}  # of open extents, and which input has the value
        homes: dict[int, int] = {}
        for place, (node, one) in enumerate(zip(self._inputs, examples, strict=True)):
            value = node.meta[_VALUE]
            if not isinstance(one, torch.Tensor):
                if _is_open(value):
                    self._symbols[value.node.expr] = place
                continue
            homes[_storage(value)] = place
            if _is_number(node):
                self._numbers.append(place)
            elif is_frozen and isinstance(one, torch.nn.Parameter):
                self._frozen.append(place)
            else:
                self._passed.append(place)
            if value._version:
                self._written.append(place)
        self._results = [self._result(one, homes) for one in _output(graph.graph).args[0]]
        self._computed = [one.node for one in self._results if isinstance(one, _Computed)]

    def _result(self, node: Any, homes: Mapping[int, int]) -> Any:
        import torch

        value = node.meta[_VALUE] if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            return value
        if (place := homes.get(_storage(value))) is None:
            return _Computed(node)
        return _InputView(place, value.shape, value.stride(), value.storage_offset())

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to compute but extents and views."""
        return not self._computed and not self._written

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """Names and tensors of the inputs."""
        for place in sorted([*self._passed, *self._frozen]):
            yield self._inputs[place].name, self._examples[place]

    def module(self) -> tuple[Any, list[Any], tuple[dict[int, Any], ...]]:
        """A module, the tensors that it takes, and for each the axes that are open.

        An extent is that of a tensor, where one has it as an axis; else it is what it is in this
        call, which dynamo guards from now on, as it does numbers.

        Raises:
            MlirError: for a result that is neither a tensor nor an extent.
        """
        import torch

        for one in self._results:
            if isinstance(one, torch.SymFloat | torch.SymBool):
                raise MlirError(f"torch.compile: the graph returns {one}, no tensor and no extent")
        own = torch.fx.GraphModule(self._graph, copy.deepcopy(self._graph.graph))
        nodes = {node.name: node for node in own.graph.nodes}
        inputs = [nodes[node.name] for node in self._inputs]
        with own.graph.inserting_after(inputs[-1]):
            for place, node in enumerate(inputs):
                if place in self._written:
                    twin = own.graph.call_method("clone", (node,))
                    node.replace_all_uses_with(twin, lambda user, twin=twin: user is not twin)
                    nodes[node.name] = twin
                elif place in self._frozen:
                    setattr(own, f"frozen_{place}", self._examples[place])
                    node.replace_all_uses_with(own.graph.get_attr(f"frozen_{place}"))
            for place in self._symbols.values():
                extent = self._extent(own.graph, inputs, self._inputs[place].meta[_VALUE])
                inputs[place].replace_all_uses_with(extent)
        for place in self._numbers:
            for item in list(inputs[place].users):
                item.replace_all_uses_with(_settled(item.meta[_VALUE]))
                own.graph.erase_node(item)
        written = [nodes[self._inputs[place].name] for place in self._written]
        _output(own.graph).args = ((*(nodes[one.name] for one in self._computed), *written),)
        for place, node in enumerate(inputs):
            if place not in self._passed:
                node.replace_all_uses_with(None)
                own.graph.erase_node(node)
        own.graph.lint()
        axes = [_open_axes(self._inputs[place].meta[_VALUE]) for place in self._passed]
        tensors = [self._examples[place].detach() for place in self._passed]
        return _traceable(own), tensors, tuple(axes)

    def _extent(self, graph: Any, inputs: Sequence[Any], value: Any) -> Any:
        """A node for an open extent, or its number."""
        for place in self._passed:
            for axis, extent in enumerate(self._inputs[place].meta[_VALUE].shape):
                if _is_open(extent) and extent.node.expr == value.node.expr:
                    return graph.call_method("size", (inputs[place], axis))
        return int(value)

    def caller(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What takes the graph's inputs and gives its results, by a function for the module."""
        count, passed = len(self._computed), self._passed
        is_plain = count == len(self._results) and not self._written

        def call(*inputs: Any) -> Sequence[Any]:
            found = function(*[inputs[place] for place in passed])
            found = found if isinstance(found, tuple) else (found,)
            return found if is_plain else self._joined(inputs, found[:count], found[count:])

        return call

    def _joined(
        self, inputs: Sequence[Any], computed: Sequence[Any], written: Sequence[Any]
    ) -> list[Any]:
        """The graph's results; inputs that it writes are written."""
        for place, value in zip(self._written, written, strict=True):
            inputs[place].copy_(value)
        values = {symbol: inputs[place] for symbol, place in self._symbols.items()}
        rest = iter(computed)
        results = []
        for one in self._results:
            if isinstance(one, _Computed):
                results.append(next(rest))
            elif isinstance(one, _InputView):
                shape, strides = (
                    [_number(extent, values) for extent in many]
                    for many in (one.shape, one.strides)
                )
                offset = _number(one.offset, values)
                results.append(inputs[one.place].as_strided(shape, strides, offset))
            else:
                results.append(_number(one, values))
        return results


def _traceable(graph: Any) -> Any:
    """A module that runs a graph, node by node: each keeps its line of Python."""
    import torch

    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(in_parts(target), args, kwargs)

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = graph

        def forward(self, *tensors: Any) -> Any:
            with torch.fx.traceback.preserve_node_meta():
                return Interpreter(self.body).run(*tensors)

    return Graph().eval()


def _output(graph: Any) -> Any:
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def _is_open(value: Any) -> bool:
    """Whether an extent is one of PyTorch's symbols."""
    return not isinstance(value, int) and bool(getattr(value.node.expr, "free_symbols", ()))


def _is_number(node: Any) -> bool:
    """Whether an input is a number of Python's: a tensor without axes, of which all ask for it."""
    value = node.meta[_VALUE]
    return (
        value.dim() == 0
        and bool(node.users)
        and all(user.op == "call_method" and user.target == "item" for user in node.users)
    )


def _settled(value: Any) -> Any:
    """A number in place of a symbol, which dynamo guards."""
    import torch

    kinds = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
    return kinds.get(type(value), lambda one: one)(value)


def _open_axes(tensor: Any) -> dict[int, Any]:
    import torch

    return {
        axis: torch.export.Dim.DYNAMIC
        for axis, extent in enumerate(tensor.shape)
        if _is_open(extent)
    }


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _number(value: Any, values: Mapping[Any, int]) -> Any:
    """A number in place of one of PyTorch's symbols, by the values of those that it is made of."""
    if value is None or not hasattr(value, "node") or not _is_open(value):
        return value
    return int(value.node.expr.xreplace(values))
