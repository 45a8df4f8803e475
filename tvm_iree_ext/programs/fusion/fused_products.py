"""Contractions and convolutions of a program take in what stands around them.

A transposed or broadcast operand is read in place, by another indexing map: no copy of a weight is
made at every call.  An elementwise function of the result becomes the epilogue, so that the result
is written once; so does what sums begin with, where that is broadcast.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.target import Target

from tvm_iree_ext.mlir.importing.imported import OP_ATTRIBUTE, Fallback
from tvm_iree_ext.mlir.importing.places import Place, joined, places_of
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import relax_functions, with_functions
from tvm_iree_ext.programs.base.tir_calls import Callees, is_reshape, is_tir_call
from tvm_iree_ext.programs.fusion.nest_reads import (
    Axes,
    Regrouping,
    axes_of,
    elementwise_loads,
    nest_of,
    regrouping,
    units_moved,
)
from tvm_iree_ext.programs.fusion.product_forms import Places, ProductForm, Read, form_of
from tvm_iree_ext.schedules.dispatch import is_better_moved
from tvm_iree_ext.schedules.shared.loops.loops_nests import LoopNest


@relax.expr_functor.mutator
class AroundProducts(relax.PyExprMutator):
    """Rewrites the contractions and convolutions of a module."""

    def __init__(self, mod: ir.IRModule, known: dict[str, Op], target: Target) -> None:
        super().__init__(mod)
        self._mod, self._known, self._target = mod, known, target
        self._function_of = OpFunctions(known, self.builder_.add_func)
        self._uses: Counter[ir.Var] = Counter()
        self._bound: dict[ir.Var, Any] = {}
        self._nests: dict[str, LoopNest | None] = {}
        self.fallbacks: dict[Fallback, None] = {}  # each once, in order
        self._callees = Callees(mod, known)

    def run(self) -> ir.IRModule:
        """The module; new ops are added to those known."""
        if not any(form_of(op) for op in self._known.values()):
            return self._mod
        changed = {}
        for var, function in relax_functions(self._mod).items():
            self._uses = Counter()
            tvm_ffi.structural_walk(function.body, (ir.Var, self._count))
            self._bound = _bindings(function)
            changed[var] = self.visit_expr(function)
        return with_functions(self.builder_.get(), changed)

    def _note(self, call: ir.Call, why: str) -> None:
        """Note why what a call computes stays loops of its own."""
        place = next(iter(places_of(call)), Place(call.args[0].name_hint))
        self.fallbacks[Fallback(place, why)] = None

    def _count(self, var: ir.Var) -> None:
        self._uses[var] += 1

    def visit_call_(self, call: ir.Call) -> ir.Expr:
        """A call of a product, or of a function of its result."""
        given = call
        call = super().visit_call_(call)
        if not is_tir_call(call):
            return call
        form = self._form(call)
        if form is not None:
            return self._with_operands_in_place(call, form)
        return self._as_epilogue(given, call)

    def _form(self, call: Any) -> ProductForm | None:
        """The product that a call is of."""
        return form_of(self._callees.op_of(call))

    def _nest(self, var: ir.GlobalVar) -> LoopNest | None:
        name = var.name_hint
        if name not in self._nests:
            function = self._callees.functions.get(name)
            is_op = function is None or OP_ATTRIBUTE in (function.attrs or {})
            self._nests[name] = None if is_op else nest_of(function)
        return self._nests[name]

    def _call(
        self, form: ProductForm, arguments: Sequence[Any], kind: Any, *of: ir.Call
    ) -> ir.Expr:
        """A call of a product that does what the calls ``of`` did."""
        var = self._function_of(form.op)
        self._callees.functions.setdefault(var.name_hint, self.builder_.get()[var])
        return joined(relax.call_tir(var, list(arguments), kind), *of)

    def _shaped(self, value: Any, shape: Sequence[Any]) -> Any:
        """A tensor by another shape, as a view."""
        if tvm_ffi.structural_equal(list(value.ty.shape.values), list(shape)):
            return value
        return self.builder_.emit(relax.op.reshape(value, relax.ShapeExpr(list(shape))))

    # Operands that are moved.

    def _with_operands_in_place(self, call: ir.Call, form: ProductForm) -> ir.Expr:
        arguments = dict(zip(form.names, call.args[1].fields, strict=True))
        changed = False
        for given_name in form.movable:
            name = given_name
            while (moved := self._source(arguments[name], form.axes(name))) is not None:
                source, axes, mover = moved
                made = form.reading(name, axes)
                if made is None:
                    self._note(mover, f"{form.op.name} takes no {name} by {axes}: it is moved")
                    break
                del arguments[name]
                form, name, places = made
                arguments[name] = self._shaped(source, _placed(source.ty.shape.values, places))
                changed = True
        if not changed:
            return call
        operands = [arguments[name] for name in form.names]
        return self._call(form, operands, call.ty_args[0], call)

    def _source(self, argument: Any, axes: Axes) -> tuple[Any, Axes, ir.Call] | None:
        """What an operand is a move of, the dims by which that is read, and the move."""
        made = self.lookup_binding(argument) if isinstance(argument, ir.Var) else None
        if not isinstance(made, ir.Call):
            return None
        if is_reshape(made):
            moved = units_moved(axes, *(list(one.ty.shape.values) for one in (made.args[0], made)))
            return None if moved is None else self._source(made.args[0], moved)
        nest = self._nest(made.args[0]) if is_tir_call(made) else None
        if nest is None or len(made.args[1].fields) != 1:
            return None
        value = nest.stores[0].value
        if not isinstance(value, ir.TensorLoad):
            return None
        found = axes_of(value, nest, axes)
        return None if found is None else (made.args[1].fields[0], found, made)

    # Functions of the result.

    def _as_epilogue(self, given: ir.Call, call: ir.Call) -> ir.Expr:
        nest = self._nest(call.args[0])
        if nest is None:
            return call
        arguments = list(call.args[1].fields)
        function = self._callees.functions[call.args[0].name_hint]
        end = call.ty_args[0]
        apart: list[str] = []
        for place, argument in enumerate(given.args[1].fields):
            made = self._product(arguments[place])
            form = self._form(made)
            if made is None or form is None:
                continue
            result = made.ty_args[0]
            try:
                if not self._is_for_one(argument):
                    raise _Apart("its sums are used elsewhere, too")
                sums = _SumsAsRead(function.params[place], _order(nest, function.params[place]))
                if sums.is_permuted:
                    before = form.op
                    form, result = _permuted(form, result, sums)
                    if is_better_moved(before, form.op, self._target):
                        raise _Apart("its result is faster moved than written in another order")
                groups = regrouping(list(result.shape.values), list(end.shape.values))
                if groups is None:
                    raise _Apart("a reshape between joins and splits axes")
                form, others = _with_epilogue(form, nest, sums, groups)
                result = relax.TensorType(result.shape, form.result_dtype)
            except _Apart as why:
                apart.append(f"it is no epilogue of {form.op.name}: {why}")
                continue
            rest = dict(zip(function.params, arguments, strict=False))
            values = [
                self._shaped(rest[source], _placed(result.shape.values, axes))
                for source, axes in others
            ]
            value = self._call(form, [*made.args[1].fields, *values], result, made, call)
            if tvm_ffi.structural_equal(result.shape, end.shape):
                return value
            return relax.op.reshape(self.builder_.emit(value), end.shape)
        for reason in apart:
            self._note(call, reason)
        return call

    def _product(self, argument: Any) -> ir.Call | None:
        """The call of a product that an argument is the result of, perhaps reshaped."""
        made = self.lookup_binding(argument) if isinstance(argument, ir.Var) else None
        while isinstance(made, ir.Call) and is_reshape(made):
            made = self.lookup_binding(made.args[0]) if isinstance(made.args[0], ir.Var) else None
        return made if self._form(made) is not None else None

    def _is_for_one(self, given: Any) -> bool:
        """Whether an argument, and what it is a reshape of, is used for one call alone.

        ``given`` is as before anything was rewritten, whose uses are known.
        """
        while isinstance(given, ir.Var) and self._uses[given] == 2:  # where it is bound, and here
            bound = self._bound.get(given)
            if bound is None or not is_reshape(bound):
                return True
            given = bound.args[0]
        return False


def _bindings(function: relax.Function) -> dict[ir.Var, Any]:
    return {
        one.var: one.value
        for block in function.body.blocks
        for one in block.bindings
        if isinstance(one, relax.VarBinding)
    }


def _placed(extents: Sequence[Any], places: Places) -> list[Any]:
    """The shape of an operand whose axes are those of ``places``."""
    unit = tirx.const(1, "int64")
    return [unit if place is None else extents[place] for place in places]


class _Apart(Exception):
    """Raised for a nest that is no epilogue: says why."""


@dataclass(frozen=True)
class _SumsAsRead:
    """The sums as a nest behind a product reads them.

    ``order`` has the axis of the sums for each axis of what the nest stores.
    """

    tensor: ir.Var
    order: tuple[int, ...]

    @property
    def is_permuted(self) -> bool:
        """Whether the axes come in another order."""
        return self.order != tuple(range(len(self.order)))

    def are(self, load: ir.TensorLoad) -> bool:
        """Whether a load is of the sums."""
        return load.source.same_as(self.tensor)

    def are_whole(self, load: ir.TensorLoad, store: Any) -> bool:
        """Whether each element is read in its place: the beginning of a result is no result."""
        pairs = ((load.source.ty.shape, store.buffer.ty.shape), (load.indices, store.indices))
        return all(
            len(read) == len(stored) == len(self.order)
            and tvm_ffi.structural_equal([read[axis] for axis in self.order], list(stored))
            for read, stored in pairs
        )


def _order(nest: LoopNest, tensor: ir.Var) -> tuple[int, ...]:
    """In which order of axes a nest reads a tensor: as it stores, unless all axes are single."""
    store = nest.stores[0]
    same = tuple(range(len(store.indices)))
    for load in elementwise_loads(store.value) or ():
        if load.source.same_as(tensor) and len(load.indices) == len(same):
            places = {hash(one): place for place, one in enumerate(load.indices)}
            order = tuple(places.get(hash(one), -1) for one in store.indices)
            return order if sorted(order) == list(same) else same
    return same


def _permuted(
    form: ProductForm, result: relax.TensorType, sums: _SumsAsRead
) -> tuple[ProductForm, relax.TensorType]:
    """The product whose result lies as a nest reads it, and that."""
    extents = list(result.shape.values)
    if not tvm_ffi.structural_equal(extents, list(sums.tensor.ty.shape)):
        raise _Apart("a reshape between is read in another order of axes")
    begins = "init" in form.names  # with what lies as the result does
    made = None if begins else form.permuted(sums.order)
    if made is None:
        raise _Apart("its result does not come in another order of axes")
    return made, relax.TensorType([extents[axis] for axis in sums.order], result.dtype)


def _is_held(dtype: str, sums: str) -> bool:
    """Whether the type of sums holds all numbers of another."""
    return dtype == sums or (sums == "float32" and dtype in ("float16", "bfloat16"))


def _as(dtype: str, value: ir.Expr) -> ir.Expr:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _with_epilogue(
    form: ProductForm, nest: LoopNest, sums: _SumsAsRead, groups: Regrouping
) -> tuple[ProductForm, list[tuple[ir.Var, Places]]]:
    """The product followed by a nest; _Apart where that cannot be.

    With what the nest reads beside the sums, and for each axis of that, as the product takes it,
    the axis of the result.
    """
    store = nest.stores[0]
    kind = str(store.buffer.ty.dtype)
    if not all(_is_held(one, form.sums_dtype) for one in (kind, form.result_dtype)):
        kinds = f"{form.sums_dtype}, a result of {form.result_dtype}, then {kind}"
        raise _Apart(f"sums of {kinds}; expected one type, or floats of 16 bits of float32")
    if form.result_dtype == "bfloat16":
        # TVM computes in float32 what it has in bfloat16, and rounds where that is stored.
        raise _Apart("its result is rounded to bfloat16 between")
    loads = elementwise_loads(store.value)
    if loads is None:
        raise _Apart("it depends on where an element is")
    others: list[ir.TensorLoad] = []
    reads: list[Places] = []
    for load in loads:
        if sums.are(load):
            if not sums.are_whole(load, store):
                raise _Apart("it does not read each element of the sums in its own place")
            continue
        if any(tvm_ffi.structural_equal(load, other) for other in others):
            continue
        axes = axes_of(load, nest, tuple((axis,) for axis in range(len(store.indices))))
        before = None if axes is None else groups.read_before(axes)
        if before is None:
            raise _Apart("an operand is not read by single axes of the result")
        if not _is_held(str(load.source.ty.dtype), form.sums_dtype):
            other = str(load.source.ty.dtype)
            raise _Apart(f"an operand is of {other}; expected {form.sums_dtype}")
        others.append(load)
        reads.append(before)

    def epilogue(inner: ir.Expr, *values: ir.Expr) -> ir.Expr:
        def replace(load: ir.TensorLoad) -> ir.Expr:
            value = inner
            if not sums.are(load):
                place = next(i for i, o in enumerate(others) if tvm_ffi.structural_equal(load, o))
                value = values[place]
            return _as(str(load.source.ty.dtype), value)  # rounded, as it would have been stored

        value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, replace))
        return _as(form.sums_dtype, value)

    made = form.followed(
        [
            Read(
                tuple(() if axis is None else form.result_axes[axis] for axis in read),
                str(load.source.ty.dtype),
            )
            for read, load in zip(reads, others, strict=True)
        ],
        epilogue,
        kind,
    )
    if made is None:
        raise _Apart("it does not take its operands, or what it computes")
    form, places = made
    shaped = [
        tuple(None if place is None else read[place] for place in taken)
        for read, taken in zip(reads, places, strict=True)
    ]
    return form, [(load.source, axes) for load, axes in zip(others, shaped, strict=True)]
