"""Layouts of lanes in a program: what becomes of ``to_layout``, and of products that have layouts.

On a CPU nothing is left of them.  On a GPU:

    a product with layouts    multiplies by them where the target has such an instruction; they may
                              be said of its result alone
    to_layout                 is a kernel where lanes come to hold other elements than by the layout
                              before, the product's or another to_layout's, or where it demands
                              shared memory; else the value itself

What the target does not have is left out, with a note.
"""

from dataclasses import replace
from typing import Any

from tvm import ir, relax, tirx
from tvm.target import Target

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.building.artifact_identity import is_gpu
from tvm_iree_ext.mlir.importing.imported import LAYOUTS_UNUSED, Fallback
from tvm_iree_ext.mlir.importing.places import Place, joined, places_of
from tvm_iree_ext.mlir.importing.relax_types import ELEMENTWISE
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.families.contraction.contraction import Contraction
from tvm_iree_ext.ops.families.contraction.lane_layouts import lane_layouts
from tvm_iree_ext.ops.families.distribution.to_layout import ToLayout
from tvm_iree_ext.programs.base.op_functions import OpFunctions
from tvm_iree_ext.programs.base.relax_passes import (
    relax_functions,
    with_bindings,
    with_functions,
)
from tvm_iree_ext.programs.base.tir_calls import Callees, is_tir_call
from tvm_iree_ext.schedules.dispatch import gpu_refusal


class SettleLayouts:
    """Settles what lanes hold, in all functions of a module."""

    def __init__(self, mod: ir.IRModule, known: dict[str, Op], target: Target) -> None:
        self._mod, self._known, self._target = mod, known, target
        self._callees = Callees(mod, known)
        self.fallbacks: dict[Fallback, None] = {}  # each once, in order

    def run(self) -> ir.IRModule:
        """The module; new ops are added to those known."""
        if not any(_is_laid_out(op) for op in self._known.values()):
            return self._mod
        builder = relax.BlockBuilder(self._mod)
        function_of = OpFunctions(self._known, builder.add_func)
        changed = {
            var: _Function(self, function, function_of).settled()
            for var, function in relax_functions(self._mod).items()
        }
        mod = with_functions(builder.get(), changed)
        return relax.transform.CanonicalizeBindings()(mod)

    def op_of(self, value: Any) -> Op | None:
        """The op that a value is a call of."""
        return self._callees.op_of(value)

    def is_elementwise(self, value: Any) -> bool:
        """Whether a value has at each place what is computed of its operands there."""
        function = self._callees.function_of(value)
        attributes = {} if function is None else function.attrs or {}
        return int(attributes.get("op_pattern", -1)) == ELEMENTWISE

    def is_taken(self, op: Op, call: ir.Call) -> bool:
        """Whether the target has an op's layouts; where it does not, that is noted."""
        if not is_gpu(self._target):
            return False
        why = gpu_refusal(op, self._target)
        if why is not None:
            self.note(call, why)
        return why is None

    def note(self, call: ir.Call, why: str) -> None:
        """Note why the layouts of a call are not used."""
        place = next(iter(places_of(call)), Place(call.args[0].name_hint))
        self.fallbacks[Fallback(place, why, LAYOUTS_UNUSED)] = None


def _is_laid_out(op: Op) -> bool:
    return isinstance(op, ToLayout) or (isinstance(op, Contraction) and op.layouts is not None)


class _Function:
    """A function, and the layouts of its values as far as they are known."""

    def __init__(
        self, layouts: SettleLayouts, function: relax.Function, function_of: OpFunctions
    ) -> None:
        self._of, self._function, self._function_of = layouts, function, function_of
        self._layouts: dict[ir.Var, Any] = {}
        self._taken_by: dict[ir.Var, ToLayout] = {}  # the first to_layout of a value
        for block in function.body.blocks:
            for binding in block.bindings:
                op = layouts.op_of(getattr(binding, "value", None))
                if isinstance(op, ToLayout):
                    self._taken_by.setdefault(binding.value.args[1].fields[0], op)

    def settled(self) -> relax.Function:
        """The function with calls whose kernels have the layouts."""
        return with_bindings(self._function, self._binding)

    def _binding(self, binding: Any) -> list[Any]:
        if not isinstance(binding, relax.VarBinding) or not is_tir_call(binding.value):
            return [binding]
        call, var = binding.value, binding.var
        op = self._of.op_of(call)
        if isinstance(op, ToLayout):
            value = self._converted(op, call)
            self._layouts[var] = op.layout
            return [relax.VarBinding(var, value)]
        if isinstance(op, Contraction) and op.layouts is not None:
            op = self._multiplied(op, call, self._taken_by.get(var))
            if op.layouts is not None:
                self._layouts[var] = op.layouts.along("acc", op.maps)
            return [relax.VarBinding(var, self._call(op, call))]
        if self._of.is_elementwise(call):
            known = (self._layouts.get(one) for one in call.args[1].fields if _is_var(one))
            self._layouts[var] = next((one for one in known if one is not None), None)
        return [binding]

    def _call(self, op: Op, call: ir.Call) -> ir.Expr:
        """A call of an op with the operands of another call, for which it stands."""
        made = relax.call_tir(self._function_of(op), list(call.args[1].fields), call.ty_args[0])
        return joined(made, call)

    def _converted(self, op: ToLayout, call: ir.Call) -> ir.Expr:
        """What a to_layout gives: a kernel's result, or the value that it takes."""
        (value,) = call.args[1].fields
        source = self._layouts.get(value) if _is_var(value) else None
        if source is not None and source.undistributed_shape == op.layout.undistributed_shape:
            op = replace(op, source_layout=source)
        moves = op.shared_memory_conversion or (op.moves_between_lanes and not op.keeps_lanes)
        return self._call(op, call) if moves and self._of.is_taken(op, call) else value

    def _multiplied(self, op: Contraction, call: ir.Call, after: ToLayout | None) -> Contraction:
        """The contraction with all layouts that are known, or without any."""
        assert op.layouts is not None
        if after is not None and "acc" not in op.layouts.given:
            known = {name: op.layouts.along(name, op.maps) for name in op.layouts.given}
            given = {name: layout for name, layout in known.items() if layout is not None}
            kind = op.layouts.mma_kind or after.mma_kind
            try:
                made = lane_layouts(op.name, {**given, "acc": after.layout}, kind, op.maps)
                op = replace(op, layouts=made)
            except OpError as error:
                self._of.note(call, str(error))
                return replace(op, layouts=None)
        return op if self._of.is_taken(op, call) else replace(op, layouts=None)


def _is_var(value: Any) -> bool:
    return isinstance(value, ir.Var | tirx.Var)
