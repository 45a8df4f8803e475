"""Buffers: load and store with their masked forms, gather and scatter, temporaries."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register, register_as
from tvm_iree_ext.vector.ir.insertion import IndexLike, Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_types import (
    INDEX,
    INTEGERS,
    BufferType,
    RankedTensorType,
    ScalarType,
    Type,
    VectorType,
    numpy_type,
    short,
)
from tvm_iree_ext.vector.ops import checks


def _check_minor(op: Operation, base: BufferType, vector: VectorType) -> None:
    """Check that a contiguous block of the minor dims is read or written."""
    if base.strides is not None and base.strides and base.strides[-1] != 1:
        raise op.error(
            "E_INNER_STRIDE", f"base {base} has the stride {base.strides[-1]}; expected 1"
        )
    if vector.rank > base.rank:
        raise op.error("E_RANK", f"the vector is {vector}; base {base} has fewer dims")
    checks.same_dtype(op, "the vector", vector.dtype, base.dtype, "base")
    checks.indices_of(op, "indices", base.rank, "base")


def _block(
    op: Operation, base: np.ndarray, indices: Sequence[Any], shape: Sequence[int], mask: Any
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The index of each position in the buffer, and whether it is touched."""
    live = np.ones(shape, bool) if mask is None else mask
    at = [np.full(shape, int(index)) for index in indices]
    lead = base.ndim - len(shape)
    for dim, step in enumerate(np.indices(shape)):
        at[lead + dim] = at[lead + dim] + step
    for k, m in enumerate(at):
        if ((m < 0) | (m >= base.shape[k]))[live].any():
            raise op.error(
                "E_INDEX_RANGE", f"dim {k} of base is touched outside its extent {base.shape[k]}"
            )
    return tuple(at), live


def _text(op: Operation, names: ValueNames, first: str, rest: str) -> str:
    base = op.operand("base")
    at = f"{names[base]}[{names.list(op.group('indices'))}]"
    return f"{', '.join(one for one in (first, at, rest) if one)} : {base.type}"


@register_as("vector.load", "vector.maskedload")
class Load(Definition):
    """A contiguous block of the minor dims; a lane that is masked off is pass_thru's."""

    operands = ("base", "indices*", "mask?", "pass_thru?")
    read = "base"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        base = checks.buffer_of(op, "base")
        result = VectorType(op.attributes["shape"], base.dtype)
        checks.mask_of(op, result.shape, "the result")
        _check_minor(op, base, result)
        pass_thru = op.optional("pass_thru")
        is_masked = op.name == "vector.maskedload"
        if is_masked != (pass_thru is not None) or is_masked != bool(op.group("mask")):
            raise op.error("E_STRUCTURE", "a mask and pass_thru are what a maskedload has")
        if pass_thru is not None:
            checks.vector_of(op, "pass_thru")
            checks.same_shape(op, "pass_thru", pass_thru.shape, result.shape, "the result")
            checks.same_dtype(op, "pass_thru", pass_thru.dtype, base.dtype, "base")
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        base = values[0]
        mask, pass_thru = values[-2:] if op.name == "vector.maskedload" else (None, None)
        at, live = _block(op, base, op.segment_of(values, "indices"), op.result.shape, mask)
        result = np.empty(op.result.shape, base.dtype) if pass_thru is None else pass_thru.copy()
        result[live] = base[tuple(m[live] for m in at)]
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        rest = names.list([*op.group("mask"), *op.group("pass_thru")])
        return f"{_text(op, names, '', rest)}, {op.result.type}"


@register_as("vector.store", "vector.maskedstore")
class Store(Definition):
    """Writes a contiguous block of the minor dims, but lanes that are masked off."""

    operands = ("value", "base", "indices*", "mask?")
    written = "base"
    counted = "value"

    def result_types(self, op: Operation) -> Sequence[Type]:
        base, value = checks.buffer_of(op, "base"), checks.vector_of(op, "value")
        if (op.name == "vector.maskedstore") != (op.optional("mask") is not None):
            raise op.error("E_STRUCTURE", "a mask is what a maskedstore has")
        checks.mask_of(op, value.shape, "value")
        _check_minor(op, base, value)
        return []

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        value, base = values[:2]
        mask = values[-1] if op.name == "vector.maskedstore" else None
        at, live = _block(op, base, op.segment_of(values, "indices"), value.shape, mask)
        base[tuple(m[live] for m in at)] = value[live]
        return []

    def text(self, op: Operation, names: ValueNames) -> str:
        value = op.operand("value")
        return f"{_text(op, names, names[value], names.list(op.group('mask')))}, {value.type}"


