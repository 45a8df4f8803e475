"""Operators of exported programs by others, each kind of node traced once.

``ExportedProgram.run_decompositions`` traces all of a program anew, which takes as long as its
export did: 8 s for the 5,500 nodes of a Mamba of four layers and 128 steps on an EPYC (Zen 5).
Most of its nodes are alike.  Here one of each kind stands in a small program, which is traced, and
what becomes of it is copied to the places of all of its kind.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import graph_signature
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.utils import _pytree

from tvm_iree_ext.base.errors import MlirError

_Table = Mapping[Any, Callable[..., Any]]


def decomposed(program: Any, table: _Table) -> Any:
    """What ``program.run_decompositions(table)`` gives; the program may be changed for it."""
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return program if in_places(program, table, nodes) else program.run_decompositions(table)


def in_places(program: Any, table: _Table, nodes: Iterable[Any]) -> bool:
    """Put in the places of nodes what they become; the targets of nodes may be any functions.

    False for a program that is left as it is: one with open extents, loops, branches or updates,
    or where constants come in.
    """
    kinds = _kinds(program, nodes)
    if kinds is None:
        return False
    try:
        made = _program_of(kinds).run_decompositions(table)
    except MlirError:  # which says what is not supported
        raise
    except Exception:  # of any kind: PyTorch tells it better of the whole
        return False
    results = _results(made, kinds)
    if results is None:
        return False
    for kind, values in zip(kinds, results, strict=True):
        _put(program, kind, values)
    program.graph.eliminate_dead_code()
    return True


@dataclass
class _Kind:
    """Nodes that become the same: of one target, and of operands that are alike."""

    leaves: list[Any]
    """The operands of the first of them."""

    tree: Any
    nodes: list[Any] = field(default_factory=list)

    @property
    def tensors(self) -> list[Any]:
        """The first one's operands that are tensors."""
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.fx.Node)]

    @property
    def values(self) -> list[Any]:
        """What is known of its results."""
        value = self.nodes[0].meta["val"]
        return [value] if isinstance(value, torch.Tensor) else list(value)

    @property
    def is_single(self) -> bool:
        """Whether it gives a tensor, and not several."""
        return isinstance(self.nodes[0].meta["val"], torch.Tensor)


def _kinds(program: Any, nodes: Iterable[Any]) -> list[_Kind] | None:
    """The kinds of nodes that give tensors; None for a program that is traced as a whole."""
    if not all(map(_is_plain, program.graph.nodes)):
        return None
    kinds: dict[Any, _Kind] = {}
    for node in nodes:
        if node.target is operator.getitem or node.meta.get("val") is None:
            continue
        leaves, tree = _pytree.tree_flatten((node.args, node.kwargs))
        key = node.target, str(tree), *map(_description, leaves)
        kinds.setdefault(key, _Kind(leaves, tree)).nodes.append(node)
    return list(kinds.values())


def _is_plain(node: Any) -> bool:
    """Whether a node is an operator on tensors of known extents, which updates none."""
    if node.op not in ("placeholder", "call_function", "output"):
        return False
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return False
    if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
        return False
    if node.op == "output":
        return True
    value = node.meta.get("val")
    return value is None or all(map(_is_known, _pytree.tree_leaves(value)))


def _is_known(value: Any) -> bool:
    if type(value) is not torch._subclasses.FakeTensor:
        return False
    return all(isinstance(extent, int) for extent in (*value.shape, *value.stride()))


def _description(leaf: Any) -> Any:
    if not isinstance(leaf, torch.fx.Node):
        return type(leaf), repr(leaf)
    value = leaf.meta.get("val")
    if value is None:
        return leaf.name
    return tuple(value.shape), value.dtype, value.stride(), str(value.device)


def _program_of(kinds: Sequence[_Kind]) -> Any:
    """A program of the first node of each kind, whose operands are inputs."""
    graph = torch.fx.Graph()
    inputs: list[Any] = []
    for kind in kinds:
        for one in kind.tensors:
            node = graph.placeholder(f"operand_{len(inputs)}")
            value = one.meta["val"]
            with value.fake_mode:  # each a tensor of its own
                node.meta["val"] = torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device=value.device
                )
            inputs.append(node)
    operands = iter(inputs)
    outputs, targets = [], {}
    for kind in kinds:
        first = kind.nodes[0]
        leaves = [next(operands) if isinstance(one, torch.fx.Node) else one for one in kind.leaves]
        args, kwargs = _pytree.tree_unflatten(leaves, kind.tree)
        # The target comes later: none but operators pass the check of a program that is made.
        node = graph.call_function(torch.ops.aten.alias.default, args, kwargs)
        node.meta = dict(first.meta)
        targets[node] = first.target
        if kind.is_single:
            outputs.append(node)
            continue
        for place, value in enumerate(kind.values):
            part = graph.call_function(operator.getitem, (node, place))
            part.meta = {**first.meta, "val": value}
            outputs.append(part)
    graph.output(tuple(outputs))
    made = torch.export.ExportedProgram(
        torch.nn.Module(),
        graph,
        _signature(inputs, outputs),
        state_dict={},
        range_constraints={},
        module_call_graph=[ModuleCallEntry("", _call(len(inputs), len(outputs)))],
        example_inputs=(tuple(node.meta["val"] for node in inputs), {}),
    )
    by_name = {node.name: target for node, target in targets.items()}
    for node in made.graph.nodes:
        node.target = by_name.get(node.name, node.target)
    return made


