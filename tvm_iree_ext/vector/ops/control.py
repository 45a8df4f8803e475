"""Loops and conditions.  What a loop changes, it carries: a tensor, a vector or a scalar."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register, register_as
from tvm_iree_ext.vector.ir.insertion import IndexLike, Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import BufferType, ScalarType, Type, scalar
from tvm_iree_ext.vector.ops import checks


def _check_body(op: Operation, block: Block, indices: int, types: Sequence[Type]) -> None:
    """A loop's body takes indices and what is carried, and yields what is carried on."""
    arguments = [argument.type for argument in block.arguments]
    if block.inductions != indices or arguments != [scalar("index")] * indices + list(types):
        raise op.error(
            "E_STRUCTURE",
            f"the body takes {ValueNames.types(block.arguments) or 'nothing'}; expected"
            f" {indices} of index, then {', '.join(map(str, types)) or 'nothing'}",
        )
    _check_yield(op, block, types)


def _check_yield(op: Operation, block: Block, types: Sequence[Type]) -> None:
    if not block.operations or block.terminator.name != "scf.yield":
        raise op.error("E_STRUCTURE", "the body does not end in scf.yield")
    yielded = block.terminator.operands
    checks.length(op, "scf.yield", yielded, len(types), "value carried")
    for number, (value, type) in enumerate(zip(yielded, types, strict=True)):
        if value.type != type:
            code = "E_ELEMENT_TYPE" if value.dtype != type.dtype else "E_SHAPE_MISMATCH"
            raise op.error(code, f"yields {value.type} as value {number}; expected {type}")


def _carried_types(op: Operation, name: str) -> list[Type]:
    types = [value.type for value in op.group(name)]
    for number, type in enumerate(types):
        if isinstance(type, BufferType):
            raise op.error("E_STRUCTURE", f"{name}[{number}] is {type}; a buffer is not carried")
    return types


@register_as("scf.yield", "func.return", "linalg.yield")
class Terminator(Definition):
    """Says which values leave a block."""

    operands = ("values*",)
    is_terminator = True

    def result_types(self, op: Operation) -> Sequence[Type]:
        return []

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return []

    def text(self, op: Operation, names: ValueNames) -> str:
        if not op.operands:
            return ""
        return f"{names.list(op.operands)} : {names.types(op.operands)}"


@register
class For(Definition):
    """``for index in lower..upper step``: one iteration after the other, carrying values."""

    name = "scf.for"
    operands = ("lower", "upper", "step", "inits*")

    def result_types(self, op: Operation) -> Sequence[Type]:
        for name in ("lower", "upper", "step"):
            checks.index_type(op, name, op.operand(name))
        step = op.operand("step").constant
        if step is not None and step < 1:
            raise op.error("E_INDEX_RANGE", f"step is {step}; expected at least 1")
        types = _carried_types(op, "inits")
        _check_body(op, op.body, 1, types)
        return types

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        lower, upper, step, *carried = values
        for index in range(int(lower), int(upper), int(step)):
            carried = run_block(op.body, [np.asarray(index, np.int64), *carried])
        return carried

    def text(self, op: Operation, names: ValueNames) -> str:
        lower, upper, step = (names[op.operand(one)] for one in ("lower", "upper", "step"))
        text = f"{names[op.body.indices[0]]} = {lower} to {upper} step {step}"
        return text + _carries("iter_args", op, op.group("inits"), names)


@register
class ForAll(Definition):
    """A loop nest whose iterations run in any order, each on parts of the outs of its own."""

    name = "scf.forall"
    operands = ("bounds*", "outs*")

    def result_types(self, op: Operation) -> Sequence[Type]:
        bounds = op.group("bounds")
        if not bounds:
            raise op.error("E_ATTR_LENGTH", "no bounds came; expected one for each index")
        for number, bound in enumerate(bounds):
            checks.index_type(op, f"bounds[{number}]", bound)
        types = _carried_types(op, "outs")
        for number, value in enumerate(op.group("outs")):
            if not value.is_memory:
                raise op.error(
                    "E_NOT_A_BUFFER", f"outs[{number}] is {value.type}; expected a tensor"
                )
        _check_body(op, op.body, len(bounds), types)
        return types

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        outs = op.segment_of(values, "outs")
        for point in np.ndindex(*map(int, op.segment_of(values, "bounds"))):
            outs = run_block(op.body, [*(np.asarray(i, np.int64) for i in point), *outs])
        return outs

    def text(self, op: Operation, names: ValueNames) -> str:
        text = f"({names.list(op.body.indices)}) in ({names.list(op.group('bounds'))})"
        mapping = op.attributes.get("mapping")
        mapped = f" mapping({mapping})" if mapping else ""
        return text + _carries("shared_outs", op, op.group("outs"), names) + mapped


