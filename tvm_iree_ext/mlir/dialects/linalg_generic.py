"""``linalg.generic`` and every named op with a region: loops over its iteration space.

A dim that the map of some output leaves out is reduced, in order, from what the output held; all
others are parallel.  The extents of dims are those of the operands; where two disagree that only a
call knows, the call fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_iree_ext.mlir.base.elements import Expr, Pair
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import SCALARS, AnyTensor, Value, plain
from tvm_iree_ext.mlir.dialects.unused_results import needed
from tvm_iree_ext.mlir.importing import relax_types
from tvm_iree_ext.mlir.importing.emitted_values import as_shape
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.scalar_regions import affine


@dataclass(frozen=True, eq=False)
class Loops:
    """An op over an iteration space: operands and their maps, the extent of each dim."""

    inputs: tuple[Any, ...]  # tensors of any kind, or scalars
    outputs: tuple[AnyTensor, ...]
    input_maps: tuple[form.ParsedAffineMap, ...]
    output_maps: tuple[form.ParsedAffineMap, ...]
    extents: tuple[Any, ...]
    block: form.ParsedBlock

    @property
    def reduced(self) -> tuple[int, ...]:
        """The dims that the map of some output leaves out."""
        return tuple(
            dim
            for dim in range(len(self.extents))
            if not all(dim in dims_of(one) for one in self.output_maps)
        )

    def arguments(self, number: int) -> form.ParsedValue:
        """The region's argument for an operand, inputs first."""
        return self.block.arguments[number]


def dims_of(one: form.ParsedAffineMap) -> set[int]:
    """The dims that a map names."""
    found: set[int] = set()

    def visit(expression: form.ParsedAffineExpr) -> None:
        if expression.kind == "dim":
            found.add(expression.value)
        for part in expression.parts:
            visit(part)

    for result in one.results:
        visit(result)
    return found


def is_projection(one: form.ParsedAffineMap) -> bool:
    """Whether each result is another dim."""
    dims = [result.value for result in one.results if result.kind == "dim"]
    return len(dims) == len(one.results) == len(set(dims))


def _is_projection_of_some(one: form.ParsedAffineMap) -> bool:
    """Whether each result is another dim, or a constant place, as of an axis of extent 1."""
    dims = tuple(result for result in one.results if result.kind != "constant")
    return is_projection(form.ParsedAffineMap(one.dims, one.symbols, dims))


def outside(blocks: Sequence[form.ParsedBlock]) -> list[form.ParsedValue]:
    """The values from outside that blocks use, in order."""
    own: set[int] = set()
    found: dict[int, form.ParsedValue] = {}

    def visit(block: form.ParsedBlock) -> None:
        own.update(id(argument) for argument in block.arguments)
        for op in block.operations:
            for operand in op.operands:
                if id(operand) not in own:
                    found.setdefault(id(operand), operand)
            for region in op.regions:
                for nested in region:
                    visit(nested)
            own.update(id(result) for result in op.results)

    for block in blocks:
        visit(block)
    return list(found.values())


def uses(block: form.ParsedBlock, value: form.ParsedValue) -> bool:
    """Whether an operation of a block takes a value."""
    return any(
        operand is value
        for op in block.operations
        for inner in op.walk()
        for operand in inner.operands
    )


def identity_map(rank: int) -> form.ParsedAffineMap:
    """``(d0, d1) -> (d0, d1)``."""
    dims = tuple(form.ParsedAffineExpr("dim", dim) for dim in range(rank))
    return form.ParsedAffineMap(rank, 0, dims)


def maps_of(op: form.ParsedOperation) -> tuple[form.ParsedAffineMap, ...]:
    """The indexing maps of a linalg op: its own, those that MLIR wrote down, or identities."""
    for name in ("indexing_maps", "linalg.memoized_indexing_maps"):
        if name in op.attributes:
            return tuple(op.attributes[name])
    ranks = [
        len(value.type.shape) if isinstance(value.type, form.ParsedTensorType) else 0
        for value in op.operands
    ]
    dims = max(ranks, default=0)
    if any(rank not in (0, dims) for rank in ranks):
        raise Unsupported("an op without indexing maps; linalg.generic is supported")
    full = identity_map(dims)
    return tuple(full if rank == dims else form.ParsedAffineMap(dims, 0, ()) for rank in ranks)


