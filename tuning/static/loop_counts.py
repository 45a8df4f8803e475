"""How often a lowered GPU kernel does something, from its loops."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx
from tvm.target import codegen as llvm

from tvm_iree_ext.codegen.gpu.passes.amd_loops import told_count
from tvm_iree_ext.simulator.translation.lane_expressions import operator_name

_ANYTHING = 1 << 40
_NO_MMA = ("fence", "noop", "commit_group", "wait_group", "encode")


@dataclass
class LoopCounts:
    """Operations of a lane: in all, and as it stands in the code.

    Attributes:
        mma: matrix instructions.
        written_mma: these as they stand.
        stores, written_stores: of statements that store, of any memory.
    """

    mma: float = 0.0
    written_mma: int = 0
    stores: float = 0.0
    written_stores: int = 0

    @property
    def repeats(self) -> float:
        """How often a statement is executed on average."""
        return self.stores / self.written_stores if self.written_stores else 1.0


def loop_counts(kernel: tirx.PrimFunc, launch: Mapping[str, int]) -> LoopCounts:
    """The counts of a lowered kernel.

    Where an extent depends on the workgroup, as in causal attention, it is the middle of what it
    can be; both sides of a branch count.

    Args:
        kernel: as it was compiled.
        launch: extents by ``blockIdx.x`` and the like.
    """
    walk = _LoopCounter(launch)
    walk.visit(kernel.body, 1.0)
    return walk.counts


class _LoopCounter:
    def __init__(self, launch: Mapping[str, int]) -> None:
        self.counts = LoopCounts()
        self._launched = launch
        self._analyzer = sym.Analyzer()

    def visit(self, stmt: Any, times: float) -> None:
        visitor = self._VISITORS.get(type(stmt).__name__)
        if visitor is not None:
            visitor(self, stmt, times)
            return
        self._leaf(stmt, times)

    def _sequence(self, stmt: Any, times: float) -> None:
        for one in stmt.seq:
            self.visit(one, times)

    def _loop(self, stmt: Any, times: float) -> None:
        self.visit(stmt.body, times * max(0.0, self._number(told_count(stmt.extent))))

    def _launch(self, stmt: Any, times: float) -> None:
        if stmt.attr_key == "thread_extent":
            extent = self._launched.get(str(stmt.node.thread_tag), 1)
            self._analyzer.bind(stmt.node.var, ir.Range(0, extent))
        self.visit(stmt.body, times)

    def _branch(self, stmt: Any, times: float) -> None:
        self.visit(stmt.then_case, times)
        if stmt.else_case is not None:
            self.visit(stmt.else_case, times)

    def _body(self, stmt: Any, times: float) -> None:
        self.visit(stmt.body, times)

    def _bind(self, stmt: Any, times: float) -> None:
        if str(stmt.var.ty.dtype).startswith("int"):
            self._analyzer.bind(stmt.var, stmt.value)
        self._leaf(stmt, times)

    def _leaf(self, stmt: Any, times: float) -> None:
        def called(node: Any) -> None:
            if _is_mma(node):
                self.counts.mma += times
                self.counts.written_mma += 1

        tvm_ffi.structural_walk(stmt, (ir.Call, called))
        if isinstance(stmt, tirx.BufferStore):
            self.counts.stores += times
            self.counts.written_stores += 1

    def _number(self, extent: Any) -> float:
        """The middle of what an extent can be; 1 where that is not known."""
        bound = self._analyzer.const_int_bound(extent)
        low, high = int(bound.min_value), int(bound.max_value)
        return (low + high) / 2 if 0 <= low <= high < _ANYTHING else 1.0

    _VISITORS: Mapping[str, Callable[["_LoopCounter", Any, float], None]] = {
        "SeqStmt": _sequence,
        "For": _loop,
        "AttrStmt": _launch,
        "IfThenElse": _branch,
        "While": _body,
        "Bind": _bind,
    }


def _is_mma(call: Any) -> bool:
    name = operator_name(call)
    if name in ("call_llvm_pure_intrin", "call_llvm_intrin"):
        name = str(llvm.llvm_get_intrinsic_name(int(call.args[0].value)))
    return ("mma" in name or "mfma" in name) and not any(
        name.partition("_")[2].startswith(other) for other in _NO_MMA
    )
