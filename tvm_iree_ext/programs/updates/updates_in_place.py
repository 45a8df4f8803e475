"""Results of a program that lie in place of arguments: a cache with a row more, new weights.

    before:  cache1 = insert(cache, row)       after:  cache1 = insert_in_place(cache, row)
             y = attention(cache1)                     y = attention(cache1)
             return y, cache1                          return y, cache1

The calls that lead from the argument to the result become ones that update its memory, where
nothing reads afterwards what it held before.  Where none do, the call that makes the result writes
it there, once all has read what was there (:data:`DESTINATIONS`).  Otherwise the result is computed
elsewhere, and copied into the argument's memory last of all.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.move_functions import move_function
from tvm_iree_ext.programs.base.relax_passes import (
    DESTINATIONS,
    IN_PLACE,
    VIEWS,
    resolved,
    source,
    variables_of,
    with_blocks,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_tir_call
from tvm_iree_ext.programs.updates.updating_functions import updating
from tvm_iree_ext.tir.buffers import buffer_like
from tvm_iree_ext.tir.tir_expressions import known

Homes = Mapping[int, ir.Var]
"""By the place of a result, the parameter in whose place it is."""


Links = Mapping[ir.Var, int | None]
"""The calls to a result, last first: the operand that each updates, or None for one of no operand,
which writes the result as it would elsewhere."""


class UpdatesInPlace:
    """Rewrites functions whose results have memory of their own, but for arguments as they are."""

    def __init__(
        self, builder: relax.BlockBuilder, known_ops: Mapping[str, Op], is_gpu: bool
    ) -> None:
        """Take the builder of a module, to which functions are added.

        The ops of a GPU's kernels read no memory that they write.
        """
        self._builder, self._is_gpu = builder, is_gpu
        self._callees = Callees(builder.get(), known_ops)
        self._made: dict[tuple[str, int], ir.GlobalVar | None] = {}
        self._copies: dict[str, ir.GlobalVar] = {}

    def __call__(self, function: relax.Function, homes: Homes) -> relax.Function:
        """The function with the results of these places where their arguments are."""
        earlier: list[tuple[ir.Var, ir.Var]] = []  # what is bound before what
        copied, written = [], {}
        for place, parameter in homes.items():
            body = _Body(function)
            if source(body.fields[place], body.bound).same_as(parameter):
                continue
            for links in self._ways(body, body.fields[place], parameter):
                before = body.before(links, parameter, place)
                order = None if before is None else body.order([*earlier, *before])
                if before is not None and order is not None:
                    break
            else:
                copied.append(place)
                continue
            earlier += before
            calls = {
                var: self._call(body.bound[var], number)
                for var, number in links.items()
                if number is not None
            }
            if len(calls) < len(links):
                written[place] = [one.same_as(parameter) for one in function.params].index(True)
            function = body.with_calls(calls, order)
        for place in copied:  # when all is read
            function = self._copied(_Body(function), place, homes[place])
        return function.with_attr(DESTINATIONS, json.dumps(written)) if written else function

    def _ways(self, body: "_Body", value: Any, parameter: ir.Var) -> Iterator[Links]:
        """The calls by which a result may come to lie in a parameter's memory, the best first."""
        for is_update in (True, False):
            found = self._links(body, value, parameter, is_update)
            if found is not None:
                yield found
        made = source(value, body.bound)
        if body.is_written_by_call(made) and body.leads_to(made, parameter):
            yield {made: None}

    def _links(
        self, body: "_Body", value: Any, parameter: ir.Var, is_update: bool
    ) -> dict[ir.Var, int | None] | None:
        """The calls to a value, last first, that update what a parameter held, or what is there.

        The first one then writes there what the next one updates.
        """
        made = source(value, body.bound)
        if made.same_as(parameter):
            return {} if is_update else None
        call: Any = body.bound.get(made)
        if is_tir_call(call) and isinstance(call.ty_args[0], relax.TensorType):
            for number, operand in enumerate(call.args[1].fields):
                if not isinstance(operand, ir.Var) or not body.leads_to(operand, parameter):
                    continue
                if self._updating(call.args[0], number) is not None:
                    rest = self._links(body, operand, parameter, is_update)
                    if rest is not None:
                        return {made: number, **rest}
        is_first = not is_update and body.is_written_by_call(made)
        return {made: None} if is_first and body.leads_to(made, parameter) else None

    def _updating(self, callee: ir.GlobalVar, number: int) -> ir.GlobalVar | None:
        key = callee.name_hint, number
        if key not in self._made:
            function = self._callees.functions.get(callee.name_hint)
            self._made[key] = None
            if function is not None and number < len(function.params) - 1:
                op = self._callees.op_of_function(function)
                made = updating(function, number, op) if not (op and self._is_gpu) else None
                if made is not None:
                    name = f"{callee.name_hint}_in_place"
                    self._made[key] = self._builder.add_func(made, name)
        return self._made[key]

    def _call(self, call: ir.Call, number: int) -> ir.Call:
        made = self._updating(call.args[0], number)
        return joined(relax.call_tir(made, call.args[1], call.ty_args[0]), call)

    def _copied(self, body: "_Body", place: int, parameter: ir.Var) -> relax.Function:
        """The function with a result copied into the parameter's memory."""
        field = body.fields[place]
        var = self._copy(parameter.ty)
        result = relax.Var("updated", parameter.ty)
        call = relax.call_tir(var, [field, parameter], parameter.ty)
        return body.with_field(place, result, relax.VarBinding(result, call))

    def _copy(self, ty: relax.TensorType) -> ir.GlobalVar:
        """A function that writes its first operand where its second is."""
        shape, dtype = list(ty.shape.values), str(ty.dtype)
        key = f"{shape} {dtype}"
        if key not in self._copies:
            copy = move_function(shape, dtype, range(len(shape)), "copy")
            value, target = copy.params
            before = buffer_like(target, target.ty.shape, "before")
            made = tirx.PrimFunc([value, before, target], copy.body, copy.ret_type, copy.attrs)
            self._copies[key] = self._builder.add_func(made.with_attr(IN_PLACE, 1), "copy_into")
        return self._copies[key]