def loops_of(scope: Scope, op: form.ParsedOperation) -> Loops:
    """The op's operands, maps and extents; operands are cast to the extents that they share."""
    maps = maps_of(op)
    inputs, _ = op.groups() if op.segments else (op.operands[:-1], op.operands[-1:])
    if len(maps) != len(op.operands) or any(one.symbols for one in maps):
        raise Unsupported("indexing maps with symbols, or not one for each operand")
    values: list[Any] = [scope.value(value) for value in op.operands]
    dims = maps[0].dims if maps else 0
    extents: list[Any] = [None] * dims
    for value, one in zip(values, maps, strict=True):
        if isinstance(value, SCALARS):
            continue
        for result, extent in zip(one.results, value.shape, strict=True):
            if result.kind == "dim" and not isinstance(extents[result.value], int):
                known = extents[result.value]
                if known is None or isinstance(extent, int):
                    extents[result.value] = extent
    if any(extent is None for extent in extents):
        raise Unsupported(f"d{extents.index(None)} is no plain result of any indexing map")
    settled: list[Any] = []
    for value, one in zip(values, maps, strict=True):
        if not isinstance(value, SCALARS):
            shape = [
                extents[result.value] if result.kind == "dim" else extent
                for result, extent in zip(one.results, value.shape, strict=True)
            ]
            value = as_shape(scope, value, tuple(shape))
        settled.append(value)
    count = len(inputs)
    for value in settled[count:]:
        if isinstance(value, SCALARS):
            raise Unsupported("an output that is no tensor")
    return Loops(
        tuple(settled[:count]),
        tuple(settled[count:]),
        maps[:count],
        maps[count:],
        tuple(extents),
        op.block(),
    )


