"""``util.global``: constants of a module, arrays that come beside it, and state between calls.

A global that is mutable is a state of the program: a function takes it behind its arguments,
and returns behind its results what it has become.
"""

import re
from typing import Any

import numpy as np
from tvm import relax

from tvm_iree_ext.mlir.base.elements import element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import Constant, Splat, Tensor, Value
from tvm_iree_ext.mlir.dialects.constants import constant_value, values_extent
from tvm_iree_ext.mlir.importing.emitted_values import computed, read_back
from tvm_iree_ext.mlir.importing.import_state import ProgramImport, State
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.relax_types import tensor_type
from tvm_iree_ext.mlir.importing.scope import Scope, as_stored
from tvm_iree_ext.mlir.reading import form

_PARAMETER = re.compile(r'#(?:flow|stream)\.parameter\.named<(?:"[^"]*"::)?"([^"]*)">(?: : .*)?')
_INITIALIZER = "util.initializer"


def _global_load(scope: Scope, op: form.ParsedOperation) -> Value:
    name = str(op.attributes["global"])
    declared = scope.program.globals.get(name)
    if declared is None:
        raise Unsupported(f"loads @{name}, which is no global of this module")
    if _is_mutable(declared):
        tensor = scope.function.held.get(name) or _state(scope, name, declared)
        is_scalar = isinstance(op.results[0].type, form.ParsedScalarType)
        return read_back(in_memory(scope, tensor)) if is_scalar else tensor
    attribute = declared.attributes.get("initial_value")
    if attribute is None:
        raise Unsupported(f"loads @{name}, which has no initial value")
    cached = scope.program.constants.get(name)
    if cached is None:
        cached = _initial_value(scope.program, attribute, op.results[0].type)
        scope.program.constants[name] = cached
    return cached


def _initial_value(program: ProgramImport, attribute: Any, kind: form.Type) -> Value:
    """The value of a global: a constant of the IR, or an array that came beside it."""
    found = _PARAMETER.fullmatch(getattr(attribute, "text", ""))
    if found is None:
        return constant_value(attribute, kind)
    if not isinstance(kind, form.ParsedTensorType):
        raise Unsupported(f"a parameter of the type {kind}")
    array = program.given.get(found[1])
    if array is None:
        raise Unsupported(f"the parameter {found[1]!r} is not given; pass it as one of parameters")
    own = element(kind.dtype)
    if element(array.dtype.name).is_integer and own.is_integer:  # IR's have no sign
        array = array.view(kind.dtype) if array.itemsize * 8 == own.bits else array
    if array.shape != kind.shape or array.dtype.name != kind.dtype:
        came = form.ParsedTensorType(array.shape, array.dtype.name)
        raise Unsupported(f"the parameter {found[1]!r} is {came}; expected {kind}")
    return constant_value(form.Dense(kind, array), kind)


def _global_store(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    name = str(op.attributes["global"])
    declared = scope.program.globals.get(name)
    if declared is None or not _is_mutable(declared):
        raise Unsupported(f"stores @{name}, which is no mutable global of this module")
    _state(scope, name, declared)
    (value,) = op.operands
    is_scalar = isinstance(value.type, form.ParsedScalarType)
    held = computed(scope, scope.scalar(value)) if is_scalar else scope.any_tensor(value)
    scope.function.held[name] = held
    return []


def _is_mutable(declared: form.ParsedOperation) -> bool:
    attributes = declared.attributes
    return "is_mutable" in attributes and attributes["is_mutable"] is not False


def _state(scope: Scope, name: str, declared: form.ParsedOperation) -> Tensor:
    """A state as a function takes it."""
    function, program = scope.function, scope.program
    if function.states is None:
        raise Unsupported(f"uses @{name}, which is mutable, inside of a loop or a branch")
    state = program.states.get(name)
    if state is None:
        state = program.states[name] = _declared_state(program, name, declared)
    if name not in function.states:
        kind = tensor_type(tuple(state.initial.shape), str(state.initial.dtype))
        function.states[name] = relax.Var(f"state{len(function.states)}", kind)
    shape = tuple(int(extent) for extent in state.initial.shape)
    return Tensor(shape, state.element, (function.states[name],))


def _declared_state(program: ProgramImport, name: str, declared: form.ParsedOperation) -> State:
    if any(
        inner.name == "util.global.store" and inner.attributes.get("global") == name
        for initializer in program.initializers
        for inner in initializer.walk()
    ):
        raise Unsupported(f"uses @{name}, which an initializer computes")
    kind = declared.attributes.get("type")
    if isinstance(kind, form.ParsedScalarType):
        kind = form.ParsedTensorType((), kind.dtype)
    if not isinstance(kind, form.ParsedTensorType) or None in kind.shape:
        raise Unsupported(
            f"uses @{name}, a state of the type {kind}; numbers and tensors of known extents are"
            " supported"
        )
    own = element(kind.dtype)
    if own.is_complex:
        raise Unsupported(f"uses @{name}, a state of complex numbers")
    attribute = declared.attributes.get("initial_value")
    if attribute is None or (
        not kind.shape and not isinstance(attribute, form.Dense | form.Opaque)
    ):
        attribute = form.Dense(kind, np.asarray(attribute or 0, own.storage[0]))
    value = _initial_value(program, attribute, kind)
    shape = tuple(values_extent(extent) for extent in kind.shape)
    if isinstance(value, Splat):
        scalar: Any = value.scalar
        array = np.full(shape, scalar.value)
    else:
        assert isinstance(value, Constant)
        array = value.array
    found = _PARAMETER.fullmatch(getattr(attribute, "text", ""))
    return State(found[1] if found else name, own, as_stored(array, own))


GLOBALS = {
    "util.global.load": _global_load,
    "util.global.store": _global_store,
}
