"""The launch plan of a function of a program, of the plans of what it calls.

    x, constants ─> kernels of call 1 ─> memory ─> kernels of call 2 ─> ... ─> results

The function is one of Relax after memory was planned: it allocates, calls PrimFuncs in order and
hands views on.  Every call's steps stand in the plan in full, with names of their own.
"""

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import DataType, ir, relax, tirx

from tvm_iree_ext.base.errors import BuildError
from tvm_iree_ext.codegen.gpu.launch_plan.launch_plan import Plan
from tvm_iree_ext.codegen.gpu.launch_plan.plan_expressions import Names
from tvm_iree_ext.programs.base.relax_passes import VIEWS, source
from tvm_iree_ext.runtime.manifest import Parameter


def program_plan(
    function: relax.Function, plans: Mapping[str, Plan], constants: Sequence[Parameter]
) -> Plan:
    """The plan of a function, which takes the caller's tensors, then the results.

    A result that lies in one of the caller's tensors is no other.
    It has ``constants`` besides, which lie in the file of parameters:
    ``{"name": ..., "dtype": ..., "shape": [...], "offset": bytes}``.

    Args:
        function: after ``CallTIRRewrite`` and ``StaticPlanBlockMemory``.
        plans: of the PrimFuncs, by name.
        constants: those that the function takes behind the caller's tensors.

    Raises:
        BuildError: for what only the virtual machine of a CPU does, such as loops and branches
            whose conditions are computed.
    """
    return _ProgramPlanner(plans).plan(function, constants)


