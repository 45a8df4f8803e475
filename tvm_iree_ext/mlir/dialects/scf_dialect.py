"""Loops and branches of ``scf`` between operations: their regions are functions of their own.

What runs them again and again, or chooses among them, is :mod:`.program_control`, which the
virtual machine calls with the tensors that they take: those that are carried from one run to the
next, and those from outside that they use.  A scalar is a tensor of rank 0.  A branch that only
chooses among scalars is ``arith.select``, which keeps arithmetic on extents what it is.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, relax, tirx

from tvm_iree_ext.mlir.base.elements import Element
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    Buffer,
    Empty,
    Failed,
    Memref,
    Number,
    Other,
    Scalar,
    Splat,
    Symbol,
    Tensor,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects import region_memory
from tvm_iree_ext.mlir.dialects.cf_assert import ASSERT, asserted
from tvm_iree_ext.mlir.dialects.func_dialect import MOST_DEPTH, materialised
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.importing.emitted_values import applied, computed, read_back
from tvm_iree_ext.mlir.importing.import_state import FunctionImport
from tvm_iree_ext.mlir.importing.places import placed
from tvm_iree_ext.mlir.importing.prim_func_builder import in_memory
from tvm_iree_ext.mlir.importing.relax_types import tensor_type
from tvm_iree_ext.mlir.importing.scope import Dependent, Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import kind_of
from tvm_iree_ext.mlir.scalars.scalar_regions import SCALAR_OPS

CONTROL = "tvm_iree_ext.control"  # the function that the virtual machine calls


@dataclass
class Outlined:
    """A region as a function: what it takes from outside, and what becomes of each result.

    A port is the number of an argument's tensor that the region yields as it is, or, below 0, the
    place among the function's results, -1 for the first.
    """

    name: str
    function: FunctionImport
    captured: list[Any] = field(default_factory=list)  # tensors outside
    arguments: list[Tensor] = field(default_factory=list)  # of the block, inside
    results: list[Tensor] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)  # arguments that it may write into
    extents: dict[str, tuple[Any, tirx.Var]] = field(default_factory=dict)  # outside and inside

    def described(self) -> dict[str, Any]:
        """What the run time must know."""
        return {"name": self.name, "captured": len(self.captured), "ports": self.ports}

    def extent(self, one: Any) -> Any:
        """An extent from outside, inside."""
        if isinstance(plain(one), int):
            return plain(one)
        key = str(one)
        if key not in self.extents:
            self.extents[key] = one, self.own_extent()
        return self.extents[key][1]

    def own_extent(self) -> tirx.Var:
        """An extent that may be another in each run."""
        return self.function.extent_of_argument(f"n{len(self.function.extents)}")

    def outer(self, one: Any) -> Any | None:
        """An extent from inside, outside; None where only a run tells."""
        one = self.function.in_terms(one)
        if isinstance(one, int):
            return one
        for given, own in self.extents.values():
            if str(self.function.in_terms(own)) == str(one):
                return given
        return None

    def is_kept(self, place: int, axis: int) -> bool:
        """Whether a result of a loop's body has the extent of the argument that it becomes."""
        carried = self.arguments[-len(self.results) :]
        result, argument = self.results[place].shape[axis], carried[place].shape[axis]
        return str(self.function.in_terms(result)) == str(self.function.in_terms(argument))