def _check_lanes(op: Operation, other: str) -> VectorType:
    """Offsets, indices and mask of a gather or scatter fit ``other``, the vector of elements."""
    base = checks.memory_of(op, "base")
    if isinstance(base, BufferType) and base.strides is not None and base.strides[-1] != 1:
        raise op.error(
            "E_INNER_STRIDE", f"base {base} has the stride {base.strides[-1]}; expected 1"
        )
    checks.indices_of(op, "offsets", base.rank, "base")
    indices = checks.vector_of(op, "indices")
    if indices.dtype not in INTEGERS or indices.dtype == "bool":
        raise op.error("E_ELEMENT_TYPE", f"indices are {indices}; expected integers")
    for name in ("mask", other):
        checks.same_shape(op, name, checks.vector_of(op, name).shape, indices.shape, "indices")
    checks.same_dtype(op, "mask", op.operand("mask").dtype, "bool", "a mask")
    vector = checks.vector_of(op, other)
    checks.same_dtype(op, other, vector.dtype, base.dtype, "base")
    return vector


def _flat_places(
    op: Operation, base: np.ndarray, offsets: Sequence[Any], indices: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Row-major positions of live lanes, in lane order."""
    start = 0
    for offset, extent in zip(offsets, base.shape, strict=True):
        start = start * extent + int(offset)
    places = start + indices[mask].astype(np.int64)
    if ((places < 0) | (places >= prod(base.shape))).any():
        raise op.error("E_INDEX_RANGE", f"a live lane lies outside base of {list(base.shape)}")
    return places


@register
class VectorGather(Definition):
    """``R[i] = mask[i] ? base_flat[lin(offsets) + indices[i]] : pass_thru[i]``."""

    name = "vector.gather"
    operands = ("base", "offsets*", "indices", "mask", "pass_thru")
    read = "base"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        return [_check_lanes(op, "pass_thru")]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        base, (indices, mask, pass_thru) = values[0], values[-3:]
        result = pass_thru.copy()
        places = _flat_places(op, base, op.segment_of(values, "offsets"), indices, mask)
        result[mask] = base.reshape(-1)[places]
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        at = f"{names[op.operand('base')]}[{names.list(op.group('offsets'))}]"
        lanes = [op.operand(name) for name in ("indices", "mask", "pass_thru")]
        types = names.types([op.operand("base"), *lanes])
        return f"{at} [{names[lanes[0]]}], {names.list(lanes[1:])} : {types} into {op.result.type}"


@register
class VectorScatter(Definition):
    """``base_flat[lin(offsets) + indices[i]] = value[i]`` where mask[i], in order of the lanes."""

    name = "vector.scatter"
    operands = ("base", "offsets*", "indices", "mask", "value")
    written = "base"
    counted = "value"

    def result_types(self, op: Operation) -> Sequence[Type]:
        checks.buffer_of(op, "base")
        _check_lanes(op, "value")
        return []

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        base, (indices, mask, value) = values[0], values[-3:]
        places = _flat_places(op, base, op.segment_of(values, "offsets"), indices, mask)
        for place, lane in zip(places, value[mask], strict=True):
            base.reshape(-1)[place] = lane
        return []

    def text(self, op: Operation, names: ValueNames) -> str:
        at = f"{names[op.operand('base')]}[{names.list(op.group('offsets'))}]"
        lanes = [op.operand(name) for name in ("indices", "mask", "value")]
        types = names.types([op.operand("base"), *lanes])
        return f"{at} [{names[lanes[0]]}], {names.list(lanes[1:])} : {types}"


@register
class Alloc(Definition):
    """A temporary buffer; its elements are undefined."""

    name = "memref.alloc"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        return [BufferType(VectorType(op.attributes["shape"], "f32").shape, op.attributes["dtype"])]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.zeros(op.result.shape, numpy_type(op.result.dtype))]

    def writes(self, op: Operation) -> Sequence[Value]:
        return op.results

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"() : {op.result.type}"


@register_as("memref.load", "tensor.extract")
class LoadElement(Definition):
    """One element of a buffer or tensor."""

    operands = ("base", "indices*")
    read = "base"

    def result_types(self, op: Operation) -> Sequence[Type]:
        of_buffer = op.name == "memref.load"
        base = checks.buffer_of(op, "base") if of_buffer else checks.tensor_of(op, "base")
        checks.indices_of(op, "indices", base.rank, "base")
        return [ScalarType(base.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        at, _ = _block(op, values[0], values[1:], (), None)
        return [np.array(values[0][tuple(map(int, at))])]

    def text(self, op: Operation, names: ValueNames) -> str:
        return _text(op, names, "", "")

    def spelling(self, op: Operation) -> str:
        return f"{self.name.partition('.')[2]} scalar"


@register
class StoreElement(Definition):
    """Writes one element of a buffer."""

    name = "memref.store"
    operands = ("value", "base", "indices*")
    written = "base"

    def result_types(self, op: Operation) -> Sequence[Type]:
        base, value = checks.buffer_of(op, "base"), op.operand("value")
        if value.type != ScalarType(base.dtype):
            raise op.error("E_ELEMENT_TYPE", f"value is {value.type}; expected {short(base.dtype)}")
        checks.indices_of(op, "indices", base.rank, "base")
        return []

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        at, _ = _block(op, values[1], values[2:], (), None)
        values[1][tuple(map(int, at))] = values[0]
        return []

    def text(self, op: Operation, names: ValueNames) -> str:
        return _text(op, names, names[op.operand("value")], "")

    def spelling(self, op: Operation) -> str:
        return "store scalar"


@register_as("memref.dim", "tensor.dim")
class Dim(Definition):
    """An extent of a buffer or tensor."""

    operands = ("base",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        base = checks.memory_of(op, "base")
        axis = op.attributes["axis"]
        if not 0 <= axis < base.rank:
            raise op.error("E_INDEX_RANGE", f"axis is {axis}; base is {base}")
        return [ScalarType(INDEX)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.asarray(values[0].shape[op.attributes["axis"]], np.int64)]

    def text(self, op: Operation, names: ValueNames) -> str:
        base = op.operand("base")
        return f"{names[base]}, {op.attributes['axis']} : {base.type}"


class MemoryOps(Insertion):
    """The builder's access to buffers."""

    def load(self, base: Value, indices: Sequence[IndexLike], shape: Sequence[int]) -> Value:
        """A contiguous block of a buffer; what lies outside is undefined."""
        operands = {"base": base, "indices": self.indices(indices)}
        return self.create("vector.load", operands, {"shape": tuple(shape)}).result

    def store(self, value: Value, base: Value, indices: Sequence[IndexLike]) -> None:
        """Write a contiguous block of a buffer."""
        operands = {"value": value, "base": base, "indices": self.indices(indices)}
        self.create("vector.store", operands)

    def maskedload(
        self, base: Value, indices: Sequence[IndexLike], mask: Value, pass_thru: Value
    ) -> Value:
        """Load with a mask; lanes that are masked off are ``pass_thru``'s, and not touched."""
        operands = {
            "base": base,
            "indices": self.indices(indices),
            "mask": mask,
            "pass_thru": pass_thru,
        }
        return self.create("vector.maskedload", operands, {"shape": pass_thru.shape}).result

    def maskedstore(
        self, value: Value, base: Value, indices: Sequence[IndexLike], mask: Value
    ) -> None:
        """Store with a mask: lanes that are masked off are not touched; see :meth:`store`."""
        operands = {"value": value, "base": base, "indices": self.indices(indices), "mask": mask}
        self.create("vector.maskedstore", operands)

    def gather(
        self,
        base: Value,
        offsets: Sequence[IndexLike],
        indices: Value,
        mask: Value,
        pass_thru: Value,
    ) -> Value:
        """Elements ``indices`` further along the innermost dim than ``offsets``."""
        operands = {
            "base": base,
            "offsets": self.indices(offsets),
            "indices": indices,
            "mask": mask,
            "pass_thru": pass_thru,
        }
        return self.create("vector.gather", operands).result

    def scatter(
        self,
        base: Value,
        offsets: Sequence[IndexLike],
        indices: Value,
        mask: Value,
        value: Value,
    ) -> None:
        """Write lanes where :meth:`gather` would read them; of equal places the last lane wins."""
        operands = {
            "base": base,
            "offsets": self.indices(offsets),
            "indices": indices,
            "mask": mask,
            "value": value,
        }
        self.create("vector.scatter", operands)

    def alloc(self, shape: Sequence[int], dtype: str = "f32") -> Value:
        """A temporary buffer: where values go that must go through memory (rule R7)."""
        return self.create("memref.alloc", {}, {"shape": tuple(shape), "dtype": dtype}).result

    def load_element(self, base: Value, indices: Sequence[IndexLike]) -> Value:
        """One element of a buffer or tensor."""
        name = "tensor.extract" if isinstance(base.type, RankedTensorType) else "memref.load"
        return self.create(name, {"base": base, "indices": self.indices(indices)}).result

    def store_element(self, value: Any, base: Value, indices: Sequence[IndexLike]) -> None:
        """Write one element of a buffer."""
        value = self.element(value, base.dtype)
        operands = {"value": value, "base": base, "indices": self.indices(indices)}
        self.create("memref.store", operands)

    def dim(self, base: Value, axis: int) -> Value:
        """An extent of a buffer or tensor: a constant where the type says it."""
        extent = base.shape[axis] if 0 <= axis < base.rank else None
        if isinstance(extent, int):
            return self.index(extent)
        name = "tensor.dim" if isinstance(base.type, RankedTensorType) else "memref.dim"
        return self.create(name, {"base": base}, {"axis": axis}).result
