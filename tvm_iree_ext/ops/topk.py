"""``iree_linalg_ext.topk``: the K best elements along one dim, with their indices, best first.

    for n in 0 .. N - 1:   (v, i) = (values[n], indices[n], or n)
      for k in 0 .. K - 1:
        F = region(v, outv[k]);  R = region(outv[k], v)
        if F: swap v, outv[k]        if F or (F == R and i < outi[k]): swap i, outi[k]

``outv`` and ``outi`` start as the inits, which compete: for a plain top-K fill values with the
worst value (-inf for ``>``) and indices with the largest number.  From sorted inits the results are
the sorted K best of inits and inputs together, ties by the smaller index.  An ordered comparison
never selects a NaN and never displaces one; the indices beside a NaN are left open.

Differences to the dialect: an in/out operand is two (``output_values_init`` and
``output_values``), and a comparator sees 16-bit floats as float32 and a bool as an int8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import dtypes
from tvm_iree_ext.errors import OpError
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.ops.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.order import (
    PlainOrder,
    as_seen,
    as_stored,
    check_dimension,
    comparator,
    plain_order,
    region_dtype,
)
from tvm_iree_ext.ops.parameters import Parameters, as_index
from tvm_iree_ext.ops.regions import Region, RegionLike
from tvm_iree_ext.ops.shapes import agree, named
from tvm_iree_ext.signature import Extent, Operand, Signature, TensorType

_NAME = "iree_linalg_ext.topk"
_INDEX_DTYPES = tuple(dtype for dtype in dtypes.INTEGERS if dtype != "bool")


@dataclass(frozen=True, eq=False)
class Topk(Op):
    """Made by :func:`topk`, which checks it."""

    name: str
    types: Mapping[str, TensorType]
    dimension: int
    region: Region

    @property
    def has_indices(self) -> bool:
        """Whether the inputs bring indices; without, they are numbered from 0."""
        return "indices" in self.types

    @cached_property
    def signature(self) -> Signature:
        """``values, [indices], output_values_init, output_indices_init``, and both results."""
        kinds = dict(self.types)
        outputs = {name: kinds.pop(name) for name in ("output_values", "output_indices")}
        named = [*kinds.items(), *((f"{name}_init", kind) for name, kind in outputs.items())]
        inputs = [Operand(name, kind.shape, kind.dtype) for name, kind in named]
        results = [Operand(name, k.shape, k.dtype, "result") for name, k in outputs.items()]
        return Signature((*inputs, *results))

    @property
    def attributes(self) -> dict[str, Any]:
        """The dimension and the comparator."""
        return {"dimension": self.dimension, "region": self.region.text}

    @cached_property
    def order(self) -> PlainOrder | None:
        """The plain comparison that the region is, or None."""
        return plain_order(self.region)

    @property
    def candidates(self) -> Extent:
        """N: how many elements compete."""
        return self.types["values"].shape[self.dimension]

    @property
    def k(self) -> Extent:
        """K: how many are kept."""
        return self.types["output_values"].shape[self.dimension]

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """None: comparisons and moves are not counted."""
        return 0

    def prim_func(self) -> tirx.PrimFunc:
        """The dialect's loops, for each position of the other dims."""
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            _canonical(self)
        return builder.get()


def topk(
    values: OperandLike,
    output_values: OperandLike | None = None,
    output_indices: OperandLike | None = None,
    *,
    indices: OperandLike | None = None,
    dimension: int,
    k: Extent | None = None,
    region: RegionLike = ">",
    dtype: str = "float32",
) -> Topk:
    """The ``k`` best of ``values`` and of the inits along ``dimension``, with their indices.

    Args:
        values: shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_values: the init of the values; its extent along ``dimension`` is K.
        output_indices: the init of the indices, a bare shape being one of int32; by default
            int32 of the shape of ``output_values``.
        indices: the inputs' indices, int32; without, they are numbered from 0.
        dimension: the dim to select along.
        k: K, in place of ``output_values``.
        region: whether a candidate (``arg0``) wins over an output element (``arg1``): ``">"`` or
            ``"<"``, text, or a callable over TIR expressions.  Take a strict one: with ``">="`` the
            later of equal elements wins.
        dtype: element type of values given as bare shapes: any float, integer or bool.

    Returns:
        The op.  Its kernel takes ``values, [indices], output_values_init, output_indices_init`` and
        returns ``output_values`` and ``output_indices``.

    Raises:
        OpError: for ranks, extents, dtypes, a dimension or a region that do not fit.
    """
    allowed = dtypes.FLOATS + dtypes.INTEGERS
    inputs = {"values": as_tensor(_NAME, "values", values, dtype, allowed)}
    kind = inputs["values"].dtype
    dimension = check_dimension(_NAME, dimension, len(inputs["values"].shape))
    if (output_values is None) == (k is None):
        raise OpError(f"{_NAME}: expected either output_values or k")
    if output_values is None:
        shape = list(inputs["values"].shape)
        shape[dimension] = k if k is not None else 0
        output_values = TensorType(tuple(shape), kind)
    best = as_tensor(_NAME, "output_values", output_values, kind, allowed)
    if best.dtype != kind:
        raise OpError(f"{_NAME}: output_values has dtype {best.dtype}; expected {kind} as values")
    if indices is not None:
        inputs["indices"] = as_tensor(_NAME, "indices", indices, "int32", ("int32",))
    if output_indices is None:
        output_indices = TensorType(best.shape, "int32")
    where = as_tensor(
        _NAME,
        "output_indices",
        output_indices,
        "int32",
        ("int32",) if indices is not None else _INDEX_DTYPES,
    )
    outputs = {"output_values": best, "output_indices": where}
    # Values and their indices have one shape; inputs and outputs differ along the dimension.
    one, other = (next(iter(agree(_NAME, pair).values())) for pair in (inputs, outputs))
    shapes = agree(
        _NAME,
        {"values": TensorType(one, kind), "output_values": TensorType(other, kind)},
        free=(dimension,),
    )
    settled = {
        name: TensorType(named(shapes[first], {dimension: f"{first}_"}), given.dtype)
        for first, pair in (("values", inputs), ("output_values", outputs))
        for name, given in pair.items()
    }
    return Topk(_NAME, settled, dimension, comparator(_NAME, region, [kind]))


