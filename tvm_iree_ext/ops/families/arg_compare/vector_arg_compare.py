"""``iree_vector_ext.arg_compare``: as :mod:`.arg_compare`, of a vector.

A vector's extents are numbers from 1.  The results have the inits' types, whose indices are of an
integer type or ``index``, which is int64.  The region must be pure, and its terminator, the
dialect's ``yield``, gives one i1: here that is what the callable returns, or the text's value.

Difference to the dialect: the operands are in memory, as all are here, and the vector may be as
large as that.
"""

from typing import Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import shape_text
from tvm_iree_ext.ops.base.operands import OperandLike, as_vector
from tvm_iree_ext.ops.base.regions import RegionLike
from tvm_iree_ext.ops.families.arg_compare.arg_compare import INDEX_DTYPES, ArgCompare, of_operands

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

    Args:
        input_value: a shape (of ``dtype``), a :class:`TensorType`, or anything with ``shape`` and
            ``dtype``; extents are numbers.
        region: whether the candidate (first) beats the best so far (second): one of ``> >= < <=``,
            text over ``arg0`` and ``arg1``, or a callable over TIR expressions, yielding a bool.
        dimension: the axis along which to compare, from 0.
        input_index: the index of each element; without it, its position along ``dimension``.
        index_base: added to positions; ``"operand"`` for a number given at call time.
        init_value: to be checked when given: input's shape without ``dimension``, and its type.
        init_index: likewise; its type is the result's.
        value: the result's type, to be checked when given: that of ``init_value``.
        index: likewise: that of ``init_index``.
        dtype: element type of values given as bare shapes.
        index_dtype: element type of indices given as bare shapes, or not given.

    Returns:
        The op.  Its kernel takes ``input_value``, then ``input_index`` and ``index_base`` where
        they are operands, ``init_value`` and ``init_index``, and returns ``value`` and ``index``.

    Raises:
        OpError: for a dimension, rank, extent, dtype, base or region that does not fit.
    """
    values, indices = dtypes.FLOATS + dtypes.INTEGERS, INDEX_DTYPES
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
