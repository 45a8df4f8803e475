"""Functions whose result begins as what an operand holds, and that write what differs alone.

    before:  for i in rows: result[i] = update[i - start] if start <= i < start + 2 else given[i]
    after:   for i in 2:    result[start + i] = update[i]

Such a function is called with one array for both.  What it reads of it, it reads where it writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer, detect_linear_equation

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.relax_passes import IN_PLACE
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    LoopNest,
    nests_of,
    substitute,
    uses,
)
from tvm_iree_ext.tir.purity import is_guard
from tvm_iree_ext.tir.tir_expressions import i64, known


def updating(function: tirx.PrimFunc, number: int, op: Op | None) -> tirx.PrimFunc | None:
    """The function with its result in place of an operand; None where that cannot be.

    ``op`` is the op of the registry that it is the canonical form of.
    """
    given, result = function.params[number], function.params[-1]
    if not _is_alike(given, result):
        return None
    if OP_ATTRIBUTE in (function.attrs or {}):
        return _of_op(function, number, op)
    form = nests_of(function)
    if form is None:
        return None
    statements = _statements(function)
    if len(statements) != len(form.nests):
        return None
    update = _Update(given, result, set(form.buffers))
    made: list[Any] = []
    for statement, nest in zip(statements, form.nests, strict=True):
        found = update.statement(statement, nest)
        if found is None:
            return None
        made += found
    if not update.held.same_as(result):
        return None
    buffers = [buffer for buffer in form.buffers if buffer not in update.replaced]
    body = tirx.SeqStmt(made) if len(made) > 1 else made[0] if made else tirx.Evaluate(i64(0))
    root = s_tir.SBlock([], [], [], "root", body, alloc_buffers=buffers)
    whole = s_tir.SBlockRealize([], True, root)
    return tirx.PrimFunc(function.params, whole, function.ret_type, function.attrs).with_attr(
        IN_PLACE, number
    )


def _of_op(function: tirx.PrimFunc, number: int, op: Op | None) -> tirx.PrimFunc | None:
    if op is None or len(op.signature.results) != 1:
        return None
    home = op.signature.results[0].in_place_of
    if home != op.signature.operands[number].name:
        return None
    return function.with_attr(IN_PLACE, number)


def _is_alike(a: ir.Var, b: ir.Var) -> bool:
    """Whether both are tensors of one type."""
    if not all(isinstance(one.ty, tirx.BufferType) for one in (a, b)):
        return False
    is_one_shape = tvm_ffi.structural_equal(list(a.ty.shape), list(b.ty.shape))
    return is_one_shape and str(a.ty.dtype) == str(b.ty.dtype)


def _statements(function: tirx.PrimFunc) -> list[Any]:
    body = function.body
    if isinstance(body, s_tir.SBlockRealize) and not body.block.iter_vars:
        body = body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


class _Update:
    """What a function's nests do to the memory of an operand, one after another.

    ``held`` is the buffer that the memory holds so far; ``replaced`` are those that it held.
    """

    def __init__(self, given: ir.Var, result: ir.Var, own: set[ir.Var]) -> None:
        self.held, self.replaced = given, {given}
        self._result, self._own = result, own

    def statement(self, statement: Any, nest: LoopNest) -> list[Any] | None:
        """What is done in place of a statement; None where that would not be the same."""
        loads: list[ir.TensorLoad] = []
        for value in (*nest.values(), *(index for one in nest.stores for index in one.indices)):
            tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
        read = [load for load in loads if load.source in self.replaced]
        if not read:
            is_part = any(s.buffer.same_as(self._result) for s in nest.stores)
            return None if is_part and not self.held.same_as(self._result) else [statement]
        store = nest.stores[0]
        is_single = len(nest.stores) == 1 and not nest.reduced and not nest.cells
        if not is_single or not _is_whole(store, nest):
            return None
        if not store.buffer.same_as(self._result) and store.buffer not in self._own:
            return None
        if not _is_alike(store.buffer, self._result):
            return None
        places = list(store.indices)
        if not all(
            load.source.same_as(self.held) and tvm_ffi.structural_equal([*load.indices], places)
            for load in read
        ):
            return None
        self.held = store.buffer
        self.replaced.add(store.buffer)
        return self._written(store, nest)

    def _written(self, store: Any, nest: LoopNest) -> list[Any]:
        """The nest over what it changes, reading and writing the result."""

        def load(node: ir.TensorLoad) -> Any:
            in_result = node.source in self.replaced
            return tirx.BufferLoad(self._result, list(node.indices)) if in_result else node

        value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, load))
        if _is_held(value, self._result):
            return []
        part = _Part({axis.var: (i64(0), axis.extent) for axis in nest.axes})
        if is_guard(value) and _is_held(value.args[2], self._result):
            rest = part.narrowed(value.args[0])
            update = value.args[1]
            kept = tirx.BufferLoad(self._result, list(store.indices))
            value = tirx.if_then_else(rest, update, kept) if rest is not None else update
        return [part.loops(self._result, list(store.indices), value)]


def _is_whole(store: Any, nest: LoopNest) -> bool:
    """Whether a nest stores each element once, at the place that its loops name."""
    places = [index for index in store.indices if isinstance(index, ir.Var)]
    rest = [index for index in store.indices if not isinstance(index, ir.Var)]
    if any(known(index) != 0 for index in rest) or len({*places}) < len(places):
        return False
    return {*places} == {axis.var for axis in nest.axes}


def _is_held(value: Any, result: ir.Var) -> bool:
    """Whether a value is that of the result itself: at the place that is written."""
    return isinstance(value, ir.TensorLoad) and value.source.same_as(result)


@dataclass(frozen=True)
class _Bound:
    """What a condition says of an axis: its first place, or the one behind its last."""

    axis: ir.Var
    place: Any
    is_first: bool


@dataclass
class _Part:
    """The run of each axis that is written: where it begins, and its length."""

    runs: dict[ir.Var, tuple[Any, Any]]

    def narrowed(self, condition: Any) -> Any | None:
        """Narrow the runs to where a condition may hold; what is left of it to ask, or None."""
        bounds: dict[ir.Var, list[tuple[_Bound, Any]]] = {}
        rest: list[Any] = []
        for term in _terms(condition):
            bound = self._bound(term)
            if bound is None:
                rest.append(term)
            else:
                bounds.setdefault(bound.axis, []).append((bound, term))
        for axis, found in bounds.items():
            run = self._run(axis, [bound for bound, _ in found])
            if run is None:
                rest += [term for _, term in found]
            else:
                self.runs[axis] = run
        if not rest:
            return None
        whole = rest[0]
        for term in rest[1:]:
            whole = tirx.And(whole, term)
        return whole

    def _bound(self, term: Any) -> _Bound | None:
        """A comparison as a bound of one axis, by what does not change along any."""
        sides = {tirx.LE: (0, False), tirx.LT: (1, False), tirx.GE: (0, True), tirx.GT: (1, True)}
        more, is_turned = sides.get(type(term), (None, False))
        if more is None or str(term.a.ty.dtype) != "int64":
            return None
        apart = term.a - term.b if is_turned else term.b - term.a  # at least ``more``
        used = [axis for axis in self.runs if uses(apart, [axis])]
        if len(used) != 1:
            return None
        found = detect_linear_equation(apart, used)
        if len(found) != 2 or known(found[0]) not in (1, -1):
            return None
        if known(found[0]) == 1:
            return _Bound(used[0], i64(more) - found[1], True)
        return _Bound(used[0], found[1] + i64(1 - more), False)

    def _run(self, axis: ir.Var, bounds: Sequence[_Bound]) -> tuple[Any, Any] | None:
        """The run between bounds, which lies within the axis; None where no number tells it."""
        extent = self.runs[axis][1]
        firsts = [bound.place for bound in bounds if bound.is_first]
        ends = [bound.place for bound in bounds if not bound.is_first]
        if len(firsts) > 1 or len(ends) > 1:
            return None
        analyzer = Analyzer()
        first = analyzer.simplify(firsts[0]) if firsts else i64(0)
        end = ends[0] if ends else extent
        count = known(analyzer.simplify(end - first))
        if count is None or count < 1:
            return None
        is_inside = analyzer.can_prove(first >= 0) and analyzer.can_prove(first + count <= extent)
        return (first, i64(count)) if is_inside else None

    def loops(self, buffer: ir.Var, indices: Sequence[Any], value: Any) -> Any:
        """Loops over the runs, and the store in them."""
        analyzer = Analyzer()
        counts = {tirx.Var(axis.name, "int64"): count for axis, (_, count) in self.runs.items()}
        places: dict[ir.Var, Any] = {}
        for own, (axis, (first, _)) in zip(counts, self.runs.items(), strict=True):
            analyzer.bind(own, Range(i64(0), counts[own]))
            places[axis] = own if known(first) == 0 else first + own
        found = _simplified(substitute(value, places), analyzer)
        at = [analyzer.simplify(substitute(index, places)) for index in indices]
        return _block(counts, tirx.BufferStore(buffer, found, at))


def _simplified(value: Any, analyzer: Analyzer) -> Any:
    """The value with its places in their simplest form."""

    def load(node: ir.TensorLoad) -> Any:
        return tirx.BufferLoad(node.source, [analyzer.simplify(one) for one in node.indices])

    return tvm_ffi.structural_map(value, (ir.TensorLoad, load))


def _terms(condition: Any) -> list[Any]:
    if isinstance(condition, tirx.And):
        return [*_terms(condition.a), *_terms(condition.b)]
    return [condition]


def _block(counts: Mapping[ir.Var, int], store: Any) -> Any:
    """A block over axes, and the loops around it."""
    counts = counts or {tirx.Var("one", "int64"): i64(1)}
    axes = [
        tirx.IterVar(Range(i64(0), count), axis, tirx.IterVar.DataPar)
        for axis, count in counts.items()
    ]
    loops = [tirx.Var(axis.name, "int64") for axis in counts]
    block = s_tir.SBlock(axes, [], [], "update", store)
    statement: Any = s_tir.SBlockRealize(loops, True, block)
    for loop, count in reversed([*zip(loops, counts.values(), strict=True)]):
        statement = tirx.For(loop, i64(0), count, tirx.ForKind.SERIAL, statement)
    return statement
