"""Loops and branches, whose bodies are small webs: a carried array first, then what they read."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.random_programs.drawing.table import Attributes, Draft, Drawn, WebOp, apply
from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited
from tvm_iree_ext.random_programs.drawing.web import Node, Type, node_json, node_of

STEPS = ("unary", "binary", "binary", "clamp", "reverse", "select", "compare", "scan")
"""The operations of bodies."""


def body_nodes(body: Mapping[str, Any]) -> list[Node]:
    """The nodes of a body, of which the last gives its result."""
    return [node_of(one) for one in body["nodes"]]


def _body(draft: Draft, operands: Sequence[int]) -> dict[str, Any]:
    """A body that keeps the type of its first operand."""
    carried = draft.type(operands[0])
    inner = draft.nested(operands, STEPS)
    inner.grow(int(draft.rng.integers(1, 4)))
    last = inner.like(carried)
    if carried.dtype == "bool":
        inner.add("unary", [last], {"function": "not"})
    else:
        bounds = {"low": 0 if carried.dtype == "uint8" else -4, "high": 4}
        inner.add("clamp", [last], bounds)
    return {"nodes": [node_json(node) for node in inner.nodes]}


def run_body(body: Mapping[str, Any], operands: Sequence[BoundedArray]) -> BoundedArray:
    """Evaluate a body."""
    values = list(operands)
    for node in body_nodes(body):
        values.append(apply(node.op, [values[one] for one in node.operands], node.attributes))
    if values[-1].type != operands[0].type:
        raise Unsuited("a body that changes what is carried")
    return values[-1]


def _operands(draft: Draft) -> list[int]:
    carried = draft.pick(lambda t: 0 < t.size < 1500)
    return [carried, draft.like(draft.type(carried))]


def _draw_loop(draft: Draft) -> Drawn:
    operands = _operands(draft)
    attributes = {"count": int(draft.rng.integers(0, 5)), "body": _body(draft, operands)}
    return operands, attributes


def _loop(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    return _repeated(values, attributes["count"], attributes["body"])


def _repeated(values: Sequence[BoundedArray], count: int, body: Mapping[str, Any]) -> BoundedArray:
    carried, *read = values
    for _ in range(count):
        carried = run_body(body, [carried, *read])
    return carried


def _draw_while(draft: Draft) -> Drawn:
    count = draft.fresh(Type("int32", ()), "whole", 0, 4)
    operands = _operands(draft)
    return [*operands, count], {"body": _body(draft, operands)}


def _while(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    *operands, count = values
    if not -1 <= int(count.data) <= 8:
        raise Unsuited("a long loop")
    return _repeated(operands, int(count.data), attributes["body"])


def _draw_cond(draft: Draft) -> Drawn:
    chosen = draft.like(Type("bool", ()))
    operands = _operands(draft)
    return [*operands, chosen], {"then": _body(draft, operands), "else": _body(draft, operands)}


def _cond(values: Sequence[BoundedArray], attributes: Attributes) -> BoundedArray:
    *operands, chosen = values
    if chosen.dtype != "bool":
        raise Unsuited("a condition that is no bool")
    return run_body(attributes["then" if np.all(chosen.data) else "else"], operands)


OPS = (
    WebOp("loop", _draw_loop, _loop, 0.5),
    WebOp("while", _draw_while, _while, 0.3),
    WebOp("cond", _draw_cond, _cond, 0.3),
)