def _signature(inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    def argument(node: Any) -> Any:
        return graph_signature.TensorArgument(node.name)

    given, taken = graph_signature.InputKind.USER_INPUT, graph_signature.OutputKind.USER_OUTPUT
    return graph_signature.ExportGraphSignature(
        [graph_signature.InputSpec(given, argument(node), None) for node in inputs],
        [graph_signature.OutputSpec(taken, argument(node), None) for node in outputs],
    )


def _call(inputs: int, outputs: int) -> Any:
    _, taken = _pytree.tree_flatten((tuple(range(inputs)), {}))
    _, given = _pytree.tree_flatten(tuple(range(outputs)))
    return ModuleCallSignature([], [], taken, given)


@dataclass(frozen=True)
class _Result:
    """What a kind of nodes becomes: nodes in their order, over inputs that stand for operands."""

    operands: Sequence[Any]
    body: Sequence[Any]
    values: Sequence[Any]


def _results(made: Any, kinds: Sequence[_Kind]) -> list[_Result] | None:
    """What each kind became; None where that is no program of the same inputs."""
    nodes = list(made.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    given = list(nodes[-1].args[0])
    counts = sum(len(kind.tensors) for kind in kinds), sum(len(kind.values) for kind in kinds)
    if (len(inputs), len(given)) != counts or not all(map(_is_plain, nodes)):
        return None
    order = {node: number for number, node in enumerate(nodes)}
    operands, values = iter(inputs), iter(given)
    results = []
    for kind in kinds:
        own = [next(operands) for _ in kind.tensors]
        outs = [next(values) for _ in kind.values]
        seen: set[Any] = set()
        left = [one for one in outs if isinstance(one, torch.fx.Node)]
        while left:
            node = left.pop()
            if node not in seen and node.op == "call_function":
                seen.add(node)
                left += node.all_input_nodes
            elif node.op == "placeholder" and node not in own:
                return None
        results.append(_Result(own, sorted(seen, key=order.__getitem__), outs))
    return results


def _is_left(kind: _Kind, result: _Result) -> bool:
    """Whether nodes become what they are."""
    if len(result.body) != 1 or not kind.is_single or result.values[0] is not result.body[0]:
        return False
    (node,) = result.body
    leaves, tree = _pytree.tree_flatten((node.args, node.kwargs))
    if node.target is not kind.nodes[0].target or tree != kind.tree:
        return False
    operands = iter(result.operands)  # each stands in its own place
    wanted = [next(operands) if isinstance(one, torch.fx.Node) else one for one in kind.leaves]
    return all(
        type(one) is type(other) and one == other for one, other in zip(leaves, wanted, strict=True)
    )


def _put(program: Any, kind: _Kind, result: _Result) -> None:
    """Put a result in the places of the nodes of its kind."""
    if _is_left(kind, result):
        return
    for node in kind.nodes:
        leaves = _pytree.tree_leaves((node.args, node.kwargs))
        actual = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]
        copies: dict[Any, Any] = dict(zip(result.operands, actual, strict=True))
        with program.graph.inserting_before(node):
            for one in result.body:
                copies[one] = program.graph.node_copy(one, copies.__getitem__)
                where = {key: node.meta[key] for key in _PLACE if key in node.meta}
                copies[one].meta = {**one.meta, **where}
        _replace(program, kind, node, [copies.get(one, one) for one in result.values])


_PLACE = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack")


def _replace(program: Any, kind: _Kind, node: Any, values: Sequence[Any]) -> None:
    parts = (
        [(node, values[0])]
        if kind.is_single
        else [(user, values[user.args[1]]) for user in list(node.users)]
    )
    for old, new in parts:
        old.replace_all_uses_with(new)
        program.graph_signature.replace_all_uses(old.name, new.name)
        program.graph.erase_node(old)
    if not kind.is_single:
        program.graph.erase_node(node)
