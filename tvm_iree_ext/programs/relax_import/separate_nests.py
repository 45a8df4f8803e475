"""Functions of several nests, of which some are products, as a function for each nest.

A product is then an op, and what stood beside it is fused with it as in any program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.programs.base.relax_passes import prim_functions
from tvm_iree_ext.programs.base.tir_calls import is_tir_call
from tvm_iree_ext.programs.relax_import.recognised_products import NoProduct, product_of
from tvm_iree_ext.programs.relax_import.relax_ops import rewritten
from tvm_iree_ext.schedules.shared.loops.loops_nests import nests_of


@dataclass(frozen=True)
class _Part:
    """A nest as a function, whose parameters are what it reads, then what it writes."""

    function: tirx.PrimFunc
    reads: tuple[ir.Var, ...]
    written: ir.Var


def _parts(function: tirx.PrimFunc) -> tuple[_Part, ...]:
    """The nests of a function; none where they stay together."""
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize) or not isinstance(root.block.body, tirx.SeqStmt):
        return ()
    statements = list(root.block.body.seq)
    form = nests_of(function)
    if form is None or len(form.nests) != len(statements):
        return ()
    known = [p for p in function.params if isinstance(p.ty, tirx.BufferType)]
    known += list(root.block.alloc_buffers)
    parts = []
    for statement in statements:
        read, written = _accesses(statement)
        if len(written) != 1 or not {*read, *written} <= {*known}:
            return ()
        reads = tuple(one for one in known if one in read and one not in written)
        body = s_tir.SBlockRealize(
            [], tirx.const(True, "bool"), s_tir.SBlock([], [], [], "root", statement)
        )
        made = tirx.PrimFunc([*reads, *written], body).with_attr("tirx.noalias", True)
        made = s_tir.renew_defs(made.with_attr("s_tir", True))
        parts.append(_Part(made, reads, written[0]))
    if len({one.written for one in parts}) < len(parts):
        return ()
    return tuple(parts) if any(_is_product(one.function) for one in parts) else ()


def _accesses(statement: Any) -> tuple[list[ir.Var], list[ir.Var]]:
    """The buffers that a statement reads and writes."""
    read: dict[ir.Var, None] = {}
    written: dict[ir.Var, None] = {}
    tvm_ffi.structural_walk(
        statement,
        [
            (ir.TensorLoad, lambda one: read.setdefault(one.source)),
            (tirx.BufferStore, lambda one: written.setdefault(one.buffer)),
        ],
    )
    return list(read), list(written)


def _is_product(function: tirx.PrimFunc) -> bool:
    try:
        product_of(function)
    except NoProduct:
        return False
    return True


@relax.expr_functor.mutator
class SeparateNests(relax.PyExprMutator):
    """Calls a function for each nest where one of the nests is a product."""

    def __init__(self, mod: ir.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod
        self._functions = {v.name_hint: f for v, f in prim_functions(mod).items()}
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self._variables: dict[tuple[str, int], ir.GlobalVar] = {}

    def run(self) -> ir.IRModule:
        """The module."""
        return rewritten(self, self._mod)

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a function."""
        call = super().visit_call_(call)
        if not is_tir_call(call):
            return call
        name = call.args[0].name_hint
        function = self._functions.get(name)
        if name not in self._parts:
            is_op = function is None or OP_ATTRIBUTE in (function.attrs or {})
            self._parts[name] = () if is_op else _parts(function)
        parts = self._parts[name]
        return self._separate(name, function, parts, call) if parts else call

    def _separate(self, name: str, function: Any, parts: Sequence[_Part], call: Any) -> ir.Expr:
        arguments = list(call.args[1].fields)
        kinds = call.ty_args[0]
        is_one = isinstance(kinds, relax.TensorType)
        results = function.params[len(arguments) :]
        at_call = _extents(function.params, [one.ty for one in arguments])
        values: dict[ir.Var, Any] = dict(zip(function.params, arguments, strict=False))
        for number, part in enumerate(parts):
            if (name, number) not in self._variables:
                added = self.builder_.add_func(part.function, f"{name}_{number}")
                self._variables[name, number] = added
            kind = part.written.ty
            shape = [tvm_ffi.structural_map(e, (ir.Var, at_call.get)) for e in kind.shape]
            made = relax.call_tir(
                self._variables[name, number],
                [values[one] for one in part.reads],
                relax.TensorType(shape, str(kind.dtype)),
            )
            values[part.written] = self.builder_.emit(made)
        found = [values[one] for one in results]
        return found[0] if is_one else relax.Tuple(found)


def _extents(parameters: Sequence[ir.Var], kinds: Sequence[Any]) -> Mapping[ir.Var, Any]:
    """What a function's own extents are at a call."""
    found: dict[ir.Var, Any] = {}
    for parameter, kind in zip(parameters, kinds, strict=False):
        for own, given in zip(parameter.ty.shape, kind.shape.values, strict=True):
            if isinstance(own, ir.Var):
                found[own] = given
    return found
