"""Sorts whose comparator computes something of each element: that is computed once, and sorted by.

JAX orders floats by integers made of their bits, so that NaN goes last and -0 equals 0.  Computed
in each comparison that is slow to run and slower to compile; as an operand of its own it leaves a
plain comparison, for which there are better algorithms.
"""

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext import ops
from tvm_iree_ext.base.dtypes import WORDS, item_bytes
from tvm_iree_ext.base.signature import Shape, TensorType
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.ops.base.comparators import as_seen
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.sort import Sort
from tvm_iree_ext.programs.base.relax_passes import variables_of

_MOST_KEYS = 4
_SUFFIX = ".by_keys"


class Key:
    """What a comparator computes of an element of one operand, as a function of the left one."""

    def __init__(self, operand: int, value: ir.Expr, parameter: ir.Var) -> None:
        self.operand, self.value, self.parameter = operand, value, parameter
        self.dtype = str(value.ty.dtype)


def keyed(op: Sort) -> tuple[Sort, list[Key]] | None:
    """The sort with its keys as first operands, and what they are; None where there are none.

    A comparator that takes numbers of a call keeps them, and computes its keys itself; so does one
    of words of 128 bits, which no tensor of Relax has as elements.
    """
    if op.region_scalars or WORDS["complex128"] in op.dtypes:
        return None
    parameters = op.region.parameters
    places = {parameter: place for place, parameter in enumerate(parameters)}
    keys: list[Key] = []
    found: list[tuple[ir.Expr, int, int]] = []  # a subexpression, its key, its side

    def look(node: ir.Expr, mutator: Any) -> ir.Expr:
        used = {*variables_of(node)}
        if len(used) != 1 or isinstance(node, ir.Var) or str(node.ty.dtype) == "bool":
            return node if not used else mutator.default_mutate(node)
        place = places[used.pop()]
        left = parameters[place // 2 * 2]
        value = _with(node, {parameters[place]: left})
        number = next(
            (n for n, key in enumerate(keys) if tvm_ffi.structural_equal(key.value, value)), None
        )
        if number is None:
            number = len(keys)
            keys.append(Key(place // 2, value, left))
        found.append((node, number, place % 2))
        return node

    tvm_ffi.structural_mutate(op.region.body, (ir.Expr, look))
    if not 0 < len(keys) <= _MOST_KEYS:
        return None

    def region(*arguments: ir.Expr) -> ir.Expr:
        own = arguments[: 2 * len(keys)]
        rest = dict(zip(parameters, arguments[2 * len(keys) :], strict=True))

        def replace(node: ir.Expr, mutator: Any) -> ir.Expr:
            for known, number, side in found:
                if tvm_ffi.structural_equal(node, known):
                    return own[2 * number + side]
            return rest[node] if isinstance(node, ir.Var) else mutator.default_mutate(node)

        return tvm_ffi.structural_mutate(op.region.body, (ir.Expr, replace))

    kinds = [*(key.dtype for key in keys), *op.dtypes]
    operands = [TensorType(op.shape, kind) for kind in kinds]
    return ops.sort(*operands, dimension=op.dimension, region=region), keys


def _with(node: ir.Expr, values: dict[ir.Var, ir.Expr]) -> ir.Expr:
    return tvm_ffi.structural_map(node, (ir.Var, lambda var: values.get(var, var)))


def _function(shape: Shape, dtype: str, key: Key) -> tirx.PrimFunc:
    """``keys[at] = key(elements[at])``."""
    symbols = {e: tirx.Var(e, "int64") for e in shape if isinstance(e, str)}
    extents = [symbols[e] if isinstance(e, str) else tirx.const(e, "int64") for e in shape]
    with IRBuilder() as builder, I.prim_func(s_tir=True):
        I.func_name("keys")
        I.func_attr({"tirx.noalias": True})
        own = I.arg("elements", I.buffer(extents, dtype, align=item_bytes(dtype)))
        made = I.arg("keys", I.buffer(extents, key.dtype, align=item_bytes(key.dtype)))
        with I.sblock("root"), I.grid(*extents) as loops:
            listed = [loops] if isinstance(loops, ir.Var) else list(loops)
            with I.sblock("keys"):
                at = [I.axis.spatial(e, v) for e, v in zip(extents, listed, strict=True)]
                value = _with(key.value, {key.parameter: as_seen(own[tuple(at)])})
                I.buffer_store(made, value, at)
    return builder.get()


@relax.expr_functor.mutator
class SortByKeys(relax.PyExprMutator):
    """Gives the sorts of a module their keys as operands."""

    def __init__(self, mod: ir.IRModule, known: dict[str, Op]) -> None:
        super().__init__(mod)
        self._mod, self._known = mod, known
        self._sorts: dict[str, tuple[ir.GlobalVar, list[tuple[Key, ir.GlobalVar]]]] = {}

    def run(self) -> ir.IRModule:
        """The module; the sorts' ops are added to those known."""
        for var, function in self._mod.functions.items():
            key = (function.attrs or {}).get(OP_ATTRIBUTE)
            op = self._known.get(str(key)) if key is not None else None
            if not isinstance(function, tirx.PrimFunc) or not isinstance(op, Sort):
                continue
            found = keyed(op)
            if found is not None:
                self._add(str(key), var, op, *found)
        for var, function in self._mod.functions.items():
            if self._sorts and isinstance(function, relax.Function):
                self.builder_.update_func(var, self.visit_expr(function))
        return self.builder_.get() if self._sorts else self._mod

    def _add(self, name: str, var: ir.GlobalVar, op: Sort, sort: Sort, keys: Sequence[Key]) -> None:
        self._known[name + _SUFFIX] = sort
        function = sort.prim_func().without_attr("global_symbol")
        function = function.with_attr(OP_ATTRIBUTE, name + _SUFFIX)
        added = self.builder_.add_func(function, f"{var.name_hint}_by_keys")
        makers = [
            (
                key,
                self.builder_.add_func(
                    _function(op.shape, op.dtypes[key.operand], key), f"{var.name_hint}_keys"
                ),
            )
            for key in keys
        ]
        self._sorts[var.name_hint] = added, makers

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a sort: of its keys first."""
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.call_tir":
            return call
        found = self._sorts.get(call.args[0].name_hint)
        if found is None:
            return call
        sort, makers = found
        operands = list(call.args[1].fields)
        types = call.ty_args[0]
        own = list(types.fields) if isinstance(types, relax.TupleType) else [types]
        keys = []
        for key, maker in makers:
            kind = relax.TensorType(operands[key.operand].ty.shape.values, key.dtype)
            made_key = joined(relax.call_tir(maker, [operands[key.operand]], kind), call)
            keys.append(self.builder_.emit(made_key))
        kinds = [*(key.ty for key in keys), *own]
        made = self.builder_.emit(joined(relax.call_tir(sort, [*keys, *operands], kinds), call))
        results = [relax.TupleGetItem(made, place) for place in range(len(keys), len(kinds))]
        if not isinstance(types, relax.TupleType):
            return results[0]
        return relax.Tuple([self.builder_.emit(result) for result in results])
