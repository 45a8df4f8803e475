"""A contraction as products of matrices: what is a row, a column, a group, and where in memory.

    for group:    result[m, n] = sum over k of lhs[m, k] * rhs[k, n]

Each of group, m, n and k stands for several dims of the op, or none: its index is split into
theirs, the last the fastest.  An operand is read through its indexing map, so that batches,
transposed operands, and any order of dims are the same code.  What is contiguous in memory decides
which way a tile is copied, and how many elements at once.  The last dim of the result is a dim of
n: where it is one of the op's lhs, the operands change places; but for an op whose layouts say that
its lhs has the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.schedules.gpu.products.matmul_shape import SIDES, MatmulShape, Prologue
from tvm_iree_ext.schedules.shared.contraction_dims import ContractionDims
from tvm_iree_ext.schedules.shared.fused_dims import Dims
from tvm_iree_ext.tir.tir_expressions import convert

_ALIGNED_BYTES = 16  # addresses of operands: of the widest access
_MOST_INT32 = (1 << 31) - 1


@dataclass(frozen=True)
class TileSource:
    """An operand's matrices in memory.

    Attributes:
        name: the op's operand.
        contiguous: the role (``g``, ``m``, ``n``, ``k``) whose neighbours lie side by side; None
            where those of no role do.
        row: how many of them do before the next row begins; rows of memory are multiples of it,
            and 1 where that is not known.
    """

    name: str
    contiguous: str | None
    row: int


@dataclass(frozen=True)
class ContractionMatrices(ContractionDims):
    """A contraction as matrix products, before its kernel is built."""

    @cached_property
    def swapped(self) -> bool:
        """Whether the op's rhs has the rows."""
        if self.op.layouts is not None:
            return False
        rows, columns = self.fused("lhs", "result"), self.fused("rhs", "result")
        return bool(rows) and (not columns or self.maps["result"].dims[-1] in rows)

    def operand(self, side: str) -> str:
        """The op's operand that is ``lhs`` or ``rhs`` here."""
        return SIDES[(SIDES.index(side) + self.swapped) % 2] if side in SIDES else side

    @cached_property
    def roles(self) -> dict[str, Dims]:
        """The fused dims of each role, the slowest first."""
        lhs, rhs = self.operand("lhs"), self.operand("rhs")
        found = {
            "g": self.fused("lhs", "rhs", "result"),
            "m": self.fused(lhs, "result"),
            "n": self.fused(rhs, "result"),
            "k": self.fused("lhs", "rhs"),
        }
        # Of a role's dims the one that is contiguous in memory counts fastest; what is written
        # comes before what is read, and rhs before lhs.
        firsts = {"g": ("result",), "m": (lhs, "result"), "n": ("result", rhs), "k": (rhs, lhs)}
        return {role: self._ordered(dims, firsts[role]) for role, dims in found.items()}

    def _ordered(self, dims: Dims, operands: tuple[str, ...]) -> Dims:
        order = [dim for dim in self.maps[operands[0]].dims if dim in dims]
        lasts = [self.maps[name].dims[-1] for name in operands if self.maps[name].dims]
        if last := [dim for dim in lasts if dim in dims][:1]:
            order.remove(last[0])
            order += last
        return tuple(order)

    def source(self, side: str) -> TileSource:
        """How ``lhs``, ``rhs`` or ``result`` lies in memory."""
        name = self.operand(side)
        dims = self.maps[name].dims
        for role, own in self.roles.items():
            if dims and own[-1:] == dims[-1:]:
                return TileSource(name, role, self.count(dims[-1:]) or 1)
        return TileSource(name, None, 1)

    def row_by_row(self, side: str) -> bool:
        """Whether the matrices of ``lhs`` or ``rhs`` lie row by row, groups one after the other."""
        across, along = ("m", "k") if side == "lhs" else ("k", "n")
        if self.source(side).contiguous == across:
            across, along = along, across
        order = tuple(dim for role in ("g", across, along) for dim in self.roles[role])
        return self.maps[self.operand(side)].dims == order

    def extent(self, role: str) -> int | None:
        """How many groups, rows, columns or products there are, where that is known."""
        return self.count(self.roles[role])

    def shape(self, dtypes: tuple[str, str, str]) -> MatmulShape:
        """The product of matrices; ``dtypes`` are what is multiplied, and of sums."""
        lhs, rhs, result = (self.source(side) for side in (*SIDES, "result"))
        along = {"lhs": lhs.contiguous in ("m", "k"), "rhs": rhs.contiguous in ("k", "n")}
        sources = {"lhs": lhs, "rhs": rhs, "result": result}
        rows = {
            side: one.row if along.get(side, one.contiguous == "n") else 1
            for side, one in sources.items()
        }
        types = self.op.types
        others = ("init", *self.op.others)
        return MatmulShape(
            self.extent("m"), self.extent("n"), self.extent("k"), *dtypes,
            lhs_order=(1, 0) if lhs.contiguous == "m" else (0, 1),
            rhs_order=(1, 0) if rhs.contiguous == "k" else (0, 1),
            groups=self.extent("g"),
            rows=rows,
            memory={side: types[one.name].dtype for side, one in sources.items()},
            epilogue_bits=max(
                (8 * item_bytes(types[name].dtype) for name in others if name in types), default=0
            ),
            more_dims=max(0, sum(map(len, self.roles.values())) - 3),
            prologues=self._prologues(),
        )  # fmt: skip

    def _prologues(self) -> dict[str, Prologue]:
        return {
            self.operand(name): self._prologue(name, region)
            for name, region in self.op.factor_regions.items()
        }

    def _prologue(self, operand: str, region: Region) -> Prologue:
        beside = {name: self.op.types[name].dtype for name in self.op.beside(operand)}
        last = self.maps[operand].dims[-1:]
        alike = frozenset(name for name in beside if not set(last) & set(self.maps[name].dims))
        apart = frozenset(name for name in beside if self.maps[name].dims[-1:] != last) - alike
        return Prologue(region, beside, alike, apart)


