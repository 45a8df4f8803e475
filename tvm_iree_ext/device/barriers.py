"""Barriers between a workgroup's accesses to shared memory: TVM's, or a function's own.

TVM takes every two accesses to a buffer for the same place, and puts barriers between the turns of
a loop in which each lane exchanges elements of its own.  A function that is marked places all of
its barriers itself; the simulator tells where one is missing.
"""

from typing import Any

from tvm import ir, s_tir, tirx

from tvm_iree_ext.intrin.barriers import OWN_BARRIERS


def add_barriers(scope: str) -> Any:
    """TVM's pass for a scope of shared memory, but for functions that are marked."""
    add = s_tir.transform.ThreadSync(scope)

    def added(mod: ir.IRModule, _context: Any) -> ir.IRModule:
        marked = {var: func for var, func in mod.functions.items() if _is_marked(func)}
        rest = {var: func for var, func in mod.functions.items() if var not in marked}
        changed = add(ir.IRModule(rest, attrs=mod.attrs))
        for var, func in marked.items():
            changed[var] = func
        return changed

    return ir.transform.module_pass(added, opt_level=0, name="tvm_iree_ext.add_barriers")


def _is_marked(func: Any) -> bool:
    return isinstance(func, tirx.PrimFunc) and OWN_BARRIERS in (func.attrs or {})
