"""Loops and branches of a program as functions of its library, which call the kernels of a step.

What the virtual machine does for a step, allocations and calls by name, takes some ten
microseconds; a call from compiled code a small part of one.  All memory of a loop is taken once, in
front of it.  A loop over extents that only a call knows, over bfloat16 or narrower floats, or with
anything but kernels, views, loops and branches inside, stays with
:mod:`.runtime.program_control`, which says what a loop means.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as I

from tvm_iree_ext.base.dtypes import item_bytes
from tvm_iree_ext.mlir.dialects.scf_dialect import CONTROL
from tvm_iree_ext.mlir.importing.places import joined
from tvm_iree_ext.programs.base.relax_passes import relax_functions, with_bindings
from tvm_iree_ext.tir.tir_expressions import i64, known

COMPILED_LOOP = "tvm_iree_ext.compiled_loop"
"""The attribute of such a function, which no rule schedules."""

_ALIGNMENT = 64
_MOST_BYTES = 1 << 28  # of a loop's own memory, no two parts of which are shared

# TVM's passes make words of these, in the description of an argument, too.
_WORDS = ("bfloat16", "float8", "float4")

_Step = Callable[[], None]


class _Refused(Exception):
    """Raised for what is not compiled."""


@dataclass(frozen=True)
class _Memory:
    """A tensor of known shape, in bytes that other tensors may be views of."""

    data: Any  # a pointer's expression
    base: Any  # the buffer whose memory it is
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """The size."""
        return prod(self.shape) * item_bytes(self.dtype)

    def array(self) -> Any:
        """The tensor as an argument of a kernel."""
        shape = tirx.call_intrin(
            "handle", "tirx.tvm_stack_make_shape", *(i64(extent) for extent in self.shape)
        )
        no_strides = tirx.reinterpret("handle", tirx.const(0, "uint64"))
        return tirx.call_intrin(
            "handle",
            "tirx.tvm_stack_make_array",
            self.data,
            shape,
            no_strides,
            tirx.const(len(self.shape), "int32"),
            tirx.const(0, self.dtype),
            i64(0),
        )

    def number(self) -> Any:
        """The integer, or the bool, of a tensor of rank 0."""
        dtype = "uint8" if self.dtype == "bool" else self.dtype
        typed = I.decl_buffer([i64(1)], dtype, data=self.data, align=item_bytes(dtype))
        return tirx.Cast("int64", typed[i64(0)])


def compile_loops(mod: ir.IRModule) -> ir.IRModule:
    """The module with its loops and branches as functions, where they can be compiled."""
    functions = {var.name_hint: one for var, one in relax_functions(mod).items()}
    builder = relax.BlockBuilder(mod)
    for var, function in relax_functions(mod).items():
        builder.update_func(
            var, with_bindings(function, lambda one: _called(one, functions, builder))
        )
    return _without_unused(builder.get())


def _called(
    binding: Any, functions: Mapping[str, relax.Function], builder: relax.BlockBuilder
) -> list[Any]:
    """The binding of a loop as one of a call; any other as it is."""
    what = _described(binding.value)
    if what is None:
        return [binding]
    arguments = list(binding.value.args[2:])
    made = _LoopFunction(functions)
    try:
        function = made.build(what, arguments, binding.var.ty.fields)
    except _Refused:
        return [binding]
    var = builder.add_func(function, f"loop_{what['kind']}")
    types = list(binding.var.ty.fields)
    call = joined(relax.call_tir(var, [*arguments, *made.constants], types), binding.value)
    if len(types) > 1:
        return [relax.VarBinding(binding.var, call)]
    single = relax.DataflowVar(binding.var.name, types[0])
    together = relax.Tuple([single])
    return [relax.VarBinding(single, call), relax.VarBinding(binding.var, together)]


def _described(value: Any) -> dict[str, Any] | None:
    """What a call of the run time is told of a loop or a branch; None for another value."""
    if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_pure_packed":
        return None
    if getattr(value.args[0], "global_symbol", "") != CONTROL:
        return None
    described: dict[str, Any] = json.loads(value.args[1].value)
    return described


def _without_unused(mod: ir.IRModule) -> ir.IRModule:
    """The module without the bodies of loops that are compiled everywhere."""
    functions = {var.name_hint: one for var, one in relax_functions(mod).items()}
    pending = [name for name, one in functions.items() if "global_symbol" in (one.attrs or {})]
    reached: set[str] = set()

    def follow(call: ir.Call) -> None:
        what = _described(call)
        pending.extend(region["name"] for region in _regions(what or {}))

    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            tvm_ffi.structural_walk(functions[name].body, (ir.Call, follow))
    kept = {
        var: one
        for var, one in mod.functions.items()
        if not isinstance(one, relax.Function) or var.name_hint in reached
    }
    return ir.IRModule(kept, attrs=mod.attrs)


def _regions(what: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The regions of a loop or a branch."""
    return [
        *(what[key] for key in ("body", "before", "after") if key in what),
        *what.get("regions", ()),
    ]


