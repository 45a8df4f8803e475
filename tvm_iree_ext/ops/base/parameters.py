"""The parameters of a PrimFunc, declared from an op's signature while it is built."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm_iree_ext.base.dtypes import alignment_bytes
from tvm_iree_ext.base.signature import Extent, evaluate
from tvm_iree_ext.ops.base.op import Op, canonical
from tvm_iree_ext.ops.base.region_scalars import with_bound_scalars
from tvm_iree_ext.tir.tensor_scalars import WIDE, with_wide_scalars_in_memory
from tvm_iree_ext.tir.tvm_modules import I, ir, ir_builder, tirx


def _evaluated(extent: Extent, symbols: Mapping[str, tirx.Var]) -> Any:
    """An extent over variables: a number, or an expression."""
    calls = {"ceildiv": tirx.ceildiv, "max": tirx.max, "min": tirx.min}
    return evaluate(extent, symbols, calls)


@dataclass(frozen=True)
class Parameters:
    """Buffers and scalars by operand name, and the variable of each symbolic extent."""

    symbols: Mapping[str, tirx.Var]
    buffers: Mapping[str, Any]
    scalars: Mapping[str, tirx.Var]

    @staticmethod
    def declare(op: Op, *, align: int = 0, index_dtype: str = "int64") -> Parameters:
        """Name the PrimFunc under construction, and add the parameters of ``op`` to it.

        ``align`` are the bytes that addresses are multiples of.  By default an item's: any NumPy
        array will do, and on a CPU vector moves cost no more.
        """
        I.func_name(op.entry)
        I.func_attr({"global_symbol": op.entry, "tirx.noalias": True})
        symbols = {name: tirx.Var(name, "int64") for name in op.signature.symbols}
        buffers: dict[str, Any] = {}
        scalars: dict[str, tirx.Var] = {}
        for operand in op.signature.operands:
            if operand.role == "scalar":
                var = tirx.Var(operand.name, passed_dtype(operand.dtype))
                scalars[operand.name] = I.arg(operand.name, var)
                continue
            extents = (_evaluated(e, symbols) for e in operand.shape)
            shape = [tirx.const(e, index_dtype) if isinstance(e, int) else e for e in extents]
            align_bytes = max(align, alignment_bytes(operand.dtype))
            buffer = I.buffer(shape, operand.dtype, align=align_bytes)
            buffers[operand.name] = I.arg(operand.name, buffer)
        return Parameters(symbols, buffers, scalars)

    def extent(self, extent: Extent) -> int | ir.Expr:
        """An extent as a number, where it is one, or an expression over the symbols."""
        return _evaluated(extent, self.symbols)

    def number(self, value: Extent) -> ir.Expr:
        """A number, or arithmetic over extents and numbers given at call time, as int64."""
        found = _evaluated(value, {**self.symbols, **self.scalars})
        return tirx.const(found, "int64") if isinstance(found, int) else found

    def __getitem__(self, name: str) -> Any:
        """The buffer of an operand; of a scalar, its variable."""
        return self.buffers[name] if name in self.buffers else self.scalars[name]


E = TypeVar("E", bound=Callable[..., None])


def emits_canonical(emit: E) -> E:
    """Register what emits the body of the canonical PrimFunc for the class of its first argument.

    It takes an op and the parameters, which are declared before.
    """

    @functools.wraps(emit)
    def prim_func(op: Op) -> tirx.PrimFunc:
        with ir_builder.IRBuilder() as builder, I.prim_func(s_tir=True):
            emit(op, Parameters.declare(op))
        made = builder.get()
        made = with_bound_scalars(made, op.region_scalars) if op.region_scalars else made
        return with_wide_scalars_in_memory(made)

    canonical.register(prim_func)
    return emit


def passed_dtype(dtype: str) -> str:
    """The type in which a scalar of ``dtype`` is passed: the calling convention has no others.

    Words of 128 bits are read from memory (:func:`.with_wide_scalars_in_memory`).
    """
    if dtype in ("bool", WIDE):
        return dtype
    return "float64" if dtype.startswith(("float", "bfloat")) else "int64"
