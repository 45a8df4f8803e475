"""SSA form of vector programs: values, operations, blocks.

A small SSA form in the manner of MLIR.  A block is a list of operations; the last one, its
terminator, says which values leave it.  An operation with a body has blocks of its own.  Passes
copy a program and change the copy in place: values know their users, so a value can be replaced
everywhere, and operations can be inserted, moved and erased.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tvm_iree_ext.vector.ir.definition import Definition, definition
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    MemoryType,
    RankedTensorType,
    ScalarType,
    Type,
    VectorType,
)

T = TypeVar("T")

builders: list[Any] = []
"""The builders in use, the innermost last: what Python's operators on values build with."""


class Value:
    """A result of an operation, or an argument of a block.  Compared by identity.

    With a builder in use, ``v + w`` builds elementwise ops, and ``v[2]``, ``v[2, 3]``, ``v[i]``
    extract, as far as rules R2 to R6 allow.
    """

    __slots__ = ("_users", "hint", "number", "owner", "type")

    def __init__(self, type: Type, owner: "Operation | Block", number: int, hint: str = "") -> None:
        self.type = type
        self.owner = owner
        self.number = number
        self.hint = hint
        self._users: dict[Operation, int] = {}

    @property
    def op(self) -> "Operation | None":
        """The operation that makes this value; None for an argument of a block."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def block(self) -> "Block | None":
        """The block in which this value is defined."""
        return self.owner.parent if isinstance(self.owner, Operation) else self.owner

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents; empty for a scalar."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of extents."""
        return len(self.type.shape)

    @property
    def users(self) -> "list[Operation]":
        """The operations that take this value, each once, in the order in which they came."""
        return list(self._users)

    @property
    def use_count(self) -> int:
        """How many operands this value is."""
        return sum(self._users.values())

    @property
    def constant(self) -> Any:
        """The number or array, where this is a constant; None otherwise."""
        if self.op is None or self.op.name != "arith.constant":
            return None
        value = self.op.attributes["value"]
        return value if value.ndim else value.item()

    @property
    def is_vector(self) -> bool:
        """Whether this is a vector."""
        return isinstance(self.type, VectorType)

    @property
    def is_memory(self) -> bool:
        """Whether this is a tensor or a buffer."""
        return isinstance(self.type, MemoryType)

    def replace_by(self, other: "Value", *, but: "Sequence[Operation]" = ()) -> None:
        """Let all users, or all ``but`` some, take ``other`` instead."""
        for user in self.users:
            if user not in but:
                user.operands = [other if one is self else one for one in user.operands]

    def __repr__(self) -> str:
        return f"<Value {self.hint or self.number}: {self.type}>"

    def __getitem__(self, position: Any) -> "Value":
        return builders[-1].extract(self, position)

    def __iter__(self) -> Iterator["Value"]:
        raise VectorError("E_LOOP_OVER_REGISTERS", f"{self!r} cannot be iterated over")

    def __add__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("add", self, other)

    def __radd__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("add", other, self)

    def __sub__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return builders[-1].arithmetic("div", self, other)

    def __neg__(self) -> "Value":
        return builders[-1].arithmetic("sub", 0, self)


