"""Widths of a block's accesses, by its index expressions and not by the op.

A run of R elements along a block's last dimension is one access of each buffer where its flat
address counts up with the dimension, from a multiple of R on, or stays the same; and where what is
decided, such as whether an index is in range, is decided alike for the whole run.
"""

from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi
from tvm import DataType, ir, s_tir, sym, tirx

from tvm_iree_ext.layout.analysis import WIDEST_ACCESS_BYTES
from tvm_iree_ext.schedules.emit import flat_index
from tvm_iree_ext.schedules.gpu.sblocks.layout_schedule import known_factor
from tvm_iree_ext.tir.purity import is_guard
from tvm_iree_ext.tir.tir_expressions import Expr, i64

_LEAST = 8  # elements side by side from which on a detour brings something


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


def transposed_dims(sch: s_tir.Schedule, block: Any) -> tuple[int, int] | None:
    """The dims of a block along which it reads and writes side by side, if they are two.

    Of a block that moves one element to each place, by its loops; None where short runs, or what is
    read at places from a table, leave nothing to gain.
    """
    part = sch.get(block)
    accesses = _Accesses(part)
    if not accesses.moves_only or len(accesses.addresses) != 2 or not accesses.plain:
        return None
    written = [dim for dim, one in enumerate(part.iter_vars) if _length(one) >= _LEAST]
    if not written or written[-1] != max(
        (dim for dim, one in enumerate(part.iter_vars) if _length(one) > 1), default=-1
    ):
        return None
    *others, last = written
    if accesses.side_by_side(part.iter_vars, last):
        return None
    found = [dim for dim in others if accesses.side_by_side(part.iter_vars, dim)]
    return (found[-1], last) if found else None


def _length(variable: Any) -> int:
    extent = variable.dom.extent
    return int(extent) if isinstance(extent, tirx.IntImm) else _LEAST


class _Accesses:
    """Addresses and conditions of a block's accesses."""

    def __init__(self, part: Any) -> None:
        self.addresses: list[Expr] = []
        self.conditions: list[Expr] = []
        self.moves_only = False
        self.plain = False
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
        # By its own variables, each in turn.
        self.plain = len(node.indices) == len(self.variables) and all(
            index.same_as(own) for index, own in zip(node.indices, self.variables, strict=True)
        )

    def _chosen(self, value: Expr) -> Iterator[Expr]:
        """Choices of a value, by conditions."""
        if isinstance(value, ir.Call) and is_guard(value):
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
        analyzer, lane, at = self._places(run, variables, last)
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

    def side_by_side(self, variables: Any, dim: int) -> bool:
        """Whether what is read lies side by side along a dim, at least in runs of a sector."""
        analyzer, lane, at = self._places(_LEAST, variables, variables[dim])
        load = self.addresses[1]
        return bool(analyzer.can_prove_equal(at(load, lane) - at(load, i64(0)), lane))

    def _places(
        self, run: int, variables: Any, last: Any
    ) -> tuple[sym.Analyzer, Any, Callable[[Expr, Expr], Expr]]:
        """An analyzer, a place in a run, and an expression at such a place of any run."""
        analyzer = sym.Analyzer()
        outer, lane = tirx.Var("outer", "int64"), tirx.Var("lane", "int64")
        for one in variables:
            analyzer.bind(one.var, one.dom)
        count = tirx.floordiv(last.dom.extent + i64(run - 1), i64(run))
        analyzer.bind(outer, ir.Range.from_min_extent(i64(0), count))
        analyzer.bind(lane, ir.Range.from_min_extent(i64(0), i64(run)))

        def at(expression: Expr, step: Expr) -> Expr:
            place = outer * i64(run) + step
            found = tvm_ffi.structural_map(
                expression, (tirx.Var, lambda v: place if v.same_as(last.var) else v)
            )
            return analyzer.simplify(found)

        return analyzer, lane, at


def _mentions(expression: Expr, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append))
    return any(one.same_as(variable) for one in found)