class _ProgramPlanner(Names):
    def __init__(self, plans: Mapping[str, Plan]) -> None:
        super().__init__()
        self.plans = plans
        self.arrays: dict[Any, str] = {}  # a Relax variable's memory
        self.tuples: dict[Any, Sequence[Any]] = {}
        self.results: dict[Any, str] = {}  # what is allocated for a result
        self.steps: list[dict[str, Any]] = []

    def plan(self, function: relax.Function, constants: Sequence[Parameter]) -> Plan:
        body = function.body
        given = len(function.params) - len(constants)
        for parameter in function.params:
            self.arrays[parameter] = self.name(parameter)
        symbols = []
        for parameter in function.params[:given]:
            for extent in parameter.ty.shape.values:
                if isinstance(extent, ir.Var) and extent not in self.names:
                    symbols.append(self.name(extent))
        parameters = [self.parameter(self.arrays[p], p.ty) for p in function.params[:given]]
        bindings = [binding for block in body.blocks for binding in block.bindings]
        bound = {binding.var: binding.value for binding in bindings}
        returned = body.body
        while isinstance(returned, ir.Var) and isinstance(
            bound.get(returned), ir.Var | relax.Tuple
        ):
            returned = bound[returned]
        fields = list(returned.fields) if isinstance(returned, relax.Tuple) else [returned]
        for place, field in enumerate(fields):
            made = source(field, bound)
            if made in self.arrays:
                continue
            name = self.fresh(f"out{place}")
            self.results[made] = name
            parameters.append(self.parameter(name, field.ty))
        for binding in bindings:
            self.bind(binding)
        return {
            "parameters": parameters,
            "symbols": symbols,
            "constants": [
                {**dataclasses.asdict(one), "name": self.arrays[p], "shape": list(one.shape)}
                for one, p in zip(constants, function.params[given:], strict=True)
            ],
            "steps": self.steps,
        }

    def parameter(self, name: str, kind: Any) -> dict[str, Any]:
        shape = [self.number(extent) for extent in kind.shape.values]
        return {"name": name, "dtype": str(kind.dtype), "shape": shape}

    def bind(self, binding: Any) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, relax.MatchCast):
            self.match(binding)
        elif isinstance(value, ir.Var):
            self.alias(var, value)
        elif isinstance(value, relax.Tuple):
            self.tuples[var] = list(value.fields)
        elif isinstance(value, relax.TupleGetItem):
            self.alias(var, self.tuples[value.tuple_value][value.index])
        elif isinstance(value, ir.Call):
            self.call(var, value)
        else:
            raise BuildError(f"a launch plan has no {type(value).__name__}: {_line(value)}")

    def alias(self, var: Any, value: Any) -> None:
        if value in self.tuples:
            self.tuples[var] = self.tuples[value]
        else:
            self.arrays[var] = self.arrays[value]

    def match(self, binding: Any) -> None:
        """The same memory; extents that have a name from here on."""
        self.alias(binding.var, binding.value)
        before = binding.value.ty.shape.values
        for extent, known in zip(binding.pattern.shape.values, before, strict=True):
            if isinstance(extent, ir.Var) and extent not in self.names:
                value = self.number(known)
                self.steps.append({"let": self.name(extent), "value": value})

    def call(self, var: Any, call: Any) -> None:
        name = str(getattr(call.op, "name", ""))
        if isinstance(call.op, ir.GlobalVar) and call.op.name_hint in self.plans:
            self.launch(call.op.name_hint, call.args)
        elif name == "relax.vm.call_tir_dyn":
            callee, given = call.args
            *taken, shape = given.fields
            self.launch(callee.name_hint, [*taken, *shape.values])
        elif name == "relax.memory.alloc_storage":
            self.allocate(var, self.size(call.args[0].values, "uint8"))
        elif name == "relax.memory.alloc_tensor":
            storage, offset = call.args[:2]
            if int(getattr(offset, "value", 0)):
                raise BuildError(f"a launch plan has no tensors inside others: {_line(call)}")
            self.arrays[var] = self.arrays[storage]
        elif name == "relax.builtin.alloc_tensor":
            dtype = str(call.args[1].value)
            self.allocate(var, self.size(call.args[0].values, dtype))
        elif name in VIEWS:
            self.alias(var, call.args[0])
        else:
            what = name or str(getattr(call.op, "global_symbol", call.op))
            raise BuildError(
                f"{what} is done by the virtual machine of a CPU; programs for GPUs have no loops"
                " and branches whose conditions are computed"
            )

    def size(self, shape: Sequence[Any], dtype: str) -> Any:
        size: Any = tirx.const(-(-DataType(dtype).bits // 8), "int64")
        for extent in shape:
            size = size * (extent if extent.ty.dtype == "int64" else tirx.Cast("int64", extent))
        return self.number(size)

    def allocate(self, var: Any, size: Any) -> None:
        """Memory of the plan's own, unless it is a result's."""
        if var in self.results:
            self.arrays[var] = self.results[var]
            return
        self.arrays[var] = self.name(var)
        self.steps.append({"allocate": self.arrays[var], "bytes": size})

    def launch(self, callee: str, given: Sequence[Any]) -> None:
        """The steps of a call, with this plan's names."""
        plan = self.plans[callee]
        named: dict[str, str] = {}
        values: dict[str, int | str] = {}
        taken = iter([one for one in given if not isinstance(one.ty, relax.TensorType)])
        arrays = iter([one for one in given if isinstance(one.ty, relax.TensorType)])
        for parameter in plan["parameters"]:
            if "shape" not in parameter:
                values[parameter["name"]] = self.number(next(taken))
                continue
            tensor = next(arrays)
            named[parameter["name"]] = self.arrays[tensor]
            for symbol, extent in zip(parameter["shape"], tensor.ty.shape.values, strict=True):
                if symbol in plan["symbols"]:
                    values.setdefault(symbol, self.number(extent))
        for name, value in values.items():
            named[name] = self.fresh(name)
            self.steps.append({"let": named[name], "value": value})
        self.steps += _Renamed(self, named).steps(plan["steps"])


class _Renamed(ast.NodeTransformer):
    """The steps of a plan inside another, whose names are new there."""

    def __init__(self, planner: Names, named: dict[str, str]) -> None:
        self.planner, self.named = planner, named

    def steps(self, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [self.step(step) for step in steps]

    def step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Texts first, then what the step names."""
        made: dict[str, Any] = {}
        for key, value in step.items():
            if key in ("launch", "dtype", "let", "allocate", "for", "tensor_map"):
                made[key] = value
            elif key == "array":
                made[key] = self.named[value]
            elif key == "arguments":
                made[key] = [self.argument(one) for one in value]
            elif key not in ("then", "else") and not (key == "steps" and "for" in step):
                made[key] = (
                    [self.number(one) for one in value]
                    if isinstance(value, list)
                    else self.number(value)
                )
        for key in ("let", "allocate", "for", "tensor_map"):
            if key in step:
                made[key] = self.named[step[key]] = self.planner.fresh(step[key])
        for key in ("then", "else", "steps"):
            if key in step and key not in made:
                made[key] = self.steps(step[key])
        return made

    def argument(self, one: Mapping[str, Any]) -> dict[str, Any]:
        if "value" in one:
            return {**one, "value": self.number(one["value"])}
        (kind,) = one
        return {kind: self.named[one[kind]]}

    def number(self, value: int | str) -> int | str:
        if not isinstance(value, str):
            return value
        return ast.unparse(self.visit(ast.parse(value, mode="eval")))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.named.get(node.id, node.id))  # min, max, int, float stay


def _line(node: Any) -> str:
    return " ".join(str(node).split())[:200]
