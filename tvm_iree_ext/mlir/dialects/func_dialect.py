"""Functions: their arguments, calls of others, globals, IREE's call ABI, which is identity.

A call is imported in its place, as often as it stands; a function that calls itself is refused.
"""

from dataclasses import dataclass
from typing import Any

from tvm import relax

from tvm_iree_ext.mlir.base.elements import Element, element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    Buffer,
    HeldByLanes,
    Memref,
    Number,
    Other,
    Shape,
    Symbol,
    Tensor,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects.bitcasts import bitcast
from tvm_iree_ext.mlir.dialects.constants import constant
from tvm_iree_ext.mlir.dialects.declared_ops import declared_op
from tvm_iree_ext.mlir.dialects.memory_parts import StridedPart, as_number
from tvm_iree_ext.mlir.dialects.simt_values import argument_shape, distributed, gathered
from tvm_iree_ext.mlir.importing.boundary import Boundary, Given, seen
from tvm_iree_ext.mlir.importing.emitted_values import as_shape, computed, read_back
from tvm_iree_ext.mlir.importing.import_state import ProgramImport
from tvm_iree_ext.mlir.importing.memory import part_of, read
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.relax_types import tensor_type
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of

FUNCTIONS = ("func.func", "util.func")
_ASYNC = "$async"
VIEW = "buffer view"
_TAKEN = (
    "functions take ranked tensors, ranked memrefs and numbers, of integers up to i64 and floats up"
    " to f64"
)
_MEMREFS = "memrefs of numbers are taken, whose elements strides lead to in a caller's memory"
MOST_DEPTH = 64  # of calls in calls
# Operations that are imported, those of a called function counted at each call: so many, and so
# many for each that the text has, since functions that call one another twice double.
LEAST_STEPS, STEPS_PER_OPERATION = 10_000, 8
INDEX = element("index")


def is_public(op: form.ParsedOperation) -> bool:
    """Whether a caller from outside may call a function."""
    return op.attributes.get("sym_visibility", "public") == "public"


def has_body(op: form.ParsedOperation) -> bool:
    """Whether a function is more than a declaration."""
    return bool(op.regions and op.regions[0])


def entry_name(op: form.ParsedOperation, functions: dict[str, form.ParsedOperation]) -> str | None:
    """The name under which a function is an entry point; None where another stands for it.

    ``f$async`` waits for fences; ``f``, where there is one, calls it and waits itself.
    """
    name = str(op.attributes["sym_name"])
    if not name.endswith(_ASYNC):
        return name
    without = name.removesuffix(_ASYNC)
    return None if without in functions else without


def tensor_behind(
    program: ProgramImport, value: form.ParsedValue, block: form.ParsedBlock, depth: int = 0
) -> Any:
    """The type of the tensor that a buffer view holds, by what becomes of it."""
    if depth > MOST_DEPTH:
        raise Unsupported("calls nested too deep")
    for op in block.operations:
        for place, operand in enumerate(op.operands):
            if operand is not value:
                continue
            if op.name == "hal.tensor.import" and place == 0:
                return op.results[0].type
            if op.name in ("util.call", "func.call"):
                called = program.functions.get(str(op.attributes["callee"]))
                if called is None or not has_body(called):
                    continue
                inner = called.block()
                if found := tensor_behind(program, inner.arguments[place], inner, depth + 1):
                    return found
    return None


@dataclass
class FunctionArgument:
    """An argument of an entry point as a caller gives it, and the value of the IR that it is.

    ``inner`` is its element type there.  One without an ``element`` is any array: nothing reads it.
    """

    name: str
    shape: Shape = ()
    element: Element | None = None
    parts: tuple[relax.Var, ...] = ()
    inner: Element | None = None
    value: form.ParsedValue | None = None
    is_scalar: bool = False
    is_held: bool = False  # what lanes hold of a vector
    strides: Shape = ()  # of a memref that is not contiguous
    buffer: Buffer | None = None  # of a memref

    def define(self, scope: Scope) -> None:
        """Say what its value in the IR is, if it has one."""
        if self.value is None:
            return
        found: Any = None
        if self.strides:
            assert self.element is not None
            layout, line = self.parts
            held = Tensor(tuple(line.ty.shape.values), self.element, (line,))
            self.buffer = Buffer(held, argument=self.name)
            numbers = tuple(map(as_number, (0, *self.strides)))
            told = Tensor((*self.shape, *self.strides, 0), element("uint8"), (layout,))
            part = StridedPart(self.shape, numbers, told, is_inside=True)
            scope.define(self.value, part_of(Memref(self.buffer, held.shape), part))
            return
        if self.element is not None and self.inner is not None:
            found = bitcast(scope, Tensor(self.shape, self.element, self.parts), self.inner)
        if self.is_scalar:
            found = read_back(found)
        if self.is_held:
            found = gathered(scope, self.value, found)
        if isinstance(self.value.type, form.ParsedMemrefType):
            self.buffer = Buffer(found, argument=self.name)
            found = Memref(self.buffer, self.shape)
        is_view = isinstance(self.value.type, form.OtherType)
        scope.define(self.value, Other(VIEW, found) if is_view else found)


