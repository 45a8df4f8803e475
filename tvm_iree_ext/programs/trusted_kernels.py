"""Which kernels of a program get tensors of its own alone."""

from typing import Any

import tvm_ffi
from tvm import ir

from tvm_iree_ext.codegen.cpu.trusted_calls import TRUSTED
from tvm_iree_ext.programs.base.relax_passes import (
    prim_functions,
    relax_functions,
    source,
    with_functions,
)


def with_trusted_kernels(planned: ir.IRModule) -> ir.IRModule:
    """The module, whose memory is planned, with marks on kernels that no caller's array reaches.

    A caller's arrays are the arguments of functions, and what lies in their memory; constants are
    no arguments.
    """
    reached: set[str] = set()
    called: set[str] = set()
    for function in relax_functions(planned).values():
        given = int((function.attrs or {}).get("num_input", len(function.params)))
        callers = set(function.params[:given])
        bound = {one.var: one.value for block in function.body.blocks for one in block.bindings}

        def note(call: ir.Call, bound: Any = bound, callers: Any = callers) -> None:
            if isinstance(call.op, ir.GlobalVar):
                called.add(call.op.name_hint)
                if not callers.isdisjoint(source(one, bound) for one in call.args):
                    reached.add(call.op.name_hint)

        tvm_ffi.structural_walk(function.body, (ir.Call, note))
    return with_functions(
        planned,
        {
            var: kernel.with_attr(TRUSTED, True)
            for var, kernel in prim_functions(planned).items()
            if var.name_hint in called - reached
        },
    )