def _canonical(op: Topk) -> None:
    """Blocks ``start`` and ``insert``; all of an insertion is one block, its carry inside."""
    parameters = Parameters.declare(op)
    buffers = parameters.buffers
    extents = {
        o.name: [as_index(parameters.extent(extent)) for extent in o.shape]
        for o in op.signature.operands
    }
    rank, axis = len(op.types["values"].shape), op.dimension

    def place(outer: list[ir.Expr], along: ir.Expr) -> list[ir.Expr]:
        return [*outer[:axis], along, *outer[axis:]]

    with I.sblock("root"):
        for name in ("output_values", "output_indices"):
            with I.grid(*extents[name]) as loops, I.sblock(f"start_{name}"):
                listed = list(loops) if rank > 1 else [loops]
                at = [I.axis.spatial(e, v) for e, v in zip(extents[name], listed, strict=True)]
                I.buffer_store(buffers[name], buffers[f"{name}_init"][tuple(at)], at)
        others = [e for dim, e in enumerate(extents["values"]) if dim != axis]
        # A loop even where there is no other dim: a block without one confuses schedules.
        with I.grid(*(others or [tirx.const(1, "int64")])) as loops, I.sblock("insert"):
            listed = list(loops) if len(others) > 1 else [loops]
            outer = [I.axis.spatial(e, v) for e, v in zip(others, listed, strict=False)]
            if not others:
                I.axis.spatial(tirx.const(1, "int64"), listed[0])
            # As comparators see them, since TVM cannot bind an element of a bool or bf16 buffer.
            kind, index_kind = (str(buffers[n].dtype) for n in ("values", "output_indices"))
            value, index, spare_value, spare_index = (
                I.sblock_alloc_buffer([1], dtype, scope="local")
                for dtype in (region_dtype(kind), index_kind) * 2
            )
            with I.serial(extents["values"][axis]) as n:
                number = tirx.Cast(str(index.dtype), n)
                if op.has_indices:
                    number = buffers["indices"][tuple(place(outer, n))]
                I.buffer_store(value, as_seen(buffers["values"][tuple(place(outer, n))]), [0])
                I.buffer_store(index, number, [0])
                with I.serial(extents["output_values"][axis]) as k:
                    at = place(outer, k)
                    _insert(op, buffers, (value, index), (spare_value, spare_index), at)


def _insert(
    op: Topk,
    buffers: Mapping[str, Any],
    carry: tuple[Any, Any],
    spare: tuple[Any, Any],
    at: list[ir.Expr],
) -> None:
    """Offer the carry to one output element."""
    value, index = carry
    best, where = spare
    I.buffer_store(best, as_seen(buffers["output_values"][tuple(at)]), [0])
    I.buffer_store(where, buffers["output_indices"][tuple(at)], [0])
    forward = I.Bind(op.region(value[0], best[0]))
    reverse = I.Bind(op.region(best[0], value[0]))
    same = tirx.Select(forward, reverse, tirx.Not(reverse))  # TVM cannot compare bools
    moved = I.Bind(tirx.Or(forward, tirx.And(same, index[0] < where[0])))
    # Selections, not branches: of branches LLVM makes masked moves that lose indices.
    for name, held, kept, wins in (
        ("output_values", value, best, forward),
        ("output_indices", index, where, moved),
    ):
        taken = tirx.Select(wins, held[0], kept[0])
        I.buffer_store(buffers[name], as_stored(taken, str(buffers[name].dtype)), at)
        I.buffer_store(held, tirx.Select(wins, kept[0], held[0]), [0])