def _outlined(
    scope: Scope,
    kind: str,
    block: form.ParsedBlock,
    given: Sequence[Tensor],
    updates: Sequence[form.ParsedOperation] = (),
    yielded: int = 0,
    memory: Mapping[Buffer, Tensor | None] | None = None,
) -> Outlined:
    """A region as a function; ``given`` are the first values of its arguments.

    ``updates`` may write into arguments; ``yielded`` is the first of the terminator's operands that
    are its ports.  ``memory`` are buffers that it writes, with their first values where these are
    arguments behind the others; what they become are results behind the others.
    """
    if scope.depth >= MOST_DEPTH:
        raise Unsupported("regions nested too deep")
    outer = scope.function
    made = Outlined(outer.helper_name(kind), outer.inner())
    inside = Scope(made.function, scope.depth + 1, scope.calling)
    made.function.in_place |= {id(op) for op in updates}
    parameters: list[relax.Var] = []

    def parameter(shape: Sequence[Any], element: Element) -> Tensor:
        own = [
            relax.Var(f"t{len(parameters) + i}", tensor_type(tuple(shape), dtype))
            for i, dtype in enumerate(element.storage)
        ]
        parameters.extend(own)
        return Tensor(tuple(shape), element, tuple(own))

    places: dict[int, list[int]] = {}

    def own_extent(one: Any) -> Any:
        return plain(one) if isinstance(plain(one), int) else made.own_extent()

    for argument, first in zip(block.arguments, given, strict=True):
        start = len(parameters)
        tensor = parameter([own_extent(one) for one in first.shape], first.element)
        made.arguments.append(tensor)
        places[id(argument)] = list(range(start, len(parameters)))
        inside.define(argument, _as_value(tensor, argument))
    made.written = [place for op in updates for place in places[id(op.operands[1])]]
    buffers: dict[Buffer, Buffer] = {}
    for buffer, held in (memory or {}).items():
        if held is not None:
            made.arguments.append(parameter([own_extent(one) for one in held.shape], held.element))
            buffers[buffer] = Buffer(made.arguments[-1])

    def captured(tensor: Tensor) -> Tensor:
        made.captured += tensor.parts
        return parameter([made.extent(one) for one in tensor.shape], tensor.element)

    def number(scalar: Scalar) -> Scalar:
        if isinstance(scalar, Number):
            return scalar
        return read_back(captured(computed(scope, scalar)))

    def within(buffer: Buffer) -> Buffer:
        if buffer not in buffers:
            held = captured(in_memory(scope, buffer.held))
            buffers[buffer] = Buffer(held, constant=buffer.constant)
        return buffers[buffer]

    for buffer in memory or ():
        within(buffer)
    for value in outside([block]):
        found = scope.value(value)
        if isinstance(found, Memref):
            known = {name: own for name, (_, own) in made.extents.items()}
            inside.define(value, region_memory.inside(found, within(found.buffer), known, number))
            continue
        if _is_everywhere(found):
            inside.define(value, found)
            continue
        if isinstance(found, Symbol) and str(found.value) in made.extents:
            inside.define(value, Symbol(found.element, made.extent(found.value)))
            continue
        inside.define(value, _as_value(captured(_in_memory(scope, found)), value))
    if any(op.name.startswith("check.") for one in block.operations for op in one.walk()):
        raise Unsupported("with a check inside")
    written = [buffers[buffer] for buffer in memory or ()]
    _run(scope, inside, made, block, places, parameters, yielded, written)
    for name, variable in made.function.parameters.items():
        made.captured.append(outer.parameters.setdefault(name, relax.Var(name, variable.ty)))
    return made


def _run(
    scope: Scope,
    inside: Scope,
    made: Outlined,
    block: form.ParsedBlock,
    places: dict[int, list[int]],
    parameters: list[relax.Var],
    yielded: int,
    written: Sequence[Buffer],
) -> None:
    """Import the region's operations, and finish its function."""
    inner, outer = made.function, scope.function
    builder = inner.builder
    before = len(scope.program.problems)
    with builder.function(made.name):
        with builder.dataflow():
            computed: list[relax.Var] = []
            try:
                values = scope.program.run_block(inside, block)
                values += [buffer.held for buffer in written]
                made.results = [materialised(inside, value) for value in values]
                operands = [*map(id, block.operations[-1].operands), *map(id, written)]
                kept = [
                    place >= yielded and operand in places for place, operand in enumerate(operands)
                ]
                own = [one for one, is_kept in zip(made.results, kept, strict=True) if not is_kept]
                rest = iter(asserted(inside, own))
                for operand, is_kept in zip(operands, kept, strict=True):
                    if is_kept:
                        made.ports += places[operand]
                        continue
                    for part in next(rest).parts:
                        computed.append(builder.emit_output(part))
                        made.ports.append(-len(computed))
            except Dependent:
                pass
            except Unsupported as reason:
                scope.program.report(block.operations[-1], str(reason))
        builder.emit_func_output(
            relax.Tuple(computed), params=[*parameters, *inner.parameters.values()]
        )
    outer.steps = inner.steps
    if len(scope.program.problems) > before:
        raise Dependent
    inner.finish_helper(made.name)


def _as_value(tensor: Tensor, value: form.ParsedValue) -> Value:
    return tensor if isinstance(value.type, form.ParsedTensorType) else read_back(tensor)


