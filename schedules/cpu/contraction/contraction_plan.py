"""A contraction as products of matrices: dims fused and sorted by role.

    for slabs:    result[m, n] = sum over depth of a[m, depth] * b[depth, n]

``b`` is the factor whose n is the last dim of the result, so that vectors go along it: lhs or rhs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import Parameters
from tvm_iree_ext.ops.base.regions import Region
from tvm_iree_ext.schedules import emit
from tvm_iree_ext.schedules.emit import At, Expr, Index, IterationSpace, OperandView, i64
from tvm_iree_ext.schedules.shared.contraction_dims import ContractionDims
from tvm_iree_ext.schedules.shared.fused_dims import Dims
from tvm_iree_ext.tir.tir_expressions import cast

_OPEN_ROWS = 63
"""What an open number of rows counts as, chosen and not fitted: more known rows go before it.

Of a batch of 3 by 197 by 768 times 768 x 2304, whose batch is open and whose result has it second,
tiles of the 197 rows take a third of the time of tiles of the 3 (Zen 5).
"""


@dataclass(frozen=True)
class ContractionPlan(ContractionDims):
    """The plan of a contraction, before code is emitted.

    ``most_rows``: for code that runs where ``m``, which is not known, is no larger.
    """

    most_rows: int | None = None

    @cached_property
    def swapped(self) -> bool:
        """Whether ``b`` is lhs."""
        rows, columns = self.fused("lhs", "result"), self.fused("rhs", "result")
        return bool(rows) and (not columns or self.maps["result"].dims[-1] in rows)

    @property
    def a(self) -> str:
        """The factor that is read as scalars."""
        return "rhs" if self.swapped else "lhs"

    @property
    def b(self) -> str:
        """The factor that is read as vectors."""
        return "lhs" if self.swapped else "rhs"

    @cached_property
    def m(self) -> int | None:
        """The largest dim of the result that ``a`` has; the others are slabs.

        One that is not known, such as an open batch, may have few rows: one that fills register
        tiles goes before it (``_OPEN_ROWS``).
        """

        def size(dim: int) -> int:
            count = self.count((dim,))
            return _OPEN_ROWS if count is None else count

        return max(self.fused(self.a, "result"), key=size, default=None)

    @cached_property
    def n(self) -> int | None:
        """The dim of the result that ``b`` has and vectors go along; the others are slabs."""
        dims = self.fused(self.b, "result")
        return next((dim for dim in reversed(self.maps["result"].dims) if dim in dims), None)

    @cached_property
    def slabs(self) -> Dims:
        """The dims of the result but for ``m`` and ``n``, in its order."""
        return tuple(dim for dim in self.maps["result"].dims if dim not in (self.m, self.n))

    @cached_property
    def depth(self) -> Dims:
        """The dims that are reduced."""
        return self.fused("lhs", "rhs")

    def extent(self, dim: int | None) -> int | None:
        """The extent of ``m`` or ``n``, 1 where there is none; None where it is not known.

        Of ``m`` it may be the most that it can be.
        """
        if dim is None:
            return 1
        count = self.count((dim,))
        return self.most_rows if count is None and dim == self.m else count

    def lies_along(self, operand: str, dims: Sequence[int | None]) -> bool:
        """Whether flat positions of ``dims`` are next to each other in an operand."""
        return len(dims) == 1 and self.maps[operand].dims[-1:] == tuple(dims)

    def lies_in_runs(self, operand: str, length: int) -> bool:
        """Whether the depth lies side by side in an operand: all of it, or so many at a time.

        The runs begin at multiples of ``length``.
        """
        last = self.depth[-1:]
        if len(self.depth) < 2 or self.maps[operand].dims[-1:] != last:
            return self.lies_along(operand, self.depth)
        count = self.count(last)
        return count is not None and count % length == 0

    @property
    def lies_in_rows(self) -> bool:
        """Whether the depth of a row of ``a`` is next to each other, in the type of the product."""
        same = self.op.types[self.a].dtype == self.product_dtype and not self.op.factor_regions
        return same and self.lies_along(self.a, self.depth)

    @cached_property
    def runs_along_n(self) -> bool:
        """Whether all that the epilogue takes and gives can be vectors along ``n``."""
        live = [name for name in ("init", *self.op.others, "result") if name in self.maps]
        return all(
            self.n not in self.maps[name].dims or self.lies_along(name, [self.n]) for name in live
        )

    def last_vector(self, lanes: int, block: int) -> int | None:
        """The column where the last vector begins that would end past the last column.

        It ends with the row, and has columns of the one before, too: so all vectors are whole where
        ``b`` is read and the result written.  None where there is none, or it cannot be so: in the
        last block, of ``block`` columns at most, it would begin before the block.
        """
        wide = self.extent(self.n)
        if wide is None or wide % lanes == 0 or (wide - 1) % block + 1 < lanes:
            return None
        return wide - lanes if self.runs_along_n and self.lies_along(self.b, [self.n]) else None

    @property
    def product_dtype(self) -> str:
        """The type of products: int8 as float32, whose sums over a block are exact."""
        op = self.op
        return "float32" if op.accumulator_dtype == "int32" else op.accumulator_dtype


@dataclass(frozen=True)
class MadeView(OperandView):
    """A factor that a prologue makes, where it is read, of an operand and of others beside it."""

    prologue: Region
    others: tuple[OperandView, ...]

    def load(self, at: At, dtype: str, lanes: int = 1) -> Expr:
        """The factor, or those of a run, at a point."""
        if lanes == 1:
            return self._made(at, dtype)
        last = self.map.dims[-1]
        # Regions are of scalars; a vector loop makes vectors of them.
        made = emit.registers(lanes, dtype)
        with emit.vector_loop(lanes) as lane:
            I.buffer_store(made, self._made({**at, last: i64(at[last]) + lane}, dtype), [lane])
        return I.Bind(made[emit.run(0, lanes)])

    def _made(self, at: At, dtype: str) -> Expr:
        first, *rest = (str(one.ty.dtype) for one in self.prologue.parameters)
        beside = (view.load(at, kind) for view, kind in zip(self.others, rest, strict=True))
        return cast(self.prologue(super().load(at, first), *beside), dtype)


class ContractionOperands:
    """The PrimFunc's operands while it is built, addressed by the fused dims of a plan.

    ``declared`` is the op that the function is of, where the plan's is but a part of what it does;
    then the result lacks the dims ``without``.
    """

    def __init__(
        self, plan: ContractionPlan, declared: Op | None = None, without: Dims = ()
    ) -> None:
        self.plan, self.op = plan, plan.op
        parameters = Parameters.declare(declared or plan.op)
        self.buffers = parameters.buffers
        extents = [emit.product([parameters.extent(e) for e in group]) for group in plan.extents]
        self.space = IterationSpace(tuple(extents))
        self.views: dict[str, OperandView] = {}
        for name, one in plan.maps.items():
            if name == "result" and without:
                axes = tuple(axis for axis in one.axes if not set(axis) & set(without))
                one = IndexingMap(one.num_dims, axes)
            shape = [i64(extents[axis[0]]) if axis else i64(1) for axis in one.axes]
            kind = plan.op.types[name].dtype
            data = parameters.buffers[name].data
            buffer: Any = I.decl_buffer(shape, kind, data=data, align=item_bytes(kind))
            self.views[name] = OperandView(buffer, one, self.space)
        for name, region in plan.op.factor_regions.items():
            own = self.views[name]
            beside = tuple(self.views[one] for one in plan.op.beside(name))
            self.views[name] = MadeView(own.buffer, own.map, own.space, region, beside)
        self.origin: At = dict.fromkeys(range(len(extents)), 0)

    def extent(self, dim: int | None) -> Index:
        """The extent of ``m`` or ``n``."""
        return 1 if dim is None else self.space.extents[dim]

    def at(self, at: At, dim: int | None, value: Index) -> At:
        """A point with another value of ``m`` or ``n``."""
        return at if dim is None else {**at, dim: value}

    def depth_at(self, at: At, k: Index) -> At:
        """A point at a flat position of the dims that are reduced."""
        return {**at, **self.space.spread(k, self.plan.depth)}

    def element(self, name: str, dtype: str, at: At) -> Expr:
        """An operand's element, as the epilogue takes it."""
        view = self.views[name]
        if dtype == "bool":
            return view.load(at, "int8") != tirx.const(0, "int8")
        return view.load(at, dtype)

    def finish(self, at: At, value: Expr) -> None:
        """Take the sum of products at a point to the result."""
        op = self.op
        if op.has_init:
            value = value + self.element("init", op.accumulator_dtype, at)
        if op.epilogue is not None:
            seen = [str(one.ty.dtype) for one in op.epilogue.parameters[1:]]
            rest = [self.element(n, d, at) for n, d in zip(op.others, seen, strict=True)]
            value = op.epilogue(value, *rest)
        self.views["result"].store(at, value)

    def write(
        self, line: At, column: Expr, columns: Index, lanes: int, value: Callable[[Expr], Expr]
    ) -> None:
        """The sums of a part of a line to the result; ``value`` has them by their place there."""

        def piece(j: Index, lanes: int) -> None:
            with emit.vector_loop(lanes) if lanes > 1 else emit.serial(1) as lane:
                place = i64(j) + lane
                self.finish(self.at(line, self.plan.n, column + place), value(place))

        emit.in_vectors(columns, lanes if self.plan.runs_along_n else 1, piece)
