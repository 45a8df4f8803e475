"""A matrix product for the GPU rules: extents, types, and how operands lie in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol, runtime_checkable

from tvm import DataType, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.layout.nested import Ints
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.targets.gpu import LINE_BYTES

SIDES = ("lhs", "rhs")

_LINES = 8  # of a row from which on it costs little to fill the last
_MOST_PADDED = 1 << 30  # elements of an operand that is copied: places are of 32 bits


@dataclass(frozen=True)
class Prologue:
    """A function that makes factors of an operand's elements and of others read beside them.

    Attributes:
        region: takes them in the types of its parameters.
        beside: the others' types in memory, by name.
        alike: those that are the same for elements side by side.
        apart: those that do not lie side by side as the elements do.
    """

    region: Region
    beside: Mapping[str, str] = field(default_factory=dict)
    alike: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MatmulShape:
    """``result[m, n] = sum over k of lhs[m, k] * rhs[k, n]``, for each of ``groups``.

    Attributes:
        m, n, k: extents; None where they are known at call time.
        lhs_dtype, rhs_dtype, result_dtype: TVM's names of the types that are multiplied, and of
            sums.
        lhs_order, rhs_order: the dims of an operand as they lie in memory, the contiguous one last:
            ``(1, 0)`` for ``lhs[k, m]`` and ``rhs[n, k]``.
        groups: how many products, each of matrices of its own.
        rows: by operand, how many elements lie side by side, where that is not the extent of the
            contiguous dim: 1 for an operand of which no dim is contiguous.
        memory: by operand, the type in memory, where it is not the one that is multiplied.
        epilogue_bits: of the widest element that is read where sums are stored.
        more_dims: that operands have beyond rows, columns and steps of K.
        prologues: by operand, what makes its factors, where they are not its elements.
        pitches: by operand that is copied first, how many elements each of its rows has there: its
            own, and zeros (:mod:`.padded_operands`).
    """

    m: int | None
    n: int | None
    k: int | None
    lhs_dtype: str
    rhs_dtype: str
    result_dtype: str
    lhs_order: Ints = (0, 1)
    rhs_order: Ints = (0, 1)
    groups: int | None = 1
    rows: Mapping[str, int] | None = None
    memory: Mapping[str, str] | None = None
    epilogue_bits: int = 0
    more_dims: int = 0
    prologues: Mapping[str, Prologue] | None = None
    pitches: Mapping[str, int] | None = None

    def prologue(self, side: str) -> Prologue | None:
        """Prologue of ``lhs`` or ``rhs``; None where factors are its elements."""
        return (self.prologues or {}).get(side)

    def read(self, side: str) -> dict[str, str]:
        """The types in memory of ``lhs`` or ``rhs`` and of what is read beside it, by name."""
        prologue = self.prologue(side)
        return {side: self.memory_dtype(side), **(prologue.beside if prologue else {})}

    def extents(self, side: str) -> tuple[int | None, ...]:
        """Extents of ``lhs``, ``rhs`` or ``result``, as it lies in memory."""
        own = {"lhs": (self.m, self.k), "rhs": (self.k, self.n), "result": (self.m, self.n)}[side]
        return tuple(own[dim] for dim in self.order(side))

    def order(self, side: str) -> Ints:
        """The order of the dims of ``lhs``, ``rhs`` or ``result`` in memory."""
        return {"lhs": self.lhs_order, "rhs": self.rhs_order, "result": (0, 1)}[side]

    def dtype(self, side: str) -> str:
        """The type of ``lhs`` or ``rhs`` that is multiplied, or that of sums."""
        return {"lhs": self.lhs_dtype, "rhs": self.rhs_dtype, "result": self.result_dtype}[side]

    def memory_dtype(self, side: str) -> str:
        """The type of ``lhs``, ``rhs`` or ``result`` in memory."""
        return (self.memory or {}).get(side, self.dtype(side))

    def converts(self, side: str) -> bool:
        """Whether what is multiplied of ``lhs`` or ``rhs`` is not what is in memory."""
        return self.memory_dtype(side) != self.dtype(side) or self.prologue(side) is not None

    def has_open_rows(self, side: str) -> bool:
        """Whether rows of an operand are of a length that is known at call time."""
        return self.extents(side)[-1] is None

    def row(self, side: str) -> int:
        """A number of elements of which every contiguous row of memory is a multiple."""
        if (pitch := self.pitch(side)) is not None:
            return pitch
        return (self.rows or {}).get(side, self.extents(side)[-1] or 1)

    def pitch(self, side: str) -> int | None:
        """Elements of a row of ``lhs`` or ``rhs`` where it is copied first; else None."""
        return (self.pitches or {}).get(side)

    def access(self, side: str) -> int:
        """Elements of ``lhs`` or ``rhs`` in the widest access."""
        return 8 * WIDEST_ACCESS_BYTES // DataType(self.memory_dtype(side)).bits

    def can_be_padded(self, side: str, *, turned: bool = False) -> bool:
        """Whether rows of ``lhs`` or ``rhs`` may be copied to ones of whole accesses."""
        extents = self.extents(side)
        known = [extent or 1 for extent in (self.groups, *extents)]
        in_rows = extents[0 if turned else -1] is not None and self.row(side) > 1
        return in_rows and self.prologue(side) is None and prod(known) <= _MOST_PADDED

    def padded(self, sides: Sequence[str], turned: Collection[str] = ()) -> "MatmulShape":
        """The same with rows of some operands copied first to ones of whole accesses, or lines.

        Those of ``turned`` have their columns as rows there.
        """
        pitches = {}
        orders = {
            side: self.order(side)[::-1] if side in turned else self.order(side) for side in SIDES
        }
        for side in sides:
            row, access = self.extents(side)[0 if side in turned else -1], self.access(side)
            assert row is not None
            line = access * LINE_BYTES // WIDEST_ACCESS_BYTES
            unit = line if row >= _LINES * line else access
            pitches[side] = -(-row // unit) * unit
        if not pitches:
            return self
        lhs, rhs = (orders[side] for side in SIDES)
        return replace(self, pitches=pitches, lhs_order=lhs, rhs_order=rhs)


class MatmulOperands(Protocol):
    """The parameters of a product's func, and how its elements are read and stored."""

    shape: MatmulShape
    index_dtype: str

    def declare(self) -> None:
        """Name the func under construction, and add its parameters."""

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, m, n and k: numbers, or expressions over what is known at call time."""

    def buffer(self, side: str) -> Any:
        """The array of ``lhs`` or ``rhs``."""

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of ``lhs``, ``rhs`` or what is beside, by its ``m``, ``n`` and ``k``."""

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> Any | None:
        """Whether an element within the extents is there, else it counts as 0; None: all are.

        It is the same for each ``run`` elements of the contiguous dim.
        """

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Take a sum to the result."""


@runtime_checkable
class CopiedOperands(Protocol):
    """Operands of which some may be copied first, by kernels of their own."""

    @property
    def copied_first(self) -> Sequence[str]:
        """The names of the blocks that make copies."""

    def emit_blocks(self) -> None:
        """Emit the copies as blocks, to be scheduled."""


class PlainOperands:
    """Three matrices: the func ``matmul(lhs, rhs, result)``."""

    index_dtype = "int32"

    def __init__(self, shape: MatmulShape) -> None:
        self.shape = shape
        self.buffers: dict[str, Any] = {}

    def declare(self) -> None:
        """Name the func, and add its parameters."""
        I.func_name("matmul")
        for side in (*SIDES, "result"):
            buffer = I.Buffer(self.shape.extents(side), self.shape.memory_dtype(side))
            self.buffers[side] = I.arg(side, buffer)

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """One group, and the matrices' extents."""
        return 1, self.shape.m, self.shape.n, self.shape.k

    def buffer(self, side: str) -> Any:
        """The matrix."""
        return self.buffers[side]

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element, by its place in memory."""
        roles = "mk" if side == "lhs" else "kn"
        return self.buffers[side][tuple(at[roles[dim]] for dim in self.shape.order(side))]

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> None:
        """All are."""

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """Into the result."""
        result = self.buffers["result"]
        kind = str(result.dtype)
        if str(value.ty.dtype) != kind:
            value = tirx.Cast(kind, value)
        I.buffer_store(result, value, [i, j])
