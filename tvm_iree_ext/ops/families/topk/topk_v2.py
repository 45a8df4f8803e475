"""``iree_linalg_ext.topk_v2``: the K first elements along one dim, with or without their indices.

    candidates = the inits, and values[n] with index input_indices[n], or n
    output     = the K candidates that go first, by region(one, other), ties by the smaller index

The region says whether its first argument goes before the second; where it holds both ways, as
``>=`` does for equal elements, they are a tie, so ``>`` and ``>=`` select the same.  With
``is_sorted`` the output is in order, whatever the order of the inits; without, its order is open.
Which of two goes first is open, too, where neither value nor index says.
A NaN among the values is never selected, and one among the inits is never displaced.

K is at most the number of values, where both are known.  Input indices need output indices, which
have their type.  Without output indices, ties go to the inits, then to the smaller n.

Differences to the dialect: an in/out operand is two, a comparator sees 16-bit floats as float32 and
a bool as an int8, and ties are settled, with every index beside its value; there both are left
open, and its loops select the later of equal elements for ``>=``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType
from tvm_iree_ext.ops.base.comparators import comparator
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES, OperandLike, as_tensor
from tvm_iree_ext.ops.base.regions import RegionLike
from tvm_iree_ext.ops.families.topk.topk import Topk, check_best, check_values, settle

_NAME = "iree_linalg_ext.topk_v2"


@dataclass(frozen=True, eq=False)
class TopkV2(Topk):
    """A top-k in any order; made by :func:`topk_v2`, which checks it."""

    is_sorted: bool

    input_indices = "input_indices"

    keeps_pairs = True

    @property
    def in_order(self) -> bool:
        """Whether the outputs are handed out best first."""
        return self.is_sorted

    @property
    def index_dtype(self) -> str:
        """The element type in which indices are compared."""
        return self.types["output_indices"].dtype if self.has_output_indices else "int64"

    @property
    def attributes(self) -> dict[str, Any]:
        """The dimension, the comparator, and whether the output is in order."""
        return super().attributes | {"is_sorted": self.is_sorted}


def topk_v2(
    values: OperandLike,
    output_values: OperandLike | int | None = None,
    output_indices: OperandLike | None = None,
    *,
    input_indices: OperandLike | None = None,
    dimension: int | None = None,
    is_sorted: bool = False,
    k: Extent | None = None,
    region: RegionLike = ">",
    dtype: str = "float32",
) -> TopkV2:
    """The ``k`` first of ``values`` and of the inits along ``dimension``.

    Args:
        values: shape (of ``dtype``), :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.  Extents are numbers, names of extents known at call time, or ``"?"``.
        output_values: the init of the values; its extent along ``dimension`` is K.  A number is K.
        output_indices: the init of the indices, of any integer type, a bare shape being one of
            int32; without, no indices are handed out.
        input_indices: the values' indices, of the type of ``output_indices``; without, they are
            numbered from 0.
        dimension: the dim to select along.
        is_sorted: whether the output is in order; if not, its order is left open.
        k: K, in place of ``output_values``.
        region: whether ``arg0`` goes before ``arg1``: ``">"``, ``"<"``, ``">="`` or ``"<="``, text,
            or a callable over TIR expressions.
        dtype: element type of values given as bare shapes: any float, integer or bool.

    Returns:
        The op.  Its kernel takes ``values, [input_indices], output_values_init,
        [output_indices_init]`` and returns ``output_values`` and, where there are,
        ``output_indices``.

    Raises:
        OpError: for ranks, extents, dtypes, a dimension or a region that do not fit.
    """
    inputs, kind, dimension = check_values(_NAME, values, dimension, dtype)
    outputs = {"output_values": check_best(_NAME, inputs["values"], output_values, dimension, k)}
    if not isinstance(is_sorted, bool):
        raise OpError(f"{_NAME}: is_sorted is {is_sorted!r}; expected True or False")
    if output_indices is not None:
        where = as_tensor(_NAME, "output_indices", output_indices, "int32", INDEX_DTYPES, least=0)
        outputs["output_indices"] = where
    if input_indices is not None:
        if output_indices is None:
            raise OpError(f"{_NAME}: there are input_indices; expected output_indices, too")
        given = as_tensor(_NAME, "input_indices", input_indices, where.dtype, INDEX_DTYPES, least=0)
        if given.dtype != where.dtype:
            raise OpError(
                f"{_NAME}: output_indices has dtype {where.dtype};"
                f" expected {given.dtype} as input_indices"
            )
        inputs["input_indices"] = given
    types = settle(_NAME, inputs, outputs, dimension)
    _check_k(types, dimension)
    return TopkV2(_NAME, types, dimension, comparator(_NAME, region, [kind]), is_sorted)


def _check_k(types: Mapping[str, TensorType], dimension: int) -> None:
    count, k = (types[name].shape[dimension] for name in ("values", "output_values"))
    if isinstance(count, int) and isinstance(k, int) and k > count:
        raise OpError(
            f"{_NAME}: output_values axis {dimension} has extent {k};"
            f" expected at most {count} as in values"
        )
