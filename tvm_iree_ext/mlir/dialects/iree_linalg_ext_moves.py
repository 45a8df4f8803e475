"""Operations of ``iree_linalg_ext`` that move elements; ``linalg.pack`` and ``linalg.unpack``."""

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.base.elements import Expr, Pair
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Applied,
    Number,
    Tensor,
    Value,
)
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.dialects.registry_calls import (
    CapturedScalars,
    call_op,
    captured_scalars,
    element_type_of,
    extent_names,
    region_of,
    type_of,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, as_extent, mixed, moved
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder, in_memory
from tvm_iree_ext.mlir.importing.relax_types import MOST_EXTENT
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context
from tvm_iree_ext.mlir.scalars.scalar_regions import Evaluator
from tvm_iree_ext.ops.base.op import Op
from tvm_iree_ext.ops.base.regions import RegionLike


def per_part(
    scope: Scope,
    values: Mapping[str, Value],
    output: AnyTensor,
    make: Callable[[Mapping[str, TensorType]], Op],
) -> list[Value]:
    """Call an op that moves elements: of complex numbers, once for each part."""
    if not output.element.is_complex:
        types = _types(scope, values)
        return call_op(scope, make(types), values, [output])
    parts = []
    for number in range(2):
        own = {name: _part(scope, value, number) for name, value in values.items()}
        found: list[Any] = call_op(
            scope, make(_types(scope, own)), own, [_part(scope, output, number)]
        )
        parts.append(found[0].parts[0])
    return [Tensor(output.shape, output.element, tuple(parts))]


def _types(scope: Scope, values: Mapping[str, Value]) -> dict[str, TensorType]:
    return {
        name: type_of(scope, value, moves=True)
        for name, value in values.items()
        if isinstance(value, TENSORS)
    }


def _part(scope: Scope, value: Any, number: int) -> Any:
    if isinstance(value, TENSORS) and value.element.is_complex:
        tensor = in_memory(scope, value)
        return Tensor(tensor.shape, tensor.element.part, (tensor.parts[number],))
    if isinstance(value, Applied) and value.element.is_complex:
        part = value.element.part
        name = ("complex.re", "complex.im")[number]
        held = form.ParsedValue(form.ParsedScalarType(part.name), "%part")
        whole = form.ParsedValue(form.ParsedScalarType(value.element.name), "%whole")
        op = form.ParsedOperation(name, [whole], [held], {}, [], form.Location(0, 0))
        return Applied(part, op, 0, (value,), value.size + 1)
    return value


def _scatter(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    *inputs, original = (scope.any_tensor(one) for one in op.operands)
    values: dict[str, Value] = dict(zip(("updates", "indices", "mask"), inputs, strict=False))
    values["original"] = original
    block = op.block()
    # The update goes as it is: what bits it has does not matter.
    sets = len(block.operations) == 1 and block.operations[0].operands == block.arguments[:1]
    region: RegionLike = "arg0"
    if not sets:
        region = region_of(scope, block, values)

    def make(types: Mapping[str, TensorType]) -> Op:
        return ops.scatter(
            types["updates"],
            types["indices"],
            types["original"],
            mask=types.get("mask"),
            region=region,
            dimension_map=[int(one) for one in op.attributes["dimension_map"]],
            unique_indices=bool(op.attributes.get("unique_indices", True)),
        )

    if sets:
        return per_part(scope, values, original, make)
    types = {
        name: element_type_of(scope, one)
        for name, one in values.items()
        if isinstance(one, TENSORS)
    }
    return call_op(scope, make(types), values, [original])


def _gather(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    *inputs, output = (scope.any_tensor(one) for one in op.operands)
    values: dict[str, Value] = dict(zip(("source", "indices", "mask"), inputs, strict=False))
    values["output_init"] = output

    def make(types: Mapping[str, TensorType]) -> Op:
        return ops.gather(
            types["source"],
            types["indices"],
            mask=types.get("mask"),
            output=types["output_init"],
            dimension_map=[int(one) for one in op.attributes["dimension_map"]],
        )

    return per_part(scope, values, output, make)


def _index_region(
    scope: Scope, block: form.ParsedBlock, captured: CapturedScalars, last: Any, part: int
) -> RegionLike:
    """A region over indices, which yields a place and one value more."""

    def indexed(*arguments: Any) -> Any:
        count = len(block.arguments)
        known, context = captured.known(arguments[count:]), Context()
        for position in arguments[:count]:
            context.analyzer.bind(position, ir.Range(0, MOST_EXTENT))
        found = Evaluator(context, scope.value, known).run(block, list(arguments[:count]))
        *place, more = found
        if last is not None:
            more = more[part] if isinstance(more, Pair) else last.stored(more)
        return (*place, more)

    return captured.region(indexed)


def _mapped(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    loads = op.name.endswith("load")
    source, output = (scope.any_tensor(one) for one in op.operands)
    made: list[int] = []
    block = op.block()
    if loads and not (_names_source(scope, source, output) and _as_seen(scope, block)):
        return [_plain_map_load(scope, op.name, block, source, output)]
    captured = captured_scalars(scope, block)
    padding = output.element if loads else None

    def make(types: Mapping[str, TensorType]) -> Op:
        number = len(made)
        made.append(number)
        region = _index_region(scope, block, captured, padding, number)
        kind = types["source" if loads else "input"]
        into = TensorType(extent_names(scope, output.shape), kind.dtype)
        return (ops.map_load if loads else ops.map_store)(kind, into, region)

    values: dict[str, Value] = (
        {"source": source} if loads else {"input": source, "output_init": output}
    )
    values |= captured.operands
    return per_part(scope, values, output, make)


def _names_source(scope: Scope, source: AnyTensor, output: AnyTensor) -> bool:
    """Whether the output has no extents but numbers and the source's."""
    known = extent_names(scope, source.shape)
    return all(isinstance(e, int) or e in known for e in extent_names(scope, output.shape))


def _as_seen(scope: Scope, block: form.ParsedBlock) -> bool:
    """Whether what an op's region sees of the numbers that a block captures are these numbers.

    It sees floats of 16 bits as float32, and complex numbers not at all.
    """
    values = [scope.value(one) for one in outside([block])]
    kinds = [one.element for one in values if isinstance(one, SCALARS)]
    return not any(kind.is_complex or (kind.is_float and kind.bits < 32) for kind in kinds)


def _plain_map_load(
    scope: Scope, name: str, block: form.ParsedBlock, source: AnyTensor, output: AnyTensor
) -> Tensor:
    """Element by element, for an output whose extents the registry's op cannot name."""
    captured = [scope.value(one) for one in outside([block])]
    zero = tirx.const(0, "int64")

    def part(kernel: PrimFuncBuilder, at: Place) -> list[Expr]:
        *place, padding = kernel.evaluate(block, at, scope=scope)
        inside = tirx.const(True, "bool")
        for index, extent in zip(place, source.shape, strict=True):
            inside = tirx.And(inside, tirx.And(zero <= index, index < kernel.extent(extent)))
        otherwise = kernel.as_parts(padding, output.element)
        return [
            tirx.if_then_else(inside, a, b)
            for a, b in zip(kernel.copied(source, place), otherwise, strict=True)
        ]

    return moved(scope, name, [source, *captured], output.shape, output.element, part)


def _packing(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    packs = op.name.endswith(".pack")
    groups = op.groups() if op.segments else [*([one] for one in op.operands[:2]), [], []]
    source, output = scope.any_tensor(groups[0][0]), scope.any_tensor(groups[1][0])
    padding = scope.scalar(groups[2][0]) if packs and groups[2] else None
    tiles = mixed(scope, op.attributes["static_inner_tiles"], groups[-1] if len(groups) > 2 else ())
    # Where only a run tells a tile, the packed tensor's extents say it, which must be the same.
    extents = (output if packs else source).shape
    sizes = tuple(
        extent if isinstance(one, Applied) else as_extent(scope, one, "a tile")
        for one, extent in zip(tiles, extents[len(extents) - len(tiles) :], strict=True)
    )
    given: dict[str, Any] = {
        "inner_dims_pos": [int(one) for one in op.attributes["inner_dims_pos"]],
        "outer_dims_perm": [int(one) for one in op.attributes.get("outer_dims_perm", ())],
    }
    values: dict[str, Value] = {"input": source}
    if padding is not None and not isinstance(padding, Number):
        given["padding_value"], values["padding_value"] = "operand", padding
    number = 0

    def make(types: Mapping[str, TensorType]) -> Op:
        nonlocal number
        own = dict(given)
        if isinstance(padding, Number):
            own["padding_value"] = padding_number(padding, number)
        number += 1
        shape = extent_names(scope, output.shape)
        own["inner_tiles"] = extent_names(scope, sizes)
        return (ops.pack if packs else ops.unpack)(types["input"], shape, **own)

    return per_part(scope, values, output, make)


def padding_number(value: Number, part: int) -> Any:
    """A padding value as the op takes it: a number of the element type."""
    kind = value.element
    if kind.is_complex:
        number = complex(value.value)
        return number.imag if part else number.real
    if kind.is_float and kind.storage[0] == "uint8":
        import numpy as np

        return int(np.asarray(value.value, kind.numpy).view(np.uint8))
    if kind.kind == "bool":
        return bool(value.value)
    return int(value.value) if kind.is_integer else float(value.value)


MOVES = {
    "iree_linalg_ext.gather": _gather,
    "iree_linalg_ext.map_gather": _mapped,
    "iree_linalg_ext.map_load": _mapped,
    "iree_linalg_ext.map_scatter": _mapped,
    "iree_linalg_ext.map_store": _mapped,
    "iree_linalg_ext.scatter": _scatter,
    "linalg.pack": _packing,
    "linalg.unpack": _packing,
}