_UNSEEN = ("!hal.fence", "!hal.device")  # what no caller gives


def arguments_of(
    scope: Scope, op: form.ParsedOperation, boundary: Boundary | None = None
) -> list[FunctionArgument]:
    """Declare the arguments of an entry point; fences and devices have none."""
    block = op.block()
    values = [one for one in block.arguments if str(one.type) not in _UNSEEN]
    for value in block.arguments:
        if str(value.type) in _UNSEEN:
            scope.define(value, Other(str(value.type)))
    given = boundary.arguments if boundary else (Given(),) * len(values)
    if (due := sum(one.is_in_ir for one in given)) != len(values):
        raise Unsupported(f"takes {len(values)} arguments; expected {due}")
    rest = iter(values)
    return [
        _argument(scope, f"arg{place}", one, next(rest) if one.is_in_ir else None, block)
        for place, one in enumerate(given)
    ]


def _argument(
    scope: Scope, name: str, given: Given, value: form.ParsedValue | None, block: form.ParsedBlock
) -> FunctionArgument:
    kind: form.Type | None = value.type if value is not None else given.type
    strides: Shape = ()
    if isinstance(kind, form.OtherType) and kind.text == "!hal.buffer_view":
        assert value is not None
        kind = tensor_behind(scope.program, value, block) or given.type
    if kind is None:
        return FunctionArgument(name, value=value)
    if isinstance(kind, form.ParsedMemrefType):
        if kind.why:
            raise Unsupported(f"{name} is of the type {kind}: {kind.why}; {_MEMREFS}")
        strides = () if is_contiguous(kind) else _strides(scope, name, kind)
    elif not isinstance(kind, form.ParsedScalarType | form.ParsedTensorType):
        raise Unsupported(f"{name} is of the type {kind}; {_TAKEN}")
    inner = element(kind.dtype)
    own = seen(inner, given.type.dtype if given.type else None, name)
    declared = given.type.shape if given.type else ()
    held = None if value is None else argument_shape(scope, value)
    shape = held or tuple(
        _extent(scope, name, axis, one, None in declared[axis : axis + 1])
        for axis, one in enumerate(getattr(kind, "shape", ()))
    )
    if strides:
        if own.is_complex:
            raise Unsupported(f"{name} is of the type {kind}; complex numbers are contiguous")
        span = scope.function.extent_of_argument(f"{name}_span")
        parts = (
            relax.Var(f"{name}_layout", tensor_type((*shape, *strides, 0), "uint8")),
            relax.Var(name, tensor_type((span,), own.storage[0])),
        )
    else:
        names = [f"{name}_re", f"{name}_im"] if own.is_complex else [name]
        parts = tuple(
            relax.Var(part, tensor_type(shape, dtype))
            for part, dtype in zip(names, own.storage, strict=True)
        )
    is_scalar = isinstance(kind, form.ParsedScalarType)
    is_held = held is not None
    return FunctionArgument(name, shape, own, parts, inner, value, is_scalar, is_held, strides)


def is_contiguous(kind: form.ParsedMemrefType) -> bool:
    """Whether all calls have the elements one behind another, in row-major order."""
    step: int | None = 1
    for extent, stride in reversed([*zip(kind.shape, kind.strides or (), strict=False)]):
        if extent != 1 and (step is None or stride != step):
            return False
        step = None if step is None or extent is None else step * extent
    return True


