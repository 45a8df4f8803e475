"""Operations of ``builtin`` on scalars: integers with a sign of their own, for arithmetic.

``arith`` takes integers without a sign alone, so regions over ``ui8`` compute with ``i8`` by
``builtin.unrealized_conversion_cast``, as front ends write it.
"""

from typing import Any

from tvm_iree_ext.mlir.base.elements import Expr
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import (
    Context,
    Handler,
    as_signed,
    as_unsigned,
    kind_of,
    narrowed,
)


def _conversion_cast(context: Context, op: form.ParsedOperation, operands: list[Any]) -> Expr:
    """The same bits of an integer, of another sign.

    Raises:
        Unsupported: for other types, of which the operation says nothing.
    """
    if len(op.operands) != 1 or len(op.results) != 1:
        raise Unsupported("of several values; one integer becomes one")
    came, kind = kind_of(op.operands[0]), kind_of(op.results[0])
    if not came.is_integer or not kind.is_integer or came.bits != kind.bits:
        raise Unsupported(f"of {came.name} to {kind.name}; an integer becomes one of as many bits")
    read = as_unsigned if kind.kind == "uint" else as_signed
    return narrowed(read(operands[0], came), kind, context)


BUILTIN: dict[str, Handler] = {"builtin.unrealized_conversion_cast": _conversion_cast}
