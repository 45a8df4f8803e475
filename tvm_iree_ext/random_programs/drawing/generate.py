"""Random webs: a seed is one program with its arrays, the same everywhere.

A web grows by one operation at a time, whose meaning is computed at once: what overflows, or hangs
on a rounding error, is taken back.  Arrays of any two types can meet, since one is brought to the
type of the other by operations that are part of the program.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import FLOATS
from tvm_iree_ext.random_programs.drawing.table import Attributes, apply
from tvm_iree_ext.random_programs.drawing.values import BoundedArray, Unsuited, exactly
from tvm_iree_ext.random_programs.drawing.vocabulary import TABLE
from tvm_iree_ext.random_programs.drawing.web import Input, Node, Type, Web, pruned

TYPES = ("float32", "bfloat16", "float16", "float64", "int32", "int8", "uint8", "bool", "mixed")
"""Main element types of a program's arrays."""

Takes = Callable[[Node, Sequence[Type]], bool]
"""Whether a language has an operation, of operands of these types."""

_EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 20, 24, 31, 32, 33, 40)
_LARGEST = 6000  # elements of an array
_ATTEMPTS = 30  # at each operation


def random_web(
    seed: int,
    dtype: str,
    *,
    ops: Collection[str],
    takes: Takes = lambda node, types: True,
    least: int = 5,
    most: int = 30,
) -> Web:
    """The web of a seed, of ``least`` to ``most`` operations of those named."""
    rng = np.random.default_rng([seed, TYPES.index(dtype)])
    draft = WebDraft(rng, dtype, sorted(ops), takes)
    draft.start()
    draft.grow(int(rng.integers(least, most + 1)), most)
    return draft.web({"seed": seed, "dtype": dtype})


