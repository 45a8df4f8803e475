"""``iree_linalg_ext.topk``: the K best elements along one dim, with their indices, best first.

    for n in 0 .. N - 1:   (v, i) = (values[n], indices[n], or n)
      for k in 0 .. K - 1:
        F = goes_first(v, outv[k]);  R = goes_first(outv[k], v)
        if F: swap v, outv[k]        if F or (F == R and i < outi[k]): swap i, outi[k]

    goes_first(a, b) = region(a, b) and not region(b, a)

``outv`` and ``outi`` start as the inits, which compete: for a plain top-K fill values with the
worst value (-inf for ``>``) and indices with the largest number.  From sorted inits the results are
the sorted K best of inits and inputs together, ties by the smaller index: where the region holds
both ways, as ``>=`` does for equal elements, they are a tie, so ``>`` and ``>=`` select the same.
An ordered comparison never selects a NaN and never displaces one; the indices beside a NaN are left
open.

Differences to the dialect: an in/out operand is two (``output_values_init`` and
``output_values``), and a comparator sees 16-bit floats as float32 and a bool as an int8.  The text
of the dialect's op, that of equal values the first occurrence is always selected, goes for every
comparator; its loops select the later one for ``>=``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Operand, Signature, TensorType
from tvm_iree_ext.ops.base import comparators
from tvm_iree_ext.ops.base.natural_inits import highest, worst
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES, OperandLike, as_tensor, check_dimension
from tvm_iree_ext.ops.base.regions import Region, RegionLike
from tvm_iree_ext.ops.base.shapes import agree, named, unused

_NAME = "iree_linalg_ext.topk"


@dataclass(frozen=True, eq=False)
class Topk(UncountedOp):
    """A top-k with indices, best first; made by :func:`topk`, which checks it."""

    name: str
    types: Mapping[str, TensorType]
    dimension: int
    region: Region

    input_indices = "indices"
    """The name of the operand with the inputs' indices."""

    keeps_pairs = False
    """Whether values and indices move together, and inits may come in any order."""

    @property
    def in_order(self) -> bool:
        """Whether the outputs are handed out best first."""
        return True

    @property
    def has_indices(self) -> bool:
        """Whether the inputs bring indices; without, they are numbered from 0."""
        return self.input_indices in self.types

    @property
    def has_output_indices(self) -> bool:
        """Whether the indices are handed out."""
        return "output_indices" in self.types

    @property
    def index_dtype(self) -> str:
        """The element type of the output indices."""
        return self.types["output_indices"].dtype

    @cached_property
    def ranks(self) -> Region:
        """Whether ``arg0`` goes before ``arg1``, ties false both ways: what a candidate wins by."""
        return comparators.strict_companion(self.name, self.region)

    @cached_property
    def signature(self) -> Signature:
        """``values, [indices], output_values_init, output_indices_init``, and both results."""
        kinds = dict(self.types)
        outputs = {name: kinds.pop(name) for name in self.types if name.startswith("output_")}
        named = [*kinds.items(), *((f"{name}_init", kind) for name, kind in outputs.items())]
        value_default = worst(self.region, self.types["values"].dtype)
        defaults = {"output_values_init": value_default}
        if value_default is not None and "output_indices" in outputs:
            defaults["output_indices_init"] = highest(outputs["output_indices"].dtype)
        inputs = [
            Operand(name, kind.shape, kind.dtype, default=defaults.get(name))
            for name, kind in named
        ]
        inputs[len(kinds) : len(kinds)] = [one.operand for one in self.region_scalars]
        over = self.types["values"].shape
        results = [
            Operand(name, k.shape, k.dtype, "result", init=f"{name}_init", over=over)
            for name, k in outputs.items()
        ]
        return Signature((*inputs, *results))

    @property
    def attributes(self) -> dict[str, Any]:
        """The dimension and the comparator."""
        return {"dimension": self.dimension, "region": self.region.text}

    @cached_property
    def order(self) -> comparators.PlainOrder | None:
        """The plain comparison by which a candidate wins, or None."""
        return comparators.plain_order(self.ranks)

    @property
    def candidates(self) -> Extent:
        """N: how many elements compete."""
        return self.types["values"].shape[self.dimension]

    @property
    def k(self) -> Extent:
        """K: how many are kept."""
        return self.types["output_values"].shape[self.dimension]


