"""Reductions over the same rows, and what is elementwise between them, become one kernel.

    before:  s = sum(x)                         after:  y = rows(x), for each row of x:
             c = x - s / n                                  s = sum(x)
             v = sum(c * c)                                 v = sum((x - s / n) ** 2)
             y = c * rsqrt(v / n) * scale                   y = (x - s / n) * rsqrt(v / n) * scale

So are layer norm, group norm, softmax and the like one kernel, which reads a row while it is near.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.target import Target

from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    variables_of,
    with_blocks,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_reshape, is_tir_call, loops_by_name
from tvm_iree_ext.programs.fusion.row_digits import NotInRows, RowTensors
from tvm_iree_ext.programs.fusion.row_function import RowFunction
from tvm_iree_ext.programs.fusion.row_nests import RowNest, add_nests
from tvm_iree_ext.schedules.dispatch import has_row_kernel
from tvm_iree_ext.schedules.shared.loops.loops_nests import (
    FunctionNests,
    LoopNest,
    nests_of,
    substitute,
)
from tvm_iree_ext.tir.buffers import buffer_like

_MOST_CALLS = 32  # that become one


Note: TypeAlias = Callable[[str, list[str]], None]
"""Is told of a function, and of those that it does what they did."""


def fuse_row_chains(mod: ir.IRModule, target: Target, note: Note) -> ir.IRModule:
    """The module with such chains as one call each."""
    builder = relax.BlockBuilder(mod)
    functions = loops_by_name(mod)
    forms: dict[str, FunctionNests | None] = {}

    def form_of(name: str) -> FunctionNests | None:
        if name not in forms:
            forms[name] = nests_of(functions[name]) if name in functions else None
        return forms[name]

    changed = {}
    for var, function in relax_functions(mod).items():
        if not isinstance(function.body, relax.SeqExpr):
            continue
        returned = Counter(variables_of(function.body.body))
        blocks = list(function.body.blocks)
        for number, block in enumerate(blocks):
            others = Counter(returned)
            for other in (*blocks[:number], *blocks[number + 1 :]):
                others.update(v for one in other.bindings for v in variables_of(one.value))
            graph = _Graph(block, others, functions, form_of, target)
            blocks[number] = graph.rewritten(builder, note)
        changed[var] = with_blocks(function, blocks, function.body.body)
    return with_functions(builder.get(), changed)


@dataclass(frozen=True)
class _Call:
    """A call of plain loops, with its nests over the extents of the program."""

    place: int
    binding: Any
    nests: tuple[LoopNest, ...]
    tensors: dict[ir.Var, Any]  # by buffers
    operands: dict[ir.Var, ir.Var]  # the same, by the very variable
    read: frozenset[Any]

    @property
    def reduction(self) -> LoopNest | None:
        """The nest by which its result is reduced."""
        return next((nest for nest in self.nests if nest.reduced), None)


@dataclass(frozen=True)
class _Chain:
    """Calls that are one kernel, and the rows of their tensors."""

    calls: tuple[_Call, ...]
    tensors: RowTensors
    nests: dict[int, list[RowNest]]  # by the places of calls

    def with_call(self, call: _Call, first: LoopNest | None = None) -> "_Chain":
        """The chain with another call.

        Raises:
            NotInRows: where it does not go by the rows.
        """
        tensors = self.tensors.copy()
        nests = add_nests(tensors, call.nests, call.tensors, first)
        calls = sorted((*self.calls, call), key=lambda one: one.place)
        return _Chain(tuple(calls), tensors, {**self.nests, call.place: nests})


class _Graph:
    """The calls of a block, what each reads, and the chains among them."""

    def __init__(
        self, block: Any, others: Counter[ir.Var], functions: Any, form_of: Any, target: Target
    ) -> None:
        self._block, self._others, self._target = block, others, target
        self._functions, self._form_of = functions, form_of
        self._bindings = list(block.bindings)
        self._base: dict[ir.Var, ir.Var] = {}
        self._used_by: dict[ir.Var, list[int]] = {}
        self._above: list[int] = []  # bits of the bindings that each depends on
        bound: dict[ir.Var, int] = {}
        for place, one in enumerate(self._bindings):
            above = 0
            for var in (*variables_of(one.value), *variables_of(one.var.ty)):
                self._used_by.setdefault(var, []).append(place)
                if var in bound:
                    above |= self._above[bound[var]] | 1 << bound[var]
            self._above.append(above)
            bound[one.var] = place
            for said in variables_of(getattr(one, "ty", None)):
                bound.setdefault(said, place)  # extents, where shapes are compared
            if isinstance(one, relax.VarBinding) and is_reshape(one.value):
                source = one.value.args[0]
                if isinstance(source, ir.Var):
                    self._base[one.var] = self.base(source)
        self._calls: dict[int, _Call | None] = {}

    def base(self, var: ir.Var) -> ir.Var:
        """The tensor that one is, by whatever shape."""
        return self._base.get(var, var)

    def call(self, place: int) -> _Call | None:
        """The call of plain loops at a place."""
        if place not in self._calls:
            self._calls[place] = self._made(place)
        return self._calls[place]

    def _made(self, place: int) -> _Call | None:
        binding = self._bindings[place]
        value: Any = binding.value if isinstance(binding, relax.VarBinding) else None
        if not is_tir_call(value) or not isinstance(value.ty_args[0], relax.TensorType):
            return None
        name = value.args[0].name_hint
        form = self._form_of(name)
        if form is None:
            return None
        given = [*value.args[1].fields, binding.var]
        function = self._functions[name]
        if len(given) != len(function.params) or not all(map(_has_extents, given)):
            return None
        if not all(isinstance(one.ty, tirx.BufferType) for one in function.params):
            return None
        return _instance(place, binding, function, form, given, self.base)

    def chains(self) -> Iterator[_Chain]:
        """The chains that become one kernel, no call in two."""
        taken: set[int] = set()
        for place in range(len(self._bindings)):
            call = None if place in taken else self.call(place)
            if call is None or call.reduction is None:
                continue
            chain = self._grown(call, call.reduction, taken)
            if chain is not None:
                taken |= {one.place for one in chain.calls}
                yield chain

    def _grown(self, call: _Call, first: LoopNest, taken: set[int]) -> _Chain | None:
        try:
            chain = _Chain((), RowTensors.of_reduction(first), {}).with_call(call, first)
        except NotInRows:
            return None
        if not has_row_kernel(chain.tensors.rows, chain.tensors.elements, self._target):
            return None
        refused: set[int] = set()
        while (more := self._next(chain, taken | refused)) is not None:
            try:
                chain = chain.with_call(more)
            except NotInRows:
                refused.add(more.place)
        return chain if len(chain.calls) > 1 else None

    def _next(self, chain: _Chain, without: set[int]) -> _Call | None:
        """A call that could continue a chain."""
        members = {one.place for one in chain.calls}
        if len(members) >= _MOST_CALLS:
            return None
        written = {self.base(one.binding.var) for one in chain.calls}
        read = {tensor for one in chain.calls for tensor in one.read}
        for place in range(len(self._bindings)):
            if place in without or place in members or (call := self.call(place)) is None:
                continue
            is_near = bool(call.read & written) or self.base(call.binding.var) in read
            is_beside = call.reduction is not None and bool(call.read & chain.tensors.digits.keys())
            if (is_near or is_beside) and self._is_convex({*members, place}):
                return call
        return None

    def _is_convex(self, members: set[int]) -> bool:
        """Whether nothing between members depends on one and leads to another."""
        mask = sum(1 << place for place in members)
        needed = 0
        for place in members:
            needed |= self._above[place]
        return not any(
            needed >> place & 1 and self._above[place] & mask
            for place, one in enumerate(self._bindings)
            if place not in members and one.var not in self._base
        )

    def results(self, chain: _Chain) -> list[ir.Var]:
        """The tensors of a chain that others read."""
        members = {one.place for one in chain.calls}

        def is_read(var: ir.Var) -> bool:
            if self._others[var]:
                return True
            users = [place for place in self._used_by.get(var, []) if place not in members]
            views = [p for p in users if self._bindings[p].var in self._base]
            return len(views) < len(users) or any(is_read(self._bindings[p].var) for p in views)

        return [one.binding.var for one in chain.calls if is_read(one.binding.var)]

    def rewritten(self, builder: relax.BlockBuilder, note: Note) -> Any:
        """The block with its chains as calls of functions that are added to a module."""
        made: dict[int, list[Any]] = {}
        gone: set[int] = set()
        for chain in self.chains():
            bindings = self._fused(chain, builder, note)
            if bindings is not None:
                made[chain.calls[-1].place] = bindings
                gone |= {one.place for one in chain.calls}
        if not made:
            return self._block
        order = self._order(made, gone)
        return type(self._block)(order)

    def _fused(self, chain: _Chain, builder: relax.BlockBuilder, note: Note) -> list[Any] | None:
        results = self.results(chain)
        nests = [nest for one in chain.calls for nest in chain.nests[one.place]]
        operands = {buffer: t for one in chain.calls for buffer, t in one.operands.items()}
        function = RowFunction(chain.tensors, nests, operands, results)
        made = function.function()
        if not results or not function.has_all_extents:
            return None
        var = builder.add_func(made, "rows_" + chain.calls[0].binding.value.args[0].name_hint)
        calls = [one.binding.value for one in chain.calls]
        note(var.name_hint, [one.args[0].name_hint for one in calls])
        types = [one.ty for one in results]
        call = relax.call_tir(var, function.operands, types if len(types) > 1 else types[0])
        call = joined(call, *calls)
        if len(results) == 1:
            return [relax.VarBinding(results[0], call)]
        several = relax.DataflowVar("rows", relax.TupleType(types))
        return [
            relax.VarBinding(several, call),
            *(
                relax.VarBinding(one, relax.TupleGetItem(several, number))
                for number, one in enumerate(results)
            ),
        ]

    def _order(self, made: dict[int, list[Any]], gone: set[int]) -> list[Any]:
        """All bindings, each behind what it takes."""
        units = [
            made.get(place, [one])
            for place, one in enumerate(self._bindings)
            if place in made or place not in gone
        ]
        said = {one.var: number for number, unit in enumerate(units) for one in unit}
        order: dict[int, None] = {}

        def put(number: int) -> None:
            stack = [number]
            while stack:
                top = stack[-1]
                needed = {
                    said[var]
                    for one in units[top]
                    for var in variables_of(one.value)
                    if var in said and said[var] != top
                }
                missing = [one for one in sorted(needed) if one not in order]
                if missing:
                    stack.append(missing[0])
                else:
                    order.setdefault(stack.pop())

        for number in range(len(units)):
            put(number)
        return [one for number in order for one in units[number]]


def _has_extents(tensor: Any) -> bool:
    """Whether a value is a tensor whose extents have names, or are numbers."""
    shape = getattr(tensor.ty, "shape", None)
    return isinstance(tensor, ir.Var) and isinstance(shape, relax.ShapeExpr)


def _instance(
    place: int,
    binding: Any,
    function: tirx.PrimFunc,
    form: FunctionNests,
    given: Sequence[ir.Var],
    base: Any,
) -> _Call:
    """A call with nests of its own: over the program's extents, of buffers that no other has."""
    extents: dict[ir.Var, Any] = {}
    for parameter, tensor in zip(function.params, given, strict=True):
        for own, extent in zip(parameter.ty.shape, tensor.ty.shape.values, strict=True):
            if isinstance(own, ir.Var):
                extents[own] = extent
    buffers: dict[ir.Var, ir.Var] = {}
    tensors: dict[ir.Var, Any] = {}
    operands: dict[ir.Var, ir.Var] = {}
    for parameter, tensor in zip(function.params, given, strict=True):
        new = buffer_like(parameter, list(tensor.ty.shape.values), parameter.name)
        buffers[parameter], tensors[new], operands[new] = new, base(tensor), tensor
    for old in form.buffers:
        shape = [substitute(extent, extents) for extent in old.ty.shape]
        buffers[old] = buffer_like(old, shape, old.name)
        tensors[buffers[old]] = buffers[old]

    def load(node: ir.TensorLoad) -> Any:
        if node.source not in buffers:
            return node
        return tirx.BufferLoad(buffers[node.source], list(node.indices))

    def store(node: tirx.BufferStore) -> Any:
        return tirx.BufferStore(buffers[node.buffer], node.value, list(node.indices))

    def placed(node: Any) -> Any:
        rules = [(ir.TensorLoad, load), (tirx.BufferStore, store)]
        return tvm_ffi.structural_map(substitute(node, extents), rules)

    nests = tuple(
        LoopNest(
            tuple(type(a)(a.var, substitute(a.extent, extents), a.is_reduced) for a in nest.axes),
            tuple(map(placed, nest.stores)),
            tuple(map(placed, nest.init)),
            {cell: placed(value) for cell, value in nest.cells.items()},
        )
        for nest in form.nests
    )
    read = frozenset(base(tensor) for tensor in given[:-1])
    return _Call(place, binding, nests, tensors, operands, read)