class _Body:
    """The bindings of a function in order, and the fields of what it returns."""

    def __init__(self, function: relax.Function) -> None:
        self._function = function
        self.bindings = [one for block in function.body.blocks for one in block.bindings]
        self.bound = {one.var: one.value for one in self.bindings}
        self._returned = resolved(function.body.body, self.bound)
        is_tuple = isinstance(self._returned, relax.Tuple)
        self.fields = list(self._returned.fields) if is_tuple else [function.body.body]

    def leads_to(self, value: Any, parameter: ir.Var) -> bool:
        """Whether a value may be what a parameter has become: of as many elements and its type."""
        if not isinstance(value.ty, relax.TensorType) or value.ty.dtype != parameter.ty.dtype:
            return False
        shapes = [one.ty.shape for one in (value, parameter)]
        if not all(isinstance(shape, relax.ShapeExpr) for shape in shapes):
            return False
        counts = [self._count(shape) for shape in shapes]
        if None in counts:
            return bool(tvm_ffi.structural_equal(*shapes))
        return counts[0] == counts[1]

    def _count(self, shape: relax.ShapeExpr) -> int | None:
        extents = [known(extent) for extent in shape.values]
        return None if None in extents else prod(one for one in extents if one is not None)

    def is_written_by_call(self, value: Any) -> bool:
        """Whether a value is a result of a call of a kernel."""
        return is_tir_call(self.bound.get(self._writer(value)))

    def _writer(self, value: Any) -> Any:
        """The variable that the call is bound to that makes a value."""
        made = self.bound.get(value)
        return made.tuple_value if isinstance(made, relax.TupleGetItem) else value

    def before(
        self, links: Links, parameter: ir.Var, place: int
    ) -> list[tuple[ir.Var, ir.Var]] | None:
        """What must be bound before each link: all that reads what that overwrites.

        None where a result does, and where what is no call of a kernel reads it: that may hand a
        tensor on without a copy.
        """
        versions = {parameter: 0} | {one: i + 1 for i, one in enumerate(reversed([*links]))}
        others = [one for other, one in enumerate(self.fields) if other != place]
        if any(source(one, self.bound) in versions for one in others):
            return None
        version_of = dict(versions)
        readers: list[list[ir.Var]] = [[] for _ in versions]
        for binding in self.bindings:
            var, value = binding.var, binding.value
            read = [one for one in variables_of(value) if one in version_of]
            if links.get(var) is not None:
                if len(read) != 1 or version_of[read[0]] != versions[var] - 1:
                    return None
            elif read and is_tir_call(value):
                for one in read:
                    readers[version_of[one]].append(var)
            elif read and (isinstance(value, ir.Var) or _is_view(value)):
                version_of[var] = version_of[read[0]]
            elif read and not value.same_as(self._returned):
                return None
        writers = [self._writer(one) for one in reversed([*links])]
        return [
            (reader, writer)
            for writer, found in zip(writers, readers, strict=False)
            for reader in found
        ]

    def order(self, before: Sequence[tuple[ir.Var, ir.Var]]) -> list[int] | None:
        """The bindings by what each uses and by these pairs, else as they are; None for a circle.

        One with extents that bindings tell stays as it is.
        """
        made = {one.var: number for number, one in enumerate(self.bindings)}
        waits = [{made[v] for v in variables_of(b.value) if v in made} for b in self.bindings]
        for first, second in before:
            waits[made[second]].add(made[first])
        order = [*range(len(self.bindings))]
        if all(max(one, default=-1) < number for number, one in enumerate(waits)):
            return order
        if any(isinstance(binding, relax.MatchCast) for binding in self.bindings):
            return None
        done: dict[int, None] = {}
        while len(done) < len(order):
            ready = next((n for n in order if n not in done and waits[n] <= done.keys()), None)
            if ready is None:
                return None
            done[ready] = None
        return [*done]

    def with_calls(self, calls: Mapping[ir.Var, ir.Call], order: list[int]) -> relax.Function:
        """The function with other calls bound to some variables, and its bindings in an order."""

        def bound(one: Any) -> Any:
            return relax.VarBinding(one.var, calls[one.var]) if one.var in calls else one

        if order == sorted(order):
            blocks = [
                type(block)([bound(one) for one in block.bindings])
                for block in self._function.body.blocks
            ]
        else:
            blocks = [relax.DataflowBlock([bound(self.bindings[number]) for number in order])]
        return with_blocks(self._function, blocks, self._function.body.body)

    def with_field(self, place: int, value: Any, *made: Any) -> relax.Function:
        """The function with another result at a place, and what binds it."""
        fields = [value if other == place else one for other, one in enumerate(self.fields)]
        bindings = list(made)
        result = value
        if isinstance(self._returned, relax.Tuple):
            result = relax.Var("results", self._function.ret_ty)
            bindings.append(relax.VarBinding(result, relax.Tuple(fields)))
        blocks = [*self._function.body.blocks]
        if bindings:
            blocks.append(relax.BindingBlock(bindings))
        return with_blocks(self._function, blocks, result)


def _is_view(value: Any) -> bool:
    return isinstance(value, ir.Call) and getattr(value.op, "name", "") in VIEWS
