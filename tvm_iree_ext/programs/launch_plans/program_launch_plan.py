"""The launch plan of a function of a program, of the plans of what it calls.

    x, constants ─> kernels of call 1 ─> memory ─> kernels of call 2 ─> ... ─> results

The function is one of Relax after memory was planned: it allocates, calls PrimFuncs in order and
hands views on.  Every call's steps stand in the plan in full, with names of their own; so do the
functions of loops and branches (:mod:`.planned_control`).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.mlir.dialects.scf_dialect import CONTROL
from tvm_iree_ext.programs.base.relax_passes import (
    VIEWS,
    prim_functions,
    relax_functions,
    resolved,
    source,
)
from tvm_iree_ext.programs.launch_plans.planned_arrays import Count, PlannedArray, says_extents
from tvm_iree_ext.programs.launch_plans.planned_control import ControlPlanner
from tvm_iree_ext.programs.launch_plans.planned_steps import PlannedSteps, Step
from tvm_iree_ext.programs.launch_plans.renamed_steps import RenamedSteps
from tvm_iree_ext.runtime.manifest import Parameter


@dataclass(frozen=True)
class PlannedProgram:
    """What the plans of a program's functions are made of.

    Attributes:
        functions: of Relax by name, after ``CallTIRRewrite`` and ``StaticPlanBlockMemory``; those
            of loops and branches, too.
        plans: of the PrimFuncs, by name.
        numbers: by name of the PrimFuncs that do nothing but store an integer, that integer.
    """

    functions: Mapping[str, relax.Function]
    plans: Mapping[str, Plan]
    numbers: Mapping[str, int]


def planned_program(planned: ir.IRModule, plans: Mapping[str, Plan]) -> PlannedProgram:
    """The functions of a module whose memory is planned, and the plans of its PrimFuncs."""
    stored = {var.name_hint: _stored(function) for var, function in prim_functions(planned).items()}
    return PlannedProgram(
        {var.name_hint: function for var, function in relax_functions(planned).items()},
        plans,
        {name: number for name, number in stored.items() if number is not None},
    )


def _stored(function: tirx.PrimFunc) -> int | None:
    """The integer that a function stores, which does nothing else; maybe by way of registers."""
    if len(function.params) != 1 or len(getattr(function.params[0], "shape", [None])):
        return None
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append))
    values = [one.value for one in stores if not isinstance(one.value, ir.TensorLoad)]
    numbers = {int(one.value) for one in values if isinstance(one, tirx.IntImm)}
    is_number = len(numbers) == 1 and all(isinstance(one, tirx.IntImm) for one in values)
    return numbers.pop() if is_number else None


def program_plan(program: PlannedProgram, name: str, constants: Sequence[Parameter]) -> Plan:
    """The plan of a function, which takes the caller's tensors, then the results.

    A result that lies in one of the caller's tensors is no other.  Where only a run tells extents
    of results, the plan makes all of them, and says where each lies at last.
    It has ``constants`` besides, which lie in the file of parameters:
    ``{"name": ..., "dtype": ..., "shape": [...], "offset": bytes}``.

    Args:
        program: whose function it is.
        name: of the function.
        constants: those that the function takes behind the caller's tensors.

    Raises:
        BuildError: for what only the virtual machine of a CPU does.
    """
    try:
        return FunctionPlanner(program, set()).plan(program.functions[name], constants)
    except BuildError as error:
        raise BuildError(f"{name}: {error}") from None


class FunctionPlanner(PlannedSteps):
    """The steps of a function, and where its tensors lie.

    Args:
        program: whose function it is.
        taken: names of the plan, which its functions share.
    """

    def __init__(self, program: PlannedProgram, taken: set[str]) -> None:
        super().__init__(taken)
        self._program = program
        self._arrays: dict[Any, PlannedArray] = {}
        self._tuples: dict[Any, list[PlannedArray]] = {}
        self._shapes: dict[Any, list[Count]] = {}  # what was computed for extents
        self._homes: dict[Any, PlannedArray] = {}  # where a tensor that is made is to lie
        # Of a tuple, which places are used, and where these are to lie.
        self._taken_from: dict[Any, dict[int, PlannedArray | None]] = {}

    def plan(self, function: relax.Function, constants: Sequence[Parameter]) -> Plan:
        """The plan of a function that is called from outside; see :func:`program_plan`."""
        given = len(function.params) - len(constants)
        named = [(parameter, self.name(parameter)) for parameter in function.params]
        symbols = []
        for parameter in function.params[:given]:
            for extent in parameter.ty.shape.values:
                if isinstance(extent, ir.Var) and extent not in self.names:
                    symbols.append(self.name(extent))
        for parameter, name in named:
            self._arrays[parameter] = self._typed(name, parameter.ty)
        taken = [self._arrays[parameter] for parameter in function.params[:given]]
        known = {*self.names}
        own = [
            (place, field, made)
            for place, (field, made) in enumerate(_returned(function))
            if made not in self._arrays
        ]
        is_told = all(_is_told(field.ty, known) for _, field, _ in own)
        if is_told:
            for place, field, made in own:
                self._homes[made] = self._typed(self.fresh(f"out{place}"), field.ty)
                taken.append(self._homes[made])
        self._run(function)
        results = [] if is_told else [self.array(field) for _, field, _ in own]
        return {
            "parameters": [_parameter(one) for one in taken],
            "symbols": symbols,
            "constants": [
                {
                    **dataclasses.asdict(one),
                    "name": self._arrays[parameter].name,
                    "shape": list(one.shape),
                }
                for one, parameter in zip(constants, function.params[given:], strict=True)
            ],
            "steps": self.steps,
            **({"results": [_parameter(one) for one in results]} if results else {}),
        }

    def region(
        self,
        name: str,
        arrays: Sequence[PlannedArray],
        homes: Mapping[int, PlannedArray] | None = None,
    ) -> tuple[list[Step], list[PlannedArray]]:
        """The steps of another function of the program, and what it computes."""
        inner = FunctionPlanner(self._program, self.taken)
        function = self._program.functions[name]
        for parameter, array in zip(function.params, arrays, strict=True):
            inner._arrays[parameter] = array
            for extent, text in zip(parameter.ty.shape.values, array.shape, strict=True):
                if isinstance(extent, ir.Var) and extent not in inner.names:
                    inner.steps.append({"let": inner.name(extent), "value": text})
        returned = _returned(function)
        for place, home in (homes or {}).items():
            inner._homes.setdefault(returned[place][1], home)
        inner._run(function)
        return inner.steps, [inner.array(field) for field, _ in returned]

    def parameter_types(self, name: str) -> Sequence[Any]:
        """The types of what another function of the program is given."""
        return [parameter.ty for parameter in self._program.functions[name].params]

    def array(self, value: Any) -> PlannedArray:
        """Where a tensor lies."""
        return self._arrays[value]

    def _typed(self, name: str, kind: Any) -> PlannedArray:
        return PlannedArray(name, str(kind.dtype), self._extents(kind.shape))

    def _extents(self, shape: Any) -> tuple[Count, ...]:
        return tuple(self.number(extent) for extent in shape.values)

    def _run(self, function: relax.Function) -> None:
        """Add the steps of a function's bindings."""
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        for one in bindings:
            if isinstance(one.value, relax.TupleGetItem):
                of_tuple = self._taken_from.setdefault(one.value.tuple_value, {})
                of_tuple.setdefault(one.value.index, self._homes.get(one.var))
        for binding in bindings:
            self._bind(binding)

    def _bind(self, binding: Any) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, relax.MatchCast):
            self._match(binding)
        elif isinstance(value, ir.Var):
            self._alias(var, value)
        elif isinstance(value, relax.Tuple):
            self._tuples[var] = [self.array(field) for field in value.fields]
        elif isinstance(value, relax.TupleGetItem):
            self._arrays[var] = array = self._tuples[value.tuple_value][value.index]
            if var in self._homes:
                self.copy(array, self._homes[var])
                self._arrays[var] = self._homes[var]
        elif isinstance(value, ir.Call):
            self._add_call(var, value)
        else:
            raise BuildError(f"a launch plan has no {type(value).__name__}: {_line(value)}")

    def _alias(self, var: Any, value: Any) -> None:
        if value in self._arrays:
            self._arrays[var] = self._arrays[value]
        elif value in self._tuples:
            self._tuples[var] = self._tuples[value]
        else:
            self._shapes[var] = self._shapes[value]

    def _match(self, binding: Any) -> None:
        """The same memory; extents that have a name from here on, and those that must agree."""
        is_shape = binding.value in self._shapes
        came = self._shapes[binding.value] if is_shape else self.array(binding.value).shape
        kind = binding.ty if is_shape else binding.ty.shape
        for extent, value in zip(kind.values, came, strict=True):
            if isinstance(extent, ir.Var) and extent not in self.names:
                self.steps.append({"let": self.name(extent), "value": value})
            elif (expected := self.number(extent)) != value:
                message = f"a tensor within has another extent than {expected}"
                self.require(f"({expected}) == ({value})", message)
        self._alias(binding.var, binding.value)
        if not is_shape:
            array = self.array(binding.value)
            self._arrays[binding.var] = replace(array, shape=self._extents(kind))

    def _add_call(self, var: Any, call: Any) -> None:
        name = str(getattr(call.op, "name", ""))
        symbol = str(getattr(call.op, "global_symbol", ""))
        if isinstance(call.op, ir.GlobalVar) and call.op.name_hint in self._program.plans:
            self._launch(call.op.name_hint, call.args)
        elif name == "relax.vm.call_tir_dyn":
            callee, given = call.args
            *taken, shape = given.fields
            self._launch(callee.name_hint, [*taken, *shape.values])
        elif name == "relax.memory.alloc_storage":
            self._arrays[var] = self._new(var, "uint8", self._extents(call.args[0]))
        elif name == "relax.memory.alloc_tensor":
            storage, offset, shape, dtype = call.args[:4]
            if int(getattr(offset, "value", 0)):
                raise BuildError(f"a launch plan has no tensors inside others: {_line(call)}")
            memory = self.array(storage).name
            self._arrays[var] = PlannedArray(memory, str(dtype.value), self._extents(shape))
        elif name == "relax.builtin.alloc_tensor":
            shape, dtype = call.args[:2]
            self._arrays[var] = self._new(var, str(dtype.value), self._extents(shape))
        elif name in VIEWS:
            self._arrays[var] = self._viewed(call.args[0], var.ty)
        elif name == "relax.tensor_to_shape":
            self._shapes[var] = self._computed_extents(self.array(call.args[0]), var.ty.ndim)
        elif symbol == CONTROL:
            taken = self._taken_from.get(var, {})
            homes = {place: home for place, home in taken.items() if home is not None}
            given = [self.array(one) for one in call.args[1:]]
            control = ControlPlanner(self, list(var.ty.fields), homes, taken)
            self._tuples[var] = control.add(call.args[0].value, given)
        else:
            what = name or symbol or str(call.op)
            raise BuildError(f"{what} is done by the virtual machine of a CPU, not on a GPU")

    def _viewed(self, value: Any, kind: Any) -> PlannedArray:
        array = self.array(value)
        return replace(array, shape=self._extents(kind.shape)) if says_extents(kind) else array

    def _computed_extents(self, array: PlannedArray, count: int) -> list[Count]:
        extents = [self.number_of(array, place) for place in range(count)]
        for extent in extents:
            self.require(f"{extent} >= 0", "an extent that is computed is below 0")
        return extents

    def _new(self, var: Any, dtype: str, shape: tuple[Count, ...]) -> PlannedArray:
        """Memory of the plan's own, or where the tensor is to lie."""
        home = self._homes.get(var)
        if home is None:
            home = PlannedArray(self.name(var), dtype, shape)
            self.allocate(home)
        return PlannedArray(home.name, dtype, shape)

    def _launch(self, callee: str, given: Sequence[Any]) -> None:
        """The steps of a call, with this plan's names."""
        plan = self._program.plans[callee]
        named: dict[str, str] = {}
        values: dict[str, Count] = {}
        taken = iter([one for one in given if not isinstance(one.ty, relax.TensorType)])
        tensors = [one for one in given if isinstance(one.ty, relax.TensorType)]
        arrays = iter([(one, self.array(one)) for one in tensors])
        for parameter in plan["parameters"]:
            if "shape" not in parameter:
                values[parameter["name"]] = self.number(next(taken))
                continue
            tensor, array = next(arrays)
            named[parameter["name"]] = array.name
            for symbol, extent in zip(parameter["shape"], tensor.ty.shape.values, strict=True):
                if symbol in plan["symbols"]:
                    values.setdefault(symbol, self.number(extent))
        for name, value in values.items():
            named[name] = self.fresh(name)
            self.steps.append({"let": named[name], "value": value})
        self.steps += RenamedSteps(self, named).steps(plan["steps"])
        if callee in self._program.numbers:
            (tensor,) = tensors
            number = self._program.numbers[callee]
            self._arrays[tensor] = replace(self.array(tensor), number=number)


def _returned(function: relax.Function) -> list[tuple[Any, Any]]:
    """What a function returns, each beside the variable whose memory it is in."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    bound = {binding.var: binding.value for binding in bindings}
    returned = resolved(function.body.body, bound)
    fields = returned.fields if isinstance(returned, relax.Tuple) else [returned]
    return [(field, source(field, bound)) for field in fields]


def _is_told(kind: Any, known: set[Any]) -> bool:
    """Whether what a caller gives says all extents of a type."""
    if not says_extents(kind):
        return False
    used: list[ir.Var] = []
    for extent in kind.shape.values:
        tvm_ffi.structural_walk(extent, (ir.Var, used.append))
    return all(one in known for one in used)


def _parameter(array: PlannedArray) -> dict[str, Any]:
    return {"name": array.name, "dtype": array.dtype, "shape": list(array.shape)}


def _line(node: Any) -> str:
    return " ".join(str(node).split())[:200]
