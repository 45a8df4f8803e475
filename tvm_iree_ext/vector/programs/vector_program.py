"""A program in the vector form: a function of tensors, buffers, vectors and scalars.

It is an op like any other: ``tvm_iree_ext.build(program)`` compiles it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import tirx

from tvm_iree_ext.base.errors import CallError
from tvm_iree_ext.base.signature import Operand, Role, Signature
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.vector.analysis.op_counts import Counts, count_regions
from tvm_iree_ext.vector.analysis.runtime_extents import formula
from tvm_iree_ext.vector.analysis.work import flops
from tvm_iree_ext.vector.emit.function import prim_func
from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.evaluation import evaluate
from tvm_iree_ext.vector.ir.printing import ValueNames, print_block
from tvm_iree_ext.vector.ir.vector_types import INDEX, ScalarType, fits, numpy_type

INPUT, OUTPUT = "input", "output"


class VectorProgram(Op):
    """A function; passes take one and give another.

    Attributes:
        name: ``vector.`` and an identifier.
        body: its arguments and operations; the last one is ``func.return``.
    """

    def __init__(self, name: str, body: Block, roles: Sequence[str] | None = None) -> None:
        self.name = f"vector.{name}"
        self.body = body
        self._roles = tuple(roles or [INPUT] * len(body.arguments))

    @property
    def arguments(self) -> list[Value]:
        """The arguments of the body."""
        return list(self.body.arguments)

    @property
    def inputs(self) -> list[Value]:
        """The arguments that a caller gives."""
        pairs = zip(self.body.arguments, self._roles, strict=True)
        return [argument for argument, role in pairs if role == INPUT]

    @property
    def returned(self) -> dict[str, Value]:
        """The values that ``func.return`` takes, by name."""
        last = self.body.terminator
        return dict(zip(last.attributes["names"], last.operands, strict=True))

    @property
    def written(self) -> list[Value]:
        """The buffer arguments that are outputs, or that some operation writes."""
        touched = {buffer for op in self.walk() for buffer in op.writes}
        pairs = zip(self.body.arguments, self._roles, strict=True)
        return [argument for argument, role in pairs if role == OUTPUT or argument in touched]

    def is_output(self, argument: Value) -> bool:
        """Whether an argument is a buffer that the program fills, which no caller gives."""
        return self._roles[argument.number] == OUTPUT

    def walk(self) -> Iterator[Operation]:
        """All operations, each before those inside it."""
        return self.body.walk()

    def find(self, name: str) -> list[Operation]:
        """All operations of a name."""
        return [op for op in self.walk() if op.name == name]

    @property
    def signature(self) -> Signature:
        """The inputs, then what is returned, then the new content of buffers that are written."""
        operands = [self._operand(one.hint, one, "input") for one in self.inputs]
        operands += [self._operand(name, one, "result") for name, one in self.returned.items()]
        operands += [self._operand(one.hint, one, "result") for one in self.written]
        return Signature(tuple(operands))

    @staticmethod
    def _operand(name: str, value: Value, role: Role) -> Operand:
        dtype = "int64" if value.dtype == INDEX else value.dtype
        if isinstance(value.type, ScalarType):
            return Operand(name, (), dtype, "scalar" if role == "input" else role)
        shape = tuple(formula(value, axis) for axis in range(value.rank))
        return Operand(name, shape, dtype, role)

    @property
    def attributes(self) -> dict[str, Any]:
        """The text, which says all."""
        return {"program": str(self)}

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two for each product that is summed, as far as the loops are known."""
        return flops(self.body, extents)

    def prim_func(self) -> tirx.PrimFunc:
        """The program as TensorIR, in which vectors are local buffers.

        Raises:
            VectorError: for a program that a pass left wrong.
        """
        self.verify()
        return prim_func(self.entry, self.signature, self.body, self.written)

    def clone(self, name: str | None = None) -> "VectorProgram":
        """A copy that can be changed; optionally under another name."""
        return VectorProgram(name or self.entry, self.body.clone({}), self._roles)

    def verify(self) -> None:
        """Check each operation again, and that each value is defined before it is used.

        Raises:
            VectorError: for the first that is wrong: a pass left it so.
        """
        _verify(self.body, set())

    def counts(self) -> dict[str, Counts]:
        """How many operations of each spelling are before, in and after the loop nest.

        See :func:`.op_counts.count_regions`.
        """
        return count_regions(self.body)

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, np.ndarray]:
        """Evaluate the program in NumPy: slow and literal.

        Args:
            arguments: arrays or numbers in the order of the inputs.
            named: the same by name.

        Returns:
            What is returned, then the content of the buffers that are written, by name.  The
            caller's arrays are left as they are.

        Raises:
            CallError: for arguments that do not fit.
            VectorError: where the program does what is undefined.
        """
        given = self._bind(arguments, named)
        arrays = {}
        for argument in self.body.arguments:
            if self.is_output(argument):
                shape = [given.symbols.get(e, e) for e in argument.shape]
                arrays[argument] = np.zeros(shape, numpy_type(argument.dtype))
            else:
                arrays[argument] = given.arrays[argument]
        results = evaluate(self.body, arrays)
        found = dict(zip(self.returned, (np.array(one) for one in results), strict=True))
        return found | {argument.hint: arrays[argument] for argument in self.written}

    def _bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> "_Given":
        names = [argument.hint for argument in self.inputs]
        by_name = dict(zip(names, arguments, strict=False)) | dict(named)
        if len(arguments) + len(named) != len(names) or set(by_name) != set(names):
            raise CallError(
                f"{self.name}: got {len(arguments)} arguments and {', '.join(named) or 'no names'};"
                f" expected {', '.join(names)}"
            )
        given = _Given()
        for argument in self.inputs:
            given.take(self.name, argument, by_name[argument.hint])
        return given

    def __str__(self) -> str:
        names = ValueNames()
        arguments = ", ".join(
            f"{names.add(one)}: {one.type}{' {output}' if self.is_output(one) else ''}"
            for one in self.body.arguments
        )
        results = ", ".join(f"{name}: {value.type}" for name, value in self.returned.items())
        head = f"func @{self.entry}({arguments}){f' -> ({results})' if results else ''} {{"
        return "\n".join([head, *print_block(self.body, names, 1), "}"])

    def __repr__(self) -> str:
        return f"<VectorProgram {self.entry}>"


