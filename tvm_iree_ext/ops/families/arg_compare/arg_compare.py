"""``iree_linalg_ext.arg_compare``: the element of each line that a comparator selects, and where.

Over the positions j along ``dimension``, first to last, the other indices fixed:

    value, index = init_value, init_index
    if f(input_value[j], value):  value, index = input_value[j], where(j)

where(j) is ``input_index[j]``, or ``index_base + j``, or j.  The comparator's first argument is the
candidate, its second the best so far.  So a strict one (``>``) takes the first of equal elements,
one that is not (``>=``) the last; the init is never given a base, and an ordered comparison never
takes a NaN, nor replaces one.

The order of the loop is the contract.  The four comparisons of arg0 with arg1 give the same in any
order, once ties are settled by position: they are found by their form, and computed in parallel.
Difference to the dialect: its ``outs``, which are read and written, are an init and a result each.
Comparators over f16 and bf16 see float32, which holds the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tvm_iree_ext.base import dtypes, scalar_text
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Shape, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.ops.base.natural_inits import worst
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES, OperandLike, as_tensor, check_dimension
from tvm_iree_ext.ops.base.regions import Region, RegionLike, trace
from tvm_iree_ext.ops.base.shapes import named, unify
from tvm_iree_ext.tir.nan_comparisons import with_nan_comparisons
from tvm_iree_ext.tir.tir_expressions import convert
from tvm_iree_ext.tir.tvm_modules import ir, tirx, tvm_ffi

_NAME = "iree_linalg_ext.arg_compare"

COMPARISONS = {sign: f"arg0 {sign} arg1" for sign in (">", ">=", "<", "<=")}
"""Comparators that may be computed in any order, by what they may be called."""

NAN_FIRST = {sign: f"arg0 {sign} arg1 or arg0 != arg0 and arg1 == arg1" for sign in "><"}
"""Those by which a NaN wins against every number, as in NumPy and PyTorch; so may these be."""


@dataclass(frozen=True, eq=False)
class ArgCompare(Op):
    """An arg_compare of either dialect; made by :func:`arg_compare`, or its like for vectors.

    ``explicit`` says that positions have indices of their own; ``index_base`` is None for an
    operand.
    """

    type: TensorType
    index_dtype: str
    dimension: int
    region: Region
    explicit: bool
    index_base: int | None
    name: str

    @property
    def compute_dtype(self) -> str:
        """The type in which elements are compared."""
        return computed_dtype(self.type.dtype)

    @cached_property
    def comparison(self) -> str | None:
        """The comparison of :data:`COMPARISONS` or :data:`NAN_FIRST` that the region is."""
        return self._found(COMPARISONS) or self._found(NAN_FIRST)

    @cached_property
    def nan_first(self) -> bool:
        """Whether the comparison is one of :data:`NAN_FIRST`."""
        return self._found(COMPARISONS) is None and self._found(NAN_FIRST) is not None

    def _found(self, texts: Mapping[str, str]) -> str | None:
        """The sign of the text that the region is."""
        first, second = self.region.parameters
        mirrored = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
        for sign, text in texts.items():
            for a, b, found in ((first, second, sign), (second, first, mirrored[sign])):
                known = scalar_text.evaluate(text, {"arg0": a, "arg1": b}, {})
                if tvm_ffi.structural_equal(with_nan_comparisons(known), self.region.body):
                    return found
        return None

    @property
    def line_shape(self) -> Shape:
        """The shape of inits and results: the input's without the dimension."""
        shape = self.type.shape
        return (*shape[: self.dimension], *shape[self.dimension + 1 :])

    @cached_property
    def signature(self) -> Signature:
        """``input_value, [input_index], [index_base], init_value, init_index, value, index``."""
        shape, line, dtype = self.type.shape, self.line_shape, self.type.dtype
        operands = [Operand("input_value", shape, dtype)]
        if self.explicit:
            operands.append(Operand("input_index", shape, self.index_dtype))
        if self.index_base is None:
            operands.append(Operand("index_base", (), "int64", "scalar"))
        operands += [one.operand for one in self.region_scalars]
        value = None if self.explicit or self.index_base is None else worst(self.region, dtype)
        where = None if value is None else self._first_index
        operands += [
            Operand("init_value", line, dtype, default=value),
            Operand("init_index", line, self.index_dtype, default=where),
            Operand("value", line, dtype, "result", init="init_value", over=shape),
            Operand("index", line, self.index_dtype, "result", init="init_index", over=shape),
        ]
        return Signature(tuple(operands))

    @property
    def _first_index(self) -> int:
        """The index of position 0, with a base that is known."""
        bits = 8 * dtypes.item_bytes(self.index_dtype)
        wrapped = (self.index_base or 0) % 2**bits
        is_negative = not self.index_dtype.startswith("u") and wrapped >= 2 ** (bits - 1)
        return wrapped - 2**bits if is_negative else wrapped

    @property
    def attributes(self) -> dict[str, Any]:
        """Dimension, region, and the base (None: given at call time)."""
        return {
            "dimension": self.dimension,
            "region": self.region.text,
            "index_base": self.index_base,
        }

    def position_index(self, position: ir.Expr, base: Any) -> ir.Expr:
        """The index of a position: its sum with the base, wrapped to the index type.

        ``base`` is the operand, where it is one.
        """
        bits = 8 * dtypes.item_bytes(self.index_dtype)
        word = f"uint{bits}"  # where sums wrap; signed ones must not in TVM
        if self.index_base is None:
            start = convert(base, word)
        else:
            start = tirx.const(self.index_base % 2**bits, word)
        return convert(convert(position, word) + start, self.index_dtype)

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Comparisons."""
        return math.prod(resolve(extent, extents) for extent in self.type.shape)

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """Bytes moved, as for any op, less the indices of elements that are not selected."""
        total = super().bytes(extents)
        if self.explicit:
            lines = math.prod(resolve(extent, extents) for extent in self.line_shape)
            total -= (self.flops(extents) - lines) * dtypes.item_bytes(self.index_dtype)
        return total


def arg_compare(
    input_value: OperandLike,
    region: RegionLike = ">",
    *,
    dimension: int = 0,
    input_index: OperandLike | None = None,
    index_base: int | Literal["operand"] | None = None,
    init_value: OperandLike | None = None,
    init_index: OperandLike | None = None,
    dtype: str = "float32",
    index_dtype: str = "int32",
) -> ArgCompare:
    """The element of each line along ``dimension`` that wins against all others, and its index.

    Args:
        input_value: a shape (of ``dtype``), a :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        region: whether the candidate (first) beats the best so far (second): one of ``> >= < <=``,
            text over ``arg0`` and ``arg1``, or a callable over TIR expressions, yielding a bool.
        dimension: the axis along which to compare, from 0.
        input_index: the index of each element; without it, its position along ``dimension``.
        index_base: added to positions; ``"operand"`` for a number given at call time.
        init_value: to be checked when given: input's shape without ``dimension``, and its type.
        init_index: likewise; its type is the result's.
        dtype: element type of values given as bare shapes.
        index_dtype: element type of indices given as bare shapes, or not given.

    Returns:
        The op.  Its kernel takes ``input_value``, then ``input_index`` and ``index_base`` where
        they are operands, ``init_value`` and ``init_index``, and returns ``value`` and ``index``.
        With a plain comparison and neither of these operands the inits may be left out: they are
        then the worst value and the first index.

    Raises:
        OpError: for a dimension, rank, extent, dtype, base or region that does not fit.
    """
    return of_operands(
        _NAME,
        input_value,
        region,
        dimension=dimension,
        input_index=input_index,
        index_base=index_base,
        init_value=init_value,
        init_index=init_index,
        dtype=dtype,
        index_dtype=index_dtype,
    )


def of_operands(
    op: str,
    input_value: OperandLike,
    region: RegionLike,
    *,
    dimension: int,
    input_index: OperandLike | None,
    index_base: int | Literal["operand"] | None,
    init_value: OperandLike | None,
    init_index: OperandLike | None,
    dtype: str,
    index_dtype: str,
) -> ArgCompare:
    """The op called ``op``, checked: what the dialects' arg_compare have in common."""
    allowed = dtypes.ELEMENTS
    kind = as_tensor(op, "input_value", input_value, dtype, allowed, least=0)
    dimension = check_dimension(op, dimension, len(kind.shape))
    shape = kind.shape
    index_type: str | None = None
    if input_index is not None:
        given = as_tensor(op, "input_index", input_index, index_dtype, INDEX_DTYPES, least=0)
        index_type = given.dtype
        shape = unify(op, "input_index", given, shape, index_type, "input_value's shape")
    what = f"input_value's shape without dimension {dimension}"
    for name, operand in (("init_value", init_value), ("init_index", init_index)):
        if operand is None:
            continue
        if name == "init_value":
            given = as_tensor(op, name, operand, kind.dtype, allowed, least=0)
            wanted = kind.dtype
        else:
            fallback = index_type or index_dtype
            given = as_tensor(op, name, operand, fallback, INDEX_DTYPES, least=0)
            wanted = index_type = index_type or given.dtype
        line = (*shape[:dimension], *shape[dimension + 1 :])
        line = unify(op, name, given, line, wanted, what)
        shape = (*line[:dimension], shape[dimension], *line[dimension:])
    base = _base(op, index_base, explicit=input_index is not None)
    if isinstance(region, str):
        region = COMPARISONS.get(region, region)
    computed = computed_dtype(kind.dtype)
    traced = trace(op, region, [computed, computed], yields="bool", takes_scalars=True)
    index = as_tensor(op, "index", (), index_type or index_dtype, INDEX_DTYPES).dtype
    return ArgCompare(
        TensorType(named(shape), kind.dtype),
        index,
        dimension,
        traced,
        input_index is not None,
        base,
        op,
    )


def _base(op: str, base: object, *, explicit: bool) -> int | None:
    if base is None:
        return 0
    if explicit:
        raise OpError(f"{op}: index_base beside input_index; indices of elements have no base")
    if base == "operand":
        return None
    if not isinstance(base, int) or isinstance(base, bool) or not -(2**63) <= base < 2**63:
        raise OpError(f"{op}: index_base is {base!r}; expected an integer, 'operand' or None")
    return base
