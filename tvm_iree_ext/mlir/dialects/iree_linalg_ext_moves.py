"""Operations of ``iree_linalg_ext`` that move elements; ``linalg.pack`` and ``linalg.unpack``."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tvm import ir, tirx

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.mlir.base.elements import Expr, Pair
from tvm_iree_ext.mlir.base.import_errors import Unsupported
from tvm_iree_ext.mlir.base.ir_values import (
    SCALARS,
    TENSORS,
    AnyTensor,
    Number,
    Tensor,
    Value,
    plain,
)
from tvm_iree_ext.mlir.dialects.linalg_generic import outside
from tvm_iree_ext.mlir.dialects.registry_calls import (
    CapturedScalars,
    call_op,
    captured_scalars,
    extent_names,
    region_of,
    type_of,
)
from tvm_iree_ext.mlir.dialects.tensor_dialect import Place, as_extent, mixed, moved
from tvm_iree_ext.mlir.importing.prim_func_builder import PrimFuncBuilder, in_memory
from tvm_iree_ext.mlir.importing.relax_types import MOST_EXTENT
from tvm_iree_ext.mlir.importing.scope import Scope
from tvm_iree_ext.mlir.reading import form
from tvm_iree_ext.mlir.scalars.arith import Context, on_index
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
        type_of(scope, original)
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

    return per_part(scope, values, original, make)


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
    sizes = tuple(as_extent(scope, one, "a tile") for one in tiles)
    given: dict[str, Any] = {
        "inner_dims_pos": [int(one) for one in op.attributes["inner_dims_pos"]],
        "outer_dims_perm": [int(one) for one in op.attributes.get("outer_dims_perm", ())],
    }
    values: dict[str, Value] = {"input": source}
    if padding is not None and not isinstance(padding, Number):
        if padding.element.is_complex:
            raise Unsupported("a complex padding that is computed from data")
        given["padding_value"], values["padding_value"] = "operand", padding
    number = 0

    def make(types: Mapping[str, TensorType]) -> Op:
        nonlocal number
        own = dict(given)
        if isinstance(padding, Number):
            own["padding_value"] = _padding(padding, number)
        number += 1
        shape = extent_names(scope, output.shape)
        own["inner_tiles"] = extent_names(scope, sizes)
        return (ops.pack if packs else ops.unpack)(types["input"], shape, **own)

    return per_part(scope, values, output, make)


def _padding(value: Number, part: int) -> Any:
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


def _im2col(scope: Scope, op: form.ParsedOperation) -> list[Value]:
    """By the registry's op where rows go over all windows; else element by element."""
    groups = op.groups()
    source, output = scope.any_tensor(groups[0][0]), scope.any_tensor(groups[1][0])
    given = op.attributes
    kernel = [
        as_extent(scope, x, "a window")
        for x in mixed(scope, given["static_kernel_size"], groups[2])
    ]
    offsets = mixed(scope, given["static_offsets"], groups[3])
    flat = [one for group in given["static_output_sizes"] for one in group]
    known = iter(as_extent(scope, x, "a size") for x in mixed(scope, flat, groups[4]))
    sizes = [[next(known) for _ in group] for group in given["static_output_sizes"]]
    names = [f"static_{side}_pad_{end}" for side in ("input", "output") for end in ("low", "high")]
    pads = [
        [as_extent(scope, x, "padding") for x in mixed(scope, given.get(name, ()), group)]
        for name, group in zip(names, groups[5:9], strict=True)
    ]
    value = scope.scalar(groups[9][0]) if groups[9] else None
    windows = _Windows(given, kernel, sizes)
    plain_pads = not any(any(p != 0 for p in pad) for pad in pads)
    numbers = [int(one.value) if isinstance(one, Number) else None for one in offsets]
    if plain_pads and None not in numbers and windows.is_whole(source):
        made = _registry_im2col(scope, source, output, windows, numbers)
        return per_part(scope, {"input": source}, output, lambda types: made(types["input"]))
    order = windows.output_perm

    def part(build: PrimFuncBuilder, at: Place) -> list[Expr]:
        place = [at[order.index(axis)] for axis in range(len(order))]
        valid: Expr | None = None
        for axis, (low, high) in enumerate(zip(pads[2], pads[3], strict=True)):
            inside = tirx.And(at[axis] >= low, at[axis] < build.extent(output.shape[axis]) - high)
            valid = inside if valid is None else tirx.And(valid, inside)
            canonical = order[axis]
            place[canonical] = place[canonical] - low
        place = [
            on_index(build.context, "add", x, build.scalar(o))
            for x, o in zip(place, offsets, strict=True)
        ]
        index = windows.source_index(place, len(source.shape))
        low = pads[0] or [0] * len(index)
        index = [x - p for x, p in zip(index, low, strict=True)]
        for x, extent in zip(index, source.shape, strict=True):
            inside = tirx.And(x >= tirx.const(0, "int64"), x < build.extent(extent))
            valid = inside if valid is None else tirx.And(valid, inside)
        held = build.scalar(value) if value is not None else output.element.constant(0)
        otherwise = build.as_parts(held, output.element)
        return [
            tirx.if_then_else(valid, a, b)
            for a, b in zip(build.copied(source, index), otherwise, strict=True)
        ]

    reads: list[Value] = [source, *offsets, *([value] if value is not None else [])]
    return [moved(scope, op.name, reads, output.shape, output.element, part)]


_MOST = 1 << 31  # of a stride, a dilation, an extent


