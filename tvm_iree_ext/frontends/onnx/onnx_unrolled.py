"""Scans and loops of ONNX whose number of steps is known, step after step."""

from __future__ import annotations

from typing import Any

from tvm_iree_ext.frontends.onnx.onnx_rewriting import (
    Attributes,
    NotRewritten,
    Values,
    Writer,
    given,
)

_MOST_STEPS = 64
_MOST_NODES = 4096


def rewrite_scan(node: Any, values: Values, write: Writer) -> None:
    """A scan: the body for each element of the scanned inputs, from the front or from the back."""
    said = Attributes(node)
    body, count = said("body"), said("num_scan_inputs")
    if len(body.input) != len(node.input):
        raise NotRewritten("a scan of batches, of version 8")
    states = len(node.input) - count
    scanned = list(node.input[states:])
    outputs = len(node.output) - states
    ranks = [values.rank(name) for name in scanned]
    axes = said("scan_input_axes", [0] * count)
    axes = [axis % rank for axis, rank in zip(axes, ranks, strict=True)]
    backward = said("scan_input_directions", [0] * count)
    out_axes, out_backward = said("scan_output_axes", []), said("scan_output_directions", [])
    steps = values.shape(scanned[0])[axes[0]]
    _check_size(steps, body)
    if steps == 0:
        raise NotRewritten("a scan of nothing")
    current = list(node.input[:states])
    found: list[list[str]] = [[] for _ in range(outputs)]
    for step in range(steps):
        now = []
        for place, name in enumerate(scanned):
            at = steps - 1 - step if backward[place] else step
            now.append(write("Gather", name, write.constant(at, "i8"), axis=axes[place]))
        results = _inlined(write, body, [*current, *now])
        current = results[:states]
        for one, result in zip(found, results[states:], strict=True):
            one.append(result)
    for place, name in enumerate(current):
        write.give(name, place)
    for place, several in enumerate(found):
        axis = out_axes[place] if out_axes else 0
        reverse = bool(out_backward) and out_backward[place]
        _give_stacked(write, several[::-1] if reverse else several, axis, states + place)


def rewrite_loop(node: Any, values: Values, write: Writer) -> None:
    """A loop of a number of steps that is known, which no condition ends before."""
    body = Attributes(node)("body")
    if not given(node, 0):
        raise NotRewritten("a loop without a number of steps")
    steps = int(values.constant(node.input[0]).item())
    _check_size(steps, body)
    condition = given(node, 1)
    if condition and not values.constant(condition).item():
        raise NotRewritten("a loop of no step")
    if steps <= 0 or not _goes_on(body):
        raise NotRewritten("a loop that a condition ends")
    current = list(node.input[2:])
    found: list[list[str]] = [[] for _ in range(len(node.output) - len(current))]
    true = write.constant(True, "bool")
    for step in range(steps):
        _, *results = _inlined(write, body, [write.constant(step, "i8"), true, *current])
        for one, result in zip(found, results[len(current) :], strict=True):
            one.append(result)
        current = results[: len(current)]
    for place, name in enumerate(current):
        write.give(name, place)
    for place, several in enumerate(found):
        _give_stacked(write, several, 0, len(current) + place)


def _goes_on(body: Any) -> bool:
    """Whether a loop's body gives the condition that it was given, or true."""
    name, given_name = body.output[0].name, body.input[1].name
    for node in reversed(body.node):
        if name in node.output and node.op_type == "Identity":
            name = node.input[0]
        elif name in node.output and node.op_type == "Constant":
            import onnx

            (value,) = (one for one in node.attribute if one.name == "value")
            return bool(onnx.numpy_helper.to_array(value.t).all())
    return bool(name == given_name)


def _check_size(steps: int, body: Any) -> None:
    if steps > _MOST_STEPS or steps * len(body.node) > _MOST_NODES:
        raise NotRewritten(f"{steps} steps of {len(body.node)} nodes")


def _give_stacked(write: Writer, several: list[str], axis: int, place: int) -> None:
    where = write.constant([axis], "i8")
    lines = [write("Unsqueeze", one, where) for one in several]
    write.give(write("Concat", *lines, axis=axis), place)


def _inlined(write: Writer, body: Any, arguments: list[str]) -> list[str]:
    """The results of a body of these arguments, whose nodes are written with names of their own."""
    names = {one.name: name for one, name in zip(body.input, arguments, strict=True)}
    for tensor in body.initializer:
        names[tensor.name] = write("Constant", value=tensor)
    for node in body.node:
        copy = type(node)()
        copy.CopyFrom(node)
        outer = [names.get(name, name) for name in node.input]
        copy.input[:] = outer
        fresh = write.several(node.op_type, outer, len(node.output))
        copy.output[:] = [one if name else "" for one, name in zip(fresh, node.output, strict=True)]
        copy.name = write.nodes[-1].name
        names.update(zip(node.output, fresh, strict=True))
        for attribute in copy.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                _rename(inner, names)
        write.nodes[-1] = copy
    return [names.get(one.name, one.name) for one in body.output]


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Have a graph inside a node read the new names of what stands outside it."""
    own = {one.name for one in (*graph.input, *graph.initializer)}
    own |= {name for node in graph.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                _rename(inner, outer)
    for one in graph.output:
        one.name = outer.get(one.name, one.name)
