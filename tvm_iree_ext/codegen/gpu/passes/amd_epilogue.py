"""Loads that follow matrix products stay behind them, on AMD's GPUs.

LLVM would load all that an epilogue takes while the last products are under way, and spill for it.
A fence of its scheduler, which is no instruction, stands between them.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.codegen.gpu.passes.amd_branches import scheduler_fence
from tvm_iree_ext.intrin.amd import kinds_called
from tvm_iree_ext.tir.function_body import with_body


@tirx.transform.prim_func_pass(opt_level=0)
def fence_epilogue(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """The kernel with a fence behind its last product, where what follows loads from memory."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _fenced)))


def _fenced(sequence: Any) -> Any:
    statements = list(sequence.seq)
    products = [at for at, statement in enumerate(statements) if multiplies(statement)]
    behind = products[-1] + 1 if products else len(statements)
    if not any(map(_loads, statements[behind:])):
        return sequence
    return tirx.SeqStmt([*statements[:behind], scheduler_fence(), *statements[behind:]])


def multiplies(statement: Any) -> bool:
    """Whether a statement has a matrix instruction."""
    found: list[bool] = []
    tvm_ffi.structural_walk(
        statement, (ir.Call, lambda call: found.append(bool(kinds_called(call))))
    )
    return any(found)


def _loads(statement: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(
        statement, (TensorLoad, lambda load: found.append(load.source.scope() == "global"))
    )
    return any(found)