class Operation:
    """An op with operands, attributes and blocks.  Its definition checks it and types its results.

    ``operands`` is a flat list; :meth:`operand` and :meth:`group` find operands by the names of
    the definition.  To change operands, assign a new list.

    Raises:
        VectorError: when operands or attributes break a rule of the op.
    """

    __slots__ = (
        "_operands",
        "attributes",
        "definition",
        "parent",
        "regions",
        "results",
        "segments",
    )

    def __init__(
        self,
        name: str,
        operands: Mapping[str, Any],
        attributes: Mapping[str, Any] | None = None,
        regions: "Sequence[Block]" = (),
        hints: Sequence[str] = (),
    ) -> None:
        known = definition(name)
        groups = [_group(name, one, operands.get(one.rstrip("*?"))) for one in known.operands]
        self._set_up(
            known,
            [value for group in groups for value in group],
            tuple(map(len, groups)),
            attributes or {},
            regions,
        )
        types = known.result_types(self)
        hints = [*hints, *[""] * (len(types) - len(hints))]
        self.results = [
            Value(type, self, number, hint)
            for number, (type, hint) in enumerate(zip(types, hints, strict=True))
        ]
        self._use(self._operands)

    def _set_up(
        self,
        definition: Definition,
        operands: list[Value],
        segments: tuple[int, ...],
        attributes: Mapping[str, Any],
        regions: "Sequence[Block]",
    ) -> None:
        self.definition = definition
        self._operands = operands
        self.segments = segments
        self.attributes = dict(attributes)
        self.regions = list(regions)
        self.parent: Block | None = None
        for block in self.regions:
            block.parent = self

    @property
    def name(self) -> str:
        """The op's: dialect and word, as ``vector.fma``."""
        return self.definition.name

    @property
    def operands(self) -> list[Value]:
        """All operands; a copy."""
        return list(self._operands)

    @operands.setter
    def operands(self, values: Sequence[Value]) -> None:
        assert len(values) == len(self._operands), "the number of operands is fixed"
        self._release(self._operands)
        self._operands = list(values)
        self._use(self._operands)

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result

    def group(self, name: str) -> list[Value]:
        """The operands of a name: one, none or several."""
        start = 0
        for one, length in zip(self.definition.operands, self.segments, strict=True):
            if one.rstrip("*?") == name:
                return self._operands[start : start + length]
            start += length
        raise KeyError(f"{self.name} has no operand {name!r}")

    def operand(self, name: str) -> Value:
        """The one operand of a name."""
        (value,) = self.group(name)
        return value

    def optional(self, name: str) -> Value | None:
        """The operand of a name, where there is one."""
        return next(iter(self.group(name)), None)

    def segment_of(self, values: Sequence[T], name: str) -> list[T]:
        """The part of ``values``, one for each operand, of the operands of a name."""
        start = 0
        for one, length in zip(self.definition.operands, self.segments, strict=True):
            if one.rstrip("*?") == name:
                return list(values[start : start + length])
            start += length
        raise KeyError(f"{self.name} has no operand {name!r}")

    @property
    def body(self) -> "Block":
        """The first block inside."""
        return self.regions[0]

    def walk(self) -> "Iterator[Operation]":
        """This operation and all inside it, in order; the lists are copied before they are read."""
        yield self
        for block in self.regions:
            yield from block.walk()

    @property
    def is_pure(self) -> bool:
        """Whether this neither reads nor writes buffers, and nothing inside it does."""
        return not any(op.reads or op.writes for op in self.walk())

    @property
    def reads(self) -> list[Value]:
        """The buffers that this operation itself reads."""
        return [v for v in self.definition.reads(self) if not _is_tensor(v)]

    @property
    def writes(self) -> list[Value]:
        """The buffers that this operation itself writes."""
        return [v for v in self.definition.writes(self) if not _is_tensor(v)]

    def key(self) -> Hashable:
        """Equal for operations without body that compute the same from the same values."""
        attributes = tuple(
            (name, _frozen(self.attributes[name])) for name in sorted(self.attributes)
        )
        operands = tuple(map(id, self._operands))
        types = tuple(result.type for result in self.results)
        return self.name, operands, self.segments, attributes, types

    def clone(self, values: dict[Value, Value] | None = None) -> "Operation":
        """A copy with its body; operands are looked up in ``values``, results are added to it."""
        values = {} if values is None else values
        copy = Operation.__new__(Operation)
        operands = [values.get(value, value) for value in self._operands]
        regions = [block.clone(values) for block in self.regions]
        copy._set_up(self.definition, operands, self.segments, self.attributes, regions)
        copy.results = [Value(one.type, copy, one.number, one.hint) for one in self.results]
        values.update(zip(self.results, copy.results, strict=True))
        copy._use(operands)
        return copy

    def replace_by(self, *values: Value) -> None:
        """Let all users of the results take ``values``, and erase this operation."""
        for result, value in zip(self.results, values, strict=True):
            result.replace_by(value)
        self.erase()

    def erase(self) -> None:
        """Take this operation out of its block; nothing may use its results."""
        for result in self.results:
            assert not result._users, f"{self.name}: {result!r} is still used"
        for block in self.regions:
            for op in reversed(block.operations):
                op.erase()
        self.detach()
        self._release(self._operands)
        self._operands = []

    def detach(self) -> "Operation":
        """Take this operation out of its block, to be inserted elsewhere."""
        if self.parent is not None:
            self.parent.operations.remove(self)
            self.parent = None
        return self

    def move_before(self, other: "Operation") -> None:
        """Put this operation before another."""
        self.detach()
        assert other.parent is not None
        other.parent.insert(self, before=other)

    def is_before(self, other: "Operation") -> bool:
        """Whether this comes first; both stand in one block."""
        assert self.parent is not None
        assert self.parent is other.parent
        operations = self.parent.operations
        return operations.index(self) < operations.index(other)

    def is_inside(self, block: "Block") -> bool:
        """Whether this stands in the block, or in an operation in it."""
        parent = self.parent
        while parent is not None:
            if parent is block:
                return True
            parent = parent.parent.parent if parent.parent is not None else None
        return False

    def error(self, code: str, text: str) -> VectorError:
        """A refusal of this operation."""
        return VectorError(code, f"{self.name}: {text}")

    def _use(self, values: Sequence[Value]) -> None:
        for value in values:
            value._users[self] = value._users.get(self, 0) + 1

    def _release(self, values: Sequence[Value]) -> None:
        for value in values:
            value._users[self] -= 1
            if not value._users[self]:
                del value._users[self]

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


