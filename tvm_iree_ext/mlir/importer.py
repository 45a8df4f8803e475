"""form.Module -> :class:`~tvm_iree_ext.mlir.importing.imported.Imported`."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from tvm_iree_ext.base.errors import ExtError, MlirError
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.mlir.base.elements import Element
from tvm_iree_ext.mlir.base.hints import nearest
from tvm_iree_ext.mlir.base.import_errors import UNFORESEEN, Unsupported
from tvm_iree_ext.mlir.base.ir_values import Failed, Other, Tensor, Value, extent_text
from tvm_iree_ext.mlir.dialects.bitcasts import bitcast
from tvm_iree_ext.mlir.dialects.cf_assert import asserted
from tvm_iree_ext.mlir.dialects.func_dialect import (
    FUNCTIONS,
    LEAST_STEPS,
    STEPS_PER_OPERATION,
    VIEW,
    FunctionArgument,
    arguments_of,
    entry_name,
    has_body,
    is_public,
    materialised,
)
from tvm_iree_ext.mlir.dialects.memory_operands import on_memory, takes_memory
from tvm_iree_ext.mlir.dialects.memref_dialect import GLOBAL
from tvm_iree_ext.mlir.dialects.simt_values import SimtValues
from tvm_iree_ext.mlir.dialects.tensor_extents import scalar
from tvm_iree_ext.mlir.dialects.unused_results import drop_unused_results
from tvm_iree_ext.mlir.importing.boundary import Boundary, seen
from tvm_iree_ext.mlir.importing.import_state import FunctionImport, ProgramImport
from tvm_iree_ext.mlir.importing.imported import Check, EntryPoint, Imported
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.scope import Dependent, Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.scalar_regions import SCALAR_OPS
from tvm_iree_ext.mlir.table import HANDLERS, ON_MEMREFS, elementwise, supported


def import_module(
    module: form.Module,
    *,
    only: Collection[str] | None = None,
    failures: dict[str, str] | None = None,
    boundaries: Mapping[str, Boundary] | None = None,
    parameters: Mapping[str, np.ndarray] | None = None,
    scans_in_order: bool = True,
) -> Imported:
    """The Relax module, ops, constants and entry points of a module of IR.

    Args:
        module: what the reader gives.
        only: names of the entry points to import; by default all public functions.
        failures: where given, takes the reason for each function that cannot be imported, and
            such a function is left out.
        boundaries: what callers of entry points give and get, by name; by default as the IR says.
        parameters: arrays of the globals that are ``#flow.parameter.named``, by name.
        scans_in_order: whether scans go from first to last, as the dialect says; what a framework
            calls a running sum may be bracketed otherwise, which is more exact and faster.

    Raises:
        MlirError: for what is not supported, all of it in one message, and for a module without
            an entry point.
    """
    program = ProgramImport(run, run_block, parameters or {}, scans_in_order)
    count = sum(1 for top in module.operations for _ in top.walk())
    program.most_steps = LEAST_STEPS + STEPS_PER_OPERATION * count
    for op in module.operations:
        name = str(op.attributes.get("sym_name", ""))
        if op.name in FUNCTIONS:
            program.functions[name] = op
            drop_unused_results(op)
        elif op.name in ("util.global", GLOBAL):
            program.globals[name] = op
        elif op.name == "util.initializer":
            program.initializers.append(op)
        else:
            program.report(op, "is not supported at the top of a module")
    points: list[EntryPoint] = []
    common = list(program.problems)
    for name, op in _entries(program, module.name, only).items():
        before, point = len(program.problems), None
        if not name.isprintable():
            program.report(op, f"a function called {name!r}")
            continue
        try:
            point = _function(program, name, op, (boundaries or {}).get(name))
        except Unsupported as reason:
            program.report(op, str(reason))
        except Exception as reason:
            _unforeseen(program, op, reason)
        if failures is not None and len(program.problems) > before:
            failures[name] = "; ".join([*common, *program.problems[before:]])
            del program.problems[before:]
        elif point is not None:
            points.append(point)
    if program.problems and failures is None:
        raise MlirError("\n".join(dict.fromkeys(program.problems)))
    return Imported(
        module.name,
        program.finished([point.name for point in points]),
        tuple(points),
        program.ops,
        program.parameters,
        tuple(sorted(program.helpers)),
        tuple(program.fallbacks),
        {state.name: state.initial for state in program.states.values()},
    )


def _entries(
    program: ProgramImport, module: str, only: Collection[str] | None
) -> dict[str, form.ParsedOperation]:
    """The public functions, or ``only`` those of these names; MlirError where there are none."""
    entries: dict[str, form.ParsedOperation] = {}
    for op in program.functions.values():
        public = entry_name(op, program.functions)
        if is_public(op) and has_body(op) and public and (only is None or public in only):
            entries[public] = op
    missing = sorted(set(only or ()) - set(entries))
    if missing or not entries:
        known = ", ".join(map(str, program.functions)) or "none"
        what = f"no public function {', '.join(missing)}" if missing else "no public function"
        raise MlirError(f"{module or 'the module'}: {what}; there are: {known}")
    return entries


def _function(
    program: ProgramImport, name: str, op: form.ParsedOperation, boundary: Boundary | None
) -> EntryPoint | None:
    """Emit a Relax function; None where something in it is not supported."""
    function = FunctionImport(program, program.symbol(name), program.builder)
    function.simt = SimtValues(op)
    scope = Scope(function, 0, (str(op.attributes["sym_name"]),))
    before = len(program.problems)
    try:
        _check_blocks(op)
        arguments = arguments_of(scope, op, boundary)
    except Unsupported as reason:
        program.report(op, str(reason))
        return None
    builder = program.builder
    parameters = [part for argument in arguments for part in argument.parts]
    with builder.function(function.name):
        with builder.dataflow():
            results: list[Tensor] = []
            homes: dict[int, str] = {}
            checks: list[Check] = []
            stored: list[Tensor] = []
            try:
                for argument in arguments:
                    argument.define(scope)
                results = asserted(scope, _results(scope, op, boundary))
                homes = _homes(scope, op, arguments, results)
                for argument in arguments:
                    if argument.buffer is not None and argument.buffer.is_written:
                        homes[len(results)] = argument.name
                        results.append(in_memory(scope, argument.buffer.held))
                for expected in function.checks:
                    checks.append(expected.check(len(results)))
                    results += expected.tensors
                stored = [in_memory(scope, value) for value in function.held.values()]
            except Dependent:
                pass
            except Unsupported as reason:
                program.report(op, str(reason))
            parts = [
                builder.emit_output(part) for tensor in (*results, *stored) for part in tensor.parts
            ]
        output = parts[0] if len(parts) == 1 else relax.Tuple(parts)
        parameters += (function.states or {}).values()
        builder.emit_func_output(output, params=[*parameters, *function.parameters.values()])
    if len(program.problems) > before:
        program.dropped.add(name)
        return None
    program.inputs[name] = len(parameters)
    program.settled[name] = function.settled
    program.helpers |= function.helpers
    states, stores = (
        tuple(program.states[one].name for one in names)
        for names in (function.states or {}, function.held)
    )
    signature = _signature(function, arguments, results, homes)
    return EntryPoint(name, signature, tuple(checks), states, stores)


_IN_PLACE = ("iree.abi.output", "tf.aliasing_output")  # of an argument: the number of a result


def _homes(
    scope: Scope,
    op: form.ParsedOperation,
    arguments: list[FunctionArgument],
    results: list[Tensor],
) -> dict[int, str]:
    """The arguments in whose place results are, by the results' numbers."""
    attributes = op.attributes.get("arg_attrs") or ()
    found: dict[int, str] = {}
    for value, own in zip(op.block().arguments, attributes, strict=False):
        numbers = [int(own[name]) for name in _IN_PLACE if isinstance(own, dict) and name in own]
        home = next((one for one in arguments if one.value is value), None)
        for number in numbers:
            if home is None or home.element is None or number in found:
                raise Unsupported(f"result {number} in place of an argument")
            if not 0 <= number < len(results) or not _is_alike(scope, home, results[number]):
                raise Unsupported(f"result {number} in place of {home.name}, of another type")
            if not home.element.is_complex:  # which is passed as two others
                found[number] = home.name
    return found