def _strides(scope: Scope, name: str, kind: form.ParsedMemrefType) -> Shape:
    if any(one is not None and one < 0 for one in kind.strides or ()):
        raise Unsupported(f"{name} is of the type {kind}; strides of arguments are from 0")
    return tuple(
        scope.function.extent_of_argument(f"{name}_stride{axis}") if one is None else one
        for axis, one in enumerate(kind.strides or ())
    )


def _extent(scope: Scope, name: str, axis: int, extent: int | None, is_open: bool) -> Any:
    """An extent of an argument; one that callers declare open stays so."""
    what = f"axis {axis} of {name}"
    if extent is None:
        return scope.function.extent_of_argument(f"{name}_{axis}", what if is_open else "")
    if is_open:
        raise Unsupported(f"{what} is declared open, and is {extent} in IR")
    return extent


def call(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """What a called function returns."""
    name = str(op.attributes["callee"])
    called = scope.program.functions.get(name)
    if called is None or not has_body(called):
        if (found := declared_op(scope, op)) is not None:
            return found
        raise Unsupported(f"calls @{name}, which has no body here")
    if scope.depth >= MOST_DEPTH:
        raise Unsupported(f"calls @{name} in calls of depth {MOST_DEPTH}; does it call itself?")
    if name in scope.calling:
        raise Unsupported(f"calls @{name}, which calls itself")
    inside = Scope(scope.function, scope.depth + 1, (*scope.calling, name))
    block = called.block()
    for argument, operand in zip(block.arguments, op.operands, strict=True):
        inside.define(argument, scope.value(operand))
    return scope.program.run(inside, called)


def materialised(scope: Scope, value: Value) -> Tensor:
    """What a function returns, in memory."""
    if isinstance(value, HeldByLanes):
        return distributed(scope, value)
    if isinstance(value, Memref):
        if value.buffer.argument:
            raise Unsupported(
                f"returns {value.buffer.argument}, or a part of it, which is the caller's memory;"
                " return nothing: what is written into it is there"
            )
        value = read(scope, value)
    if isinstance(value, Other) and value.of is not None:
        value = value.of
    if isinstance(value, TENSORS):
        return in_memory(scope, value)
    if isinstance(value, SCALARS):
        return computed(scope, value)
    raise Unsupported(f"returns a {getattr(value, 'kind', 'value')}, which is no tensor")


def _import(scope: Scope, op: form.ParsedOperation) -> Value:
    source = scope.value(op.operands[0])
    value = source.of if isinstance(source, Other) else source
    if not isinstance(value, TENSORS):
        raise Unsupported("imports what is no buffer view of an argument or a result")
    kind = op.results[0].type
    if not isinstance(kind, form.ParsedTensorType) or kind.dtype != value.element.name:
        raise Unsupported(f"imports a tensor of {value.element.name} as {kind}")
    shape = tuple(
        own if wanted is None else wanted
        for own, wanted in zip(value.shape, kind.shape, strict=True)
    )
    return as_shape(scope, value, shape)


def _export(scope: Scope, op: form.ParsedOperation) -> Value:
    return Other(VIEW, scope.any_tensor(op.operands[0]))


def _view_dim(scope: Scope, op: form.ParsedOperation) -> Value:
    source = scope.value(op.operands[0])
    value = source.of if isinstance(source, Other) else source
    axis = int(op.attributes["index"])
    if not isinstance(value, TENSORS) or not 0 <= axis < len(value.shape):
        raise Unsupported("an extent of what is no tensor")
    one = plain(value.shape[axis])
    return Number(INDEX, one) if isinstance(one, int) else Symbol(INDEX, one)


def _same(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    return [scope.value(value) for value in op.operands[: len(op.results)]]


def _other(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    return [
        Number(kind_of(value), 0)
        if isinstance(value.type, form.ParsedScalarType)
        else Other(str(getattr(value.type, "text", value.type)))
        for value in op.results
    ]


CALLS = {
    "arith.constant": constant,
    "func.call": call,
    "util.call": call,
    "util.optimization_barrier": _same,
    "util.null": _other,
    "hal.tensor.import": _import,
    "hal.tensor.export": _export,
    "hal.tensor.barrier": _same,
    "hal.tensor.alias": _same,
    "hal.buffer_view.dim": _view_dim,
    "hal.devices.get": _other,
    "hal.fence.create": _other,
    "hal.fence.await": _other,
    "hal.fence.signal": _other,
}
