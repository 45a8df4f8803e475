"""The types of the vector form: scalars, vectors, and memory (tensors and buffers).

Integers are signless, as in MLIR: an op says whether it means them signed.  ``index`` is the type
of positions; it computes in 64 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.vector.ir.vector_errors import VectorError

INDEX = "index"
FLOATS = dtypes.FLOATS
INTEGERS = ("bool", "int8", "int16", "int32", "int64", INDEX)

Extent: TypeAlias = int | str
"""A number, or for memory "?" or a name where it is known at run time only."""


def element_type(name: object) -> str:
    """The canonical name of an element type: ``float32`` for ``f32``.

    Raises:
        VectorError: for an unknown or an unsigned type.
    """
    if name == INDEX:
        return INDEX
    try:
        known = dtypes.canonical(name)
    except ValueError as error:
        raise VectorError("E_ELEMENT_TYPE", str(error)) from None
    if known not in FLOATS + INTEGERS:
        raise VectorError(
            "E_ELEMENT_TYPE", f"element type {known}: integers are signless; write i8 to i64"
        )
    return known


def numpy_type(dtype: str) -> np.dtype:
    """The type of the arrays that hold such elements."""
    return np.dtype(np.int64) if dtype == INDEX else dtypes.numpy_dtype(dtype)


def bits(dtype: str) -> int:
    """Bits of an element; 1 for a bool."""
    if dtype == "bool":
        return 1
    return numpy_type(dtype).itemsize * 8


def short(dtype: str) -> str:
    """MLIR's name."""
    return dtype if dtype == INDEX else dtypes.mlir_name(dtype)


def extents(shape: Sequence[Extent]) -> str:
    """``4x8``, ``?x8``, ``[rows]x8``."""
    return "x".join(f"[{e}]" if isinstance(e, str) and e != "?" else str(e) for e in shape)


def fits(a: Extent, b: Extent) -> bool:
    """Whether two extents may be equal."""
    return isinstance(a, str) or isinstance(b, str) or a == b


def _inside(shape: Sequence[Extent], dtype: str) -> str:
    return f"{extents(shape)}x{short(dtype)}" if shape else short(dtype)


@dataclass(frozen=True)
class ScalarType:
    """One element."""

    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", element_type(self.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a scalar: empty."""
        return ()

    def __str__(self) -> str:
        return short(self.dtype)


@dataclass(frozen=True)
class VectorType:
    """An array of 1-D vectors: the outer indices name registers, the last one a lane (rule R1).

    >>> print(VectorType((4, 8), "f32"))
    vector<4x8xf32>
    """

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", element_type(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        for dim, extent in enumerate(self.shape):
            if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
                raise VectorError(
                    "E_DYNAMIC_SHAPE",
                    f"vector type {_inside(self.shape, self.dtype)}: extent {dim} is {extent}",
                )

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"vector<{_inside(self.shape, self.dtype)}>"


@dataclass(frozen=True)
class MemoryType:
    """Base of tensor and buffer types: extents may be known at run time only."""

    shape: tuple[Extent, ...]
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", element_type(self.dtype))
        object.__setattr__(self, "shape", tuple(self.shape))
        for dim, extent in enumerate(self.shape):
            is_name = isinstance(extent, str) and (extent == "?" or extent.isidentifier())
            if not is_name and (not isinstance(extent, int) or extent < 0):
                raise VectorError(
                    "E_SHAPE_MISMATCH",
                    f"memory type: extent {dim} is {extent!r}; expected a number, a name or '?'",
                )

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)


@dataclass(frozen=True)
class RankedTensorType(MemoryType):
    """A tensor: a value, which writing to makes another of."""

    def __str__(self) -> str:
        return f"tensor<{_inside(self.shape, self.dtype)}>"


@dataclass(frozen=True)
class BufferType(MemoryType):
    """A buffer: a place, which is written.  ``strides`` count elements; absent: row-major."""

    strides: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strides is not None:
            object.__setattr__(self, "strides", tuple(self.strides))
            if len(self.strides) != self.rank:
                raise VectorError(
                    "E_ATTR_LENGTH",
                    f"buffer type: {len(self.strides)} strides; expected {self.rank}",
                )

    def __str__(self) -> str:
        inside = _inside(self.shape, self.dtype)
        if self.strides is None:
            return f"memref<{inside}>"
        return f"memref<{inside}, strided<{list(self.strides)}>>"


Type: TypeAlias = ScalarType | VectorType | RankedTensorType | BufferType


def vector(shape: Sequence[int], dtype: str = "f32") -> VectorType:
    """A vector type."""
    return VectorType(tuple(shape), dtype)


def tensor(shape: Sequence[Extent], dtype: str = "f32") -> RankedTensorType:
    """A tensor type."""
    return RankedTensorType(tuple(shape), dtype)


def buffer(
    shape: Sequence[Extent], dtype: str = "f32", strides: Sequence[int] | None = None
) -> BufferType:
    """A buffer type."""
    return BufferType(tuple(shape), dtype, None if strides is None else tuple(strides))


def scalar(dtype: str) -> ScalarType:
    """A scalar type."""
    return ScalarType(dtype)