class _LoopFunction:
    """A loop or a branch as a function: of its tensors, the constants of its steps, its results.

    What is done is planned as a list of steps, while all memory is taken; then the steps are
    emitted, those of a loop inside of it.
    """

    def __init__(self, functions: Mapping[str, relax.Function]) -> None:
        self._functions = functions
        self.constants: list[Any] = []
        self._of_constants: list[_Memory] = []
        self._bytes = 0

    def build(
        self, what: Mapping[str, Any], arguments: Sequence[Any], results: Sequence[Any]
    ) -> tirx.PrimFunc:
        """The function.

        Raises:
            _Refused: for what is not compiled.
        """
        self._collect(what)
        with IRBuilder() as builder, I.prim_func(s_tir=True):
            I.func_attr({"tirx.noalias": True, COMPILED_LOOP: True})
            given = [self._parameter(f"a{i}", one.ty) for i, one in enumerate(arguments)]
            self._of_constants = [
                self._parameter(f"c{i}", one.ty) for i, one in enumerate(self.constants)
            ]
            outputs = [self._parameter(f"r{i}", one) for i, one in enumerate(results)]
            steps: list[_Step] = []
            made = self._control(what, given, steps)
            for source, output in zip(made, outputs, strict=True):
                steps.append(_copying(source, output))
            for step in steps:
                step()
        function: tirx.PrimFunc = builder.get()
        return function

    def _collect(self, what: Mapping[str, Any]) -> None:
        """Note the constants of the steps, and refuse what cannot be compiled before memory is."""
        for region in _regions(what):
            function = self._functions[region["name"]]
            for one in (binding for block in function.body.blocks for binding in block.bindings):
                inner = _described(one.value)
                if inner is not None:
                    self._collect(inner)
                elif isinstance(one.value, ir.Call):
                    tvm_ffi.structural_walk(one.value, (ir.GenericConst, self.constants.append))

    def _parameter(self, name: str, kind: Any) -> _Memory:
        shape, dtype = _shape_of(kind)
        buffer = I.arg(name, I.buffer([i64(e) for e in shape], dtype, align=item_bytes(dtype)))
        return _Memory(buffer.data, buffer, shape, dtype)

    def _new(self, kind: Any) -> _Memory:
        shape, dtype = _shape_of(kind)
        size = max(prod(shape) * item_bytes(dtype), 1)
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise _Refused
        buffer = I.alloc_buffer([i64(size)], "uint8", scope="global", align=_ALIGNMENT)
        return _Memory(buffer.data, buffer, shape, dtype)

    def _control(
        self, what: Mapping[str, Any], given: Sequence[_Memory], steps: list[_Step]
    ) -> list[_Memory]:
        """Plan a loop or a branch; its results."""
        kinds = {"for": self._for, "while": self._while, "branch": self._branch}
        return kinds[what["kind"]](what, given, steps)

    def _region(
        self,
        region: Mapping[str, Any],
        arguments: Sequence[_Memory],
        captured: Sequence[_Memory],
        steps: list[_Step],
    ) -> list[_Memory]:
        """Plan a region; what it yields."""
        computed = self._function(region["name"], [*arguments, *captured], steps)
        return [arguments[port] if port >= 0 else computed[-1 - port] for port in region["ports"]]

    def _for(
        self, what: Mapping[str, Any], given: Sequence[_Memory], steps: list[_Step]
    ) -> list[_Memory]:
        bounds, rest = given[:3], given[3:]
        carried = self._owned(rest[: what["carried"]], steps)
        number = self._new(relax.TensorType((), bounds[0].dtype))
        inner: list[_Step] = []
        yielded = self._region(what["body"], [number, *carried], rest[what["carried"] :], inner)
        self._assign(yielded, carried, inner)

        def loop() -> None:
            start, stop, step = (one.number() for one in bounds)
            message = "the step of a loop is below 1; expected 1 or more"
            with I.Assert(step > 0, message, error_kind="CallError"):
                pass
            count = tirx.floordiv(stop - start + step - 1, step)
            with I.serial(tirx.max(count, i64(0))) as turn:
                typed = I.decl_buffer([i64(1)], number.dtype, data=number.data, align=8)
                I.buffer_store(typed, tirx.Cast(number.dtype, start + turn * step), [i64(0)])
                for one in inner:
                    one()

        steps.append(loop)
        return carried

    def _while(
        self, what: Mapping[str, Any], given: Sequence[_Memory], steps: list[_Step]
    ) -> list[_Memory]:
        carried = self._owned(given[: what["carried"]], steps)
        captured = given[what["carried"] :]
        of_before = what["before"]["captured"]
        going = self._new(relax.TensorType((), "int64"))
        before: list[_Step] = []
        after: list[_Step] = []
        condition, *passed = self._region(what["before"], carried, captured[:of_before], before)
        yielded = self._region(what["after"], passed, captured[of_before:], after)
        self._assign(yielded, carried, after)

        def loop() -> None:
            flag = I.decl_buffer([i64(1)], "int64", data=going.data, align=8)
            I.buffer_store(flag, i64(1), [i64(0)])
            with I.While(flag[i64(0)] != i64(0)):
                for one in before:
                    one()
                I.buffer_store(flag, condition.number(), [i64(0)])
                with I.If(flag[i64(0)] != i64(0)), I.Then():
                    for one in after:
                        one()

        steps.append(loop)
        return passed

    def _branch(
        self, what: Mapping[str, Any], given: Sequence[_Memory], steps: list[_Step]
    ) -> list[_Memory]:
        selector, *captured = given
        results: list[_Memory] = []
        ways: list[list[_Step]] = []
        for region in what["regions"]:
            own, captured = captured[: region["captured"]], captured[region["captured"] :]
            way: list[_Step] = []
            yielded = self._region(region, [], own, way)
            results = results or [self._new(relax.TensorType(m.shape, m.dtype)) for m in yielded]
            if [(m.shape, m.dtype) for m in yielded] != [(m.shape, m.dtype) for m in results]:
                raise _Refused
            way += [_copying(a, b) for a, b in zip(yielded, results, strict=True)]
            ways.append(way)

        def choose(cases: Sequence[int], left: Sequence[Sequence[_Step]]) -> None:
            if not cases:
                for one in left[-1]:
                    one()
                return
            with I.If(selector.number() == i64(cases[0])):
                with I.Then():
                    for one in left[0]:
                        one()
                with I.Else():
                    choose(cases[1:], left[1:])

        steps.append(lambda: choose(what["cases"], ways))
        return results

    def _owned(self, given: Sequence[_Memory], steps: list[_Step]) -> list[_Memory]:
        """Memory of the loop's own for what is carried, which begins as what is given."""
        carried = [self._new(relax.TensorType(one.shape, one.dtype)) for one in given]
        steps += [_copying(a, b) for a, b in zip(given, carried, strict=True)]
        return carried

    def _assign(
        self, yielded: Sequence[_Memory], carried: Sequence[_Memory], steps: list[_Step]
    ) -> None:
        """Plan that what is carried becomes what was yielded, all of it before any is lost."""
        homes = [one.base for one in carried]
        moved: list[tuple[_Memory, _Memory]] = []
        for source, target in zip(yielded, carried, strict=True):
            if (source.shape, source.dtype) != (target.shape, target.dtype):
                raise _Refused
            if source.base.same_as(target.base):
                continue
            if any(source.base.same_as(home) for home in homes):
                between = self._new(relax.TensorType(source.shape, source.dtype))
                steps.append(_copying(source, between))
                source = between
            moved.append((source, target))
        steps += [_copying(source, target) for source, target in moved]

    def _function(
        self, name: str, arguments: Sequence[_Memory], steps: list[_Step]
    ) -> list[_Memory]:
        """Plan the function of a region; its results."""
        function = self._functions[name]
        if len(function.params) != len(arguments):
            raise _Refused
        values: dict[ir.Var, Any] = dict(zip(function.params, arguments, strict=True))
        for block in function.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, relax.VarBinding):
                    raise _Refused
                values[binding.var] = self._value(binding, values, steps)
        result = self._looked_up(function.body.body, values)
        return result if isinstance(result, list) else [result]

    def _looked_up(self, value: Any, values: Mapping[ir.Var, Any]) -> Any:
        if isinstance(value, relax.Tuple):
            return [self._looked_up(one, values) for one in value.fields]
        if isinstance(value, relax.TupleGetItem):
            return self._looked_up(value.tuple_value, values)[value.index]
        if isinstance(value, ir.GenericConst):
            place = next(i for i, one in enumerate(self.constants) if one.same_as(value))
            return self._of_constants[place]
        if isinstance(value, ir.Var) and value in values:
            return values[value]
        raise _Refused

    def _value(self, binding: Any, values: Mapping[ir.Var, Any], steps: list[_Step]) -> Any:
        """Plan what is bound to a variable."""
        value = binding.value
        if not isinstance(value, ir.Call):
            return self._looked_up(value, values)
        inner = _described(value)
        if inner is not None:
            given = [self._looked_up(one, values) for one in value.args[2:]]
            return self._control(inner, given, steps)
        name = getattr(value.op, "name", "")
        if name == "relax.reshape":
            source = self._looked_up(value.args[0], values)
            shape, dtype = _shape_of(binding.var.ty)
            return _Memory(source.data, source.base, shape, dtype)
        if name not in ("relax.call_tir", "relax.call_tir_inplace") or len(value.args) != 2:
            raise _Refused
        return self._kernel(value, binding.var.ty, values, steps)

    def _kernel(
        self, call: ir.Call, kind: Any, values: Mapping[ir.Var, Any], steps: list[_Step]
    ) -> Any:
        """Plan a call of a kernel; its results."""
        given = [self._looked_up(one, values) for one in call.args[1].fields]
        several = isinstance(kind, relax.TupleType)
        types = list(kind.fields) if several else [kind]
        places = [-1] * len(types)
        if call.op.name.endswith("inplace"):
            places = [int(place) for place in call.attrs.inplace_indices]
        results = [
            given[place] if place >= 0 else self._new(one)
            for place, one in zip(places, types, strict=True)
        ]
        fresh = [one for one, place in zip(results, places, strict=True) if place < 0]
        symbol = call.args[0].name_hint
        memories = [*given, *fresh]
        steps.append(
            lambda: I.evaluate(tirx.call_cpacked(symbol, *(one.array() for one in memories)))
        )
        return results if several else results[0]


def _copying(source: _Memory, target: _Memory) -> _Step:
    """A step that copies a tensor into memory of its size."""

    def step() -> None:
        I.evaluate(
            tirx.call_extern("handle", "memcpy", target.data, source.data, i64(source.bytes))
        )

    return step


def _shape_of(kind: Any) -> tuple[tuple[int, ...], str]:
    """The extents and element type of a tensor, all of which are known."""
    extents = [known(one) for one in getattr(getattr(kind, "shape", None), "values", [None])]
    dtype = str(getattr(kind, "dtype", ""))
    if None in extents or not dtype or dtype.startswith(_WORDS):
        raise _Refused
    return tuple(e for e in extents if e is not None), dtype
