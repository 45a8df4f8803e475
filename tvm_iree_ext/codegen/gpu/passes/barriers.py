"""Barriers between a workgroup's accesses to shared memory: TVM's, or a function's own.

TVM takes every two accesses to a buffer for the same place, and puts barriers between the turns of
a loop in which each lane exchanges elements of its own.  A function that is marked places all of
its barriers itself; the simulator tells where one is missing.
"""

from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_iree_ext.intrin.kernel_attributes import OWN_BARRIERS


def add_barriers(scope: str) -> Any:
    """TVM's pass for a scope of shared memory, but for functions that are marked."""
    add = s_tir.transform.ThreadSync(scope)

    def added(mod: ir.IRModule, _context: Any) -> ir.IRModule:
        functions = {
            var: func if _is_marked(func) else _by_kernel(add, var, func)
            for var, func in mod.functions.items()
        }
        return ir.IRModule(functions, attrs=mod.attrs)

    return ir.transform.module_pass(added, opt_level=0, name="tvm_iree_ext.add_barriers")


def _by_kernel(add: Any, var: Any, func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with each kernel changed by itself: TVM refuses one that the host chooses."""

    def launch(node: tirx.AttrStmt, mutator: Any) -> Any:
        if node.attr_key != "thread_extent":
            return mutator.default_mutate(node)
        return add(ir.IRModule({var: func.with_body(node)}))[var].body

    return func.with_body(tvm_ffi.structural_mutate(func.body, [(tirx.AttrStmt, launch)]))


def _is_marked(func: Any) -> bool:
    return isinstance(func, tirx.PrimFunc) and OWN_BARRIERS in (func.attrs or {})
