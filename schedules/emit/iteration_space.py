"""Iteration spaces, and operands read and written by iteration dims through indexing maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.schedules.emit.index_arithmetic import divide, product
from tvm_iree_ext.tir.tir_expressions import Expr, Index, cast, i64, known, run

At: TypeAlias = Mapping[int, Index]
"""A point of the iteration space: the value of each dim."""


def bound(at: At) -> At:
    """The same point, each value computed once from here on."""
    return {dim: value if known(value) is not None else I.Bind(value) for dim, value in at.items()}


@dataclass(frozen=True)
class IterationSpace:
    """The iteration space of an op: the extent of each dim, as a number or an expression."""

    extents: tuple[Index, ...]

    @staticmethod
    def of(extents: Sequence[Extent], symbols: Mapping[str, tirx.Var]) -> "IterationSpace":
        """The space of an op's extents."""
        return IterationSpace(tuple(symbols[e] if isinstance(e, str) else e for e in extents))

    def count(self, dims: Sequence[int]) -> Index:
        """The number of points that some dims span."""
        return product([self.extents[dim] for dim in dims])

    def spread(self, flat: Index, dims: Sequence[int]) -> dict[int, Index]:
        """The values of ``dims`` at a row-major position."""
        at: dict[int, Index] = {}
        for dim in reversed(dims[1:]):
            extent = self.extents[dim]
            if known(extent) == 1:
                at[dim] = 0
            else:
                flat, at[dim] = divide(flat, extent)
        if dims:
            at[dims[0]] = flat
        return at


@dataclass(frozen=True)
class OperandView:
    """An operand that is read and written by iteration dims, through its indexing map."""

    buffer: Any
    map: IndexingMap
    space: IterationSpace

    @property
    def dtype(self) -> str:
        """The element type."""
        return str(self.buffer.dtype)

    @property
    def loaded(self) -> str:
        """The type in which elements come: a bool as int8."""
        return "int8" if self.dtype == "bool" else self.dtype

    def along(self, dims: Sequence[int]) -> Index:
        """How many of the flat positions of ``dims`` from 0 on can be read as vectors.

        All of a single dim, when it is the contiguous one; none otherwise.
        """
        last = next((axis for axis in reversed(self.map.axes) if axis), (-1,))[-1]
        return self.space.count(dims) if len(dims) == 1 and last == dims[0] else 0

    def index(self, at: At, lanes: int = 1) -> list[Expr]:
        """The buffer's indices at a point; with ``lanes``, of a run along the last axis."""
        indices: list[Expr] = []
        for axis in self.map.axes:
            flat: Index = 0
            for dim in axis:
                step = at[dim]
                extent = i64(self.space.extents[dim])
                flat = step if isinstance(flat, int) else flat * extent + i64(step)
            indices.append(i64(flat))
        if lanes > 1:
            indices[-1] = run(indices[-1], lanes)
        return indices

    def load(self, at: At, dtype: str, lanes: int = 1) -> Expr:
        """The element, or run of elements, at a point, converted to ``dtype``."""
        return cast(cast(self.buffer[tuple(self.index(at, lanes))], self.loaded), dtype)

    def store(self, at: At, value: Expr, lanes: int = 1) -> None:
        """Write an element or run, converted to the buffer's type."""
        I.buffer_store(self.buffer, cast(value, self.dtype), self.index(at, lanes))
