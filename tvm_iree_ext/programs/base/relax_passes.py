"""Relax passes of programs: constants become parameters, results get memory of their own."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.relax import transform

from tvm_iree_ext.programs.base.move_functions import move_function

VIEWS = ("relax.reshape", "relax.memory.view")
"""Calls that hand on the memory of their first argument."""


IN_PLACE = "tvm_iree_ext.in_place"
"""On a PrimFunc: the number of the operand in whose place its result is, which has its address."""


DESTINATIONS = "tvm_iree_ext.destinations"
"""On a Relax function: by the places of results, as JSON, the numbers of the parameters that the
calls write them into which make them."""


def relax_functions(mod: ir.IRModule) -> dict[ir.GlobalVar, relax.Function]:
    """The Relax functions of a module."""
    return {v: f for v, f in mod.functions.items() if isinstance(f, relax.Function)}


def prim_functions(mod: ir.IRModule) -> dict[ir.GlobalVar, tirx.PrimFunc]:
    """The PrimFuncs of a module."""
    return {v: f for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}


def with_functions(mod: ir.IRModule, changed: dict[ir.GlobalVar, Any]) -> ir.IRModule:
    """The module with some functions changed or added."""
    mod = ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    for var, function in changed.items():
        mod[var] = function
    return mod


def constant_of(array: np.ndarray) -> ir.GenericConst:
    """A constant of the array's own type: TVM would make int64 int32, and float64 float32."""
    return relax.const(np.asarray(array, order="C"), str(array.dtype))


def variables_of(value: Any) -> list[ir.Var]:
    """The variables that an expression names, in order, each as often as it does."""
    found: list[ir.Var] = []
    tvm_ffi.structural_walk(value, (ir.Var, found.append))
    return found


def with_blocks(function: relax.Function, blocks: Sequence[Any], result: Any) -> relax.Function:
    """The function with other blocks of bindings, and what it returns of them."""
    return relax.Function(
        function.params,
        relax.SeqExpr(list(blocks), result),
        function.ret_ty,
        is_pure=function.is_pure,
        attrs=function.attrs,
    )


def with_bindings(
    function: relax.Function, rewritten: Callable[[Any], list[Any]]
) -> relax.Function:
    """The function with other bindings in place of each of its own."""
    blocks = []
    for block in function.body.blocks:
        bindings = [made for binding in block.bindings for made in rewritten(binding)]
        kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
        blocks.append(kind(bindings))
    return with_blocks(function, blocks, function.body.body)


def without_unused(function: relax.Function) -> relax.Function:
    """The function without the bindings of its dataflow blocks that nothing comes of.

    TVM's own pass takes 3 s for 5,000 such bindings.
    """
    used = set(variables_of(function.body.body))
    blocks = []
    for block in reversed(function.body.blocks):
        kept = []
        for binding in reversed(block.bindings):
            # A cast may name extents, which others use.
            is_value = isinstance(binding, relax.VarBinding)
            if not (is_value and isinstance(block, relax.DataflowBlock)) or binding.var in used:
                used.update(variables_of(binding.value))
                kept.append(binding)
        kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
        blocks.append(kind(kept[::-1]))
    return with_blocks(function, blocks[::-1], function.body.body)


def with_constants(function: relax.Function, given: int, added: list[ir.Var]) -> relax.Function:
    """The function with constants added, behind those of its own that it uses.

    ``given`` parameters are the caller's.
    """
    if not added:
        return function
    used: set[ir.Var] = set()
    tvm_ffi.structural_walk(function.body, (ir.Var, used.add))
    kept = [one for one in function.params[given:] if one in used]
    return relax.Function(
        [*function.params[:given], *kept, *added],
        function.body,
        function.ret_ty,
        is_pure=function.is_pure,
        attrs=function.attrs,
    )


def simplify(mod: ir.IRModule, entries: list[str]) -> ir.IRModule:
    """Compute nothing twice, and nothing that no entry reaches."""
    passes = [
        transform.InlinePrivateFunctions(),
        transform.CanonicalizeBindings(),
        transform.EliminateCommonSubexpr(),
        transform.DeadCodeElimination(entries),
        transform.AnnotateTIROpPattern(),
    ]
    return ir.transform.Sequential(passes)(mod)


