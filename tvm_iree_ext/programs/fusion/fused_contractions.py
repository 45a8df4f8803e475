"""Contractions of a program take in what stands around them.

A transposed or broadcast operand is read in place, by another indexing map: no copy of a weight is
made at every call.  An elementwise function of the result becomes the epilogue, so that the result
is written once.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.schedules.shared.loops.loops_nests import FunctionNests, LoopNest, nests_of, uses

Axes = tuple[tuple[int, ...], ...]


def nest_of(function: tirx.PrimFunc) -> LoopNest | None:
    """The only nest of a function, with one store, at the place that its loops name."""
    form: FunctionNests | None = nests_of(function)
    if form is None or len(form.nests) != 1 or form.buffers:
        return None
    (nest,) = form.nests
    if nest.reduced or nest.cells or len(nest.stores) != 1:
        return None
    store = nest.stores[0]
    places = [index for index in store.indices if isinstance(index, ir.Var)]
    rest = [index for index in store.indices if not isinstance(index, ir.Var)]
    sound = len(set(places)) == len(places) == len(nest.axes)
    return nest if sound and all(_is_zero(index) for index in rest) else None


def _is_zero(index: Any) -> bool:
    return isinstance(index, tirx.IntImm) and int(index) == 0


def axes_of(load: ir.TensorLoad, nest: LoopNest, result: Axes) -> Axes | None:
    """The dims by which a load of a nest reads, where ``result`` are those of its store.

    None for one that is not read by single dims, or not all of which is read.
    """
    store = nest.stores[0]
    places = {index: place for place, index in enumerate(store.indices)}
    axes: list[tuple[int, ...]] = []
    for index, extent in zip(load.indices, load.source.ty.shape, strict=True):
        if isinstance(index, ir.Var) and index in places:
            if not tvm_ffi.structural_equal(extent, store.buffer.ty.shape[places[index]]):
                return None
            axes.append(result[places[index]])
        elif _is_zero(index) and isinstance(extent, tirx.IntImm) and int(extent) == 1:
            axes.append(())
        else:
            return None
    used = [axis for axis in axes if axis]
    return tuple(axes) if len(set(used)) == len(used) else None


@relax.expr_functor.mutator
class AroundContractions(relax.PyExprMutator):
    """Rewrites the contractions of a module."""

    def __init__(self, mod: ir.IRModule, known: dict[str, Op]) -> None:
        super().__init__(mod)
        self._mod, self._known = mod, known
        self._uses: Counter[ir.Var] = Counter()
        self._nests: dict[str, LoopNest | None] = {}
        self._functions = {
            var.name_hint: function
            for var, function in mod.functions.items()
            if isinstance(function, tirx.PrimFunc)
        }

    def run(self) -> ir.IRModule:
        """The module; new ops are added to those known."""
        if not any(isinstance(op, Contraction) for op in self._known.values()):
            return self._mod
        for var, function in self._mod.functions.items():
            if isinstance(function, relax.Function):
                self._uses = Counter()
                tvm_ffi.structural_walk(function.body, (ir.Var, self._count))
                self.builder_.update_func(var, self.visit_expr(function))
        return self.builder_.get()

    def _count(self, var: ir.Var) -> None:
        self._uses[var] += 1

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a contraction, or of a function of its result."""
        given = call
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or len(call.args) != 2:
            return call
        if self._contraction(call) is not None:
            return self._with_operands_in_place(call)
        return self._as_epilogue(given, call)

    def _contraction(self, call: Any) -> Contraction | None:
        """The contraction that a call is of."""
        if not isinstance(call, ir.Call) or getattr(call.op, "name", "") != "relax.call_tir":
            return None
        function = self._functions.get(call.args[0].name_hint)
        key = (function.attrs or {}).get(OP_ATTRIBUTE) if function is not None else None
        op = self._known.get(str(key)) if key is not None else None
        return op if isinstance(op, Contraction) else None

    def _nest(self, var: ir.GlobalVar) -> LoopNest | None:
        name = var.name_hint
        if name not in self._nests:
            function = self._functions.get(name)
            is_op = function is None or OP_ATTRIBUTE in (function.attrs or {})
            self._nests[name] = None if is_op else nest_of(function)
        return self._nests[name]

    def _call(self, op: Contraction, arguments: Sequence[Any], kind: Any) -> ir.Expr:
        key = f"contraction.{len(self._known)}"
        self._known[key] = op
        function = op.prim_func().without_attr("global_symbol").with_attr(OP_ATTRIBUTE, key)
        var = self.builder_.add_func(function, "contraction")
        self._functions[var.name_hint] = function
        return relax.call_tir(var, list(arguments), kind)

    # Operands that are moved.

    def _with_operands_in_place(self, call: ir.Call) -> ir.Expr:
        op = self._contraction(call)
        assert op is not None
        arguments = list(call.args[1].fields)
        maps, types = dict(op.maps), dict(op.types)
        changed = False
        for place, name in enumerate(list(types)[: len(arguments)]):
            if name == "init":  # which is read as the result is written
                continue
            while (found := self._source(arguments[place], maps[name].axes)) is not None:
                arguments[place], axes = found
                maps[name] = IndexingMap(maps[name].num_dims, axes)
                shape = tuple(op.extents[axis[0]] if axis else 1 for axis in axes)
                types[name] = TensorType(shape, types[name].dtype)
                changed = True
        made = _rebuilt(op, types, maps, op.epilogue) if changed else None
        return call if made is None else self._call(made, arguments, call.ty_args[0])

    def _source(self, argument: Any, axes: Axes) -> tuple[Any, Axes] | None:
        """What an operand is a move of, and the dims by which that is read."""
        made = self.lookup_binding(argument) if isinstance(argument, ir.Var) else None
        if not isinstance(made, ir.Call) or getattr(made.op, "name", "") != "relax.call_tir":
            return None
        nest = self._nest(made.args[0])
        if nest is None or len(made.args) != 2 or len(made.args[1].fields) != 1:
            return None
        value = nest.stores[0].value
        if not isinstance(value, ir.TensorLoad):
            return None
        found = axes_of(value, nest, axes)
        return None if found is None else (made.args[1].fields[0], found)

    # Functions of the result.

    def _as_epilogue(self, given: ir.Call, call: ir.Call) -> ir.Expr:
        nest = self._nest(call.args[0])
        if nest is None:
            return call
        arguments = list(call.args[1].fields)
        function = self._functions[call.args[0].name_hint]
        for place, argument in enumerate(given.args[1].fields):
            made = self.lookup_binding(arguments[place]) if isinstance(argument, ir.Var) else None
            op = self._contraction(made)
            if (
                op is None or made is None or self._uses[argument] != 2
            ):  # where it is bound, and here
                continue
            rest = dict(zip(function.params, arguments, strict=False))
            fused = _with_epilogue(op, nest, function.params[place], rest)
            if fused is not None:
                made_op, others = fused
                return self._call(made_op, [*made.args[1].fields, *others], call.ty_args[0])
        return call


