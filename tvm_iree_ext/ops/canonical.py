"""What canonical PrimFuncs begin with: their name, their parameters, the values of extents."""

from typing import Any

from tvm import ir, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.dtypes import item_bytes
from tvm_iree_ext.ops.base import Op
from tvm_iree_ext.signature import Extent


class Parameters:
    """The parameters of the PrimFunc under construction: the op's operands, in call order.

    Buffers are declared with the alignment of an item, which is all that a caller's array has.
    """

    def __init__(self, op: Op) -> None:
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        self.symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        self.buffers: dict[str, Any] = {}
        for operand in op.signature.operands:
            shape = [self.extent(extent) for extent in operand.shape]
            buffer = I.buffer(shape, operand.dtype, align=item_bytes(operand.dtype))
            self.buffers[operand.name] = I.arg(operand.name, buffer)

    def extent(self, extent: Extent) -> ir.Expr:
        """An extent as an expression."""
        if isinstance(extent, str):
            return self.symbols[extent]
        return tirx.const(extent, "int64")

    def __getitem__(self, name: str) -> Any:
        """The buffer of an operand."""
        return self.buffers[name]


def convert(value: ir.Expr, dtype: str) -> ir.Expr:
    """``value`` in the scalar type ``dtype``."""
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def in_range(index: ir.Expr, full: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """Whether ``extent`` elements from ``index`` on lie among ``full``.

    The index itself is tested, too: the simplifier may write the last test as a sum of index and
    extent, and with any int64 for an index that would wrap.
    """
    zero = tirx.const(0, "int64")
    itself = tirx.And(zero <= index, index < full)
    return tirx.And(itself, index <= full - extent)