def topk(
    values: OperandLike,
    output_values: OperandLike | int | None = None,
    output_indices: OperandLike | None = None,
    *,
    indices: OperandLike | None = None,
    dimension: int | None = None,
    k: Extent | None = None,
    region: RegionLike = ">",
    dtype: str = "float32",
) -> Topk:
    """The ``k`` best of ``values`` and of the inits along ``dimension``, with their indices.

    Args:
        values: shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_values: the init of the values; its extent along ``dimension`` is K.  A number is K.
        output_indices: the init of the indices, a bare shape being one of int32; by default
            int32 of the shape of ``output_values``.
        indices: the inputs' indices, int32; without, they are numbered from 0.
        dimension: the dim to select along, by default the last one.
        k: K, in place of ``output_values``.
        region: whether a candidate (``arg0``) wins over an output element (``arg1``): ``">"`` or
            ``"<"``, text, or a callable over TIR expressions.  ``">="`` selects what ``">"`` does.
        dtype: element type of values given as bare shapes: any float, integer or bool.

    Returns:
        The op.  Its kernel takes ``values, [indices], output_values_init, output_indices_init`` and
        returns ``output_values`` and ``output_indices``.  With a plain comparison the inits may be
        left out: they are then worse than all, and nothing but ``values`` competes.

    Raises:
        OpError: for ranks, extents, dtypes, a dimension or a region that do not fit.
    """
    inputs, kind, dimension = check_values(_NAME, values, dimension, dtype)
    best = check_best(_NAME, inputs["values"], output_values, dimension, k)
    if indices is not None:
        inputs["indices"] = as_tensor(_NAME, "indices", indices, "int32", ("int32",), least=0)
    if output_indices is None:
        output_indices = TensorType(best.shape, "int32")
    held = ("int32",) if indices is not None else INDEX_DTYPES
    where = as_tensor(_NAME, "output_indices", output_indices, "int32", held, least=0)
    types = settle(_NAME, inputs, {"output_values": best, "output_indices": where}, dimension)
    return Topk(_NAME, types, dimension, comparators.comparator(_NAME, region, [kind]))


def check_values(
    op: str, values: OperandLike, dimension: object, dtype: str
) -> tuple[dict[str, TensorType], str, int]:
    """The inputs so far, their element type, and the dim to select along: by default the last."""
    given = as_tensor(op, "values", values, dtype, dtypes.ELEMENTS, least=0)
    if dimension is None:
        dimension = max(0, len(given.shape) - 1)
    return {"values": given}, given.dtype, check_dimension(op, dimension, len(given.shape))


def check_best(
    op: str, values: TensorType, best: OperandLike | int | None, dimension: int, k: Extent | None
) -> TensorType:
    """The type of the output values, given as such or by K."""
    if isinstance(best, int) and k is None:
        best, k = None, best
    if (best is None) == (k is None):
        raise OpError(f"{op}: expected either output_values or k")
    if best is None:
        shape = list(values.shape)
        shape[dimension] = k if k is not None else 0
        best = TensorType(tuple(shape), values.dtype)
    allowed = dtypes.ELEMENTS
    kind = as_tensor(op, "output_values", best, values.dtype, allowed, least=0)
    if kind.dtype != values.dtype:
        raise OpError(
            f"{op}: output_values has dtype {kind.dtype}; expected {values.dtype} as values"
        )
    return kind


def settle(
    op: str,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    dimension: int,
) -> dict[str, TensorType]:
    """The types with the shapes that they agree on, and a name for each extent.

    Values and their indices have one shape; inputs and outputs differ along the dimension.
    """
    one, other = (next(iter(agree(op, pair).values())) for pair in (inputs, outputs))
    dtype = inputs["values"].dtype
    shapes = agree(
        op,
        {"values": TensorType(one, dtype), "output_values": TensorType(other, dtype)},
        free=(dimension,),
    )
    taken = {extent for shape in shapes.values() for extent in shape}
    types: dict[str, TensorType] = {}
    for first, pair in (("values", inputs), ("output_values", outputs)):
        shape = list(shapes[first])
        if shape[dimension] == "?":
            shape[dimension] = unused(f"{first}_d{dimension}", taken)
        settled = named(tuple(shape), taken=taken)
        types |= {name: TensorType(settled, given.dtype) for name, given in pair.items()}
    return types