def fuse(mod: ir.IRModule, entries: list[str], note: Callable[[ir.IRModule], None]) -> ir.IRModule:
    """Fuse elementwise producers and consumers; what no entry reaches is gone.

    ``note`` is told of the module in which what is fused is known, and not one yet.
    """
    mod = transform.FuseOps()(mod)
    note(mod)
    passes = [
        transform.FuseTIR(),
        transform.DeadCodeElimination(entries),
        transform.RewriteDataflowReshape(),
    ]
    return ir.transform.Sequential(passes)(mod)


@ir.transform.module_pass(opt_level=0)
def results_in_place(mod: ir.IRModule, _: Any) -> ir.IRModule:
    """Have calls of functions that update an operand write there, and allocate nothing."""
    places = {
        var.name_hint: int(function.attrs[IN_PLACE])
        for var, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and IN_PLACE in (function.attrs or {})
    }
    if not places:
        return mod
    changed = {var: _in_place(function, places) for var, function in relax_functions(mod).items()}
    return with_functions(mod, changed)


def _in_place(function: relax.Function, places: Mapping[str, int]) -> relax.Function:
    homes: dict[ir.Var, Any] = {}

    def note(call: ir.Call) -> None:
        if isinstance(call.op, ir.GlobalVar) and call.op.name_hint in places:
            homes[call.args[-1]] = call.args[places[call.op.name_hint]]

    tvm_ffi.structural_walk(function.body, (ir.Call, note))
    blocks = []
    for block in function.body.blocks:
        bindings = [
            relax.VarBinding(one.var, homes[one.var]) if one.var in homes else one
            for one in block.bindings
        ]
        blocks.append(type(block)(bindings))
    return with_blocks(function, blocks, function.body.body)


@ir.transform.module_pass(opt_level=0)
def results_in_destinations(mod: ir.IRModule, _: Any) -> ir.IRModule:
    """Have the calls that make results write them into parameters, and allocate nothing."""
    changed = {
        var: _in_destinations(function, json.loads(str(function.attrs[DESTINATIONS])))
        for var, function in relax_functions(mod).items()
        if DESTINATIONS in (function.attrs or {})
    }
    return with_functions(mod, changed)


def _in_destinations(function: relax.Function, places: Mapping[str, int]) -> relax.Function:
    body = function.body
    bound = {one.var: one.value for block in body.blocks for one in block.bindings}
    returned = resolved(body.body, bound)
    fields = list(returned.fields) if isinstance(returned, relax.Tuple) else [body.body]
    homes = {
        source(fields[int(place)], bound): function.params[number]
        for place, number in places.items()
    }

    def written(binding: Any) -> list[Any]:
        home = homes.get(binding.var)
        if home is None:
            return [binding]
        shape = binding.var.ty.shape
        if not tvm_ffi.structural_equal(shape, home.ty.shape):
            home = relax.op.reshape(home, shape)
        return [relax.VarBinding(binding.var, home)]

    return with_bindings(function, written)


def plan(mod: ir.IRModule) -> ir.IRModule:
    """To calls one after another, with memory that they share where they can."""
    passes = [
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        results_in_place,
        results_in_destinations,
        transform.StaticPlanBlockMemory(),
    ]
    return ir.transform.Sequential(passes)(mod)


def lower(planned: ir.IRModule) -> ir.IRModule:
    """A module whose memory is planned, to calls of the virtual machine."""
    passes = [
        transform.LowerAllocTensor(),
        bounded_memory,
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    ]
    return ir.transform.Sequential(passes)(planned)


_MOST_BYTES = 1 << 46  # no machine has more memory
_TOO_MANY = 1 << 56  # that no allocator gives; its bits are counted in 64, too


@ir.transform.module_pass(opt_level=0)
def bounded_memory(mod: ir.IRModule, _: Any) -> ir.IRModule:
    """Let an allocation fail whose size overflows 64 bits, or is of an extent below zero.

    Extents may be numbers of the caller's: TVM would allocate what is left of their product.
    """
    allocate = ir.Op.get("relax.memory.alloc_storage")

    def bounded(call: ir.Call) -> ir.Call:
        if call.op != allocate or not isinstance(call.args[0], relax.ShapeExpr):
            return call
        sizes = [_bounded(size) for size in call.args[0].values]
        arguments = [relax.ShapeExpr(sizes), *call.args[1:]]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    changed = {}
    for var, function in relax_functions(mod).items():
        body = tvm_ffi.structural_map(function.body, (ir.Call, bounded))
        changed[var] = relax.Function(
            function.params, body, function.ret_ty, is_pure=function.is_pure, attrs=function.attrs
        )
    return with_functions(mod, changed)


