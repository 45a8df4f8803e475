"""Checks that several ops share.  Each raises VectorError in the name of the op."""

from collections.abc import Sequence
from typing import Any, TypeVar

from tvm_iree_ext.vector.ir.combining_kinds import KINDS, kinds_of
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.vector_types import (
    INTEGERS,
    BufferType,
    MemoryType,
    RankedTensorType,
    ScalarType,
    VectorType,
    bits,
    extents,
    short,
)

V = TypeVar("V")


def vector_of(op: Operation, name: str) -> VectorType:
    """The type of a vector operand."""
    type = op.operand(name).type
    if not isinstance(type, VectorType):
        raise op.error("E_RANK", f"{name} is {type}; expected a vector")
    return type


def value_of(op: Operation, name: str) -> VectorType | ScalarType:
    """The type of an operand that is a vector or a scalar."""
    type = op.operand(name).type
    if isinstance(type, MemoryType):
        raise op.error("E_RANK", f"{name} is {type}; expected a vector or a scalar")
    return type


def memory_of(op: Operation, name: str) -> RankedTensorType | BufferType:
    """The type of a tensor or buffer operand."""
    type = op.operand(name).type
    if not isinstance(type, RankedTensorType | BufferType):
        raise op.error("E_NOT_A_BUFFER", f"{name} is {type}; expected a tensor or a buffer")
    return type


def buffer_of(op: Operation, name: str) -> BufferType:
    """The type of a buffer operand."""
    type = op.operand(name).type
    if not isinstance(type, BufferType):
        raise op.error("E_NOT_A_BUFFER", f"{name} is {type}; expected a buffer")
    return type


def tensor_of(op: Operation, name: str) -> RankedTensorType:
    """The type of a tensor operand."""
    type = op.operand(name).type
    if not isinstance(type, RankedTensorType):
        raise op.error("E_NOT_A_BUFFER", f"{name} is {type}; expected a tensor")
    return type


def same_dtype(op: Operation, name: str, actual: str, expected: str, of: str) -> None:
    """Refuse another element type than that of operand ``of``."""
    if actual != expected:
        raise op.error(
            "E_ELEMENT_TYPE",
            f"elements of {name} are {short(actual)}; expected {short(expected)} as of {of}",
        )


def same_shape(
    op: Operation, name: str, actual: Sequence[Any], expected: Sequence[Any], of: str
) -> None:
    """Refuse another shape than ``of`` has."""
    if tuple(actual) == tuple(expected):
        return
    at = ""
    if len(actual) == len(expected):
        dim = next(d for d, (a, b) in enumerate(zip(actual, expected, strict=True)) if a != b)
        at = f"; dim {dim} is {actual[dim]}, expected {expected[dim]}"
    raise op.error(
        "E_SHAPE_MISMATCH",
        f"{name} has shape [{extents(actual)}]; expected [{extents(expected)}] as {of}{at}",
    )


def mask_of(op: Operation, shape: Sequence[int], of: str) -> None:
    """Check the mask, where there is one."""
    mask = op.optional("mask")
    if mask is not None:
        vector_of(op, "mask")
        same_dtype(op, "mask", mask.dtype, "bool", "a mask")
        same_shape(op, "mask", mask.shape, shape, of)


def indices_of(op: Operation, name: str, rank: int, of: str) -> None:
    """One position for each dim."""
    positions = op.group(name)
    length(op, name, positions, rank, f"dim of {of}")
    for number, position in enumerate(positions):
        index_type(op, f"{name}[{number}]", position)


def index_type(op: Operation, name: str, value: Value) -> None:
    """Refuse what is no scalar of type index."""
    if value.type != ScalarType("index"):
        raise op.error("E_ELEMENT_TYPE", f"{name} is {value.type}; expected index")


def length(op: Operation, name: str, values: Sequence[Any], expected: int, each: str) -> None:
    """Refuse another number of entries than one for each of something."""
    if len(values) != expected:
        raise op.error(
            "E_ATTR_LENGTH",
            f"{name} has {len(values)} entries; expected {expected}, one for each {each}",
        )


def kind_of(op: Operation, dtype: str) -> str:
    """The combining kind, which must be defined for an element type."""
    kind = op.attributes["kind"]
    if kind not in kinds_of(dtype):
        known = ", ".join(kinds_of(dtype)) if kind in KINDS else ", ".join(KINDS)
        raise op.error("E_KIND_TYPE", f"kind {kind!r} of {short(dtype)}; expected one of {known}")
    return kind


def widens(op: Operation, name: str, actual: str, to: str) -> None:
    """Refuse elements that are not extended to ``to`` without loss."""
    if actual == to:
        return
    is_integer = [dtype in INTEGERS for dtype in (actual, to)]
    if is_integer[0] != is_integer[1] or bits(actual) >= bits(to) or "bool" in (actual, to):
        raise op.error(
            "E_ELEMENT_TYPE",
            f"elements of {name} are {short(actual)}, which do not extend to {short(to)} of acc",
        )


def ints(op: Operation, name: str) -> tuple[int, ...]:
    """An attribute of whole numbers known at compile time."""
    values = tuple(op.attributes[name])
    for number, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int):
            code = "E_ELEMENT_TYPE"
            if isinstance(value, Value):
                code = "E_DYNAMIC_SHAPE" if name == "sizes" else "E_DYNAMIC_OUTER_INDEX"
            raise op.error(code, f"{name}[{number}] is {value!r}; expected a number")
    return values
