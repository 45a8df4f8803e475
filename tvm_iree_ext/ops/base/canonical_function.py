"""What canonical PrimFuncs begin with: their name, their parameters, the values of extents."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import Extent
from tvm_iree_ext.ops.base import parameters
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.parameters import as_index
from tvm_iree_ext.tir.small_floats import widened


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
            if operand.role == "scalar":
                number = tirx.Var(operand.name, operand.dtype)
                self.buffers[operand.name] = I.arg(operand.name, number)
                continue
            shape = [self.extent(extent) for extent in operand.shape]
            buffer = I.buffer(shape, operand.dtype, align=item_bytes(operand.dtype))
            self.buffers[operand.name] = I.arg(operand.name, buffer)

    def extent(self, extent: Extent) -> ir.Expr:
        """An extent as an expression."""
        if isinstance(extent, str):
            return self.symbols[extent]
        return tirx.const(extent, "int64")

    def __getitem__(self, name: str) -> Any:
        """The buffer of an operand; of a scalar, its value."""
        return self.buffers[name]


class Block(AbstractContextManager[list[ir.Expr]]):
    """Loops and a block over extents, of which the first ``serial`` run in order."""

    def __init__(
        self,
        name: str,
        parameters: Parameters | parameters.Parameters,
        shape: Sequence[int | str],
        serial: int = 0,
    ) -> None:
        self.name, self.serial = name, serial
        # A loop even where there is no dim: a block without one confuses schedules.
        self.extents = [as_index(parameters.extent(extent)) for extent in shape]
        self.loops = I.grid(*(self.extents or [tirx.const(1, "int64")]))
        self.block = I.sblock(name)

    def __enter__(self) -> list[ir.Expr]:
        loops = self.loops.__enter__()
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        self.block.__enter__()
        at = []
        for number, (extent, loop) in enumerate(zip(self.extents, listed, strict=False)):
            axis: Callable[..., Any] = I.axis.opaque if number < self.serial else I.axis.spatial
            at.append(axis(extent, loop))
        if not at:
            I.axis.spatial(tirx.const(1, "int64"), listed[0])
        return at

    def __exit__(self, *error: Any) -> None:
        self.block.__exit__(*error)
        self.loops.__exit__(*error)


def block_over(
    name: str,
    all_extents: Sequence[ir.Expr],
    dims: Sequence[int],
    reduced: Sequence[int],
    body: Callable[[Mapping[int, Any]], None],
    init: Callable[[Mapping[int, Any]], None] | None = None,
) -> None:
    """Loops and a block over spatial ``dims`` and ``reduced`` ones, each in the order given."""
    # A loop even where there is no dim: a block without one confuses schedules.
    extents = [all_extents[dim] for dim in (*dims, *reduced)] or [tirx.const(1, "int64")]
    with I.grid(*extents) as loops:
        listed = list(loops) if isinstance(loops, Sequence) else [loops]
        with I.sblock(name):
            at: dict[int, Any] = {}
            for dim, loop in zip((*dims, *reduced), listed, strict=False):
                axis = I.axis.reduce if dim in reduced else I.axis.spatial
                at[dim] = axis(all_extents[dim], loop)
            if not at:
                I.axis.spatial(tirx.const(1, "int64"), listed[0])
            if init is not None:
                with I.init():
                    init(at)
            body(at)


def convert(value: ir.Expr, dtype: str) -> ir.Expr:
    """``value`` in the scalar type ``dtype``."""
    if str(value.ty.dtype) == dtype:
        return value
    value = widened(value)
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def in_range(index: ir.Expr, full: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """Whether ``extent`` elements from ``index`` on lie among ``full``.

    The index itself is tested, too: the simplifier may write the last test as a sum of index and
    extent, and with any int64 for an index that would wrap.
    """
    zero = tirx.const(0, "int64")
    itself = tirx.And(zero <= index, index < full)
    return tirx.And(itself, index <= full - extent)
