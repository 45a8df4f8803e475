"""Branches on one condition become one, and their ends stay apart, on AMD's GPUs.

Where a tile's sums go to the result or to be added later, each store has a branch of its own.  LLVM
would make one store of the two, at one of two addresses: a pair of registers for each of the tile,
all at once.  A fence of its scheduler, which is no instruction, ends one of the two branches: so
they do not end alike, and each has one address and distances from it.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.tir.function_body import with_body
from tvm_iree_ext.tir.purity import is_pure


def scheduler_fence() -> tirx.Stmt:
    """A fence that LLVM's scheduler moves nothing over."""
    fence = tirx.call_llvm_intrin("void", "llvm.amdgcn.sched.barrier", tirx.const(0, "int32"))
    return tirx.Evaluate(fence)


@tirx.transform.prim_func_pass(opt_level=0)
def part_branches(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """The kernel with one branch for each run of branches that are on the same condition."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _joined)))


def _joined(sequence: Any) -> Any:
    runs: list[list[Any]] = []
    for statement in sequence.seq:
        if runs and _on_the_same(runs[-1][-1], statement):
            runs[-1].append(statement)
        else:
            runs.append([statement])
    if all(len(run) == 1 for run in runs):
        return sequence
    statements = [run[0] if len(run) == 1 else _one(run) for run in runs]
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def _on_the_same(one: Any, other: Any) -> bool:
    """Whether both choose by a condition that is the same for both: one of numbers alone."""
    if not all(isinstance(each, tirx.IfThenElse) and each.else_case for each in (one, other)):
        return False
    found: list[Any] = []
    kinds = [(TensorLoad, found.append), (ir.Call, found.append)]
    tvm_ffi.structural_walk(one.condition, kinds)
    return not any(map(_may_change, found)) and tvm_ffi.structural_equal(
        one.condition, other.condition
    )


def _may_change(node: Any) -> bool:
    """Whether it may be another value the second time, or do something."""
    return isinstance(node, TensorLoad) or not is_pure(node)


def _one(branches: list[Any]) -> tirx.Stmt:
    then = tirx.SeqStmt([*(branch.then_case for branch in branches), scheduler_fence()])
    otherwise = tirx.SeqStmt([branch.else_case for branch in branches])
    return tirx.IfThenElse(branches[0].condition, then, otherwise)