class _Given:
    """The arrays of a call, and the extents that their shapes tell."""

    def __init__(self) -> None:
        self.arrays: dict[Value, np.ndarray] = {}
        self.symbols: dict[Any, int] = {}

    def take(self, program: str, argument: Value, value: Any) -> None:
        array = np.array(value, order="C")
        dtype = numpy_type(argument.dtype)
        is_number = not isinstance(value, np.ndarray | np.generic) and array.ndim == 0
        if array.dtype != dtype and not is_number:
            raise CallError(f"{program}: {argument.hint} is {array.dtype}; expected {dtype}")
        array = array.astype(dtype)
        if array.ndim != argument.rank or not all(map(fits, array.shape, argument.shape)):
            raise CallError(
                f"{program}: {argument.hint} has shape {list(array.shape)}; expected"
                f" {argument.type}"
            )
        for axis, (extent, want) in enumerate(zip(array.shape, argument.shape, strict=True)):
            if not isinstance(want, str) or want == "?":
                continue
            if (known := self.symbols.setdefault(want, extent)) != extent:
                raise CallError(
                    f"{program}: {argument.hint} axis {axis} is {extent}; expected {known} ({want})"
                )
        self.arrays[argument] = array


def _verify(block: Block, known: set[Value]) -> None:
    known = known | set(block.arguments)
    for place, op in enumerate(block.operations):
        is_last = place == len(block.operations) - 1
        if op.parent is not block or op.definition.is_terminator != is_last:
            raise op.error("E_STRUCTURE", "does not stand where its block ends")
        for number, value in enumerate(op.operands):
            if value not in known:
                raise op.error("E_STRUCTURE", f"operand {number} is not defined before it is used")
        for inner in op.regions:
            if inner.parent is not op:
                raise op.error("E_STRUCTURE", "a block belongs to another operation")
            _verify(inner, known)
        types = list(op.definition.result_types(op))
        if types != [result.type for result in op.results]:
            raise op.error("E_STRUCTURE", f"results are not {', '.join(map(str, types))}")
        known.update(op.results)
