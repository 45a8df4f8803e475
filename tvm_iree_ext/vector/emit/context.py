"""The state of emission: what each value of a program is in TensorIR."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, Index, cast, i64, known, run
from tvm_iree_ext.vector.emit.aliasing import Aliases
from tvm_iree_ext.vector.emit.registers import (
    ConstantVector,
    LocalVector,
    Vector,
    number,
    register_dtype,
    release,
)
from tvm_iree_ext.vector.ir.core import Block, Operation, Value
from tvm_iree_ext.vector.ir.vector_types import INDEX, ScalarType, VectorType

_ALIGN = 64  # bytes; of temporaries

Emit = Callable[["Emitter", Operation], None]
EMIT: dict[str, Emit] = {}
"""Emitters by the op's name."""


def emits(*names: str) -> Callable[[Emit], Emit]:
    """Put a function into :data:`EMIT`."""

    def add(function: Emit) -> Emit:
        EMIT.update(dict.fromkeys(names, function))
        return function

    return add


@dataclass(frozen=True)
class BufferBox:
    """A tensor or buffer: a box of a TIR buffer, from ``offsets`` on."""

    buffer: Any
    offsets: tuple[Expr, ...]
    shape: tuple[Index, ...]
    dtype: str

    @staticmethod
    def whole(buffer: Any, shape: Sequence[Index], dtype: str) -> "BufferBox":
        """All of a buffer."""
        return BufferBox(buffer, tuple(i64(0) for _ in shape), tuple(shape), dtype)

    def at(self, index: Sequence[Index]) -> list[Expr]:
        """Indices of the buffer for an index of this."""
        return [_add(o, i) for o, i in zip(self.offsets, index, strict=True)]

    def load(self, index: Sequence[Index], lanes: int = 1) -> Expr:
        """An element, or a run along the last axis."""
        at = self.at(index)
        if lanes > 1:
            at[-1] = run(at[-1], lanes)
        value = cast(self.buffer[tuple(at)], register_dtype(self.dtype))
        return release(value, self.dtype)

    def store(self, index: Sequence[Index], value: Expr, lanes: int = 1) -> None:
        """Write an element, or a run along the last axis."""
        at = self.at(index)
        if lanes > 1:
            at[-1] = run(at[-1], lanes)
        I.buffer_store(self.buffer, cast(value, memory_dtype(self.dtype)), at)

    def box(self, offsets: Sequence[Index], shape: Sequence[Index]) -> "BufferBox":
        """A part of this."""
        return BufferBox(self.buffer, tuple(self.at(offsets)), tuple(shape), self.dtype)

    def is_same(self, other: "BufferBox") -> bool:
        """Whether both are one memory, from the same place on."""
        starts = zip(self.offsets, other.offsets, strict=True)
        return self.buffer.same_as(other.buffer) and all(
            a is b or (known(a) is not None and known(a) == known(b)) for a, b in starts
        )


def _add(a: Expr, b: Index) -> Expr:
    """A sum of positions, at build time where both are known."""
    x, y = known(a), known(b)
    if x is not None and y is not None:
        return i64(x + y)
    return i64(b) if x == 0 else a if y == 0 else a + i64(b)