@register
class If(Definition):
    """One of two bodies; both yield the same types."""

    name = "scf.if"
    operands = ("condition",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        condition = op.operand("condition").type
        if condition != ScalarType("bool"):
            raise op.error("E_ELEMENT_TYPE", f"condition is {condition}; expected i1")
        checks.length(op, "bodies", op.regions, 2, "outcome")
        types = [value.type for value in op.body.terminator.operands]
        for block in op.regions:
            _check_yield(op, block, types)
        return types

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return run_block(op.regions[0 if values[0] else 1], [])

    def text(self, op: Operation, names: ValueNames) -> str:
        types = f" -> ({names.types(op.results)})" if op.results else ""
        return f"{names[op.operand('condition')]}{types}"

    def spelling(self, op: Operation) -> str:
        return "if"


def _carries(word: str, op: Operation, inits: Sequence[Value], names: ValueNames) -> str:
    if not inits:
        return ""
    pairs = zip(op.body.carried, inits, strict=True)
    carried = ", ".join(f"{names[argument]} = {names[init]}" for argument, init in pairs)
    return f" {word}({carried}) -> ({names.types(inits)})"


class Loop:
    """A loop that is being built: its indices, what it carries, and after it its results."""

    def __init__(self, block: Block, builder: "ControlOps") -> None:
        self.indices: list[Value] = block.indices
        self.carried: list[Value] = block.carried
        self.results: list[Value] = []
        self._builder = builder

    @property
    def index(self) -> Value:
        """The only index."""
        (index,) = self.indices
        return index

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result

    def yield_(self, *values: Value) -> None:
        """Say what the next iteration is given, and the last one leaves."""
        self._builder.create("scf.yield", {"values": values})


class ControlOps(Insertion):
    """The builder's loops and conditions."""

    @contextlib.contextmanager
    def loop(
        self,
        lower: IndexLike,
        upper: IndexLike,
        step: IndexLike = 1,
        carry: Sequence[Value] = (),
        hint: str = "i",
    ) -> Iterator[Loop]:
        """A loop; its body is what is built inside the ``with`` statement.

        A body that carries values ends in ``loop.yield_(...)``; afterwards they are ``results``.
        """
        bounds = dict(
            zip(("lower", "upper", "step"), self.indices([lower, upper, step]), strict=True)
        )
        for init in carry:
            if not isinstance(init, Value):
                raise VectorError(
                    "E_STRUCTURE",
                    f"scf.for: carry has {init!r}; expected values, as b.constant makes",
                )
        block = Block([scalar("index"), *(v.type for v in carry)], [hint], inductions=1)
        with self._body(block) as loop:
            yield loop
        op = self.create("scf.for", {**bounds, "inits": carry}, {}, [block])
        loop.results = op.results

    @contextlib.contextmanager
    def forall(
        self,
        *bounds: IndexLike,
        outs: Sequence[Value] = (),
        mapping: str = "",
        hints: Sequence[str] = ("i", "j", "k"),
    ) -> Iterator[Loop]:
        """A loop nest whose iterations may run at once; each writes its own part of ``outs``.

        ``mapping`` is what the iterations are given to, such as "workgroup" or "thread".
        """
        given = self.indices(bounds)
        types = [scalar("index")] * len(given) + [value.type for value in outs]
        block = Block(types, hints[: len(given)], inductions=len(given))
        with self._body(block) as loop:
            yield loop
        attributes = {"mapping": mapping} if mapping else {}
        op = self.create("scf.forall", {"bounds": given, "outs": outs}, attributes, [block])
        loop.results = op.results

    @contextlib.contextmanager
    def _body(self, block: Block) -> Iterator[Loop]:
        loop = Loop(block, self)
        with self.inside(block):
            yield loop
            if not block.operations or not block.terminator.definition.is_terminator:
                self.create("scf.yield")

    def if_(
        self,
        condition: Value,
        then: Callable[[], Value | Sequence[Value] | None],
        otherwise: Callable[[], Value | Sequence[Value] | None] | None = None,
    ) -> list[Value]:
        """Build a conditional at run time: the results of one of two functions."""
        blocks = []
        for build in (then, otherwise):
            block = Block()
            with self.inside(block):
                made = None if build is None else build()
                self.create("scf.yield", {"values": made})
            blocks.append(block)
        return self.create("scf.if", {"condition": condition}, {}, blocks).results