def generic(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """The results of an op with a region, as plain loops."""
    return emit(scope, loops_of(scope, op), op.name)


def emit(scope: Scope, loops: Loops, name: str) -> list[Value]:
    """A kernel for the loops, or one for each output where these are not over the same dims."""
    if any(extent == 0 for extent in loops.extents if isinstance(extent, int)):
        return list(loops.outputs)  # loops that nothing runs through
    if len({frozenset(dims_of(one)) for one in loops.output_maps}) > 1:
        return _one_by_one(scope, loops, name)
    for one in loops.output_maps:
        if any(result.kind not in ("dim", "constant") for result in one.results):
            raise Unsupported("an output whose indexing map is no projection")
        if len(dims_of(one)) != sum(result.kind == "dim" for result in one.results):
            raise Unsupported("an output whose indexing map has a dim twice")
    return _kernel(scope, loops, name)


def _one_by_one(scope: Scope, loops: Loops, name: str) -> list[Value]:
    found: list[Value] = []
    count = len(loops.inputs)
    *operations, last = loops.block.operations
    for number in range(len(loops.outputs)):
        own = form.ParsedOperation(last.name, [last.operands[number]], [], {}, [], last.location)
        wanted = needed([*operations, own])
        block = form.ParsedBlock(
            [*loops.block.arguments[:count], loops.block.arguments[count + number]],
            [op for op in operations if id(op) in wanted] + [own],
        )
        others = [a for i, a in enumerate(loops.block.arguments[count:]) if i != number]
        if any(uses(block, other) for other in others):
            raise Unsupported("outputs over several dims, one of which is computed from another")
        single = Loops(
            loops.inputs,
            (loops.outputs[number],),
            loops.input_maps,
            (loops.output_maps[number],),
            loops.extents,
            block,
        )
        found += emit(scope, single, name)
    return found


def _pattern(loops: Loops, gathers: bool) -> int:
    """TVM's pattern of the kernel."""
    if loops.reduced:
        contracts = len(loops.inputs) > 1
        return relax_types.FUSABLE if contracts else relax_types.REDUCTION
    out = loops.output_maps[0]
    if gathers or not is_projection(out):
        return relax_types.INJECTIVE
    order = [result.value for result in out.results]
    plain_maps = [
        one
        for value, one in zip(loops.inputs, loops.input_maps, strict=True)
        if not isinstance(value, SCALARS)
    ]
    if all(one.results == out.results for one in plain_maps):
        return relax_types.ELEMENTWISE
    if all(_is_projection_of_some(one) for one in plain_maps):
        places = [
            [order.index(r.value) for r in one.results if r.kind == "dim"] for one in plain_maps
        ]
        if all(place == sorted(place) for place in places):
            return relax_types.BROADCAST
    return relax_types.INJECTIVE


def _kernel(scope: Scope, loops: Loops, name: str) -> list[Value]:
    count = len(loops.inputs)
    block = loops.block
    reduced = loops.reduced
    reads: list[Value] = [
        value
        for value, argument in zip(loops.inputs, block.arguments, strict=False)
        if uses(block, argument)
    ]
    taken = [uses(block, argument) for argument in block.arguments[count:]]
    partial = [
        _is_partial(one, value) for one, value in zip(loops.output_maps, loops.outputs, strict=True)
    ]
    for value, used, part in zip(loops.outputs, taken, partial, strict=True):
        if used or part or (reduced and used):
            reads.append(value)
    captured = [scope.value(value) for value in outside([block])]
    gathers = any(inner.name == "tensor.extract" for op in block.operations for inner in op.walk())
    outputs = [(value.shape, value.element) for value in loops.outputs]
    pattern = _pattern(loops, gathers)
    if any(partial):
        return _over_copies(scope, loops, name, [*reads, *captured])
    kernel = PrimFuncBuilder(scope, name, [*reads, *captured], outputs, pattern, loops.extents)
    _emit_loops(scope, loops, kernel, name, taken)
    return list(kernel.results)


def _emit_loops(
    scope: Scope, loops: Loops, kernel: PrimFuncBuilder, name: str, taken: Sequence[bool]
) -> None:
    """The loops' block; ``taken`` says which outputs the region reads."""
    block, reduced = loops.block, loops.reduced

    def places(one: form.ParsedAffineMap, at: Mapping[int, Any]) -> list[Expr]:
        return [
            affine(result, [at[d] for d in range(len(loops.extents))], (), kernel.context)
            for result in one.results
        ]

    def element(value: Any, one: form.ParsedAffineMap, argument: form.ParsedValue, at: Any) -> Any:
        if not uses(block, argument):
            return None
        if isinstance(value, SCALARS):
            return kernel.scalar(value)
        if all(result.kind == "dim" for result in one.results):
            return kernel.element(value, places(one, at))
        return kernel.checked(value, places(one, at))

    def inputs(at: Any) -> list[Any]:
        given = zip(loops.inputs, loops.input_maps, block.arguments, strict=False)
        return [element(value, one, argument, at) for value, one, argument in given]

    def start(at: Any) -> None:
        for number, (value, one) in enumerate(zip(loops.outputs, loops.output_maps, strict=True)):
            dims = [at.get(d) for d in range(len(loops.extents))]
            place = [affine(result, dims, ()) for result in one.results]
            if taken[number]:
                kernel.put(number, kernel.copied(value, place), place)
            else:
                kernel.store(number, value.element.constant(0), place)

    def step(at: Any) -> None:
        at = {dim: at[dim] for dim in sorted(at)}
        olds: list[Any] = []
        for number, (value, one) in enumerate(zip(loops.outputs, loops.output_maps, strict=True)):
            place = places(one, at)
            if not taken[number]:
                olds.append(None)
            elif reduced:
                olds.append(kernel.stored_element(number, place))
            else:
                olds.append(kernel.element(value, place))
        found = kernel.evaluate(block, [*inputs(at), *olds], list(at.values()), scope)
        several = reduced and (len(found) > 1 or isinstance(found[0], Pair))
        if several:  # each is computed of what the others were
            found = [kernel.kept(one) for one in found]
        for number, (held, one) in enumerate(zip(found, loops.output_maps, strict=True)):
            kernel.store(number, held, places(one, at))

    with kernel:
        label = name.rpartition(".")[2]
        kernel.block(label, loops.extents, step, reduced=reduced, init=start if reduced else None)


def _is_partial(one: form.ParsedAffineMap, value: AnyTensor) -> bool:
    """Whether the map does not reach all of an output: a constant place on a longer axis."""
    return any(
        result.kind == "constant" and plain(extent) != 1
        for result, extent in zip(one.results, value.shape, strict=True)
    )


def _over_copies(scope: Scope, loops: Loops, name: str, reads: Sequence[Value]) -> list[Value]:
    raise Unsupported("an output that the loops reach only a part of")
