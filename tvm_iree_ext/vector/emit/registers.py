"""Vectors in registers: an array of 1-D vectors, read and written at constant places."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.tir.tir_expressions import Expr, cast, run, splat
from tvm_iree_ext.vector.ir.vector_types import INDEX


def register_dtype(dtype: str) -> str:
    """The type in which elements are held.

    A bool as int8, a position as int64, and bf16 as the float32 of its value: TVM has no vectors
    of bf16 but in memory.
    """
    return {"bool": "int8", INDEX: "int64", "bfloat16": "float32"}.get(dtype, dtype)


def lanes_of(value: Expr) -> int:
    """How many lanes an expression has."""
    return int(value.ty.dtype.lanes)


def typed(dtype: str, lanes: int) -> str:
    """TVM's name of a type with lanes."""
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def hold(value: Expr, dtype: str) -> Expr:
    """A value of the element type, as it is held."""
    return tirx.Cast(typed("int8", lanes_of(value)), value) if dtype == "bool" else value


def release(value: Expr, dtype: str) -> Expr:
    """The inverse of :func:`hold`."""
    if dtype != "bool":
        return value
    return tirx.NE(value, splat(tirx.const(0, "int8"), lanes_of(value)))


def number(value: Any, dtype: str) -> Expr:
    """A constant element."""
    if dtype == "bool":
        return tirx.const(bool(value), "bool")
    if value.dtype.kind == "i":
        return tirx.const(int(value), register_dtype(dtype))
    wide = np.float64(value)
    if dtype == "float64" and not np.isfinite(wide):
        word = int(wide.view(np.uint64))
        return tirx.reinterpret("float64", tirx.const(word - (word >> 63 << 64), "int64"))
    if not np.isfinite(wide):
        word = int(np.float32(wide).view(np.uint32))
        return cast(tirx.reinterpret("float32", tirx.const(word, "uint32")), register_dtype(dtype))
    return tirx.const(float(wide), register_dtype(dtype))


class Vector(ABC):
    """The value of a vector op: its registers, in row-major order, are read by number."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.lanes = self.shape[-1] if self.shape else 1
        self.size = prod(self.shape)

    @property
    def count(self) -> int:
        """The number of registers."""
        return self.size // self.lanes

    def flat(self, index: Sequence[int]) -> int:
        """The row-major number of an element."""
        return int(np.ravel_multi_index(tuple(index), self.shape)) if self.shape else 0

    def index(self, register: int) -> tuple[int, ...]:
        """The index of a register's first element."""
        return tuple(map(int, np.unravel_index(register * self.lanes, self.shape or (1,))))[
            : len(self.shape)
        ]

    @abstractmethod
    def run(self, start: int, lanes: int) -> Expr:
        """Elements from one on."""

    def register(self, number: int) -> Expr:
        """One register."""
        return self.run(number * self.lanes, self.lanes)

    def pick(self, places: Sequence[int]) -> Expr:
        """A vector of any elements, by their row-major numbers."""
        first, lanes = places[0], len(places)
        if list(places) == list(range(first, first + lanes)):
            return self.run(first, lanes)
        if len(set(places)) == 1:
            return splat(self.run(first, 1), lanes)
        numbers = sorted({place // self.lanes for place in places})
        at = {n: i * self.lanes for i, n in enumerate(numbers)}
        order = [at[place // self.lanes] + place % self.lanes for place in places]
        # TVM's shuffle gives no more lanes than it takes.
        numbers *= -(-lanes // (len(numbers) * self.lanes))
        if self.dtype == "bool":
            held_registers = [hold(self.register(n), "bool") for n in numbers]
            return release(tirx.Shuffle(held_registers, order), "bool")
        return tirx.Shuffle([self.register(n) for n in numbers], order)

    @abstractmethod
    def view(self, shape: Sequence[int], start: int = 0) -> "Vector":
        """Contiguous elements from one on, in another shape."""


class LocalVector(Vector):
    """A vector in a local buffer."""

    def __init__(
        self, shape: Sequence[int], dtype: str, buffer: Any = None, start: int = 0
    ) -> None:
        super().__init__(shape, dtype)
        self.start = start
        self.buffer = buffer
        if buffer is None:
            self.buffer = I.alloc_buffer([self.size], register_dtype(dtype), scope="local")

    def run(self, start: int, lanes: int) -> Expr:
        """Elements from one on."""
        return release(self.buffer[run(self.start + start, lanes)], self.dtype)

    def view(self, shape: Sequence[int], start: int = 0) -> "LocalVector":
        """The same registers, seen in another shape."""
        return LocalVector(shape, self.dtype, self.buffer, self.start + start)

    def write(self, start: int, value: Expr) -> None:
        """Set elements from one on."""
        at = run(self.start + start, lanes_of(value))
        I.buffer_store(self.buffer, hold(value, self.dtype), [at])

    def fill(self, value: Callable[[int], Expr]) -> "LocalVector":
        """Set each register to what a function gives for its number."""
        for number in range(self.count):
            self.write(number * self.lanes, value(number))
        return self

    def copy(self, other: Vector) -> "LocalVector":
        """Set all elements to those of a vector of the same size."""
        return self.fill(lambda number: other.run(number * self.lanes, self.lanes))


class ConstantVector(Vector):
    """A vector of known elements: immediates wherever it is read."""

    def __init__(self, array: np.ndarray, dtype: str) -> None:
        super().__init__(array.shape, dtype)
        self.elements = array.reshape(-1)

    def run(self, start: int, lanes: int) -> Expr:
        """Elements from one on."""
        return self.pick(range(start, start + lanes))

    def pick(self, places: Sequence[int]) -> Expr:
        """A vector of any elements."""
        taken = self.elements[list(places)]
        if all(one.tobytes() == taken[0].tobytes() for one in taken):
            return splat(number(taken[0], self.dtype), len(taken))
        steps = set(np.diff(taken.astype(np.int64)).tolist()) if taken.dtype.kind == "i" else set()
        if len(steps) == 1:
            first = number(taken[0], self.dtype)
            return tirx.Ramp(first, tirx.const(steps.pop(), register_dtype(self.dtype)), len(taken))
        scalars = [hold(number(one, self.dtype), self.dtype) for one in taken]
        return release(tirx.Shuffle(scalars, list(range(len(taken)))), self.dtype)

    def view(self, shape: Sequence[int], start: int = 0) -> "ConstantVector":
        """Contiguous elements from one on, in another shape."""
        part = self.elements[start : start + prod(shape)]
        return ConstantVector(part.reshape(tuple(shape)), self.dtype)
