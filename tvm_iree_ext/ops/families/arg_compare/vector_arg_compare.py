"""``iree_vector_ext.arg_compare``: the element of each line of a vector that wins, and where.

A vector's extents are numbers from 1.  The results have the inits' types, whose indices are of an
integer type or ``index``, which is int64.  The region must be pure, and its terminator, the
dialect's ``yield``, gives one i1: here that is what the callable returns, or the text's value.

Difference to the dialect: the operands are in memory, as all are here, and the vector may be as
large as that.
"""

from __future__ import annotations

from typing import Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import shape_text
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES, OperandLike, as_vector
from tvm_iree_ext.ops.base.regions import RegionLike
from tvm_iree_ext.ops.families.arg_compare.arg_compare import ArgCompare, of_operands

_NAME = "iree_vector_ext.arg_compare"


def arg_compare(
    input_value: OperandLike,
    region: RegionLike = ">",
    *,
    dimension: int = 0,
    input_index: OperandLike | None = None,
    index_base: int | Literal["operand"] | None = None,
    init_value: OperandLike | None = None,
    init_index: OperandLike | None = None,
    value: OperandLike | None = None,
    index: OperandLike | None = None,
    dtype: str = "float32",
    index_dtype: str = "index",
) -> ArgCompare:
    """The element of each line of a vector that wins against all others, and its index.

    Arguments are those of ``iree_linalg_ext``'s :func:`.arg_compare.arg_compare`; extents are
    numbers.  ``value`` and ``index`` are the results' types, to be checked when given: those of
    ``init_value`` and ``init_index``.

    Raises:
        OpError: as there, and for an extent that is a name.
    """
    values, indices = dtypes.ELEMENTS, INDEX_DTYPES
    for name, operand, kind, allowed in (
        ("input_value", input_value, dtype, values),
        ("input_index", input_index, index_dtype, indices),
        ("init_value", init_value, dtype, values),
        ("init_index", init_index, index_dtype, indices),
    ):
        if operand is not None:
            as_vector(_NAME, name, operand, kind, allowed)
    op = of_operands(
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
    for name, operand, kind, allowed in (
        ("value", value, op.type.dtype, values),
        ("index", index, op.index_dtype, indices),
    ):
        if operand is None:
            continue
        came = as_vector(_NAME, name, operand, kind, allowed)
        if (came.shape, came.dtype) != (op.line_shape, kind):
            raise OpError(
                f"{_NAME}: {name} is {came.dtype}{shape_text(came.shape)};"
                f" expected {kind}{shape_text(op.line_shape)} as init_{name} is"
            )
    return op