class Emitter:
    """Emits operations, one after the other, and keeps what their results are.

    Args:
        aliases: which tensors share memory.
        outputs: for a memory's number, the parameter that it becomes as a whole.
        is_parallel: whether tiles go to the thread pool.
    """

    def __init__(
        self, aliases: Aliases, outputs: Mapping[int, BufferBox], *, is_parallel: bool
    ) -> None:
        self.aliases = aliases
        self._outputs = dict(outputs)
        self.is_parallel = is_parallel
        self._values: dict[Value, Any] = {}

    def __setitem__(self, value: Value, what: Any) -> None:
        self._values[value] = what

    def scalar(self, value: Value) -> Expr:
        """The expression of a scalar."""
        if value.constant is not None:
            assert value.op is not None
            return number(value.op.attributes["value"][()], value.dtype)
        return self._values[value]

    def position(self, value: Value) -> Index:
        """A position: a number where it is known."""
        return value.constant if value.constant is not None else self._values[value]

    def positions(self, values: Sequence[Value]) -> list[Index]:
        """Several positions."""
        return [self.position(value) for value in values]

    def vector(self, value: Value) -> Vector:
        """The registers of a vector, or of a scalar as one lane."""
        if value.op is not None and value.op.name == "arith.constant":
            return ConstantVector(value.op.attributes["value"], value.dtype)
        what = self._values[value]
        if isinstance(what, Vector):
            return what
        return LocalVector((), value.dtype).fill(lambda _: what)

    def place(self, value: Value) -> BufferBox:
        """Memory of a tensor or buffer."""
        return self._values[value]

    def define(self, value: Value) -> LocalVector:
        """New registers for a vector."""
        made = LocalVector(value.shape, value.dtype)
        self._values[value] = made
        return made

    def bind(self, value: Value, expression: Expr) -> None:
        """Compute a scalar once from here on."""
        is_known = isinstance(expression, tirx.IntImm | tirx.FloatImm | tirx.Var)
        self._values[value] = expression if is_known else I.Bind(expression)

    def give(self, value: Value, registers: Callable[[int], Expr]) -> None:
        """Define a vector by its registers, or a scalar by the only one."""
        if isinstance(value.type, VectorType):
            self.define(value).fill(registers)
        else:
            self.bind(value, registers(0))

    def allocate(self, value: Value, shape: Sequence[Index]) -> BufferBox:
        """Memory for a tensor: the program's output where it becomes one, or else a temporary."""
        memory = self.aliases.memory.get(value)
        if memory is not None and memory in self._outputs and value not in self.aliases.views:
            return self._outputs.pop(memory)
        return temporary(shape, value.dtype)

    def destination(self, op: Operation, dest: Value, result: Value, *, is_read: bool) -> BufferBox:
        """Memory a result is written to: dest's own, or other memory with its content."""
        source = self.place(dest)
        if result in self.aliases.in_place:
            return source
        made = self.allocate(result, source.shape)
        if is_read:
            copy(source, made)
        return made

    def block(self, block: Block) -> list[Value]:
        """Emit a block; what its terminator takes."""
        for op in block.operations[:-1]:
            EMIT[op.name](self, op)
        return block.terminator.operands

    def keep(self, value: Value) -> "Kept":
        """A place that a vector or scalar is assigned to more than once."""
        if isinstance(value.type, VectorType):
            return Kept(LocalVector(value.shape, value.dtype), value)
        assert isinstance(value.type, ScalarType)
        return Kept(LocalVector((), value.dtype), value)

    def is_view_of(self, value: Value, registers: LocalVector) -> bool:
        """Whether a value is read from registers that are about to change."""
        what = self._values.get(value)
        return isinstance(what, LocalVector) and what.buffer is registers.buffer


@dataclass(frozen=True)
class Kept:
    """Registers of a value that changes: what a loop carries."""

    registers: LocalVector
    value: Value

    def assign(self, emitter: Emitter, value: Value) -> None:
        """Set to another value."""
        self.registers.copy(emitter.vector(value))

    def define(self, emitter: Emitter, value: Value) -> None:
        """Let a value be what is in the registers, as long as they do not change."""
        if isinstance(value.type, VectorType):
            emitter[value] = self.registers
        else:
            emitter.bind(value, self.registers.run(0, 1))


def temporary(shape: Sequence[Index], dtype: str) -> BufferBox:
    """New memory."""
    extents = [i64(extent) for extent in shape]
    buffer = I.alloc_buffer(extents, memory_dtype(dtype), scope="global", align=_ALIGN)
    return BufferBox.whole(buffer, shape, dtype)


def memory_dtype(dtype: str) -> str:
    """The type of a buffer's elements."""
    return "int64" if dtype == INDEX else dtype


def copy(source: BufferBox, target: BufferBox) -> None:
    """Copy all elements."""
    if source.is_same(target):
        return
    index: list[Expr] = []

    def loops(rest: Sequence[Index]) -> None:
        if not rest:
            I.buffer_store(target.buffer, source.buffer[tuple(source.at(index))], target.at(index))
            return
        with I.serial(i64(0), i64(rest[0])) as i:
            index.append(i)
            loops(rest[1:])
            index.pop()

    loops(source.shape)
