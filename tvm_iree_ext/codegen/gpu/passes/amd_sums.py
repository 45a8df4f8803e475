"""Sums are complete before the branches that store them, on AMD's GPUs.

Each lane stores its part of a tile under a condition.  LLVM's machine sinking moves what only a
branch uses into the branch: the last step of a product, matrix instructions and all, once for each
store.  What they multiply then stays in registers up to there, and on the stack; and it comes back
from the stack in the lanes of the branch alone, while a matrix instruction reads all of them.

Assembly of no instructions uses the sums before the first branch.
"""

from typing import Any

import tvm_ffi
from tvm import DataType, ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.tir.function_body import with_body

_USE = "tvm_iree_ext_use_"
_TYPES = {
    "float16": "half", "float32": "float", "float64": "double",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (16, 32, 64)},
}  # fmt: skip
_LANES = (1, 2, 4, 8, 16, 32)
_MOST_BITS = 1024  # of LLVM's largest tuple of vector registers


def use_definitions() -> str:
    """LLVM IR of the functions that :func:`keep_sums` calls."""
    lines = []
    for name in dict.fromkeys(_TYPES.values()):
        for lanes in _LANES:
            vector = name if lanes == 1 else f"<{lanes} x {name}>"
            lines += [
                f"define linkonce_odr void @{_USE}{lanes}_{name}({vector} %value) alwaysinline {{",
                f'  call void asm sideeffect "", "v"({vector} %value)',
                "  ret void",
                "}",
            ]
    return "\n".join(lines)


@tirx.transform.prim_func_pass(opt_level=0)
def keep_sums(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """The kernel whose sums in registers are complete before the first branch that reads them."""
    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _kept)))


def _kept(sequence: Any) -> Any:
    kept: list[Any] = []
    sums: dict[str, Any] = {}  # since the last branch that reads one
    for statement in sequence.seq:
        if isinstance(statement, tirx.IfThenElse) and sums:
            read = {hash(buffer) for buffer in _read(statement)}
            if any(hash(store.buffer) in read for store in sums.values()):
                kept += map(_use, sums.values())
                sums.clear()
        for store in _additions(statement):
            sums[f"{hash(store.buffer)} {store.indices}"] = store
        kept.append(statement)
    return tirx.SeqStmt(kept) if len(kept) > len(sequence.seq) else sequence


def _additions(statement: Any) -> list[Any]:
    """What adds to registers in a statement, in loops of it, too, which LLVM may unroll."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    return [store for store in stores if _adds(store)]


def _adds(store: Any) -> bool:
    """Whether it adds to registers whose numbers are known."""
    return (
        store.buffer.scope() == "local"
        and _type_name(store.value.ty.dtype) is not None
        and not any(map(tirx.analysis.undefined_vars, store.indices))
        and any(buffer.same_as(store.buffer) for buffer in _read(store.value))
    )


def _read(node: Any) -> list[Any]:
    """The buffers in registers that are loaded from."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (TensorLoad, lambda load: found.append(load.source)))
    return [buffer for buffer in found if buffer.scope() == "local"]


def _use(store: Any) -> tirx.Stmt:
    value = tirx.BufferLoad(store.buffer, store.indices)
    name = _type_name(store.value.ty.dtype)
    return tirx.Evaluate(tirx.call_extern("void", f"{_USE}{name}", value))


def _type_name(dtype: Any) -> str | None:
    kind = DataType(str(dtype))
    element = _TYPES.get(str(dtype).partition("x")[0])
    fits = kind.lanes in _LANES and kind.lanes * kind.bits <= _MOST_BITS
    return f"{kind.lanes}_{element}" if element and fits else None