def _with_epilogue(
    op: Contraction, nest: LoopNest, sums: ir.Var, arguments: Mapping[ir.Var, Any]
) -> tuple[Contraction, list[Any]] | None:
    """The contraction followed by a nest, and what the nest reads beside the sums; or None."""
    store = nest.stores[0]
    kind = str(store.buffer.ty.dtype)
    result = op.types["result"]
    # Types in between would round, or wrap, in between.
    if not kind == result.dtype == op.accumulator_dtype:
        return None
    loads: list[ir.TensorLoad] = []
    if not _is_elementwise(store.value, loads):
        return None
    axes = op.maps["result"].axes
    if len(store.indices) != len(axes):  # sums of another rank are read at other places
        return None
    others: list[ir.TensorLoad] = []
    maps: list[IndexingMap] = []
    for load in loads:
        if load.source.same_as(sums):
            # At the same places, and at all of them: the beginning of a result is no result.
            whole = tvm_ffi.structural_equal(load.source.ty.shape, store.buffer.ty.shape)
            if not (whole and tvm_ffi.structural_equal(load.indices, store.indices)):
                return None
            continue
        if any(tvm_ffi.structural_equal(load, other) for other in others):
            continue
        found = axes_of(load, nest, axes)
        if found is None or str(load.source.ty.dtype) != op.accumulator_dtype:
            return None
        others.append(load)
        maps.append(IndexingMap(op.maps["result"].num_dims, found))
    before = op.epilogue
    count = len(op.others)

    def epilogue(*values: ir.Expr) -> ir.Expr:
        inner = before(*values[: 1 + count]) if before is not None else values[0]

        def replace(load: ir.TensorLoad) -> ir.Expr:
            if load.source.same_as(sums):
                return inner
            place = next(i for i, o in enumerate(others) if tvm_ffi.structural_equal(load, o))
            return values[1 + count + place]

        return tvm_ffi.structural_map(store.value, (ir.TensorLoad, replace))

    types, all_maps = dict(op.types), dict(op.maps)
    end_type, end_map = types.pop("result"), all_maps.pop("result")
    for number, (load, one) in enumerate(zip(others, maps, strict=True)):
        shape = tuple(op.extents[axis[0]] if axis else 1 for axis in one.axes)
        types[f"operand{count + number}"] = TensorType(shape, str(load.source.ty.dtype))
        all_maps[f"operand{count + number}"] = one
    types["result"], all_maps["result"] = end_type, end_map
    made = _rebuilt(op, types, all_maps, epilogue)
    return None if made is None else (made, [arguments[load.source] for load in others])


def _is_elementwise(value: ir.Expr, loads: list[ir.TensorLoad]) -> bool:
    """Whether a value depends on elements alone, and not on where they are."""

    def look(load: ir.TensorLoad) -> None:
        loads.append(load)

    tvm_ffi.structural_walk(value, (ir.TensorLoad, look))
    positions = {v for load in loads for i in load.indices for v in [i] if isinstance(v, ir.Var)}
    blank = tvm_ffi.structural_map(
        value, (ir.TensorLoad, lambda load: tirx.Var("element", str(load.source.ty.dtype)))
    )
    return not uses(blank, list(positions))


def _rebuilt(
    op: Contraction,
    types: Mapping[str, TensorType],
    maps: Mapping[str, IndexingMap],
    epilogue: "Callable[..., Any] | None",
) -> Contraction | None:
    """The contraction with other operands; None where it takes no such ones."""
    others = [name for name in types if name.startswith("operand")]
    beside = op.beside_rhs
    try:
        return ops.contraction(
            types["lhs"],
            types["rhs"],
            [types[name] for name in others],
            indexing_maps=[maps[name] for name in ("lhs", "rhs", *beside, *others, "result")],
            prologue=op.prologue,
            prologue_operands=[types[name] for name in beside],
            init=types.get("init"),
            epilogue=epilogue,
            result_dtype=types["result"].dtype,
        )
    except OpError:
        return None
