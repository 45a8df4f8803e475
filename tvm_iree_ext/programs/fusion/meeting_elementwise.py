"""Elementwise functions that part and meet again become one: of ``x * sigmoid(x)``, or a clamp.

    before:  u = f(x),  v = g(x, u),  y = h(u, v)        after:  y = h(f(x), g(x, f(x)))

One function of ``x`` can be the epilogue of the product that ``x`` is; several that read it cannot.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_tir_call, loops_by_name
from tvm_iree_ext.programs.fusion.nest_reads import elementwise_loads, nest_of
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest, substitute
from tvm_iree_ext.tir.buffers import buffer_like

_MOST_LOADS = 32  # of the function that comes of it: each reader computes again what it reads
_MOST_CALLS = 64  # that become one: each is within another when they are put together
_MOST_STEPS = 16  # from the last reader of a tensor to where all that they compute meets


@dataclass(frozen=True)
class _Elementwise:
    """A call of an elementwise function: it reads ``whole`` where it writes, and as large."""

    binding: relax.VarBinding
    nest: LoopNest
    function: tirx.PrimFunc
    whole: frozenset[ir.Var]

    @property
    def operands(self) -> list[Any]:
        """What the function is called with."""
        return list(self.binding.value.args[1].fields)


def join_meeting_elementwise(mod: ir.IRModule) -> ir.IRModule:
    """The module with such functions joined."""
    builder = relax.BlockBuilder(mod)
    functions = loops_by_name(mod)
    nests: dict[str, LoopNest | None] = {}

    def elementwise(binding: Any) -> _Elementwise | None:
        value = binding.value if isinstance(binding, relax.VarBinding) else None
        if value is None or not is_tir_call(value):
            return None
        if not isinstance(value.ty_args[0], relax.TensorType):
            return None
        name = value.args[0].name_hint
        function = functions.get(name)
        if name not in nests:
            nest = None if function is None else nest_of(function)
            is_plain = nest is not None and elementwise_loads(nest.stores[0].value) is not None
            nests[name] = nest if is_plain else None
        nest = nests[name]
        return None if nest is None or function is None else _call(binding, function, nest)

    def add(function: tirx.PrimFunc) -> ir.GlobalVar:
        var = builder.add_func(function, "joined")
        functions.setdefault(var.name_hint, function)  # it may be there already
        return var

    rewritten = {}
    for var, function in relax_functions(mod).items():
        rewritten[var] = function
        while (made := _joined(rewritten[var], elementwise, add)) is not None:
            rewritten[var] = made
    return with_functions(builder.get(), rewritten)


def _call(binding: Any, function: tirx.PrimFunc, nest: LoopNest) -> _Elementwise | None:
    operands = binding.value.args[1].fields
    if len(function.params) != len(operands) + 1:
        return None
    store = nest.stores[0]
    whole: dict[ir.Var, bool] = {}
    by_parameter = dict(zip(function.params, operands, strict=False))

    def note(load: ir.TensorLoad) -> None:
        is_whole = tvm_ffi.structural_equal(
            list(load.indices), list(store.indices)
        ) and tvm_ffi.structural_equal(list(load.source.ty.shape), list(store.buffer.ty.shape))
        operand = by_parameter[load.source]
        whole[operand] = whole.get(operand, True) and is_whole

    tvm_ffi.structural_walk(store.value, (ir.TensorLoad, note))
    read = frozenset(operand for operand, is_whole in whole.items() if is_whole)
    return _Elementwise(binding, nest, function, read)


class _Graph:
    """The elementwise calls of a function, by their results, in order."""

    def __init__(
        self, function: relax.Function, elementwise: Callable[[Any], _Elementwise | None]
    ) -> None:
        self.calls: dict[ir.Var, _Elementwise] = {}
        self.readers: dict[ir.Var, list[ir.Var]] = {}  # such calls, by what they read
        self._uses: Counter[ir.Var] = Counter()
        self._block: dict[ir.Var, int] = {}  # what is bound in one may be unknown in another
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        for number, block in enumerate(function.body.blocks):
            self._block.update((binding.var, number) for binding in block.bindings)
        for value in (*(binding.value for binding in bindings), function.body.body):
            tvm_ffi.structural_walk(value, (ir.Var, lambda var: self._uses.update([var])))
        for binding in bindings:
            if (call := elementwise(binding)) is not None:
                self.calls[binding.var] = call
                for operand in call.whole:
                    self.readers.setdefault(operand, []).append(binding.var)
        self.place = {var: place for place, var in enumerate(self.calls)}

    def is_read_by(self, var: ir.Var, members: Collection[ir.Var]) -> bool:
        """Whether nothing reads a tensor but elementwise calls among ``members``."""
        readers = [one for one in self.readers.get(var, []) if one in members]
        return self._uses[var] == sum(self.calls[one].operands.count(var) for one in readers)

    def meeting(self, start: ir.Var) -> tuple[ir.Var, set[ir.Var]] | None:
        """Where all that reads a tensor meets, and the calls up to there; None where nowhere."""
        readers = self.readers[start]
        end = max(readers, key=self.place.__getitem__)
        for _ in range(_MOST_STEPS):
            members = self._above(end, start)
            if len(members) > _MOST_CALLS:
                return None
            if members.issuperset(readers):
                return end, self._between(start, members)
            after = self.readers.get(end, [])
            if len(after) != 1 or not self.is_read_by(end, after):
                return None
            (end,) = after
        return None

    def _above(self, end: ir.Var, start: ir.Var) -> set[ir.Var]:
        """A call, and those whose results nothing reads but what comes to it; not ``start``.

        No more are looked for where these are too many.
        """
        members, waiting = {end}, [*self.calls[end].whole]
        while waiting and len(members) <= _MOST_CALLS:
            var = waiting.pop()
            is_here = var in self.calls and self._block[var] == self._block[end]
            if is_here and var != start and self.is_read_by(var, members):
                members.add(var)
                waiting += self.calls[var].whole - members
        return members

    def _between(self, start: ir.Var, members: set[ir.Var]) -> set[ir.Var]:
        """The members that depend on ``start``."""
        kept = {start}
        for var in sorted(members, key=self.place.__getitem__):
            if kept & self.calls[var].whole:
                kept.add(var)
        return kept - {start}


class _Joined:
    """One function of several calls, the last of which computes ``end``."""

    def __init__(self, graph: _Graph, end: ir.Var, members: Collection[ir.Var]) -> None:
        self._graph, self._end, self._members = graph, end, members
        self._loads = 0
        self._extents: list[tuple[Any, Any]] = []  # of the program, and the function's for it
        self._buffers: dict[ir.Var, ir.Var] = {}
        shape = list(end.ty.shape.values)
        self._at = [tirx.Var(f"i{axis}", "int64") for axis in range(len(shape))]
        self._value = self._value_of(end, self._at)
        self._result = self._buffer(end, graph.calls[end].function.params[-1], "result")

    @property
    def is_small(self) -> bool:
        """Whether it loads no more than it may; what else it is says nothing otherwise."""
        return self._loads <= _MOST_LOADS

    @property
    def operands(self) -> list[ir.Var]:
        """What it is called with."""
        return list(self._buffers)

    def _value_of(self, var: ir.Var, at: Sequence[Any]) -> Any:
        """An element of what a call computes."""
        call = self._graph.calls[var]
        store = call.nest.stores[0]
        places = {
            index: place
            for index, place in zip(store.indices, at, strict=True)
            if isinstance(index, ir.Var)
        }
        operand_of = dict(zip(call.function.params, call.operands, strict=False))
        for parameter, tensor in zip(call.function.params, [*call.operands, var], strict=True):
            for own, extent in zip(parameter.ty.shape, tensor.ty.shape.values, strict=True):
                if isinstance(own, ir.Var):
                    places[own] = self._extent(extent)

        def load(node: ir.TensorLoad) -> Any:
            operand = operand_of[node.source]
            if not self.is_small:  # no path is followed further: they may double at each call
                return node
            if operand in self._members:
                return self._value_of(operand, node.indices)
            self._loads += 1
            if operand not in self._buffers:
                name = f"b{len(self._buffers)}"
                self._buffers[operand] = self._buffer(operand, node.source, name)
            return tirx.BufferLoad(self._buffers[operand], list(node.indices))

        return tvm_ffi.structural_map(substitute(store.value, places), (ir.TensorLoad, load))

    def _buffer(self, var: ir.Var, like: ir.Var, name: str) -> ir.Var:
        return buffer_like(like, [self._extent(extent) for extent in var.ty.shape.values], name)

    def _extent(self, extent: Any) -> Any:
        """An extent of the program as the function has it: a number, or a variable of its own."""
        if isinstance(extent, tirx.IntImm):
            return extent
        for given, variable in self._extents:
            if tvm_ffi.structural_equal(given, extent):
                return variable
        self._extents.append((extent, tirx.Var(f"n{len(self._extents)}", "int64")))
        return self._extents[-1][1]

    def function(self) -> tirx.PrimFunc:
        """The function: ``result`` behind the operands."""
        loops = [tirx.Var(var.name, "int64") for var in self._at]
        extents = list(self._result.ty.shape)
        axes = [
            tirx.IterVar(ir.Range.from_min_extent(tirx.const(0, "int64"), extent), var, 0)
            for extent, var in zip(extents, self._at, strict=True)
        ]
        store = tirx.BufferStore(self._result, self._value, list(self._at))
        block = s_tir.SBlock(axes, [], [], "joined", store)
        body: Any = s_tir.SBlockRealize(loops, tirx.const(1, "bool"), block)
        for var, extent in reversed(list(zip(loops, extents, strict=True))):
            body = tirx.For(var, tirx.const(0, "int64"), extent, tirx.ForKind.SERIAL, body)
        root = s_tir.SBlock([], [], [], "root", body)
        body = s_tir.SBlockRealize([], tirx.const(1, "bool"), root)
        function = tirx.PrimFunc([*self._buffers.values(), self._result], body)
        return function.with_attr({"tirx.noalias": True, "s_tir": True})


def _joined(
    function: relax.Function,
    elementwise: Callable[[Any], _Elementwise | None],
    add: Callable[[tirx.PrimFunc], ir.GlobalVar],
) -> relax.Function | None:
    """The function with calls that part and meet joined, each once; None where there are none."""
    if not isinstance(function.body, relax.SeqExpr):
        return None
    graph = _Graph(function, elementwise)
    calls: dict[ir.Var, Any] = {}
    gone: set[ir.Var] = set()
    for start, readers in graph.readers.items():
        if len(readers) < 2 or not graph.is_read_by(start, readers):
            continue
        if (found := graph.meeting(start)) is None:
            continue
        end, members = found
        if members & (gone | calls.keys()):
            continue
        made = _Joined(graph, end, members)
        if not made.is_small:
            continue
        given = [
            graph.calls[one].binding.value for one in sorted(members, key=graph.place.__getitem__)
        ]
        calls[end] = joined(relax.call_tir(add(made.function()), made.operands, end.ty), *given)
        gone |= members - {end}

    def rewritten(binding: Any) -> list[Any]:
        if binding.var in calls:
            return [relax.VarBinding(binding.var, calls[binding.var])]
        return [] if binding.var in gone else [binding]

    return with_bindings(function, rewritten) if calls else None
