"""What depends on positions alone is computed where it is read: indices that count, masks, fills.

    before:  at = iota(n),  y = gather(x, wrapped(at), i)        after:  y = gather(x, i)

An index that is read from memory may be any; one that is seen to count lets a kernel read runs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.sym import Analyzer

from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import is_reshape, is_tir_call, loops_by_name
from tvm_iree_ext.programs.fusion.nest_reads import nest_of, unit_places
from tvm_iree_ext.schedules.shared.loops.loops_nests import nests_of, substitute
from tvm_iree_ext.tir.purity import is_guard

_MOST_NODES = 64  # of a value that is computed again wherever it is read

At = Sequence[Any]
Values = dict[ir.Var, Callable[[At], Any]]
"""By tensor, what gives an element at indices."""


def inline_positions(mod: ir.IRModule) -> ir.IRModule:
    """The module whose loops read no tensor that they can compute from where they are."""
    builder = relax.BlockBuilder(mod)
    functions = loops_by_name(mod)
    changed = {
        var: _Function(builder, functions).rewritten(function)
        for var, function in relax_functions(mod).items()
    }
    return with_functions(builder.get(), changed)


class _Function:
    """One function."""

    def __init__(self, builder: relax.BlockBuilder, functions: dict[str, tirx.PrimFunc]) -> None:
        self._builder, self._functions = builder, functions
        self._values: Values = {}

    def rewritten(self, function: relax.Function) -> relax.Function:
        """The function."""
        if not isinstance(function.body, relax.SeqExpr):
            return function
        return with_bindings(function, self._rewritten)

    def _rewritten(self, binding: Any) -> list[Any]:
        call = binding.value
        if not isinstance(call, ir.Call) or not isinstance(binding, relax.VarBinding):
            return [binding]
        if is_reshape(call) and call.args[0] in self._values:
            self._reshaped(binding)
        if not is_tir_call(call):
            return [binding]
        function = self._functions.get(call.args[0].name_hint)
        operands = list(call.args[1].fields)
        if function is None or len(function.params) != len(operands) + 1:
            return [binding]
        places = [n for n, one in enumerate(operands) if one in self._values]
        if places and nests_of(function) is not None:
            function = _without(function, {n: self._values[operands[n]] for n in places})
            operands = [one for n, one in enumerate(operands) if n not in places]
            var = self._builder.add_func(function, call.args[0].name_hint)
            arguments = [var, relax.Tuple(operands)]
            call = relax.Call(call.op, arguments, call.attrs, call.ty_args, call.span)
            binding = relax.VarBinding(binding.var, call)
        if not operands:
            self._note(binding.var, function)
        return [binding]

    def _note(self, var: ir.Var, function: tirx.PrimFunc) -> None:
        """Note what a function without operands computes."""
        nest = nest_of(function)
        if nest is None or not isinstance(var.ty, relax.TensorType):
            return
        store = nest.stores[0]
        nodes: list[Any] = []
        tvm_ffi.structural_walk(store.value, (ir.Expr, nodes.append))
        free = {axis.var for axis in nest.axes}
        used: set[ir.Var] = set()
        tvm_ffi.structural_walk(store.value, (ir.Var, used.add))
        if len(nodes) > _MOST_NODES or not used <= free or any(map(_is_dear, nodes)):
            return

        def value(at: At) -> Any:
            places = {
                index: one if one.ty.dtype == index.ty.dtype else tirx.Cast(index.ty.dtype, one)
                for index, one in zip(store.indices, at, strict=True)
                if isinstance(index, ir.Var)
            }
            return substitute(store.value, places)

        self._values[var] = value

    def _reshaped(self, binding: relax.VarBinding) -> None:
        """Note a reshape that adds and takes away extents of 1."""
        source = binding.value.args[0]
        shapes = (list(one.ty.shape.values) for one in (binding.var, source))
        places = unit_places(*shapes)
        if places is not None:
            inner, zero = self._values[source], tirx.const(0, "int64")
            self._values[binding.var] = lambda at: inner(
                [zero if place is None else at[place] for place in places]
            )


def _is_dear(node: Any) -> bool:
    """Whether a node is a function such as a sine: a table of them is read faster."""
    if not isinstance(node, ir.Call) or is_guard(node):
        return False
    return "float" in str(node.ty.dtype)


def _without(function: tirx.PrimFunc, values: dict[int, Callable[[At], Any]]) -> tirx.PrimFunc:
    """The function that computes what it read of some parameters."""
    by_parameter = {function.params[number]: value for number, value in values.items()}
    analyzer = Analyzer()

    def bind(block: s_tir.SBlock) -> None:
        for axis in block.iter_vars:
            analyzer.bind(axis.var, axis.dom)

    def load(node: ir.TensorLoad) -> Any:
        if node.source in by_parameter:
            return by_parameter[node.source](list(node.indices))
        return tirx.BufferLoad(node.source, [analyzer.simplify(one) for one in node.indices])

    def block(node: s_tir.SBlock) -> Any:
        reads = [one for one in node.reads if one.source not in by_parameter]
        return s_tir.SBlock(
            node.iter_vars,
            reads,
            node.writes,
            node.name_hint,
            node.body,
            node.init,
            node.alloc_buffers,
            node.match_buffers,
            node.annotations,
        )

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, bind))
    body = tvm_ffi.structural_map(function.body, [(ir.TensorLoad, load), (s_tir.SBlock, block)])
    parameters = [one for one in function.params if one not in by_parameter]
    return tirx.PrimFunc(parameters, body, function.ret_type, function.attrs)