def _is_alike(scope: Scope, argument: FunctionArgument, result: Tensor) -> bool:
    shapes = argument.shape, result.shape
    return (
        argument.element == result.element
        and len(shapes[0]) == len(shapes[1])
        and all(scope.same(a, b) for a, b in zip(*shapes, strict=True))
    )


def _results(scope: Scope, op: form.ParsedOperation, boundary: Boundary | None) -> list[Tensor]:
    """What a caller gets: all that is a tensor."""
    values = [materialised(scope, value) for value in run(scope, op) if not _is_other(value)]
    if boundary is None:
        return values
    if len(values) != len(boundary.results):
        raise Unsupported(f"returns {len(values)} tensors; expected {len(boundary.results)}")
    return [
        bitcast(scope, value, seen(value.element, name, f"result {place}"))
        for place, (value, name) in enumerate(zip(values, boundary.results, strict=True))
    ]


def _unforeseen(program: ProgramImport, op: form.ParsedOperation, reason: Exception) -> None:
    """Report an error of another kind: TVM has many, and what it is given came from the file."""
    what = str(reason).strip().partition("\n")[0]
    program.report(op, f"{UNFORESEEN}: {type(reason).__name__}: {what}")


def _is_other(value: Value) -> bool:
    return isinstance(value, Other) and value.of is None and value.kind != VIEW


