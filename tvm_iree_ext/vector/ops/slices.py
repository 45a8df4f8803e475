"""extract_strided_slice and insert_strided_slice: boxes of vectors (rule R10: strides 1)."""

from collections.abc import Sequence
from typing import Any

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_types import Type, VectorType, extents
from tvm_iree_ext.vector.ops import checks


def _check_box(op: Operation, name: str, shape: Sequence[int], sizes: Sequence[int]) -> None:
    """Offsets inside, strides 1."""
    for dim, stride in enumerate(checks.ints(op, "strides")):
        if stride != 1:
            raise op.error("E_SLICE_STRIDE", f"strides[{dim}] is {stride}; expected 1")
    for dim, (offset, size) in enumerate(zip(checks.ints(op, "offsets"), sizes, strict=True)):
        if offset < 0 or size < 1 or offset + size > shape[dim]:
            raise op.error(
                "E_INDEX_RANGE",
                f"offset {offset} and size {size} leave dim {dim} of {name}, {shape[dim]}",
            )


def _text(op: Operation, names: ValueNames) -> str:
    texts = (f"{name} = {list(value)}" for name, value in op.attributes.items())
    return f"{names.list(op.operands)} {{{', '.join(texts)}}}"


@register
class ExtractStridedSlice(Definition):
    """``R[i] = V[i + offsets]``; dims after the last offset are kept whole."""

    name = "vector.extract_strided_slice"
    operands = ("vector",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        offsets, sizes = checks.ints(op, "offsets"), checks.ints(op, "sizes")
        for name, values in (("sizes", sizes), ("strides", op.attributes["strides"])):
            checks.length(op, name, values, len(offsets), "offset")
        if len(offsets) > vector.rank:
            raise op.error("E_ATTR_LENGTH", f"{len(offsets)} offsets; vector is {vector}")
        _check_box(op, "vector", vector.shape, sizes)
        return [VectorType(sizes + vector.shape[len(sizes) :], vector.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        box = zip(op.attributes["offsets"], op.attributes["sizes"], strict=True)
        return [values[0][tuple(slice(offset, offset + size) for offset, size in box)]]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{_text(op, names)} : {op.operand('vector').type} to {op.result.type}"

    def spelling(self, op: Operation) -> str:
        came = extents(op.operand("vector").shape)
        return f"extract_strided_slice {came}->{extents(op.result.shape)}"


@register
class InsertStridedSlice(Definition):
    """A copy of dest with ``out[offsets_lead ++ (i + offsets_trail)] = value[i]``."""

    name = "vector.insert_strided_slice"
    operands = ("value", "dest")

    def result_types(self, op: Operation) -> Sequence[Type]:
        value, dest = checks.vector_of(op, "value"), checks.vector_of(op, "dest")
        if value.rank > dest.rank:
            raise op.error("E_RANK", f"value is {value}; dest {dest} has fewer dims")
        checks.same_dtype(op, "value", value.dtype, dest.dtype, "dest")
        checks.length(op, "offsets", op.attributes["offsets"], dest.rank, "dim of dest")
        checks.length(op, "strides", op.attributes["strides"], value.rank, "dim of value")
        sizes = (1,) * (dest.rank - value.rank) + value.shape
        _check_box(op, "dest", dest.shape, sizes)
        return [dest]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        value, dest = values
        offsets = op.attributes["offsets"]
        lead = dest.ndim - value.ndim
        sizes = zip(offsets[lead:], value.shape, strict=True)
        result = dest.copy()
        box = (*offsets[:lead], *(slice(o, o + size) for o, size in sizes))
        result[box] = value
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{_text(op, names)} : {op.operand('value').type} into {op.result.type}"

    def spelling(self, op: Operation) -> str:
        came = extents(op.operand("value").shape)
        return f"insert_strided_slice {came}->{extents(op.result.shape)}"


class SliceOps(Insertion):
    """The builder's slices."""

    def extract_strided_slice(
        self,
        vector: Value,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """A box of ``vector``; dims after the last offset are kept whole."""
        attributes = {
            "offsets": tuple(offsets),
            "sizes": tuple(sizes),
            "strides": tuple(strides) if strides is not None else (1,) * len(offsets),
        }
        return self.create("vector.extract_strided_slice", {"vector": vector}, attributes).result

    def insert_strided_slice(
        self,
        value: Value,
        dest: Value,
        offsets: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """``dest`` with a box of it replaced by ``value``, which goes to the trailing dims."""
        attributes = {
            "offsets": tuple(offsets),
            "strides": tuple(strides) if strides is not None else (1,) * value.rank,
        }
        operands = {"value": value, "dest": dest}
        return self.create("vector.insert_strided_slice", operands, attributes).result