class WebDraft:
    """A web in the making; see :class:`~.table.Draft`."""

    def __init__(
        self, rng: np.random.Generator, dtype: str, ops: Sequence[str], takes: Takes
    ) -> None:
        self.rng = rng
        self.nodes: list[Node] = []
        self._dtype, self._ops, self._takes = dtype, ops, takes
        self._inputs: list[Input] = []
        self._values: list[BoundedArray] = []
        self._is_body = False
        self._places: list[int] = []  # of each array: an input's number, or a node's from 0 on
        self._is_grid = bool(rng.random() < 0.4)
        pool = [int(extent) for extent in rng.choice(_EXTENTS, 3)]
        self._extents = [0, *pool[1:]] if rng.random() < 0.03 else pool

    def start(self) -> None:
        """Make the first inputs."""
        for place in range(int(self.rng.integers(1, 4))):
            shape = [
                self.one_of(self._extents) for _ in range(self.one_of([0, 1, 2, 2, 2, 3, 3, 4]))
            ]
            shape = shape or ([] if place else [self._extents[0]])
            while np.prod(shape) > _LARGEST:
                shape[int(np.argmax(shape))] = 2
            self._input(Type(self._element(), tuple(shape)))

    def _element(self) -> str:
        if self._dtype == "mixed":
            return self.one_of(TYPES[:-1])
        return self._dtype if self.chance(0.85) else self.one_of(["int32", "bool", self._dtype])

    def _input(self, type: Type) -> int:
        if type.is_float:
            low, high = self.one_of([(-2, 2), (-2, 2), (0.25, 2)])
            return self.fresh(type, "grid" if self._is_grid else "uniform", low, high)
        low, high = {"int8": (-20, 20), "uint8": (0, 40)}.get(type.dtype, (-50, 50))
        return self.fresh(type, "whole", low, high)

    def fresh(self, type: Type, fill: str, low: float, high: float) -> int:
        """One more input."""
        if self._is_body or type.size > _LARGEST:
            raise Unsuited("no input here")
        one = Input(type, fill, low, high, int(self.rng.integers(0, 2**31)))
        self._inputs.append(one)
        self._values.append(exactly(one.array(), type.dtype))
        self._places.append(-len(self._inputs))
        return len(self._values) - 1

    def type(self, number: int) -> Type:
        """The type of an array."""
        return self._values[number].type

    def value(self, number: int) -> BoundedArray:
        """Value of a node."""
        return self._values[number]

    def chance(self, of: float) -> bool:
        """Whether something happens that has this chance."""
        return bool(self.rng.random() < of)

    def one_of(self, choices: Sequence[Any]) -> Any:
        """One of several, each as likely."""
        return choices[int(self.rng.integers(0, len(choices)))]

    def pick(self, accepts: Callable[[Type], bool] = lambda type: True) -> int:
        """The number of an array of such a type: rather one of the first or of the last."""
        numbers = [n for n, value in enumerate(self._values) if accepts(value.type)]
        if not numbers:
            raise Unsuited("no such array")
        weights = np.array([2.0 if n < 3 or n > len(self._values) - 5 else 1.0 for n in numbers])
        return int(self.rng.choice(numbers, p=weights / weights.sum()))

    def add(self, op: str, operands: Sequence[int], attributes: Attributes) -> int:
        """One more operation; the number of what it gives."""
        values = [self._values[one] for one in operands]
        found = apply(op, values, attributes)
        node = Node(op, tuple(operands), attributes, found.type)
        if found.data.size > _LARGEST or found.data.ndim > 5:
            raise Unsuited("a large array")
        if not self._takes(node, [value.type for value in values]):
            raise Unsuited("not in this language")
        self.nodes.append(node)
        self._values.append(found)
        self._places.append(len(self.nodes) - 1)
        return len(self._values) - 1

    def grow(self, count: int, most: int | None = None) -> None:
        """Add so many operations, drawn at random."""
        weights = np.array([TABLE[name].weight for name in self._ops])
        weights /= weights.sum()
        for _ in range(_ATTEMPTS * count):
            if len(self.nodes) >= count:
                return
            before = len(self._inputs), len(self.nodes), len(self._values)
            op = TABLE[str(self.rng.choice(self._ops, p=weights))]
            try:
                self.add(op.name, *op.draw(self))
                too_many = most is not None and len(self.nodes) > most
            except Unsuited:
                too_many = True
            if too_many:
                del self._inputs[before[0] :], self.nodes[before[1] :]
                del self._values[before[2] :], self._places[before[2] :]

    def nested(self, operands: Sequence[int], ops: Sequence[str]) -> "WebDraft":
        """A draft of a body that reads these, of these operations alone."""
        inner = WebDraft(self.rng, self._dtype, [op for op in ops if op in self._ops], self._takes)
        inner._is_body = True
        inner._values = [self._values[one] for one in operands]
        return inner

    def like(self, type: Type) -> int:
        """An array of this type, made of one that is there by operations that are added."""
        if not self._is_body and len(self._inputs) < 8 and self.chance(0.15):
            return self._input(type)
        same = [n for n, value in enumerate(self._values) if value.type == type]
        if same and self.chance(0.65):
            return int(self.one_of(same))
        number = self.pick(lambda t: t.size > 0 or type.size == 0)
        if not self.type(number).size:  # has no element to be chosen
            number = self.add("reshape", [number], {"shape": list(type.shape)})
        for step in (self._with_rank, self._with_extents, self._with_element):
            number = step(number, type)
        return number

    def _with_element(self, number: int, type: Type) -> int:
        if self.type(number).dtype == type.dtype:
            return number
        whole = type.dtype not in (*FLOATS, "bool")
        if whole and self.type(number).is_float:  # which seldom lies within
            bounds = {"low": 0 if type.dtype == "uint8" else -100, "high": 100}
            number = self.add("clamp", [number], bounds)
        return self.add("convert", [number], {"dtype": type.dtype})

    def _with_rank(self, number: int, type: Type) -> int:
        while (shape := self.type(number).shape) and len(shape) > type.rank:
            axis = int(self.rng.integers(0, len(shape)))
            if self.chance(0.3) and self.type(number).dtype != "bool":
                number = self.add("reduce", [number], {"kind": "max", "axes": [axis]})
                continue
            start, limit = [0] * len(shape), list(shape)
            start[axis] = int(self.rng.integers(0, shape[axis]))
            limit[axis] = start[axis] + 1
            stride = [1] * len(shape)
            held = {"start": start, "limit": limit, "stride": stride}
            number = self.add("slice", [number], held)
            rest = [*shape[:axis], *shape[axis + 1 :]]
            number = self.add("reshape", [number], {"shape": rest})
        if len(shape) < type.rank:
            missing = type.rank - len(shape)
            axes = list(range(missing, type.rank))
            wide = [*type.shape[:missing], *shape]
            number = self.add("broadcast", [number], {"shape": wide, "axes": axes})
        return number

    def _with_extents(self, number: int, type: Type) -> int:
        shape = self.type(number).shape
        start, limit, low, high = [], [], [], []
        wide = list(shape)
        for axis, (extent, wanted) in enumerate(zip(shape, type.shape, strict=True)):
            more = max(extent - wanted, 0)
            start.append(int(self.rng.integers(0, more + 1)))
            limit.append(start[-1] + min(extent, wanted))
            fewer = max(wanted - extent, 0)
            if extent == 1 and fewer:
                wide[axis], fewer = wanted, 0
            low.append(int(self.rng.integers(0, fewer + 1)))
            high.append(fewer - low[-1])
        rank = len(shape)
        if limit != list(shape):
            held = {"start": start, "limit": limit, "stride": [1] * rank}
            number = self.add("slice", [number], held)
        if any(low) or any(high):
            edges: dict[str, Any] = {"low": low, "high": high, "interior": [0] * rank}
            number = self.add("pad", [number], {**edges, "value": 1})
        shape = self.type(number).shape
        if shape != type.shape:
            held = {"shape": list(type.shape), "axes": list(range(rank))}
            number = self.add("broadcast", [number], held)
        return number

    def web(self, notes: Attributes) -> Web:
        """The drafted web, with what nothing reads as its results, and some of what is read."""
        count = len(self._inputs)
        order = [n for n, place in enumerate(self._places) if place < 0]
        order += [n for n, place in enumerate(self._places) if place >= 0]
        number_of = {old: new for new, old in enumerate(order)}
        nodes = tuple(
            Node(n.op, tuple(number_of[one] for one in n.operands), n.attributes, n.type)
            for n in self.nodes
        )
        read = {one for node in nodes for one in node.operands}
        free = [n for n in range(count, count + len(nodes)) if n not in read]
        others = [n for n in range(count, count + len(nodes)) if n in read]
        results = free[-4:] + [int(self.one_of(others)) for _ in range(min(len(others), 1))]
        return pruned(Web(tuple(self._inputs), nodes, (), notes), sorted(results))