class MatrixOperands:
    """The op's operands as a kernel of tiles reads and writes them."""

    def __init__(self, matrices: ContractionMatrices, shape: MatmulShape) -> None:
        self.matrices, self.op, self.shape = matrices, matrices.op, shape
        known = [self._count(kind.shape) for kind in self.op.types.values()]
        small = all(count is not None and count <= _MOST_INT32 for count in known)
        self.index_dtype = "int32" if small else "int64"

    @staticmethod
    def _count(shape: Any) -> int | None:
        return None if any(isinstance(extent, str) for extent in shape) else prod(shape)

    def declare(self) -> None:
        """Name the func, and add the op's operands."""
        self.parameters = Parameters.declare(
            self.op, align=_ALIGNED_BYTES, index_dtype=self.index_dtype
        )

    def extents(self) -> tuple[Any, Any, Any, Any]:
        """The groups, m, n and k."""
        g, m, n, k = (self._extent(self.matrices.roles[role]) for role in "gmnk")
        return g, m, n, k

    def buffer(self, side: str) -> Any:
        """The op's operand that is ``lhs`` or ``rhs``."""
        return self.parameters.buffers[self.matrices.operand(side)]

    def _extent(self, dims: Dims) -> Any:
        every = [self.parameters.extent(e) for dim in dims for e in self.matrices.extents[dim]]
        return prod(every[1:], start=every[0]) if every else 1

    def _dims(self, at: Mapping[str, Any]) -> dict[int, Any]:
        """The op's dims at an index of each role."""
        found: dict[int, Any] = {}
        for role, index in at.items():
            dims = [
                dim for fused in self.matrices.roles[role] for dim in self.matrices.groups[fused]
            ]
            for dim in reversed(dims[1:]):
                extent = self.parameters.extent(self.op.extents[dim])
                found[dim], index = index % extent, index // extent
            if dims:
                found[dims[0]] = index
        return found

    def _element(self, name: str, dims: Mapping[int, Any]) -> Any:
        buffer = self.parameters.buffers[name]
        zero = tirx.const(0, self.index_dtype)
        axes = self.op.maps[name].axes
        return buffer[tuple(dims.get(axis[0], zero) if axis else zero for axis in axes)]

    def load(self, side: str, group: Any, at: Mapping[str, Any]) -> Any:
        """An element of ``lhs`` or ``rhs``, or of an operand of the prologue."""
        return self._element(self.matrices.operand(side), self._dims({"g": group, **at}))

    def has_runs(self, name: str, block: int, count: int) -> bool:
        """Whether scales of blocks of so many places along k lie side by side, by ``count``."""
        k = [dim for fused in self.matrices.roles["k"] for dim in self.matrices.groups[fused]]
        *before, place = k
        if not before or self.op.maps[name].dims[-1:] != (before[-1],):
            return False
        blocks = self.op.extents[before[-1]]
        is_known = isinstance(blocks, int) and self.op.extents[place] == block
        return is_known and blocks % count == 0

    def inside(self, side: str, at: Mapping[str, Any], run: int) -> None:
        """All elements are there."""

    def store(self, group: Any, i: Any, j: Any, value: Any) -> None:
        """The sum with ``init``, through the epilogue, to the result."""
        op, dims = self.op, self._dims({"g": group, "m": i, "n": j})
        if op.has_init:
            value = value + convert(self._element("init", dims), op.accumulator_dtype)
        if op.epilogue is not None:
            seen = [str(one.ty.dtype) for one in op.epilogue.parameters[1:]]
            rest = [
                convert(self._element(name, dims), dtype)
                for name, dtype in zip(op.others, seen, strict=True)
            ]
            value = op.epilogue(value, *rest)
        result = self.parameters.buffers["result"]
        zero = tirx.const(0, self.index_dtype)
        place = [dims.get(axis[0], zero) for axis in op.maps["result"].axes]
        I.buffer_store(result, convert(value, str(result.dtype)), place)
