"""Chains of convolutions with their channels last.

Frameworks write images as (N, C, H, W).  Kernels are faster where a pixel's channels lie next to
each other: vectors hold filters, windows are read in runs, and a filter of one place is a product
of matrices as they lie.

    before:  y = conv(x),  z = f(y, c),  u = conv(z)
    after:   y' = conv'(moved(x)),  z' = f'(y', c),  u' = conv'(z'),  u = moved back(u')

Whatever reads a moved tensor reads it as it lies; a tensor is moved back for a reader that cannot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.target import Target

from tvm_iree_ext import ops
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.mlir.importing.relax_types import OPAQUE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.conv_2d.conv_2d import Conv2d
from tvm_iree_ext.programs.base.move_functions import move_function
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import (
    constant_of,
    relax_functions,
    with_bindings,
    with_constants,
    with_functions,
    without_unused,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_reshape
from tvm_iree_ext.programs.fusion.product_forms import ContractionForm
from tvm_iree_ext.programs.layouts.moved_axes import (
    MovedAxes,
    moved_operands,
    moved_result,
    with_moved_axes,
)
from tvm_iree_ext.schedules.dispatch import prefers_channels_last
from tvm_iree_ext.tir.tir_expressions import known

_CHANNELS = MovedAxes(1)
_SMALL = 16  # times as many elements as a small operand has: it is read as it lies
_TYPICAL = 64  # what an extent that is known at the call counts as
_FILTER = (2, 3, 1, 0)  # (F, C, H, W) as (H, W, C, F)


@dataclass(frozen=True)
class _Moved:
    """A tensor as it lies, and the axes of what it stands for that are its last."""

    value: Any
    axes: MovedAxes
    is_computed: bool  # so, and not copied


class ChannelsLast:
    """Rewrites the convolutions of a module, and what stands between them.

    New ops are added to those known, and constants, moved, to those by name.
    """

    def __init__(
        self,
        mod: ir.IRModule,
        known: dict[str, Op],
        parameters: dict[str, np.ndarray],
        target: Target,
    ) -> None:
        self._mod, self._known, self._parameters, self._target = mod, known, parameters, target
        self._builder = relax.BlockBuilder(mod)
        self.callees = Callees(mod, known)
        self._made: dict[Any, ir.GlobalVar] = {}
        self.function_of_op = OpFunctions(known, self._add)

    def run(self, entries: Sequence[str]) -> ir.IRModule:
        """The module; what no entry reaches is gone."""
        if not any(map(self.is_moved, self._known.values())):
            return self._mod
        changed = {
            var: _Function(self, function).run()
            for var, function in relax_functions(self._mod).items()
        }
        mod = with_functions(self._builder.get(), changed)
        return relax.transform.DeadCodeElimination(list(entries))(mod)

    def is_moved(self, op: Op | None) -> bool:
        """Whether an op is a convolution that is faster with its channels last."""
        if not isinstance(op, Conv2d) or op.channels_last:
            return False
        return prefers_channels_last(op, self._target)

    def loops_of(self, value: Any) -> tirx.PrimFunc | None:
        """The plain loops with one result that a value is a call of."""
        function = self.callees.function_of(value)
        is_single = function is not None and isinstance(value.ty_args[0], relax.TensorType)
        return function if is_single and self.callees.op_of(value) is None else None

    def add_moved(self, var: ir.GlobalVar, moved: Mapping[int, MovedAxes]) -> ir.GlobalVar:
        """A function of loops, whose parameters lie otherwise."""
        key = var.name_hint, *sorted((n, a.first, a.count) for n, a in moved.items())
        if key not in self._made:
            function = with_moved_axes(self.callees.functions[var.name_hint], moved)
            self._made[key] = self._add(function, var.name_hint)
        return self._made[key]

    def add_move(self, ty: relax.TensorType, order: Sequence[int]) -> ir.GlobalVar:
        """A function that moves a tensor."""
        shape = list(ty.shape.values)
        key = "move", str(shape), str(ty.dtype), *order
        if key not in self._made:
            function = move_function(shape, str(ty.dtype), order)
            # Alone it goes at the speed of memory; what is fused into it would be read by strides.
            self._made[key] = self._add(function.with_attr("op_pattern", OPAQUE), "move")
        return self._made[key]

    def _add(self, function: tirx.PrimFunc, word: str) -> ir.GlobalVar:
        var = self._builder.add_func(function.without_attr("global_symbol"), word)
        self.callees.functions[var.name_hint] = function
        return var

    def moved_constant(self, name: str, order: Sequence[int]) -> tuple[str, np.ndarray]:
        """A constant with its axes in another order, and its name."""
        called = f"{name}.{''.join(map(str, order))}"
        if called not in self._parameters:
            self._parameters[called] = self._parameters[name].transpose(order)
        return called, self._parameters[called]


class _Wanted:
    """The tensors that all their readers would rather have moved, and the axes, last to first."""

    def __init__(self, within: ChannelsLast, function: relax.Function) -> None:
        self._within = within
        self._wanted: dict[Any, set[MovedAxes | None]] = {}  # by reader; None: as it is
        self.axes: dict[ir.Var, MovedAxes] = {}
        if not isinstance(function.body, relax.SeqExpr):
            return
        tvm_ffi.structural_walk(function.body.body, (ir.Var, lambda var: self._want(var, None)))
        for block in reversed(function.body.blocks):
            for binding in reversed(block.bindings):
                axes = self._wanted.get(binding.var, {None})
                end = next(iter(axes)) if len(axes) == 1 else None
                if end is not None:
                    self.axes[binding.var] = end
                self._note(binding.value, end)

    def _want(self, value: Any, axes: MovedAxes | None) -> None:
        if isinstance(value, ir.Var):
            self._wanted.setdefault(value, set()).add(axes)

    def _note(self, value: Any, end: MovedAxes | None) -> None:
        """What a value is computed of, where its own axes are wanted so."""
        wanted = self._operands(value, end)
        if wanted is not None:
            for operand, axes in wanted:
                self._want(operand, axes)
        else:
            tvm_ffi.structural_walk(value, (ir.Var, lambda var: self._want(var, None)))

    def _operands(
        self, value: Any, end: MovedAxes | None
    ) -> list[tuple[Any, MovedAxes | None]] | None:
        if is_reshape(value):
            if end is None:
                return None
            shapes = [list(one.ty.shape.values) for one in (value, value.args[0])]
            return [(value.args[0], end.reshaped(*shapes))]
        if self._within.callees.function_of(value) is None:
            return None
        op, arguments = self._within.callees.op_of(value), list(value.args[1].fields)
        if self._within.is_moved(op):
            image, taps, *others = arguments
            return [(image, _CHANNELS), (taps, None), *((one, _CHANNELS) for one in others)]
        if isinstance(op, Contraction) and end is not None:  # else it may be any product
            for place, factor in enumerate(("lhs", "rhs")):
                made = _pointwise(op, factor, end)
                if made is not None:
                    axes = {place: end}
                    if op.has_init:
                        axes[len(arguments) - 1] = made[1]
                    return [(one, axes.get(n)) for n, one in enumerate(arguments)]
        function = self._within.loops_of(value)
        if function is None or end is None or len(function.params) != len(arguments) + 1:
            return None
        along = _large(moved_operands(function, end) or {}, arguments, value)
        return [(one, along.get(number)) for number, one in enumerate(arguments)]


class _Function:
    """One function."""

    def __init__(self, within: ChannelsLast, function: relax.Function) -> None:
        self._within, self._function = within, function
        self._given = int((function.attrs or {}).get("num_input", len(function.params)))
        self._constants = {one: one.name for one in function.params[self._given :]}
        self._added: dict[str, ir.Var] = {}
        self._moved: dict[ir.Var, _Moved] = {}
        self._wanted = _Wanted(within, function).axes
        self._bindings: list[relax.VarBinding] = []
        self._kind: type[ir.Var] = relax.Var

    def run(self) -> relax.Function:
        """The function."""
        if not isinstance(self._function.body, relax.SeqExpr):
            return self._function
        changed = with_bindings(self._function, self._rewritten)
        if not self._moved:
            return self._function
        # What is moved back for no reader is gone.
        return with_constants(without_unused(changed), self._given, list(self._added.values()))

    def _rewritten(self, binding: Any) -> list[Any]:
        if not isinstance(binding, relax.VarBinding):
            return [binding]
        self._bindings, self._kind = [], type(binding.var)
        value = self._computed(binding)
        if value is None:
            return [binding]
        if isinstance(value, _Moved):
            self._moved[binding.var] = value
            value = self._moved_back(value, binding.var.ty)
        return [*self._bindings, relax.VarBinding(binding.var, value)]

    def _bind(self, value: Any, ty: relax.TensorType, name: str) -> ir.Var:
        var = self._kind(name, ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def _computed(self, binding: relax.VarBinding) -> "_Moved | Any | None":
        """What a binding computes, moved or by moved operands; None where it stays as it is."""
        value, name = binding.value, binding.var.name
        if is_reshape(value):
            return self._reshaped(value, name)
        op = self._within.callees.op_of(value)
        if isinstance(op, Conv2d):
            return self._convolution(value, op, name) if self._within.is_moved(op) else None
        if isinstance(op, Contraction):
            return self._contraction(value, op, name)
        function = self._within.loops_of(value)
        return self._loops(value, function, binding) if function is not None else None

    def _result(
        self, var: ir.GlobalVar, arguments: Sequence[Any], call: ir.Call, axes: MovedAxes, name: str
    ) -> _Moved:
        given = call.ty_args[0]
        ty = relax.TensorType(axes.of(list(given.shape.values)), given.dtype)
        made = joined(relax.call_tir(var, list(arguments), ty), call)
        return _Moved(self._bind(made, ty, name), axes, True)

    # What is computed.

    def _convolution(self, call: ir.Call, op: Conv2d, name: str) -> _Moved | None:
        image, taps, *others = call.args[1].fields
        types = [
            TensorType(tuple(_CHANNELS.of(kind.shape)), kind.dtype) for kind in op.others.values()
        ]
        if any(len(kind.shape) != len(_FILTER) for kind in types):
            return None
        try:
            made = ops.conv_2d(
                TensorType(op.image, op.dtype),
                TensorType((*op.kernel, op.group_channels, op.filters), op.dtype),
                types,
                layout="NHWC",
                strides=op.strides,
                dilations=op.dilations,
                padding=op.padding,
                groups=op.groups,
                algorithm=op.algorithm,
                output_tile_size=op.output_tile_size,
                epilogue=op.epilogue,
                result_dtype=op.result_dtype,
            )
        except OpError:
            return None
        arguments = [self._as(image, _CHANNELS), self._filter(taps)]
        arguments += [self._as(other, _CHANNELS) for other in others]
        return self._result(self._within.function_of_op(made), arguments, call, _CHANNELS, name)

    def _contraction(self, call: ir.Call, op: Contraction, name: str) -> _Moved | None:
        """A filter of one place: an image's channels by a matrix are another image's."""
        arguments = dict(
            zip((one.name for one in op.signature.arguments), call.args[1].fields, strict=True)
        )
        for factor in ("lhs", "rhs"):
            axes = self._axes_of(arguments[factor])
            made = _pointwise(op, factor, axes) if axes is not None else None
            if axes is None or made is None:
                continue
            form, end = made
            arguments[factor] = self._as(arguments[factor], axes)
            if "init" in arguments:
                arguments["init"] = self._as(arguments["init"], end)
            values = [arguments[one] for one in form.names]
            return self._result(self._within.function_of_op(form.op), values, call, end, name)
        return None

    def _loops(
        self, call: ir.Call, function: tirx.PrimFunc, binding: relax.VarBinding
    ) -> "_Moved | Any | None":
        arguments = list(call.args[1].fields)
        if len(function.params) != len(arguments) + 1:
            return None
        moved = {
            number: one.axes
            for number, argument in enumerate(arguments)
            if (one := self._computed_so(argument)) is not None
        }
        end = moved_result(function, moved) if moved else self._wanted.get(binding.var)
        if end is not None:
            along = moved_operands(function, end)
            end = None if along is None else end
            moved = {**_large(along or {}, arguments, call), **moved}
        if not moved and end is None:
            return None
        values = [
            self._as(argument, moved[number]) if number in moved else argument
            for number, argument in enumerate(arguments)
        ]
        if end is not None:
            var = self._within.add_moved(call.args[0], {**moved, len(arguments): end})
            return self._result(var, values, call, end, binding.var.name)
        var = self._within.add_moved(call.args[0], moved)
        return joined(relax.call_tir(var, values, call.ty_args[0]), call)

    def _reshaped(self, call: ir.Call, name: str) -> _Moved | None:
        moved = self._computed_so(call.args[0])
        if moved is None:
            return None
        before, after = (list(one.ty.shape.values) for one in (call.args[0], call))
        axes = moved.axes.reshaped(before, after)
        if axes is None:
            return None
        shape = axes.of(after)
        value = relax.op.reshape(moved.value, relax.ShapeExpr(shape))
        return _Moved(self._bind(value, relax.TensorType(shape, call.ty.dtype), name), axes, True)

    # Operands.

    def _computed_so(self, argument: Any) -> _Moved | None:
        moved = self._moved.get(argument) if isinstance(argument, ir.Var) else None
        return moved if moved is not None and moved.is_computed else None

    def _as(self, argument: Any, axes: MovedAxes) -> Any:
        """A tensor with these axes last."""
        moved = self._moved.get(argument) if isinstance(argument, ir.Var) else None
        if moved is not None and moved.axes == axes:
            return moved.value
        value = self._in_order(argument, axes.order(len(argument.ty.shape.values)))
        if moved is None and isinstance(argument, ir.Var):
            self._moved[argument] = _Moved(value, axes, False)
        return value

    def _axes_of(self, argument: Any) -> MovedAxes | None:
        """The axes of a tensor that are its last, or should be."""
        moved = self._computed_so(argument)
        return moved.axes if moved is not None else self._wanted.get(argument)

    def _filter(self, taps: Any) -> Any:
        return self._in_order(taps, _FILTER)

    def _in_order(self, value: Any, order: Sequence[int]) -> Any:
        """A tensor with its axes in another order: a constant as another one, else copied."""
        if isinstance(value, ir.GenericConst):
            return constant_of(value.value.numpy().transpose(order))
        shape = [value.ty.shape.values[axis] for axis in order]
        ty = relax.TensorType(shape, value.ty.dtype)
        if value in self._constants:
            name, _ = self._within.moved_constant(self._constants[value], order)
            return self._added.setdefault(name, relax.Var(name, ty))
        return self._bind(self._move(value, order, ty), ty, "moved")

    def _moved_back(self, made: _Moved, ty: relax.TensorType) -> Any:
        shape = list(ty.shape.values)
        order = made.axes.order(len(shape))
        back = sorted(range(len(shape)), key=order.__getitem__)
        return self._move(made.value, back, ty)

    def _move(self, value: Any, order: Sequence[int], ty: relax.TensorType) -> Any:
        places = [axis for axis in order if known(value.ty.shape.values[axis]) != 1]
        if places == sorted(places):
            return relax.op.reshape(value, relax.ShapeExpr(list(ty.shape.values)))
        return relax.call_tir(self._within.add_move(value.ty, order), [value], ty)


def _pointwise(
    op: Contraction, factor: str, moved: MovedAxes
) -> tuple[ContractionForm, MovedAxes] | None:
    """The contraction of an image whose channels, and those of the result, are moved.

    None where ``factor`` is no image whose channels are summed over, and others take their place.
    """
    axes, result = op.maps[factor].axes, op.maps["result"].axes
    if op.prologue is not None or op.others or not all(axes) or len(axes) <= moved.range[-1]:
        return None
    kept = [result.index(axis) for axis in moved.of(axes) if axis in result]
    made = [place for place, axis in enumerate(result) if place not in kept]
    is_summed = not any(axes[axis] in result for axis in moved.range)
    if not is_summed or len(kept) < 2 or kept != sorted(kept) or not made:
        return None
    if made != list(range(made[0], made[-1] + 1)):
        return None
    end = MovedAxes(made[0], len(made))
    form = ContractionForm(op).reading(factor, tuple(moved.of(axes)))
    if form is None or form[2] != tuple(range(len(axes))):
        return None
    turned = form[0].permuted(end.order(len(result)))
    return (turned, end) if isinstance(turned, ContractionForm) else None


def _large(
    axes: Mapping[int, MovedAxes], arguments: Sequence[Any], call: ir.Call
) -> dict[int, MovedAxes]:
    """The operands that are not small beside the result, whatever is known at the call only."""

    def elements(ty: Any) -> int:
        return prod(known(extent) or _TYPICAL for extent in ty.shape.values)

    result = elements(call.ty_args[0])
    return {n: one for n, one in axes.items() if elements(arguments[n].ty) * _SMALL > result}
