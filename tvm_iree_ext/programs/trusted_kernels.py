"""Which kernels of a program get tensors of its own alone."""

from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.codegen.cpu.trusted_calls import TRUSTED
from tvm_iree_ext.programs.base.relax_passes import (
    prim_functions,
    relax_functions,
    source,
    with_functions,
)

_ALLOCATIONS = ("relax.builtin.alloc_tensor", "relax.memory.alloc_tensor")


def with_trusted_kernels(planned: ir.IRModule) -> ir.IRModule:
    """The module, whose memory is planned, with marks on kernels that no caller's array reaches.

    What the program allocates and its constants are its own.  All else may lie in a caller's
    memory: arguments, views of them, and what loops and branches hand on.  A kernel with a check of
    its own, such as of a number that is computed, keeps all checks.
    """
    called: set[str] = set()
    reached: set[str] = set()
    for function in relax_functions(planned).values():
        given = int((function.attrs or {}).get("num_input", len(function.params)))
        constants = set(function.params[given:])
        bound = {one.var: one.value for block in function.body.blocks for one in block.bindings}

        def is_own(value: Any, constants: Any = constants, bound: Any = bound) -> bool:
            if not isinstance(value.ty, relax.TensorType):
                return True
            origin = source(value, bound)
            made = bound.get(origin) if isinstance(origin, ir.Var) else origin
            if isinstance(made, ir.Call):
                return getattr(made.op, "name", "") in _ALLOCATIONS
            return isinstance(made, ir.GenericConst) or origin in constants

        def note(call: ir.Call, is_own: Any = is_own) -> None:
            if isinstance(call.op, ir.GlobalVar):
                called.add(call.op.name_hint)
                if not all(map(is_own, call.args)):
                    reached.add(call.op.name_hint)

        tvm_ffi.structural_walk(function.body, (ir.Call, note))
    return with_functions(
        planned,
        {
            var: kernel.with_attr(TRUSTED, True)
            for var, kernel in prim_functions(planned).items()
            if var.name_hint in called - reached and not _has_checks(kernel)
        },
    )


def _has_checks(kernel: tirx.PrimFunc) -> bool:
    checks: list[Any] = []
    tvm_ffi.structural_walk(kernel.body, (tirx.AssertStmt, checks.append))
    return bool(checks)
