"""A program as data: operations over shared arrays, each array by its number.

Inputs come first, then what the operations give, in their order.  A web knows nothing of how it is
written in a language, nor of what its operations mean: see :mod:`.doors` and :mod:`~.table`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS, numpy_dtype

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Type:
    """An element type and a shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """How many elements."""
        return prod(self.shape)

    @property
    def rank(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether its elements are rounded."""
        return self.dtype in FLOATS


@dataclass(frozen=True)
class Input:
    """An array that a program is called with, by what it is filled with.

    ``uniform``: floats between the bounds; ``grid``: multiples of 1/4, whose sums are exact;
    ``whole``: integers; ``permutation``: 0, 1, ... in any order.
    """

    type: Type
    fill: str
    low: float
    high: float
    seed: int

    def array(self) -> np.ndarray:
        """The array: the same everywhere."""
        return np.asarray(self._elements())

    def _elements(self) -> np.ndarray:
        rng, shape = np.random.default_rng(self.seed), self.type.shape
        dtype = numpy_dtype(self.type.dtype)
        if self.fill == "permutation":
            return rng.permutation(self.type.size).reshape(shape).astype(dtype)
        if self.type.dtype == "bool":
            return rng.random(shape) < 0.5
        if self.fill == "uniform":
            return rng.uniform(self.low, self.high, shape).astype(dtype)
        step = 4 if self.fill == "grid" else 1
        whole = rng.integers(int(self.low * step), int(self.high * step) + 1, shape)
        return (whole / step if step > 1 else whole).astype(dtype)


@dataclass(frozen=True)
class Node:
    """An operation: its name in the table, operands by number, attributes as JSON, and its type."""

    op: str
    operands: tuple[int, ...]
    attributes: Attributes
    type: Type


@dataclass(frozen=True)
class Web:
    """A program; ``results`` are the numbers of the arrays that it gives."""

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
    notes: Attributes = field(default_factory=dict, compare=False)

    @property
    def types(self) -> list[Type]:
        """The type of each array, by number."""
        return [one.type for one in self.inputs] + [node.type for node in self.nodes]

    def arrays(self) -> list[np.ndarray]:
        """Arrays that the program is called with."""
        return [one.array() for one in self.inputs]

    def ops(self) -> list[str]:
        """The operations, in order."""
        return [node.op for node in self.nodes]

    def to_json(self) -> str:
        """JSON of one line."""
        return json.dumps(asdict(self), separators=(",", ":"))


def from_json(text: str) -> Web:
    """The web of a line.

    >>> web = Web((Input(Type("int32", (2,)), "whole", 0, 9, 1),), (), (0,))
    >>> from_json(web.to_json()) == web
    True
    """
    data = json.loads(text)
    return Web(
        tuple(Input(**{**one, "type": _type(one["type"])}) for one in data["inputs"]),
        tuple(node_of(one) for one in data["nodes"]),
        tuple(data["results"]),
        data["notes"],
    )


def node_json(node: Node) -> dict[str, Any]:
    """The JSON of a node, for the body of another."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(node)))
    return data


def node_of(data: Mapping[str, Any]) -> Node:
    """A node of its JSON."""
    return Node(data["op"], tuple(data["operands"]), data["attributes"], _type(data["type"]))


def _type(data: Mapping[str, Any]) -> Type:
    return Type(data["dtype"], tuple(data["shape"]))


def pruned(web: Web, results: Sequence[int]) -> Web:
    """The web with these results alone, and without what none of them needs."""
    needed, count = set(results), len(web.inputs)
    for number in range(len(web.types) - 1, count - 1, -1):
        if number in needed:
            needed |= set(web.nodes[number - count].operands)
    number_of = {old: new for new, old in enumerate(sorted(needed))}
    nodes = tuple(
        replace(node, operands=tuple(number_of[one] for one in node.operands))
        for number, node in enumerate(web.nodes, count)
        if number in needed
    )
    inputs = tuple(one for number, one in enumerate(web.inputs) if number in needed)
    return Web(inputs, nodes, tuple(number_of[one] for one in results), web.notes)
