"""Sorts of which only the first elements are read become top-k ops.

    before:  s, p = sort(keys, [0, 1, 2, ...]),  v = s[:k],  i = p[:k]
    after:   v, i = topk(keys, k)

PyTorch's and Relax's top-k come so.  A sort is stable, and top-k takes the smaller index of equal
elements.  A top-k of floats selects no NaN, so that integers in the floats' order are its keys, and
the elements are taken by its indices:

    _, i = topk(ordered(keys), k),  v = keys[i]
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.operands import INDEX_DTYPES
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.ops.families.topk.topk import Topk
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    variables_of,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_tir_call
from tvm_iree_ext.programs.fusion.nest_reads import nest_of
from tvm_iree_ext.programs.fusion.ordered_keys import ORDERED, ordered_function, taken_function
from tvm_iree_ext.tir.tir_expressions import known

# A line has at least so many times the elements that are read.  On Zen 4, one thread, 50 of
# 4 x 32000 int32: a sort takes 526 us, the top-k 37.  Where the two take as long was not measured.
_LEAST_TIMES = 4


@dataclass(frozen=True)
class _Prefix:
    """The first elements of a sort's result: the sort, its call, which result, how many."""

    sort: Sort
    call: ir.Call
    result: int
    count: int


@relax.expr_functor.mutator
class SortedPrefixes(relax.PyExprMutator):
    """Rewrites the sorts of a module; those that nothing reads any more are still there."""

    def __init__(self, mod: ir.IRModule, ops_by_name: dict[str, Op]) -> None:
        super().__init__(mod)
        self._mod, self._known = mod, ops_by_name
        self._callees = Callees(mod, ops_by_name)
        self._function_of = OpFunctions(ops_by_name, self.builder_.add_func)
        self._prefixes: dict[int, _Prefix] = {}  # by the identity of the call that takes it
        self._made: dict[int, list[ir.Expr]] = {}  # by a sort's call, the results of the top-k
        self._fills: dict[str, ir.GlobalVar] = {}

    def run(self) -> ir.IRModule:
        """The module; new ops are added to those known."""
        if not any(isinstance(op, Sort) for op in self._known.values()):
            return self._mod
        changed = {}
        for var, function in relax_functions(self._mod).items():
            self._prefixes = _Reads(self._callees, function).prefixes()
            if self._prefixes:
                changed[var] = self.visit_expr(function)
        return with_functions(self.builder_.get(), changed) if changed else self._mod

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call that takes a prefix: the top-k's result."""
        prefix = self._prefixes.get(hash(call))
        return super().visit_call_(call) if prefix is None else self._results(prefix)[prefix.result]

    def _results(self, prefix: _Prefix) -> list[ir.Expr]:
        key = hash(prefix.call)
        if key not in self._made:
            self._made[key] = self._topk(prefix)
        return self._made[key]

    def _topk(self, prefix: _Prefix) -> list[ir.Expr]:
        sort, call = prefix.sort, prefix.call
        keys = self.visit_expr(call.args[1].fields[0])
        shape = [
            prefix.count if axis == sort.dimension else extent
            for axis, extent in enumerate(sort.shape)
        ]
        extents = [
            tirx.const(prefix.count, "int64") if axis == sort.dimension else extent
            for axis, extent in enumerate(keys.ty.shape.values)
        ]
        assert sort.order is not None
        element, elements = sort.dtypes[0], keys
        kinds = ORDERED.get(element, element), sort.dtypes[1] if len(sort.dtypes) > 1 else "int32"
        if element in ORDERED:
            kind = relax.TensorType(keys.ty.shape, kinds[0])
            function = ordered_function(list(keys.ty.shape.values), element)
            named = self.builder_.add_func(function, "ordered")
            keys = self.builder_.emit(relax.call_tir(named, [keys], kind))
        op = ops.topk(
            TensorType(sort.shape, kinds[0]),
            TensorType(tuple(shape), kinds[0]),
            TensorType(tuple(shape), kinds[1]),
            dimension=sort.dimension,
            region=">" if sort.order.descending else "<",
        )
        assert isinstance(op, Topk)
        bounds = np.iinfo(kinds[0])
        worst = bounds.min if sort.order.descending else bounds.max
        types = [relax.TensorType(extents, kind) for kind in kinds]
        inits = [
            self.builder_.emit(self._filled(number, kind))
            for number, kind in zip((int(worst), int(np.iinfo(kinds[1]).max)), types, strict=True)
        ]
        made = relax.call_tir(self._function_of(op), [keys, *inits], types)
        several = self.builder_.emit(joined(made, call))
        values, indices = (
            self.builder_.emit(relax.TupleGetItem(several, place)) for place in range(2)
        )
        if element in ORDERED:
            shapes = [list(one.ty.shape.values) for one in (elements, indices)]
            function = taken_function(shapes[0], shapes[1], sort.dimension, element, kinds[1])
            named = self.builder_.add_func(function, "taken")
            kind = relax.TensorType(extents, element)
            values = self.builder_.emit(relax.call_tir(named, [elements, indices], kind))
        return [values, indices]

    def _filled(self, number: int, kind: relax.TensorType) -> ir.Expr:
        """A tensor of one number, by the shape of the type."""
        numbers = [known(extent) for extent in kind.shape.values]
        if any(one is None for one in numbers):
            raise AssertionError("sorts of extents that are not known stay as they are")
        name = f"{number} {kind.dtype} {numbers}"
        if name not in self._fills:
            function = _fill_function([int(one or 0) for one in numbers], kind.dtype, number)
            self._fills[name] = self.builder_.add_func(function, "fill")
        return relax.call_tir(self._fills[name], [], kind)


