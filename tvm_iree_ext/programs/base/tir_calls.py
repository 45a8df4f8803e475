"""Calls of TensorIR functions in Relax: what is called, and the op that it computes."""

from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.relax_passes import prim_functions


def is_tir_call(value: Any) -> bool:
    """Whether a value is a call of a function that takes tensors alone, and writes new ones."""
    is_tir = isinstance(value, ir.Call) and getattr(value.op, "name", "") == "relax.call_tir"
    return is_tir and len(value.args) == 2


def is_reshape(value: Any) -> bool:
    """Whether a value is a tensor by another shape."""
    return isinstance(value, ir.Call) and getattr(value.op, "name", "") == "relax.reshape"


def loops_by_name(mod: ir.IRModule) -> dict[str, tirx.PrimFunc]:
    """The functions of a module that are plain loops, and no op's."""
    functions = prim_functions(mod).items()
    return {var.name_hint: one for var, one in functions if OP_ATTRIBUTE not in (one.attrs or {})}


class Callees:
    """The functions of a module by name, which may be added to, and the ops that are known."""

    def __init__(self, mod: ir.IRModule, known: Mapping[str, Op]) -> None:
        self.functions = {var.name_hint: one for var, one in prim_functions(mod).items()}
        self._known = known

    def function_of(self, value: Any) -> tirx.PrimFunc | None:
        """The function that a value is a call of; None for another value."""
        return self.functions.get(value.args[0].name_hint) if is_tir_call(value) else None

    def op_of(self, value: Any) -> Op | None:
        """The op that a value is a call of; None for loops and other values."""
        return self.op_of_function(self.function_of(value))

    def op_of_function(self, function: tirx.PrimFunc | None) -> Op | None:
        """The op that a function is the canonical form of; None for loops."""
        key = (function.attrs or {}).get(OP_ATTRIBUTE) if function is not None else None
        return self._known.get(str(key)) if key is not None else None