def _is_everywhere(value: Value) -> bool:
    """Whether a value takes no memory, and so is the same in another function."""
    if isinstance(value, Number | Other | Failed):
        return True
    if not isinstance(value, Splat | Empty):
        return False
    is_known = all(isinstance(plain(one), int) for one in value.shape)
    return is_known and (isinstance(value, Empty) or isinstance(value.scalar, Number))


def _in_memory(scope: Scope, value: Value) -> Tensor:
    if isinstance(value, TENSORS):
        return in_memory(scope, value)
    if isinstance(value, SCALARS):
        return computed(scope, value)
    raise Unsupported("a loop or a branch over what is no tensor and no scalar")


def _called(
    scope: Scope,
    op: form.ParsedOperation,
    what: dict[str, Any],
    arguments: Sequence[Any],
    shapes: Sequence[Sequence[Any | None]],
    memory: Sequence[Buffer],
) -> list[Value]:
    """The results of a call of the run time; an extent that only it knows is None in shapes.

    Behind them it gives what ``memory`` has become.
    """
    builder = scope.function.builder
    types: list[Any] = []
    results = [*op.results, *region_memory.carried(memory)]
    for result, shape in zip(results, shapes, strict=True):
        for dtype in kind_of(result).storage:
            if None in shape:
                types.append(relax.TensorType(dtype=dtype, ndim=len(shape)))
            else:
                types.append(tensor_type(tuple(shape), dtype))
    call = relax.op.call_pure_packed(
        CONTROL, ir.StringImm(json.dumps(what)), *arguments, ty_args=[relax.TupleType(types)]
    )
    together = builder.emit(placed(call, op))
    parts = iter([builder.emit(relax.TupleGetItem(together, i)) for i in range(len(types))])
    found: list[Value] = []
    for result, shape in zip(results, shapes, strict=True):
        element = kind_of(result)
        own = [next(parts) for _ in element.storage]
        if None in shape:
            shape = [scope.function.extent_of_run() if one is None else one for one in shape]
            own = [
                builder.match_cast(part, tensor_type(tuple(shape), dtype))
                for part, dtype in zip(own, element.storage, strict=True)
            ]
        found.append(_as_value(Tensor(tuple(shape), element, tuple(own)), result))
    region_memory.come_out(memory, found[len(op.results) :])
    return found[: len(op.results)]


def _updates(block: form.ParsedBlock) -> list[form.ParsedOperation]:
    """The insertions into what a body carries that nothing else reads, before or after."""
    last = block.operations[-1]
    used = Counter(
        id(value) for own in block.operations for op in own.walk() for value in op.operands
    )
    carried = {
        (id(argument), id(value))
        for argument, value in zip(block.arguments[1:], last.operands, strict=True)
        if used[id(argument)] == 1 and used[id(value)] == 1
    }
    return [
        op
        for op in block.operations
        if op.name == "tensor.insert_slice" and (id(op.operands[1]), id(op.results[0])) in carried
    ]


def _parts(tensors: Sequence[Tensor]) -> list[Any]:
    return [part for tensor in tensors for part in tensor.parts]