class _Reads:
    """Who reads what in a function."""

    def __init__(self, callees: Callees, function: relax.Function) -> None:
        self._callees = callees
        self._bound: dict[ir.Var, Any] = {}
        self._readers: dict[ir.Var, list[ir.Var]] = {}
        self._others: set[ir.Var] = set()
        self._look(function)

    def _look(self, function: relax.Function) -> None:
        for block in function.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, relax.VarBinding):
                    tvm_ffi.structural_walk(binding, (ir.Var, self._others.add))
                    continue
                self._bound[binding.var] = binding.value
                for used in {*variables_of(binding.value)}:
                    self._readers.setdefault(used, []).append(binding.var)
        tvm_ffi.structural_walk(function.body.body, (ir.Var, self._others.add))

    def prefixes(self) -> dict[int, _Prefix]:
        """The calls that take sorts' first elements, where nothing else of these is read."""
        found: dict[int, _Prefix] = {}
        for var, value in self._bound.items():
            op = self._callees.op_of(value)
            if isinstance(op, Sort) and _may_be_topk(op):
                found |= self._of_sort(var, value, op) or {}
        return found

    def _of_sort(self, var: ir.Var, call: ir.Call, op: Sort) -> dict[int, _Prefix] | None:
        if len(op.dtypes) > 1 and not self._counts(call.args[1].fields[1], op.dimension):
            return None
        items = {0: [var]} if len(op.dtypes) == 1 else self._items(var)
        if items is None or (len(op.dtypes) == 1 and var in self._others):
            return None
        found: dict[int, _Prefix] = {}
        for number, results in items.items():
            for result in results:
                for reader in self._readers.get(result, []):
                    count = self._count(self._bound[reader], op.dimension)
                    if count is None or result in self._others:
                        return None
                    found[hash(self._bound[reader])] = _Prefix(op, call, number, count)
        counts = {prefix.count for prefix in found.values()}
        extent = op.shape[op.dimension]
        is_short = isinstance(extent, int) and all(n * _LEAST_TIMES <= extent for n in counts)
        return found if len(counts) == 1 and is_short else None

    def _items(self, var: ir.Var) -> dict[int, list[ir.Var]] | None:
        """The variables of a tuple's items, where nothing else is done with it."""
        if var in self._others:
            return None
        items: dict[int, list[ir.Var]] = {}
        for reader in self._readers.get(var, []):
            value = self._bound[reader]
            if not isinstance(value, relax.TupleGetItem) or reader in self._others:
                return None
            items.setdefault(int(value.index), []).append(reader)
        return items

    def _count(self, value: Any, dimension: int) -> int | None:
        """How many of the first elements a call takes along a dim, all of the others."""
        function = self._callees.function_of(value)
        nest = nest_of(function) if function is not None and is_tir_call(value) else None
        if nest is None or len(value.args[1].fields) != 1:
            return None
        store, load = nest.stores[0], nest.stores[0].value
        if not isinstance(load, ir.TensorLoad) or len(load.indices) != len(store.indices):
            return None
        if not tvm_ffi.structural_equal(list(load.indices), list(store.indices)):
            return None
        sizes = zip(load.source.ty.shape, store.buffer.ty.shape, strict=True)
        for axis, (before, after) in enumerate(sizes):
            if axis != dimension and not tvm_ffi.structural_equal(before, after):
                return None
        return known(store.buffer.ty.shape[dimension])

    def _counts(self, value: Any, dimension: int) -> bool:
        """Whether a tensor's elements are their places along a dim."""
        made = self._bound.get(value) if isinstance(value, ir.Var) else None
        function = self._callees.function_of(made)
        nest = nest_of(function) if function is not None else None
        if nest is None:
            return False
        store = nest.stores[0]
        place = store.value.value if isinstance(store.value, tirx.Cast) else store.value
        return isinstance(place, ir.Var) and place.same_as(store.indices[dimension])


def _may_be_topk(op: Sort) -> bool:
    order = op.order
    is_of_first = order is not None and order.operand == 0 and not op.region_scalars
    has_numbers = all(isinstance(extent, int) for extent in op.shape)
    is_key = op.dtypes[0].startswith("int") or op.dtypes[0] in ORDERED
    kinds = is_key and all(one in INDEX_DTYPES for one in op.dtypes[1:])
    return is_of_first and has_numbers and kinds and len(op.dtypes) <= 2


def _fill_function(shape: list[int], dtype: str, number: int) -> tirx.PrimFunc:
    """``target[at] = number``."""
    extents = [tirx.const(extent, "int64") for extent in shape]
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("fill")
        I.func_attr({"tirx.noalias": True})
        target = I.arg("target", I.buffer(extents, dtype, align=item_bytes(dtype)))
        with I.sblock("root"), I.grid(*extents) as loops:
            listed = [loops] if isinstance(loops, ir.Var) else list(loops)
            with I.sblock("fill"):
                at = [I.axis.spatial(e, v) for e, v in zip(extents, listed, strict=True)]
                I.buffer_store(target, tirx.const(number, dtype), at)
    return builder.get()