def _bounded(size: Any) -> Any:
    if isinstance(size, tirx.IntImm):
        return size
    negative: list[Any] = []

    def about(value: Any) -> Any:
        if isinstance(value, tirx.Mul):
            return about(value.a) * about(value.b)
        negative.append(value < 0)
        return tirx.Cast("float64", value)

    wrong = about(size) > tirx.const(float(_MOST_BYTES), "float64")
    for one in negative:
        wrong = tirx.any(wrong, one)
    return tirx.Select(wrong, tirx.const(_TOO_MANY, "int64"), size)


def lift_constants(
    function: relax.Function, name: Callable[[np.ndarray], str]
) -> tuple[relax.Function, list[str]]:
    """The function with its constants as parameters behind the others, and their names.

    ``name`` gives one to a constant's value.  Constants are then in one place, where they may be
    mapped and shared, and a result that is one can be told.
    """
    lifted: dict[str, ir.Var] = {}

    def replace(constant: ir.GenericConst) -> ir.Var:
        called = name(constant.value.numpy())
        return lifted.setdefault(called, relax.Var(called, constant.ty))

    body = tvm_ffi.structural_map(function.body, (ir.GenericConst, replace))
    if not lifted:
        return function, []
    parameters = [*function.params, *lifted.values()]
    changed = relax.Function(
        parameters, body, function.ret_ty, is_pure=function.is_pure, attrs=function.attrs
    )
    return changed, list(lifted)


class OwnResults:
    """Gives every tensor that a function returns memory of its own, by copies where needed.

    A function may return what it was given, a constant, or one tensor twice, as it is or reshaped.
    A result that is in place of an argument may be that one.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder
        self._by_kind: dict[tuple[int, str], ir.GlobalVar] = {}

    def __call__(
        self, function: relax.Function, homes: Mapping[int, ir.Var] | None = None
    ) -> relax.Function:
        """The function, with the copies that it needs; ``homes`` are arguments, by results."""
        body = function.body
        bound = {b.var: b.value for block in body.blocks for b in block.bindings}
        returned = resolved(body.body, bound)
        fields = list(returned.fields) if isinstance(returned, relax.Tuple) else [body.body]
        taken = {*function.params}
        bindings, results = [], []
        for place, field in enumerate(fields):
            made = source(field, bound)
            if homes and place in homes and made.same_as(homes[place]):
                results.append(field)
            elif made in taken:
                copy = relax.Var("copy", field.ty)
                var = self._copy(field.ty)
                bindings.append(relax.VarBinding(copy, relax.call_tir(var, [field], field.ty)))
                results.append(copy)
            else:
                taken.add(made)
                results.append(field)
        if not bindings:
            return function
        result = relax.Tuple(results) if isinstance(returned, relax.Tuple) else results[0]
        blocks = [*body.blocks, relax.BindingBlock(bindings)]
        if not isinstance(result, ir.Var):
            out = relax.Var("results", function.ret_ty)
            blocks.append(relax.BindingBlock([relax.VarBinding(out, result)]))
            result = out
        return with_blocks(function, blocks, result)

    def _copy(self, ty: relax.TensorType) -> ir.GlobalVar:
        kind = ty.ndim, str(ty.dtype)
        if kind not in self._by_kind:
            name = f"copy_{kind[1]}_{kind[0]}d"
            extents = [tirx.Var(f"n{axis}", "int64") for axis in range(ty.ndim)]
            copy = move_function(extents, kind[1], range(ty.ndim), "copy")
            self._by_kind[kind] = self._builder.add_func(copy, name)
        return self._by_kind[kind]


def resolved(value: Any, bound: dict[ir.Var, Any]) -> Any:
    """What a variable stands for: a tuple, or the variable that was bound to something else."""
    while isinstance(value, ir.Var) and isinstance(bound.get(value), ir.Var | relax.Tuple):
        value = bound[value]
    return value


def source(value: Any, bound: dict[ir.Var, Any]) -> Any:
    """The variable whose memory ``value`` is in."""
    while value in bound:
        made = bound[value]
        if isinstance(made, ir.Var):
            value = made
        elif isinstance(made, ir.Call) and getattr(made.op, "name", "") in VIEWS:
            value = made.args[0]
        elif isinstance(made, relax.MatchCast):
            value = made.value
        elif isinstance(made, relax.TupleGetItem) and isinstance(
            several := resolved(made.tuple_value, bound), relax.Tuple
        ):
            value = several.fields[made.index]
        else:
            return value
    return value
