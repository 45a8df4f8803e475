"""A module of IREE's IR as plain Python values: what the reader gives, and importers take.

Untrusted text is parsed by IREE's bindings in a process of its own; what comes back is this form.
It holds no object of a compiler's, so it may be pickled, compared and written by hand in a test.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from tvm_iree_ext.mlir.reading.type_names import spelled

BYTECODE = b"ML\xefR"
"""What a module in MLIR's bytecode begins with; no text does."""

PACKED = "#iree_encoding.packed_storage"
"""The encoding of a tensor of i1 whose elements are stored as bits."""


@dataclass(frozen=True)
class ParsedScalarType:
    """A number.  ``dtype`` is a name of :mod:`.dtypes`, or a complex or small type."""

    dtype: str  # "float32", "int64", "index", "complex64", "float8_e4m3fn", ...

    def __str__(self) -> str:
        return spelled(self.dtype)


@dataclass(frozen=True)
class ParsedTensorType:
    """A ranked tensor; an extent that is not known is None.  ``vector`` marks MLIR's vectors.

    ``packed`` says that IREE stores the elements, i1, as bits.
    """

    shape: tuple[int | None, ...]
    dtype: str
    vector: bool = False
    packed: bool = False

    def __str__(self) -> str:
        extents = "".join("?x" if one is None else f"{one}x" for one in self.shape)
        packed = f", {PACKED}" if self.packed else ""
        return f"{'vector' if self.vector else 'tensor'}<{extents}{spelled(self.dtype)}{packed}>"


@dataclass(frozen=True)
class ParsedMemrefType:
    """Memory of elements; extents, strides and the offset, in elements, are None where not known.

    ``strides`` are None in row-major order from the first element on.  ``why`` says what about
    the type has no meaning here, such as a layout that is no strides; then nothing else is known
    but MLIR's ``text`` of it.
    """

    shape: tuple[int | None, ...]
    dtype: str
    strides: tuple[int | None, ...] | None = None
    offset: int | None = 0
    why: str = ""
    text: str = ""

    @property
    def tensor(self) -> ParsedTensorType:
        """The type of what it holds."""
        return ParsedTensorType(self.shape, self.dtype)

    def __str__(self) -> str:
        if self.text:
            return self.text
        held = "".join("?x" if one is None else f"{one}x" for one in self.shape)
        held += spelled(self.dtype)
        if self.strides is None:
            return f"memref<{held}>"
        *strides, offset = (
            "?" if one is None else str(one) for one in (*self.strides, self.offset)
        )
        begins = "" if offset == "0" else f", offset: {offset}"
        return f"memref<{held}, strided<[{', '.join(strides)}]{begins}>>"


@dataclass(frozen=True)
class OtherType:
    """A type that is not computed with, such as ``!hal.buffer_view``, by MLIR's text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FunctionType:
    """What a function takes and gives."""

    inputs: tuple["Type", ...]
    results: tuple["Type", ...]


Type: TypeAlias = ParsedScalarType | ParsedTensorType | ParsedMemrefType | OtherType | FunctionType


@dataclass(frozen=True)
class Location:
    """Where something stands in the text: 1-based line and column, 0 where that is not known.

    Text that was printed with locations names those of the program it was made from: then
    ``file`` is that program's.
    """

    line: int
    column: int
    file: str = ""

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}:{self.column}" if self.file else f"{self.line}:{self.column}"
        )


_AFFINE_SIGNS = {"add": "+", "mul": "*"}


@dataclass(frozen=True)
class ParsedAffineExpr:
    """An affine expression: a dimension, a symbol, a constant, or an operation on two of them.

    ``kind`` is ``dim``, ``symbol``, ``constant`` (then ``value`` is its number), or ``add``,
    ``mul``, ``mod``, ``floordiv``, ``ceildiv`` (then ``parts`` are the two operands).
    """

    kind: str
    value: int = 0
    parts: tuple["ParsedAffineExpr", ...] = ()

    def __str__(self) -> str:
        names = {"dim": f"d{self.value}", "symbol": f"s{self.value}", "constant": f"{self.value}"}
        if self.kind in names:
            return names[self.kind]
        left, right = (f"({part})" if part.parts else str(part) for part in self.parts)
        return f"{left} {_AFFINE_SIGNS.get(self.kind, self.kind)} {right}"


@dataclass(frozen=True)
class ParsedAffineMap:
    """``(d0, d1)[s0] -> (results)``."""

    dims: int
    symbols: int
    results: tuple[ParsedAffineExpr, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.results))})"


@dataclass(frozen=True)
class Opaque:
    """An attribute that has no Python value here, by MLIR's text, cut where that is long."""

    text: str
    why: str = ""  # what is wrong with a constant that should have one


@dataclass(frozen=True, eq=False)
class Dense:
    """The elements of a constant tensor: an array of its shape, or one element for all (splat)."""

    type: ParsedTensorType
    values: np.ndarray  # of shape () for a splat; complex and bf16 by NumPy's and ml_dtypes' types

    @property
    def is_splat(self) -> bool:
        """Whether one element stands for all."""
        return self.values.shape != self.type.shape


# bool, int, float, str, None (unit), tuple, dict, np.generic (a typed number), Type, AffineMap,
# Dense, Opaque.  A symbol is its name, without "@".  A typed scalar constant (`1.0 : f32`) is a
# NumPy scalar of that type, so that no digit and no NaN payload is lost; `index` is int.
Attribute: TypeAlias = Any


@dataclass(eq=False)
class ParsedValue:
    """What an operation yields or a block takes; equal only to itself."""

    type: Type
    name: str  # "%3", "%arg0", "%4#1": as MLIR prints it, for messages


@dataclass(eq=False)
class ParsedBlock:
    """Arguments, and operations of which the last may be a terminator."""

    arguments: list[ParsedValue]
    operations: list["ParsedOperation"]


@dataclass(eq=False)
class ParsedOperation:
    """One operation; ``attributes`` are the inherent and the discardable ones together."""

    name: str  # "linalg.generic"
    operands: list[ParsedValue]
    results: list[ParsedValue]
    attributes: Mapping[str, Attribute]
    regions: list[list[ParsedBlock]]
    location: Location
    segments: tuple[int, ...] = field(default=())  # of the operands, where the op has groups

    def block(self, region: int = 0) -> ParsedBlock:
        """The only block of a region."""
        (block,) = self.regions[region]
        return block

    def walk(self) -> Iterator["ParsedOperation"]:
        """This operation, and all inside it in the order of the text."""
        yield self
        for region in self.regions:
            for block in region:
                for operation in block.operations:
                    yield from operation.walk()

    def groups(self) -> list[list[ParsedValue]]:
        """The operands by ``segments``."""
        starts = np.cumsum([0, *self.segments])
        return [self.operands[a:b] for a, b in pairwise(starts)]


@dataclass(eq=False)
class Module:
    """The operations of the module: functions, globals; resources are inlined as :class:`Dense`."""

    name: str
    operations: list[ParsedOperation]
