"""Tensors as values: empty ones, slices, padding."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import IndexLike, Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import (
    RankedTensorType,
    ScalarType,
    Type,
    numpy_type,
)
from tvm_iree_ext.vector.ops import checks

StaticSizes = tuple[int | None, ...]


def split(sizes: Sequence[IndexLike]) -> tuple[StaticSizes, list[Value]]:
    """Sizes as numbers, with None where there is a value; and these values."""
    static: list[int | None] = []
    dynamic = []
    for size in sizes:
        if not isinstance(size, Value | int | np.integer):
            raise VectorError(
                "E_ELEMENT_TYPE", f"a size is {size!r}; expected a whole number or a value"
            )
        number = size.constant if isinstance(size, Value) else int(size)
        static.append(number)
        if number is None:
            assert isinstance(size, Value)
            dynamic.append(size)
    return tuple(static), dynamic


def joined(static: StaticSizes, dynamic: Sequence[Any]) -> list[Any]:
    """The inverse of :func:`split`."""
    rest = iter(dynamic)
    return [next(rest) if size is None else size for size in static]


def sizes_of(op: Operation, name: str = "sizes") -> list[Any]:
    """The sizes of an operation, as numbers and values."""
    return joined(op.attributes[f"static_{name}"], op.group(name))


def _shape(op: Operation, name: str) -> tuple[int | str, ...]:
    static = op.attributes[f"static_{name}"]
    dynamic = op.group(name)
    checks.length(op, name, dynamic, sum(size is None for size in static), "size not known")
    for number, size in enumerate(dynamic):
        checks.index_type(op, f"{name}[{number}]", size)
    return tuple("?" if size is None else size for size in static)


def _list(values: Sequence[Any], names: ValueNames) -> str:
    return ", ".join(names[v] if isinstance(v, Value) else str(v) for v in values)


@register
class TensorEmpty(Definition):
    """A tensor of which only the shape is defined."""

    name = "tensor.empty"
    operands = ("sizes*",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        return [RankedTensorType(_shape(op, "sizes"), op.attributes["dtype"])]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        shape = [int(size) for size in joined(op.attributes["static_sizes"], values)]
        return [np.zeros(shape, numpy_type(op.result.dtype))]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"({names.list(op.operands)}) : {op.result.type}"


@register
class ExtractSlice(Definition):
    """A box of a tensor, with strides 1."""

    name = "tensor.extract_slice"
    operands = ("source", "offsets*", "sizes*")
    read = "source"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        source = checks.tensor_of(op, "source")
        checks.indices_of(op, "offsets", source.rank, "source")
        shape = _shape(op, "sizes")
        checks.length(op, "sizes", shape, source.rank, "dim of source")
        _check_inside(op, "source", source, op.group("offsets"), shape)
        return [RankedTensorType(shape, source.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        sizes = joined(op.attributes["static_sizes"], op.segment_of(values, "sizes"))
        return [values[0][_box(op, values[0], op.segment_of(values, "offsets"), sizes)]]

    def text(self, op: Operation, names: ValueNames) -> str:
        source = op.operand("source")
        at = f"{names[source]}[{names.list(op.group('offsets'))}] [{_list(sizes_of(op), names)}]"
        return f"{at} : {source.type} to {op.result.type}"


@register
class InsertSlice(Definition):
    """A copy of dest with a box of it replaced."""

    name = "tensor.insert_slice"
    operands = ("source", "dest", "offsets*")
    written = "dest"
    counted = "source"

    def result_types(self, op: Operation) -> Sequence[Type]:
        source, dest = checks.tensor_of(op, "source"), checks.tensor_of(op, "dest")
        if source.rank != dest.rank:
            raise op.error("E_RANK", f"source is {source}, dest is {dest}; expected one rank")
        checks.same_dtype(op, "source", source.dtype, dest.dtype, "dest")
        checks.indices_of(op, "offsets", dest.rank, "dest")
        _check_inside(op, "dest", dest, op.group("offsets"), source.shape)
        return [dest]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        source, dest, *offsets = values
        result = dest.copy()
        result[_box(op, dest, offsets, source.shape)] = source
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        source, dest = op.operand("source"), op.operand("dest")
        at = f"{names[dest]}[{names.list(op.group('offsets'))}]"
        return f"{names[source]} into {at} : {source.type} into {dest.type}"


@register
class Pad(Definition):
    """A tensor with ``low`` and ``high`` elements of a value before and after each dim."""

    name = "tensor.pad"
    operands = ("source", "low*", "high*", "value")
    read = "source"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        source = checks.tensor_of(op, "source")
        result = RankedTensorType(op.attributes["shape"], source.dtype)
        bounds = [_shape(op, name) for name in ("low", "high")]
        for name, shape in zip(("low", "high", "shape"), (*bounds, result.shape), strict=True):
            checks.length(op, name, shape, source.rank, "dim of source")
        for dim, parts in enumerate(zip(source.shape, *bounds, result.shape, strict=True)):
            if all(isinstance(part, int) for part in parts) and sum(parts[:3]) != parts[3]:
                raise op.error(
                    "E_SHAPE_MISMATCH",
                    f"dim {dim}: low {parts[1]}, {parts[0]}, high {parts[2]} are not {parts[3]}",
                )
        if op.operand("value").type != ScalarType(source.dtype):
            raise op.error(
                "E_ELEMENT_TYPE", f"value is {op.operand('value').type}; source {source}"
            )
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        widths = [
            [int(w) for w in joined(op.attributes[f"static_{name}"], op.segment_of(values, name))]
            for name in ("low", "high")
        ]
        pairs = list(zip(*widths, strict=True))
        return [np.pad(values[0], pairs, constant_values=values[-1])]

    def text(self, op: Operation, names: ValueNames) -> str:
        source = op.operand("source")
        low, high = (f"{name}[{_list(sizes_of(op, name), names)}]" for name in ("low", "high"))
        value = names[op.operand("value")]
        return f"{names[source]} {low} {high}, {value} : {source.type} to {op.result.type}"


def _check_inside(
    op: Operation,
    name: str,
    type: RankedTensorType,
    offsets: Sequence[Value],
    sizes: Sequence[int | str],
) -> None:
    for dim, (offset, size, extent) in enumerate(zip(offsets, sizes, type.shape, strict=True)):
        start = offset.constant
        if start is None or isinstance(size, str):
            start, least = 0, 0 if isinstance(size, str) else size
        else:
            least = start + size
        if start < 0 or (isinstance(extent, int) and least > extent):
            raise op.error(
                "E_INDEX_RANGE", f"offset {start} and size {size} leave dim {dim} of {name} {type}"
            )


def _box(
    op: Operation, array: np.ndarray, offsets: Sequence[Any], sizes: Sequence[Any]
) -> tuple[slice, ...]:
    box = []
    for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        start, stop = int(offset), int(offset) + int(size)
        if start < 0 or int(size) < 0 or stop > array.shape[dim]:
            raise op.error(
                "E_INDEX_RANGE", f"{start}..{stop} leaves dim {dim} of extent {array.shape[dim]}"
            )
        box.append(slice(start, stop))
    return tuple(box)


class TensorOps(Insertion):
    """The builder's tensors."""

    def empty(self, shape: Sequence[IndexLike], dtype: str = "f32") -> Value:
        """A tensor to be written; its elements are undefined."""
        static, dynamic = split(shape)
        attributes = {"static_sizes": static, "dtype": dtype}
        return self.create("tensor.empty", {"sizes": dynamic}, attributes).result

    def extract_slice(
        self, source: Value, offsets: Sequence[IndexLike], sizes: Sequence[IndexLike]
    ) -> Value:
        """A box of a tensor."""
        static, dynamic = split(sizes)
        operands = {"source": source, "offsets": self.indices(offsets), "sizes": dynamic}
        return self.create("tensor.extract_slice", operands, {"static_sizes": static}).result

    def insert_slice(self, source: Value, dest: Value, offsets: Sequence[IndexLike]) -> Value:
        """``dest`` with a box replaced by ``source``."""
        operands = {"source": source, "dest": dest, "offsets": self.indices(offsets)}
        return self.create("tensor.insert_slice", operands).result

    def pad(
        self,
        source: Value,
        low: Sequence[IndexLike],
        high: Sequence[IndexLike],
        value: Any = 0,
        shape: Sequence[int | str] | None = None,
    ) -> Value:
        """``source`` with elements of ``value`` around it; ``shape`` where it is known better."""
        lows, highs = split(low), split(high)
        if shape is None:
            parts = zip(source.shape, lows[0], highs[0], strict=True)
            shape = [sum(p) if all(isinstance(one, int) for one in p) else "?" for p in parts]
        operands = {
            "source": source,
            "low": lows[1],
            "high": highs[1],
            "value": self.element(value, source.dtype),
        }
        attributes = {"static_low": lows[0], "static_high": highs[0], "shape": tuple(shape)}
        return self.create("tensor.pad", operands, attributes).result