class _Windows:
    """How an im2col turns a position of its output into one of its input."""

    def __init__(self, given: Any, kernel: Sequence[Any], sizes: Sequence[Sequence[Any]]) -> None:
        def numbers(name: str) -> list[int]:
            return [int(one) for one in given[name]]

        self.strides, self.dilations = numbers("strides"), numbers("dilations")
        self.batch_pos, self.m_pos, self.k_pos = map(numbers, ("batch_pos", "m_pos", "k_pos"))
        self.input_k_perm, self.output_perm = numbers("input_k_perm"), numbers("output_perm")
        self.kernel, self.sizes = list(kernel), [list(one) for one in sizes]
        if any(not isinstance(one, int) for group in self.sizes for one in group):
            raise Unsupported("output_sizes that are not numbers")
        flat = [one for group in self.sizes for one in group]
        every = [*self.strides, *self.dilations, *self.kernel, *flat]
        if any(isinstance(one, int) and not 0 <= one < _MOST for one in every):
            raise Unsupported(f"windows with numbers that are not from 0 to {_MOST}")
        ends, seen = [], 0
        for number, group in enumerate(self.sizes):
            if number < len(self.batch_pos):
                continue
            seen += len(group)
            ends.append((number, seen))
        self.m_groups = [n for n, end in ends if end <= len(self.m_pos)]
        self.k_groups = [n for n, end in ends if end > len(self.m_pos)]
        if sum(len(self.sizes[n]) for n in self.m_groups) != len(self.m_pos):
            raise Unsupported("output_sizes whose M dims are not one for each of m_pos")

    @property
    def windows(self) -> list[int]:
        """The extents of the windows, one for each of m_pos."""
        return [one for n in self.m_groups for one in self.sizes[n]]

    def is_whole(self, source: AnyTensor) -> bool:
        """Whether the registry's op has these windows: all of them, nothing permuted."""
        if self.input_k_perm != sorted(self.input_k_perm):
            return False
        if self.output_perm != sorted(self.output_perm) or self.m_pos != sorted(self.m_pos):
            return False
        for i, pos in enumerate(self.m_pos):
            extent = plain(source.shape[pos])
            span = (int(self.kernel[i]) - 1) * self.dilations[i] + 1
            if not isinstance(extent, int):
                return False
            if (extent - span) // self.strides[i] + 1 != self.windows[i]:
                return False
        wanted = [
            int(self.kernel[self.m_pos.index(pos)])
            if pos in self.m_pos
            else plain(source.shape[pos])
            for pos in range(len(source.shape))
            if pos not in self.batch_pos
        ]
        return wanted == [one for n in self.k_groups for one in self.sizes[n]]

    def source_index(self, place: Sequence[Expr], rank: int) -> list[Expr]:
        """The place in the padded input, of a position in canonical order."""
        found: list[Any] = [None] * rank
        for number, pos in enumerate(self.batch_pos):
            found[pos] = place[number]
        m = [x for n in self.m_groups for x in delinearized(place[n], self.sizes[n])]
        k = [x for n in self.k_groups for x in delinearized(place[n], self.sizes[n])]
        # The input's dims but the batch, in the order in which K goes over them.
        inner = [pos for pos in range(rank) if pos not in self.batch_pos]
        at = {inner[dim]: coordinate for dim, coordinate in zip(self.input_k_perm, k, strict=True)}
        for number, pos in enumerate(self.m_pos):
            found[pos] = m[number] * self.strides[number] + at[pos] * self.dilations[number]
        for pos in self.k_pos:
            found[pos] = at[pos]
        return found


def _registry_im2col(
    scope: Scope, source: AnyTensor, output: AnyTensor, windows: _Windows, offsets: Sequence[Any]
) -> Callable[[TensorType], Op]:
    def strides(groups: Sequence[int]) -> list[int]:
        sizes = [prod(windows.sizes[n]) for n in groups]
        return [prod(sizes[i + 1 :]) for i in range(len(groups))]

    given: dict[str, Any] = {
        "kernel_size": windows.kernel,
        "batch_pos": windows.batch_pos,
        "m_pos": windows.m_pos,
        "k_pos": windows.k_pos,
        "strides": windows.strides,
        "dilations": windows.dilations,
        "m_offset": [offsets[n] for n in windows.m_groups],
        "m_strides": strides(windows.m_groups),
        "k_offset": [offsets[n] for n in windows.k_groups],
        "k_strides": strides(windows.k_groups),
    }
    shape = extent_names(scope, output.shape)
    return lambda kind: ops.im2col(kind, shape, **given)


def delinearized(index: Expr, sizes: Sequence[int]) -> list[Expr]:
    """The coordinates of a row-major index; the first is not bounded."""
    found: list[Expr] = []
    for size in reversed(sizes[1:]):
        found.append(tirx.floormod(index, tirx.const(int(size), "int64")))
        index = tirx.floordiv(index, tirx.const(int(size), "int64"))
    return [index, *reversed(found)]


MOVES = {
    "iree_linalg_ext.gather": _gather,
    "iree_linalg_ext.im2col": _im2col,
    "iree_linalg_ext.map_gather": _mapped,
    "iree_linalg_ext.map_load": _mapped,
    "iree_linalg_ext.map_scatter": _mapped,
    "iree_linalg_ext.map_store": _mapped,
    "iree_linalg_ext.scatter": _scatter,
    "linalg.pack": _packing,
    "linalg.unpack": _packing,
}
