"""The builder: tile programs written in Python.

>>> from tvm_iree_ext import vector
>>> with vector.program("axpy") as b:
...     x = b.argument("x", vector.tensor((4, 8)))
...     y = b.argument("y", vector.tensor((4, 8)))
...     rows = b.transfer_read(x, [0, 0], (4, 8)) * 2.0 + b.transfer_read(y, [0, 0], (4, 8))
...     b.returns(z=b.transfer_write(rows, y, [0, 0]))
>>> print(b.program)
func @axpy(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (z: tensor<4x8xf32>) {
  %c0 = arith.constant 0 : index
  %cst = arith.constant 0.0 : f32
  %cst_0 = arith.constant dense<2.0> : vector<4x8xf32>
  %0 = vector.transfer_read %x[%c0, %c0], %cst : tensor<4x8xf32>, vector<4x8xf32>
  %1 = arith.mulf %0, %cst_0 : vector<4x8xf32>
  %2 = vector.transfer_read %y[%c0, %c0], %cst : tensor<4x8xf32>, vector<4x8xf32>
  %3 = arith.addf %1, %2 : vector<4x8xf32>
  %4 = vector.transfer_write %3, %y[%c0, %c0] : vector<4x8xf32>, tensor<4x8xf32>
  func.return %4 : tensor<4x8xf32>
}
"""

from typing import Any

from tvm_iree_ext.vector.ir import vector_types
from tvm_iree_ext.vector.ir.core import Block, Value
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ops.contract import ContractionOps
from tvm_iree_ext.vector.ops.control import ControlOps
from tvm_iree_ext.vector.ops.elementwise import ElementwiseOps
from tvm_iree_ext.vector.ops.lanes import LaneOps
from tvm_iree_ext.vector.ops.memory import MemoryOps
from tvm_iree_ext.vector.ops.reduction import ReductionOps
from tvm_iree_ext.vector.ops.shape import ShapeOps
from tvm_iree_ext.vector.ops.slices import SliceOps
from tvm_iree_ext.vector.ops.structured import StructuredOps
from tvm_iree_ext.vector.ops.tensors import TensorOps
from tvm_iree_ext.vector.ops.transfer import TransferOps
from tvm_iree_ext.vector.programs.vector_program import INPUT, OUTPUT, VectorProgram


class Builder(
    TransferOps,
    ContractionOps,
    ReductionOps,
    ShapeOps,
    SliceOps,
    LaneOps,
    MemoryOps,
    ElementwiseOps,
    ControlOps,
    TensorOps,
    StructuredOps,
):
    """Makes operations, one after the other, at an insertion point.

    ``Builder(entry)`` inserts at the end of a program's body, ``Builder(entry, at)`` at the end of
    another block or before an operation: so passes build what they put in place of an op.
    """


class ProgramBuilder(Builder):
    """Builds a whole program: what :func:`program` gives."""

    def __init__(self, name: str) -> None:
        super().__init__(Block())
        if not name.isidentifier():
            raise VectorError("E_STRUCTURE", f"program {name!r}: expected an identifier")
        self._name = name
        self._roles: list[str] = []
        self._program: VectorProgram | None = None

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)
        if kind is None and self._program is None:
            self.returns()

    def argument(self, name: str, type: vector_types.Type | str) -> Value:
        """An input.  Of a buffer that is written, the new content is a result of the same name."""
        return self._add(name, type, INPUT)

    def output(self, name: str, type: vector_types.BufferType) -> Value:
        """A buffer that the program fills: its content is undefined before, and a result."""
        if not isinstance(type, vector_types.BufferType):
            raise VectorError("E_NOT_A_BUFFER", f"output {name} is {type}; expected a buffer")
        return self._add(name, type, OUTPUT)

    def _add(self, name: str, type: vector_types.Type | str, role: str) -> Value:
        if not name.isidentifier() or name in [one.hint for one in self.entry.arguments]:
            raise VectorError("E_STRUCTURE", f"argument {name!r}: expected a new identifier")
        type = vector_types.scalar(type) if isinstance(type, str) else type
        if not isinstance(
            type, vector_types.ScalarType | vector_types.VectorType | vector_types.MemoryType
        ):
            raise VectorError(
                "E_STRUCTURE", f"argument {name!r} is {type!r}; expected a type, as vector.vector"
            )
        self._roles.append(role)
        return self.entry.add_argument(type, name)

    def returns(self, *values: Value, **named: Value) -> None:
        """End the program: what it gives back, by name; ``result`` is the name of one without."""
        if self._program is not None:
            raise VectorError("E_STRUCTURE", f"program {self._name!r} returns twice")
        unnamed = ["result"] if len(values) == 1 else [f"result{i}" for i in range(len(values))]
        every = dict(zip(unnamed, values, strict=True)) | named
        self.create("func.return", {"values": list(every.values())}, {"names": tuple(every)})
        self._program = VectorProgram(self._name, self.entry, self._roles)

    @property
    def program(self) -> VectorProgram:
        """The built program."""
        if self._program is None:
            raise VectorError("E_STRUCTURE", f"program {self._name!r} is not complete")
        return self._program


def program(name: str) -> ProgramBuilder:
    """A builder for a program, to be used in a ``with`` statement; then ``.program`` is it."""
    return ProgramBuilder(name)