def _for(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    if "unsignedCmp" in op.attributes:
        raise Unsupported("compares its bounds as unsigned numbers")
    bounds = [computed(scope, scope.scalar(value)) for value in op.operands[:3]]
    first = [_in_memory(scope, scope.value(value)) for value in op.operands[3:]]
    memory = _memory(scope, op)
    updates = _updates(op.block())
    body = _outlined(scope, "for", op.block(), [bounds[0], *first], updates, memory=memory)
    first += memory.values()
    what = {
        "kind": "for",
        "carried": len(_parts(first)),
        "body": body.described(),
        "own": [place - 1 for place in body.written],  # the step's number is carried by none
    }
    shapes = [
        [one if body.is_kept(place, axis) else None for axis, one in enumerate(tensor.shape)]
        for place, tensor in enumerate(first)
    ]
    arguments = [*_parts(bounds), *_parts(first), *body.captured]
    return _called(scope, op, what, arguments, shapes, [*memory])


def _memory(scope: Scope, op: form.ParsedOperation) -> dict[Buffer, Tensor]:
    """The buffers that the regions of an operation write, and what they hold before."""
    written = region_memory.written_buffers(scope, [block for one in op.regions for block in one])
    return {buffer: in_memory(scope, buffer.held) for buffer in written}


def _while(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    first = [_in_memory(scope, scope.value(value)) for value in op.operands]
    memory = _memory(scope, op)
    before = _outlined(scope, "before", op.block(0), first, yielded=1, memory=memory)
    first += memory.values()
    # What the region that decides passes on are the first values of the one that follows.
    passed = [
        Tensor(tuple(map(before.function.in_terms, one.shape)), one.element, ())
        for one in before.results[1:]
    ]
    own = len(passed) - len(memory)
    held = dict(zip(memory, passed[own:], strict=True))
    after = _outlined(scope, "after", op.block(1), passed[:own], memory=held)
    what = {
        "kind": "while",
        "carried": len(_parts(first)),
        "before": before.described(),
        "after": after.described(),
    }
    shapes = [[before.outer(one) for one in tensor.shape] for tensor in passed]
    arguments = [*_parts(first), *before.captured, *after.captured]
    return _called(scope, op, what, arguments, shapes, [*memory])


def _if(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    condition = scope.scalar(op.operands[0])
    memory = [*_memory(scope, op)]
    if not op.results and not memory:
        return _nothing(op)
    ways = [op.block(0), op.block(1) if op.regions[1] else form.ParsedBlock([], [_nothing_of(op)])]
    if isinstance(condition, Number):
        return _inlined(scope, ways[0 if condition.value else 1])
    if (
        not memory
        and all(isinstance(result.type, form.ParsedScalarType) for result in op.results)
        and all(
            inner.name in SCALAR_OPS and not inner.regions
            for region in op.regions
            for inner in region[0].operations[:-1]
        )
    ):
        return _selected(scope, op, condition)
    return _branches(scope, op, condition, [1], ways, memory)


def _nothing_of(op: form.ParsedOperation) -> form.ParsedOperation:
    return form.ParsedOperation("scf.yield", [], [], {}, [], op.location)


def _switch(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    memory = [*_memory(scope, op)]
    if not op.results and not memory:
        return _nothing(op)
    cases = [int(one) for one in op.attributes["cases"]]
    blocks = [op.block(1 + place) for place in range(len(cases))] + [op.block(0)]
    chosen = scope.scalar(op.operands[0])
    if isinstance(chosen, Number):
        place = cases.index(chosen.value) if chosen.value in cases else len(cases)
        return _inlined(scope, blocks[place])
    return _branches(scope, op, chosen, cases, blocks, memory)


def _nothing(op: form.ParsedOperation) -> list[Value]:
    """A branch without results does nothing but to assert, or to check."""
    for inner in op.walk():
        if inner.name == ASSERT or inner.name.startswith("check."):
            raise Unsupported(f"without results, with {inner.name} inside")
    return []


def _inlined(scope: Scope, block: form.ParsedBlock) -> list[Value]:
    inside = Scope(scope.function, scope.depth, scope.calling, outer=scope)
    return scope.program.run_block(inside, block)


def _selected(scope: Scope, op: form.ParsedOperation, condition: Value) -> list[Value]:
    """Both branches computed, and a choice of their scalars: none of them can trap."""
    choices = [_inlined(scope, op.block(place)) for place in (0, 1)]
    yields = [op.block(place).operations[-1].operands for place in (0, 1)]
    found: list[Value] = []
    for place, result in enumerate(op.results):
        select = form.ParsedOperation(
            "arith.select",
            [op.operands[0], yields[0][place], yields[1][place]],
            [result],
            {},
            [],
            op.location,
        )
        found += applied(scope, select, [condition, choices[0][place], choices[1][place]])
    return found


def _branches(
    scope: Scope,
    op: form.ParsedOperation,
    chosen: Value,
    cases: Sequence[int],
    blocks: Sequence[form.ParsedBlock],
    memory: Sequence[Buffer],
) -> list[Value]:
    selector = _in_memory(scope, chosen)
    captures = dict.fromkeys(memory)
    regions = [_outlined(scope, "branch", block, [], memory=captures) for block in blocks]
    what = {
        "kind": "branch",
        "cases": list(cases),
        "regions": [region.described() for region in regions],
    }
    shapes: list[list[Any | None]] = []
    for place in range(len(op.results) + len(memory)):
        ways = [[r.outer(one) for one in r.results[place].shape] for r in regions]
        shapes.append(
            [
                axis[0]
                if all(one is not None and str(one) == str(axis[0]) for one in axis)
                else None
                for axis in zip(*ways, strict=True)
            ]
        )
    captured = [part for region in regions for part in region.captured]
    return _called(scope, op, what, [*selector.parts, *captured], shapes, memory)


SCF = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.index_switch": _switch,
    "scf.while": _while,
}
