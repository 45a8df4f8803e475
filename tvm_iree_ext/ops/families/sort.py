"""``iree_linalg_ext.sort``: several operands permuted together along one dim.

    for each position of the other dims:
        result = operands, reordered so that region(left, right) holds for neighbours

The region sees ``arg(2i)``, the element of operand i that stands left, and ``arg(2i + 1)``, the one
that stands right; true means that they are in order.  Where it is a weak order (``<``, ``<=``, or
a lexicographic comparison) the result is sorted, and the sort is stable: right goes before left
only if ``region(right, left)`` and not ``region(left, right)``.  In the dialect the order of ties
is left open.  With any other region, or NaN data, the result is some permutation.

Differences to the dialect: an in/out operand is two (``operand0`` and ``result0``), and a
comparator sees 16-bit floats as float32 and a bool as an int8 of 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Shape, Signature
from tvm_iree_ext.ops.base import comparators
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, check_dimension
from tvm_iree_ext.ops.base.parameters import Parameters, emits_canonical
from tvm_iree_ext.ops.base.regions import Region, RegionLike
from tvm_iree_ext.ops.base.shapes import agree, named
from tvm_iree_ext.tir.tir_expressions import i64
from tvm_iree_ext.tir.tvm_modules import I, ir, tirx

_NAME = "iree_linalg_ext.sort"


@dataclass(frozen=True, eq=False)
class Sort(UncountedOp):
    """A stable sort of several operands together; made by :func:`sort`, which checks it."""

    name: str
    shape: Shape
    dtypes: tuple[str, ...]
    dimension: int
    region: Region

    @cached_property
    def signature(self) -> Signature:
        """``operand0, operand1, ...``, the region's numbers, ``result0, result1, ...``."""
        inputs = [Operand(f"operand{i}", self.shape, d) for i, d in enumerate(self.dtypes)]
        results = [
            Operand(f"result{i}", self.shape, d, "result") for i, d in enumerate(self.dtypes)
        ]
        return Signature((*inputs, *(one.operand for one in self.region_scalars), *results))

    @property
    def attributes(self) -> dict[str, Any]:
        """The dimension and the comparator."""
        return {"dimension": self.dimension, "region": self.region.text}

    @cached_property
    def order(self) -> comparators.PlainOrder | None:
        """The plain comparison that the region is, or None."""
        return comparators.plain_order(self.region)


def sort(
    *operands: OperandLike,
    dimension: int,
    region: RegionLike = "<",
    dtype: str = "float32",
) -> Sort:
    """Permute the operands together along ``dimension`` until ``region`` holds for neighbours.

    Args:
        operands: one or more, of one shape: shapes (of ``dtype``), :class:`TensorType`, or
            anything with ``shape`` and ``dtype``.  Extents are numbers, names or ``"?"``.
        dimension: the dim to sort along, independently for each position of the others.
        region: the comparator: ``"<"``, ``"<="``, ``">"`` or ``">="`` of the first operand's
            elements; or text over ``arg0``, ``arg1``, ..., or a callable over TIR expressions:
            left and right element of each operand in turn.
        dtype: element type of operands given as bare shapes: any float, integer or bool.

    Returns:
        The op.  Its kernel takes the operands and returns them sorted.

    Raises:
        OpError: for no operand, and for shapes, a dimension or a region that do not fit.
    """
    if not operands:
        raise OpError(f"{_NAME}: there is no operand; expected one at least")
    types = {
        f"operand{i}": as_tensor(_NAME, f"operand{i}", operand, dtype, dtypes.ELEMENTS, least=0)
        for i, operand in enumerate(operands)
    }
    shape = named(agree(_NAME, types)["operand0"])
    dimension = check_dimension(_NAME, dimension, len(shape))
    kinds = tuple(kind.dtype for kind in types.values())
    return Sort(_NAME, shape, kinds, dimension, comparators.comparator(_NAME, region, kinds))


@emits_canonical
def canonical_sort(op: Sort, parameters: Parameters) -> None:
    """The dialect's compare-and-swap sweeps, over even and odd pairs in turns.

    Blocks ``copy_i`` and ``sweep``: phase p exchanges the pairs that start at p mod 2.

    As many phases as elements sort them; a pair in order is left alone, so the sort is stable.
    """
    extents = [i64(parameters.extent(extent)) for extent in op.shape]
    buffers = list(parameters.buffers.values())
    count = len(op.dtypes)
    inits, results = buffers[:count], buffers[count:]
    length = extents[op.dimension]
    with I.sblock("root"):
        for number, (init, result) in enumerate(zip(inits, results, strict=True)):
            with I.grid(*extents) as loops, I.sblock(f"copy_{number}"):
                listed = list(loops) if len(extents) > 1 else [loops]
                at = [I.axis.spatial(e, v) for e, v in zip(extents, listed, strict=True)]
                I.buffer_store(result, init[tuple(at)], at)
        others = [e for axis, e in enumerate(extents) if axis != op.dimension]
        pairs = tirx.floordiv(length, tirx.const(2, "int64"))
        with I.grid(*others, length, pairs) as loops, I.sblock("sweep"):
            *outer, phase, pair = loops
            at = [I.axis.spatial(e, v) for e, v in zip(others, outer, strict=True)]
            step = I.axis.opaque(length, phase)
            # Not a bound variable: TVM cannot bind an element of a bool buffer.
            spare = [I.sblock_alloc_buffer([1], kind, scope="local") for kind in op.dtypes]
            first = 2 * I.axis.spatial(pairs, pair) + tirx.floormod(step, tirx.const(2, "int64"))
            left, right = (
                [*at[: op.dimension], place, *at[op.dimension :]] for place in (first, first + 1)
            )
            with I.If(first + 1 < length), I.Then():
                _exchange(op, results, spare, left, right)


def _exchange(
    op: Sort, results: list[Any], spare: list[Any], left: list[ir.Expr], right: list[ir.Expr]
) -> None:
    """Swap two neighbours unless they are in order."""

    def seen(at: list[ir.Expr]) -> list[ir.Expr]:
        return [comparators.as_seen(buffer[tuple(at)]) for buffer in results]

    with I.If(comparators.goes_before(op.region, seen(left), seen(right))), I.Then():
        for buffer, kept in zip(results, spare, strict=True):
            I.buffer_store(kept, buffer[tuple(left)], [0])
            I.buffer_store(buffer, buffer[tuple(right)], left)
            I.buffer_store(buffer, kept[0], right)
