"""How wide the accesses of a block may be: asked of its index expressions, not of the op.

A run of R elements along a block's last dimension is one access of each buffer where its flat
address counts up with the dimension, from a multiple of R on, or stays the same; and where what is
decided, such as whether an index is in range, is decided alike for the whole run.
"""

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import DataType, ir, s_tir, sym, tirx
from tvm_iree_ext.schedules.emit import flat_index
from tvm_iree_ext.schedules.layouts import known_factor

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.ops.expressions import Expr, i64


def widest_run(sch: s_tir.Schedule, block: Any) -> int:
    """The most elements, a power of two, that each access of a block of one store may have.

    At most 16 bytes, and 1 where the block computes with what it moves: vectors of more than four
    elements are for moving alone on NVIDIA's GPUs.
    """
    part = sch.get(block)
    loop = next(
        (loop for loop in reversed(sch.get_loops(block)) if known_factor(sch.get(loop).extent) > 1),
        None,
    )
    accesses = _Accesses(part)
    if loop is None or not accesses.moves_only or accesses.dtype == "bool":
        return 1
    last = [one for one in part.iter_vars if known_factor(one.dom.extent) > 1]
    if not last:
        return 1
    run = 8 * WIDEST_ACCESS_BYTES // DataType(accesses.dtype).bits
    while run > 1 and not accesses.allow(run, part.iter_vars, last[-1]):
        run //= 2
    return run


class _Accesses:
    """What a block reads, writes and decides by."""

    def __init__(self, part: Any) -> None:
        self.addresses: list[Expr] = []
        self.conditions: list[Expr] = []
        self.moves_only = False
        self.dtype = ""
        self.variables = [one.var for one in part.iter_vars]
        tvm_ffi.structural_walk(part.body, (tirx.BufferStore, self._store))
        tvm_ffi.structural_walk(
            part.body, (tirx.IfThenElse, lambda node: self.conditions.append(node.condition))
        )

    def _store(self, node: Any) -> None:
        self.dtype = str(node.buffer.dtype)
        self.addresses.append(flat_index(node.indices, node.buffer.shape))
        self.moves_only = all(map(self._is_moved, self._chosen(node.value)))

    def _chosen(self, value: Expr) -> Iterator[Expr]:
        """What a value is one of, by conditions."""
        if isinstance(value, ir.Call) and value.op.name.endswith("if_then_else"):
            condition, yes, no = value.args
            self.conditions.append(condition)
            yield from self._chosen(yes)
            yield from self._chosen(no)
        else:
            yield value

    def _is_moved(self, value: Expr) -> bool:
        if type(value).__name__ == "TensorLoad":
            self.addresses.append(flat_index(value.indices, value.source.shape))
            return True
        loads: list[Any] = []
        tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
        return not loads and not any(_mentions(value, one) for one in self.variables)

    def allow(self, run: int, variables: Any, last: Any) -> bool:
        """Whether runs of ``run`` along ``last`` are single accesses."""
        if known_factor(last.dom.extent) % run:
            return False
        analyzer = sym.Analyzer()
        outer, lane = tirx.Var("outer", "int64"), tirx.Var("lane", "int64")
        for one in variables:
            analyzer.bind(one.var, one.dom)
        count = tirx.floordiv(last.dom.extent, i64(run))
        analyzer.bind(outer, ir.Range.from_min_extent(i64(0), count))
        analyzer.bind(lane, ir.Range.from_min_extent(i64(0), i64(run)))

        def at(expression: Expr, step: Expr) -> Expr:
            place = outer * i64(run) + step
            found = tvm_ffi.structural_map(
                expression, (tirx.Var, lambda v: place if v.same_as(last.var) else v)
            )
            return analyzer.simplify(found)

        for condition in self.conditions:
            if _mentions(at(condition, lane), lane):
                return False
        for address in self.addresses:
            first = at(address, i64(0))
            step = analyzer.simplify(at(address, lane) - first)
            if isinstance(step, tirx.IntImm) and int(step) == 0:
                continue
            if not step.same_as(lane) or known_factor(first) % run:
                return False
        return True


def _mentions(expression: Expr, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append))
    return any(one.same_as(variable) for one in found)