def run(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """What the body of a function returns; unsupported operations are reported and passed over."""
    _check_blocks(op)
    return run_block(scope, op.block())


def _check_blocks(op: form.ParsedOperation) -> None:
    if len(op.regions[0]) != 1:
        raise Unsupported("branches between blocks; scf.if, scf.for and scf.while are supported")


def run_block(scope: Scope, block: form.ParsedBlock) -> list[Value]:
    """What a block's terminator takes."""
    *operations, last = block.operations
    for inner in operations:
        scope.function.steps += 1
        if scope.function.steps > scope.program.most_steps:
            most = scope.program.most_steps
            raise Unsupported(f"more than {most} operations, those of calls included")
        results = _performed_at(scope, inner)
        for value, found in zip(inner.results, results, strict=True):
            scope.define(value, found)
    return [scope.value(value) for value in last.operands]


def _performed_at(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """The results of an operation, while it is the one that calls of kernels come from."""
    around, scope.program.operation = scope.program.operation, op
    try:
        return perform(scope, op)
    finally:
        scope.program.operation = around


def perform(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """The results of an operation; what is not supported is reported, and gives Failed."""
    try:
        found = _perform(scope, op)
    except Dependent:
        return [Failed() for _ in op.results]
    except Unsupported as reason:
        scope.program.report(op, str(reason))
        return [Failed() for _ in op.results]
    except ExtError as reason:
        scope.program.report(op, str(reason))
        return [Failed() for _ in op.results]
    except Exception as reason:
        _unforeseen(scope.program, op, reason)
        return [Failed() for _ in op.results]
    return found if isinstance(found, list) else [found]


def _perform(scope: Scope, op: form.ParsedOperation) -> Any:
    is_known = op.name in HANDLERS or op.name in SCALAR_OPS
    if is_known and op.name not in ON_MEMREFS and takes_memory(op):
        return on_memory(scope, op, _perform_on_tensors)
    return _perform_on_tensors(scope, op)


def _perform_on_tensors(scope: Scope, op: form.ParsedOperation) -> Any:
    handler = HANDLERS.get(op.name)
    if handler is not None:
        return handler(scope, op)
    if op.name in SCALAR_OPS:
        for value in op.operands:
            scope.value(value)
        if all(isinstance(value.type, form.ParsedScalarType) for value in op.results):
            return scalar(scope, op)
        return elementwise(scope, op)
    raise Unsupported(f"is not supported{nearest(op.name, supported())}")


def _signature(
    function: FunctionImport,
    arguments: list[FunctionArgument],
    results: list[Tensor],
    homes: Mapping[int, str],
) -> Signature:
    names: dict[str, str] = {}  # of extents that no argument tells

    def text(one: Any) -> int | str:
        one = function.in_terms(one)
        if isinstance(one, int) or function.is_said(one):
            return extent_text(one)
        return names.setdefault(str(one), f"extent{len(names)}")

    def shape(of: FunctionArgument | Tensor) -> tuple[int | str, ...]:
        return tuple(map(text, of.shape))

    operands = [
        Operand(one.name, (), "bool", "unused")
        if one.element is None
        else Operand(
            one.name, shape(one), _dtype(one.element), strides=tuple(map(text, one.strides))
        )
        for one in arguments
    ]
    taken = {one.name: one for one in operands}
    for number, tensor in enumerate(results):
        name, home = f"result{number}", taken.get(homes.get(number, ""))
        if home is None:
            operands.append(Operand(name, shape(tensor), _dtype(tensor.element), "result"))
        else:
            operands.append(replace(home, name=name, role="result", in_place_of=home.name))
    return Signature(tuple(operands))


def _dtype(kind: Element) -> str:
    """The element type of an operand: where NumPy has none, that of the bytes that hold it."""
    return kind.name if kind.is_complex else kind.storage[0]
