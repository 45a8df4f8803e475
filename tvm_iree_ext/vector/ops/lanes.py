"""extract, insert and their element forms: one register, or one lane (rules R2 to R6).

Outer indices name registers and are numbers; only the lane of a 1-D vector may be a run-time value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import IndexLike, Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import ScalarType, Type, VectorType, extents
from tvm_iree_ext.vector.ops import checks


def sub_type(type: VectorType, count: int) -> VectorType | ScalarType:
    """Type of an element behind ``count`` indices."""
    shape = type.shape[count:]
    return VectorType(shape, type.dtype) if shape else ScalarType(type.dtype)


def _check_position(op: Operation, name: str, type: VectorType) -> tuple[int, ...]:
    position = checks.ints(op, "position")
    if len(position) > type.rank:
        raise op.error("E_RANK", f"position {list(position)} has more entries than {name} {type}")
    for dim, (index, extent) in enumerate(zip(position, type.shape, strict=False)):
        if not 0 <= index < extent:
            raise op.error(
                "E_INDEX_RANGE",
                f"position[{dim}] is {index}; expected 0..{extent - 1} of {name} {type}",
            )
    return position


def _at(position: Sequence[Any]) -> tuple[Any, ...]:
    """An index of NumPy that gives an array for a scalar, too."""
    return (*map(int, position), ...)


def _spelling(short: str, part: Value, op: Operation) -> str:
    return f"{short} {extents(part.shape)}->{extents(op.result.shape) or 'scalar'}"


@register
class Extract(Definition):
    """``V[position]``: a sub-vector, or a scalar."""

    name = "vector.extract"
    operands = ("vector",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        return [sub_type(vector, len(_check_position(op, "vector", vector)))]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [values[0][_at(op.attributes["position"])]]

    def text(self, op: Operation, names: ValueNames) -> str:
        vector = op.operand("vector")
        position = list(op.attributes["position"])
        return f"{names[vector]}{position} : {op.result.type} from {vector.type}"

    def spelling(self, op: Operation) -> str:
        return _spelling("extract", op.operand("vector"), op)


@register
class Insert(Definition):
    """A copy of dest with ``dest[position] = value``."""

    name = "vector.insert"
    operands = ("value", "dest")

    def result_types(self, op: Operation) -> Sequence[Type]:
        value, dest = checks.value_of(op, "value"), checks.vector_of(op, "dest")
        part = sub_type(dest, len(_check_position(op, "dest", dest)))
        checks.same_dtype(op, "value", value.dtype, dest.dtype, "dest")
        checks.same_shape(op, "value", value.shape, part.shape, "dest behind the position")
        return [dest]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        result = values[1].copy()
        result[_at(op.attributes["position"])] = values[0]
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        value, dest = op.operands
        position = list(op.attributes["position"])
        return f"{names[value]}, {names[dest]} {position} : {value.type} into {dest.type}"

    def spelling(self, op: Operation) -> str:
        return (
            f"insert {extents(op.operand('value').shape) or 'scalar'}->{extents(op.result.shape)}"
        )


def _check_lane(op: Operation, name: str) -> VectorType:
    """A vector with at most one dim, and a position where it has one."""
    vector = checks.vector_of(op, name)
    if vector.rank > 1:
        raise op.error("E_RANK", f"{name} is {vector}; expected rank 1 or 0")
    position = op.optional("position")
    if (position is None) != (vector.rank == 0):
        came = "no position" if position is None else "a position"
        raise op.error("E_ATTR_LENGTH", f"{name} is {vector} and has {came}")
    if position is None:
        return vector
    checks.index_type(op, "position", position)
    if position.constant is not None and not 0 <= position.constant < vector.shape[0]:
        raise op.error(
            "E_INDEX_RANGE",
            f"position is {position.constant}; expected 0..{vector.shape[0] - 1} of {vector}",
        )
    return vector


@register
class ExtractElement(Definition):
    """``v[position]`` of a 1-D vector; outside it, undefined."""

    name = "vector.extractelement"
    operands = ("vector", "position?")

    def result_types(self, op: Operation) -> Sequence[Type]:
        return [ScalarType(_check_lane(op, "vector").dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        vector, *position = values
        return [vector[_at(position)]]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{_element(op, names, 'vector')} : {op.operand('vector').type}"

    def spelling(self, op: Operation) -> str:
        return _spelling("extractelement", op.operand("vector"), op)


@register
class InsertElement(Definition):
    """A copy of dest with ``dest[position] = value``; outside it, undefined."""

    name = "vector.insertelement"
    operands = ("value", "dest", "position?")

    def result_types(self, op: Operation) -> Sequence[Type]:
        dest, value = _check_lane(op, "dest"), op.operand("value")
        if value.type != ScalarType(dest.dtype):
            raise op.error(
                "E_ELEMENT_TYPE", f"value is {value.type}; expected {ScalarType(dest.dtype)}"
            )
        return [dest]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        value, dest, *position = values
        result = dest.copy()
        result[_at(position)] = value
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        value = names[op.operand("value")]
        return f"{value}, {_element(op, names, 'dest')} : {op.result.type}"

    def spelling(self, op: Operation) -> str:
        return f"insertelement scalar->{extents(op.result.shape)}"


def _element(op: Operation, names: ValueNames, name: str) -> str:
    return f"{names[op.operand(name)]}[{names.list(op.group('position'))}]"


def _depends_on_loop(value: Value) -> bool:
    """Whether a position is computed from the index of a loop."""
    if isinstance(value.owner, Block):
        return value in value.owner.indices
    return any(_depends_on_loop(operand) for operand in value.owner.operands)


class LaneOps(Insertion):
    """The builder's access to registers and lanes."""

    def extract(self, vector: Value, position: Any) -> Value:
        """``vector[position]``: numbers, and for the lane a number or a run-time index.

        Raises:
            VectorError: E_DYNAMIC_OUTER_INDEX, or in a loop over an index E_LOOP_OVER_REGISTERS,
                for a run-time index that is not the lane's.
        """
        entries = self._position("vector.extract", vector, position)
        if not entries or not isinstance(entries[-1], Value):
            attributes = {"position": tuple(entries)}
            return self.create("vector.extract", {"vector": vector}, attributes).result
        row = self.extract(vector, entries[:-1]) if len(entries) > 1 else vector
        return self.extractelement(row, entries[-1])

    def insert_at(self, value: Any, dest: Value, position: Any) -> Value:
        """``dest`` with ``dest[position]`` replaced: positions are as in :meth:`extract`."""
        entries = self._position("vector.insert", dest, position)
        assert isinstance(dest.type, VectorType)
        value = self.element(value, sub_type(dest.type, len(entries)))
        if not entries or not isinstance(entries[-1], Value):
            operands = {"value": value, "dest": dest}
            return self.create("vector.insert", operands, {"position": tuple(entries)}).result
        if len(entries) == 1:
            return self.insertelement(value, dest, entries[0])
        row = self.insertelement(value, self.extract(dest, entries[:-1]), entries[-1])
        return self.insert_at(row, dest, entries[:-1])

    def extractelement(self, vector: Value, position: IndexLike | None = None) -> Value:
        """The lane of a 1-D vector at a run-time position."""
        at = None if position is None else self.index(position)
        return self.create("vector.extractelement", {"vector": vector, "position": at}).result

    def insertelement(self, value: Any, dest: Value, position: IndexLike | None = None) -> Value:
        """A 1-D vector with the lane at a run-time position replaced."""
        at = None if position is None else self.index(position)
        operands = {"value": self.element(value, dest.dtype), "dest": dest, "position": at}
        return self.create("vector.insertelement", operands).result

    def unrolled(self, stop: int, start: int = 0) -> range:
        """The numbers of a loop that is unrolled while the program is built (rule R6).

        Raises:
            VectorError: E_LOOP_OVER_REGISTERS when a bound is not known.
        """
        for name, bound in (("start", start), ("stop", stop)):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise VectorError(
                    "E_LOOP_OVER_REGISTERS", f"unrolled: {name} is {bound!r}, known at run time"
                )
        return range(start, stop)

    @staticmethod
    def _position(op: str, vector: Value, position: Any) -> list[Any]:
        """The entries; the last may be a Value where it is the lane's."""
        entries = list(position) if isinstance(position, tuple | list) else [position]
        if not isinstance(vector.type, VectorType):
            raise VectorError("E_RANK", f"{op}: {vector.type} cannot be indexed; expected a vector")
        for dim, entry in enumerate(entries):
            if isinstance(entry, np.integer):
                entries[dim] = int(entry)
                continue
            if not isinstance(entry, Value):
                if isinstance(entry, bool) or not isinstance(entry, int):
                    raise VectorError(
                        "E_ELEMENT_TYPE", f"{op}: position[{dim}] is {entry!r}; expected an index"
                    )
                continue
            if entry.constant is not None:
                entries[dim] = entry.constant
            elif dim != vector.rank - 1:
                name = entry.hint or "a run-time value"
                in_loop = _depends_on_loop(entry)
                code = "E_LOOP_OVER_REGISTERS" if in_loop else "E_DYNAMIC_OUTER_INDEX"
                raise VectorError(code, f"{op}: position[{dim}] of {vector.type} is {name}")
        return entries