class Block:
    """A list of operations with arguments.

    The first ``inductions`` arguments are the indices of a loop.
    """

    def __init__(
        self, types: Sequence[Type] = (), hints: Sequence[str] = (), inductions: int = 0
    ) -> None:
        self.arguments: list[Value] = []
        self.operations: list[Operation] = []
        self.parent: Operation | None = None
        self.inductions = inductions
        for number, type in enumerate(types):
            self.add_argument(type, hints[number] if number < len(hints) else "")

    def add_argument(self, type: Type, hint: str = "") -> Value:
        """A new last argument."""
        self.arguments.append(Value(type, self, len(self.arguments), hint))
        return self.arguments[-1]

    def remove_argument(self, argument: Value) -> None:
        """Remove an argument that nothing uses; those after it are numbered anew."""
        assert not argument._users, f"{argument!r} is still used"
        self.arguments.remove(argument)
        for number, other in enumerate(self.arguments):
            other.number = number

    @property
    def indices(self) -> list[Value]:
        """The indices of the loop whose body this is."""
        return self.arguments[: self.inductions]

    @property
    def carried(self) -> list[Value]:
        """The arguments that are no indices: what a loop carries."""
        return self.arguments[self.inductions :]

    @property
    def terminator(self) -> Operation:
        """The last operation: it says which values leave the block."""
        return self.operations[-1]

    def insert(self, op: Operation, before: Operation | None = None) -> Operation:
        """Put an operation at the end, or before another."""
        assert op.parent is None, f"{op!r} already stands in a block"
        place = len(self.operations) if before is None else self.operations.index(before)
        self.operations.insert(place, op)
        op.parent = self
        return op

    def walk(self) -> Iterator[Operation]:
        """All operations, each before those inside it; what is erased meanwhile is left out."""
        for op in list(self.operations):
            if op.parent is self:
                yield from op.walk()

    def clone(self, values: dict[Value, Value]) -> "Block":
        """A copy; ``values`` is as in :meth:`Operation.clone`."""
        copy = Block(
            [one.type for one in self.arguments],
            [one.hint for one in self.arguments],
            self.inductions,
        )
        values.update(zip(self.arguments, copy.arguments, strict=True))
        for op in self.operations:
            copy.insert(op.clone(values))
        return copy


def _group(op: str, operand: str, given: Any) -> list[Value]:
    """The values that are given for an operand: as many as its name in the definition allows."""
    several = given if isinstance(given, list | tuple) else [given]
    values = [] if given is None else list(several)
    name = operand.rstrip("*?")
    for value in values:
        if not isinstance(value, Value):
            raise VectorError(
                "E_STRUCTURE",
                f"{op}: {name} is {value!r}; expected a value of the program, as b.constant makes",
            )
    if (operand == name and len(values) != 1) or (operand == f"{name}?" and len(values) > 1):
        raise VectorError("E_STRUCTURE", f"{op}: {name} is {len(values)} values; expected one")
    return values


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, RankedTensorType)


def _frozen(attribute: Any) -> Hashable:
    if isinstance(attribute, np.ndarray):
        return str(attribute.dtype), attribute.shape, attribute.tobytes()
    return tuple(attribute) if isinstance(attribute, list) else attribute


def is_index(value: Value) -> bool:
    """Whether this is a position: a scalar of type index."""
    return isinstance(value.type, ScalarType) and value.dtype == "index"
