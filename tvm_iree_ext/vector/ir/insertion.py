"""Insertion points of new operations, and constants: the base of every builder."""

import contextlib
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.vector.ir.core import Block, Operation, Value, builders
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    INDEX,
    INTEGERS,
    ScalarType,
    Type,
    VectorType,
    numpy_type,
    scalar,
)

IndexLike: TypeAlias = Value | int
Operands: TypeAlias = Mapping[str, Any]
"""By name a value, several, or None for one that is absent."""


class Insertion:
    """An insertion point, and constants, of which there is one each at the start of the program.

    Used in a ``with`` statement, it is the builder of Python's operators on values.
    """

    def __init__(self, entry: Block, at: Block | Operation | None = None) -> None:
        self.entry = entry
        self.made: list[Operation] = []  # by this builder, in order; constants are left out
        self._block = entry
        self._before: Operation | None = None
        if isinstance(at, Operation):
            assert at.parent is not None
            self._block, self._before = at.parent, at
        elif at is not None:
            self._block = at

    def __enter__(self) -> Any:
        builders.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        builders.pop()

    @contextlib.contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Insert at the end of a block."""
        with self._moved(block, None):
            yield block

    @contextlib.contextmanager
    def before(self, op: Operation) -> Iterator[None]:
        """Insert before an operation."""
        assert op.parent is not None
        with self._moved(op.parent, op):
            yield

    @contextlib.contextmanager
    def after(self, op: Operation) -> Iterator[None]:
        """Insert after an operation."""
        assert op.parent is not None
        operations = op.parent.operations
        place = operations.index(op) + 1
        following = operations[place] if place < len(operations) else None
        with self._moved(op.parent, following):
            yield

    @contextlib.contextmanager
    def _moved(self, block: Block, before: Operation | None) -> Iterator[None]:
        was = self._block, self._before
        self._block, self._before = block, before
        try:
            yield
        finally:
            self._block, self._before = was

    def insert(self, op: Operation) -> Operation:
        """Put an operation at the insertion point."""
        self.made.append(op)
        return self._block.insert(op, self._before)

    def create(
        self,
        name: str,
        operands: Operands | None = None,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Block] = (),
        hints: Sequence[str] = (),
    ) -> Operation:
        """A new operation at the insertion point.

        Raises:
            VectorError: when it breaks a rule.
        """
        return self.insert(Operation(name, operands or {}, attributes, regions, hints))

    def constant(self, value: Any, type: Type | str = INDEX) -> Value:
        """A constant: a number, or for a vector type a number for all lanes or an array."""
        type = scalar(type) if isinstance(type, str) else type
        if not isinstance(type, ScalarType | VectorType):
            raise VectorError("E_ELEMENT_TYPE", f"arith.constant: {type} has no constants")
        try:
            given = np.asarray(value)
            if given.dtype.kind in "OSU":
                raise TypeError(f"{value!r} for {type}")
            if type.dtype in INTEGERS and given.dtype.kind not in "bui":
                raise TypeError(f"{given.dtype} for {type}")
            array = np.broadcast_to(given, type.shape).astype(numpy_type(type.dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise VectorError("E_ELEMENT_TYPE", f"arith.constant: {error}") from None
        first = None
        for op in self.entry.operations:
            if op.name != "arith.constant":
                first = op
                break
            known = op.attributes["value"]
            if op.result.type == type and known.tobytes() == array.tobytes():
                return op.result
        made = Operation("arith.constant", {}, {"value": array, "type": type}, (), [_hint(array)])
        return self.entry.insert(made, first).result

    def index(self, value: IndexLike) -> Value:
        """A position: a value of type index, or a number."""
        if isinstance(value, Value):
            return value
        try:
            return self.constant(operator.index(value), INDEX)
        except TypeError:
            raise VectorError(
                "E_ELEMENT_TYPE", f"a position is {value!r}; expected a whole number or a value"
            ) from None

    def indices(self, values: Sequence[IndexLike]) -> list[Value]:
        """Several positions."""
        return [self.index(value) for value in values]

    def element(self, value: Any, type: Type | str) -> Value:
        """A value of a type: one that is there, or a constant."""
        return value if isinstance(value, Value) else self.constant(value, type)


def _hint(array: np.ndarray) -> str:
    if array.ndim or array.dtype.kind not in "bi":
        return "cst"
    number = int(array)
    if array.dtype == bool:
        return "true" if number else "false"
    suffix = "" if array.dtype == np.int64 else f"_i{array.dtype.itemsize * 8}"
    return f"c{number}{suffix}".replace("-", "m")
