"""Quotients that all lanes of a workgroup share, computed once.

Where extents are known at call time only, a workgroup's place is its number divided by a number of
tiles, which takes a GPU some hundred instructions.  It stands in the index and in the predicate of
every access, and compilers do not take it out of branches:

    before:  x[blockIdx.x // tiles * 64 + ...] ... y[blockIdx.x // tiles * 64 + ...]
    after:   quotient = blockIdx.x // tiles
             x[quotient * 64 + ...] ... y[quotient * 64 + ...]
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad

from tvm_iree_ext.tir.function_body import with_body

_QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


@tirx.transform.prim_func_pass(opt_level=0)
def share_quotients(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Bind what depends on block indices and on the function's arguments alone inside a kernel."""
    own: set[int] = set()  # variables that are not the same for all lanes, or not everywhere

    def see_extent(attr: Any) -> None:
        if attr.attr_key == "thread_extent" and not _is_of_blocks(attr):
            own.add(hash(attr.node.var))

    tvm_ffi.structural_walk(
        func.body,
        [
            (tirx.AttrStmt, see_extent),
            (tirx.For, lambda loop: own.add(hash(loop.loop_var))),
            ((tirx.Bind, tirx.Let), lambda bound: own.add(hash(bound.var))),
        ],
    )

    def kernel(attr: Any) -> Any:
        if not _is_of_blocks(attr) or _is_of_blocks(attr.body):
            return attr
        body = _QuotientSharing(own).shared(attr.body)
        return tirx.AttrStmt(attr.node, attr.attr_key, attr.value, body)

    return with_body(func, tvm_ffi.structural_map(func.body, (tirx.AttrStmt, kernel)))


def _is_of_blocks(statement: Any) -> bool:
    """Whether it says how many workgroups there are along a dim."""
    known = isinstance(statement, tirx.AttrStmt) and statement.attr_key == "thread_extent"
    return known and str(statement.node.thread_tag).startswith("blockIdx")


class _QuotientSharing:
    def __init__(self, own: set[int]) -> None:
        self.own = own
        self.quotients: dict[int, Any] = {}  # variables by what they stand for
        self.binds: list[Any] = []

    def shared(self, body: Any) -> Any:
        body = tvm_ffi.structural_map(body, (_QUOTIENTS, self._quotient))
        return tirx.SeqStmt([*self.binds, body]) if self.binds else body

    def _quotient(self, value: Any) -> Any:
        """A variable for it; what stands inside is replaced before."""
        if isinstance(value.b, tirx.IntImm) or self._varies(value):
            return value
        key = tvm_ffi.structural_hash(value)
        if key not in self.quotients:
            self.quotients[key] = ir.Var("quotient", value.ty)
            self.binds.append(tirx.Bind(self.quotients[key], value))
        return self.quotients[key]

    def _varies(self, value: Any) -> bool:
        found: list[bool] = []
        tvm_ffi.structural_walk(
            value,
            [
                (ir.Var, lambda var: found.append(hash(var) in self.own)),
                ((TensorLoad, ir.Call), lambda _: found.append(True)),
            ],
        )
        return any(found)
