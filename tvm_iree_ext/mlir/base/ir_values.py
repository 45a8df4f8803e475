"""What a value of IR is while its function is imported: tensors, and scalars that are not computed.

A scalar of a function is not computed where it stands: each kernel that uses it has its expression,
so that arithmetic on extents stays arithmetic on extents, and constants are constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.base.elements import Element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.reading import form

Expr: TypeAlias = ir.Expr
Shape: TypeAlias = tuple[Any, ...]
"""Extents: ints, or int64 expressions over a function's variables."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in memory: one part, or the real and the imaginary one."""

    shape: Shape
    element: Element
    parts: tuple[relax.Var, ...]


@dataclass(frozen=True, eq=False)
class Splat:
    """A tensor whose elements are all one scalar."""

    shape: Shape
    element: Element
    scalar: "Scalar"


@dataclass(frozen=True, eq=False)
class Empty:
    """A tensor whose elements nobody may read; who does all the same reads zeros."""

    shape: Shape
    element: Element


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor of numbers; ``foldable`` ones may be looked into."""

    array: np.ndarray
    element: Element
    foldable: bool = True

    @property
    def shape(self) -> Shape:
        """Its extents."""
        return tuple(self.array.shape)


@dataclass(frozen=True, eq=False)
class Number:
    """A scalar that is a number."""

    element: Element
    value: Any


@dataclass(frozen=True, eq=False)
class Symbol:
    """An integer scalar that is arithmetic on extents."""

    element: Element
    value: Expr


@dataclass(frozen=True, eq=False)
class Applied:
    """A scalar that an operation computes, of scalars and of elements of tensors."""

    element: Element
    operation: form.ParsedOperation
    result: int
    operands: tuple["Value", ...]
    size: int = 1  # of the expression, as a tree


@dataclass(eq=False)
class Buffer:
    """Memory that operations write: the tensor that it holds now, another after each write.

    ``argument`` is the name of the caller's argument that it is, ``constant`` that of a global that
    nothing may write.
    """

    held: "AnyTensor"
    is_written: bool = False
    argument: str = ""
    constant: str = ""


@dataclass(frozen=True, eq=False)
class Memref:
    """A memref: a buffer, or the part of it that ``parts`` lead to, each a part of the last."""

    buffer: Buffer
    shape: Shape
    parts: tuple[Any, ...] = ()  # importing.memory.MemoryPart

    @property
    def element(self) -> Element:
        """The type of its elements."""
        return self.buffer.held.element


@dataclass(frozen=True)
class Other:
    """A value that is not computed with: a fence, a device, a buffer view without its tensor."""

    kind: str
    of: Any = None


@dataclass(frozen=True, eq=False)
class HeldByLanes:
    """What lanes hold of a vector: the whole vector, and the value of the IR that is held."""

    whole: "AnyTensor"
    value: form.ParsedValue


@dataclass(frozen=True)
class Failed:
    """What an operation that could not be imported would have given."""


AnyTensor: TypeAlias = Tensor | Splat | Empty | Constant
Scalar: TypeAlias = Number | Symbol | Applied
Value: TypeAlias = AnyTensor | Scalar | Memref | HeldByLanes | Other | Failed

TENSORS = (Tensor, Splat, Empty, Constant)
SCALARS = (Number, Symbol, Applied)


_SIGNS = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
}


def is_zero(value: AnyTensor) -> bool:
    """Whether all elements are certainly 0."""
    return (
        isinstance(value, Splat)
        and isinstance(value.scalar, Number)
        and not value.element.is_complex
        and float(value.scalar.value) == 0.0
    )


def extent(value: Any) -> Expr:
    """An extent as an expression."""
    return tirx.const(value, "int64") if isinstance(value, int) else value


def plain(value: Any) -> Any:
    """An extent as an int where it is a number."""
    return int(value) if isinstance(value, tirx.IntImm) else value


def extent_text(value: Any) -> int | str:
    """An extent as a signature writes it.

    Raises:
        Unsupported: for what is no arithmetic of a signature.
    """
    number = plain(value)
    return number if isinstance(number, int) else _text(number)


def _text(value: Any) -> str:
    match value:
        case tirx.Var():
            return str(value.name)
        case tirx.IntImm():
            return str(int(value))
        case tirx.Max() | tirx.Min():
            name = "max" if isinstance(value, tirx.Max) else "min"
            return f"{name}({_text(value.a)}, {_text(value.b)})"
    if sign := _SIGNS.get(type(value)):
        return f"({_text(value.a)} {sign} {_text(value.b)})"
    raise Unsupported(f"a result with the extent {value}, which a signature cannot say")


def inner(values: Sequence[Value]) -> list[Tensor | Constant | Symbol]:
    """The tensors in memory and the extents that a kernel over some values reads, once each."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo = list(reversed(values))
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        match value:
            case Tensor() | Constant() | Symbol():
                found[id(value)] = value
            case Splat():
                todo.append(value.scalar)
            case Applied():
                todo.extend(reversed(value.operands))
    return list(found.values())
