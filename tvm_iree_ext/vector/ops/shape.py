"""Ops that move elements between shapes: transpose, broadcast, splat, shuffle, casts of shape."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import Type, VectorType, extents
from tvm_iree_ext.vector.ops import checks


class _FromTo(Definition):
    """An op printed with its operand's and its result's type."""

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{names.list(op.operands)} : {op.operands[0].type} to {op.result.type}"

    def spelling(self, op: Operation) -> str | None:
        came = extents(op.operands[0].shape) or "scalar"
        return f"{self.name.partition('.')[2]} {came}->{extents(op.result.shape)}"


@register
class VectorTranspose(_FromTo):
    """``R[r] = V[v]`` with ``v[permutation[k]] = r[k]``."""

    name = "vector.transpose"
    operands = ("vector",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        permutation = checks.ints(op, "permutation")
        if sorted(permutation) != list(range(vector.rank)):
            raise op.error(
                "E_PERMUTATION",
                f"permutation is {list(permutation)}; expected one of the {vector.rank} dims of"
                f" {vector}",
            )
        return [VectorType(tuple(vector.shape[dim] for dim in permutation), vector.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [values[0].transpose(op.attributes["permutation"])]

    def text(self, op: Operation, names: ValueNames) -> str:
        vector, permutation = op.operand("vector"), list(op.attributes["permutation"])
        return f"{names[vector]}, {permutation} : {vector.type} to {op.result.type}"


@register
class Broadcast(_FromTo):
    """``R[r] = S[s]``, s being r's last coordinates, with 0 where the source's extent is 1."""

    name = "vector.broadcast"
    operands = ("source",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        source = checks.value_of(op, "source")
        result = VectorType(op.attributes["shape"], source.dtype)
        lead = result.rank - len(source.shape)
        if lead < 0:
            raise op.error("E_RANK", f"source is {source}; {result} has fewer dims")
        for dim, (came, extent) in enumerate(zip(source.shape, result.shape[lead:], strict=True)):
            if came not in (1, extent):
                raise op.error(
                    "E_SHAPE_MISMATCH",
                    f"dim {dim} of source is {came}; expected 1 or {extent} as dim {lead + dim} of"
                    f" {result}",
                )
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.broadcast_to(values[0], op.result.shape)]


@register
class VectorSplat(_FromTo):
    """A scalar in every lane."""

    name = "vector.splat"
    operands = ("source",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        source = op.operand("source").type
        if source.shape != () or checks.value_of(op, "source") != source:
            raise op.error("E_RANK", f"source is {source}; expected a scalar")
        return [VectorType(op.attributes["shape"], source.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.broadcast_to(values[0], op.result.shape)]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{names.list(op.operands)} : {op.result.type}"

    def spelling(self, op: Operation) -> str:
        return f"splat {extents(op.result.shape)}"


@register
class Shuffle(Definition):
    """``R[k] = concat(v1, v2)[mask[k]]`` along the outermost dim."""

    name = "vector.shuffle"
    operands = ("v1", "v2")
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        v1, v2 = checks.vector_of(op, "v1"), checks.vector_of(op, "v2")
        if v1.rank != v2.rank or v1.rank < 1:
            raise op.error("E_RANK", f"v1 is {v1}, v2 is {v2}; expected one rank from 1")
        checks.same_dtype(op, "v2", v2.dtype, v1.dtype, "v1")
        checks.same_shape(op, "v2 without its first dim", v2.shape[1:], v1.shape[1:], "v1")
        mask = checks.ints(op, "mask")
        if not mask:
            raise op.error("E_ATTR_LENGTH", "mask is empty; expected an entry for each result")
        count = v1.shape[0] + v2.shape[0]
        for place, index in enumerate(mask):
            if not 0 <= index < count:
                raise op.error(
                    "E_INDEX_RANGE", f"mask[{place}] is {index}; expected 0..{count - 1}"
                )
        return [VectorType((len(mask), *v1.shape[1:]), v1.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [np.concatenate(values)[list(op.attributes["mask"])]]

    def text(self, op: Operation, names: ValueNames) -> str:
        mask = list(op.attributes["mask"])
        return f"{names.list(op.operands)} {mask} : {names.types(op.operands)}"


@register
class ShapeCast(_FromTo):
    """The same elements in row-major order, in another shape."""

    name = "vector.shape_cast"
    operands = ("vector",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        result = VectorType(op.attributes["shape"], vector.dtype)
        if prod(result.shape) != prod(vector.shape):
            raise op.error(
                "E_SHAPE_MISMATCH",
                f"vector is {vector} with {prod(vector.shape)} elements; {result} has"
                f" {prod(result.shape)}",
            )
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [values[0].reshape(op.result.shape)]


@register
class Reshape(_FromTo):
    """Blocks anew a padded array: the sequence of its valid elements stays.

    A vector ``[.. x blocks] x F`` models an array of ``input_shape`` whose minor dims are cut into
    blocks of the fixed sizes F, the last one filled up with lanes of any value.
    """

    name = "vector.reshape"
    operands = ("vector",)

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        came, made, fixed = (
            checks.ints(op, name) for name in ("input_shape", "output_shape", "fixed_vector_sizes")
        )
        if prod(came) != prod(made):
            raise op.error(
                "E_SHAPE_MISMATCH",
                f"input_shape {list(came)} has {prod(came)} elements;"
                f" output_shape {list(made)} has {prod(made)}",
            )
        for name, shape in (("input_shape", came), ("output_shape", made)):
            if len(shape) < len(fixed):
                raise op.error(
                    "E_RANK",
                    f"{name} {list(shape)} has fewer dims than fixed_vector_sizes {list(fixed)}",
                )
        checks.same_shape(op, "vector", vector.shape, blocked(came, fixed), "input_shape in blocks")
        return [VectorType(blocked(made, fixed), vector.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        came, made, fixed = (
            op.attributes[name] for name in ("input_shape", "output_shape", "fixed_vector_sizes")
        )
        result = np.zeros(op.result.shape, values[0].dtype)
        places = zip(np.ndindex(*came), np.ndindex(*made), strict=True)
        for source, target in places:
            result[block_place(target, fixed)] = values[0][block_place(source, fixed)]
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        shapes = (
            str(list(op.attributes[name]))
            for name in ("input_shape", "output_shape", "fixed_vector_sizes")
        )
        vector = op.operand("vector")
        return f"{names[vector]}, {', '.join(shapes)} : {vector.type} to {op.result.type}"


def blocked(shape: Sequence[int], fixed: Sequence[int]) -> tuple[int, ...]:
    """The extents of a vector that models an array of ``shape`` in blocks of the fixed sizes."""
    lead = len(shape) - len(fixed)
    counts = (-(-e // f) for e, f in zip(shape[lead:], fixed, strict=True))
    return (*shape[:lead], *counts, *fixed)


def block_place(index: Sequence[int], fixed: Sequence[int]) -> tuple[int, ...]:
    """Index in the blocked vector of an element of the array."""
    lead = len(index) - len(fixed)
    pairs = [divmod(i, f) for i, f in zip(index[lead:], fixed, strict=True)]
    return (*index[:lead], *(block for block, _ in pairs), *(lane for _, lane in pairs))


class ShapeOps(Insertion):
    """The builder's changes of shape."""

    def transpose(self, vector: Value, permutation: Sequence[int]) -> Value:
        """Dim k of the result is dim ``permutation[k]`` of ``vector``."""
        attributes = {"permutation": tuple(permutation)}
        return self.create("vector.transpose", {"vector": vector}, attributes).result

    def broadcast(self, source: Value, shape: Sequence[int]) -> Value:
        """Repeat along new leading dims, and along dims of extent 1."""
        return self.create("vector.broadcast", {"source": source}, {"shape": tuple(shape)}).result

    def splat(self, source: Value, shape: Sequence[int]) -> Value:
        """A scalar in every lane."""
        return self.create("vector.splat", {"source": source}, {"shape": tuple(shape)}).result

    def shuffle(self, v1: Value, v2: Value, mask: Sequence[int]) -> Value:
        """Choose among the lanes, or rows, of two vectors."""
        return self.create("vector.shuffle", {"v1": v1, "v2": v2}, {"mask": tuple(mask)}).result

    def shape_cast(self, vector: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        return self.create("vector.shape_cast", {"vector": vector}, {"shape": tuple(shape)}).result

    def cast(self, vector: Value, shape: Sequence[int]) -> Value:
        """Flatten minor dims: ``[.. x K1 x .. x Kj]`` to ``[.. x K]`` with their product (rule R9).

        Raises:
            VectorError: E_IRREGULAR_CAST for any other shape.
        """
        came, made = tuple(vector.shape), tuple(shape)
        lead = len(made) - 1
        if not made or made[:lead] != came[:lead] or made[lead] != prod(came[lead:]):
            raise VectorError(
                "E_IRREGULAR_CAST",
                f"vector.cast: vector is {vector.type}; {VectorType(made, vector.dtype)} does not"
                " merge its minor dims",
            )
        return self.shape_cast(vector, made)

    def reshape(
        self,
        vector: Value,
        input_shape: Sequence[int],
        output_shape: Sequence[int],
        fixed_vector_sizes: Sequence[int],
    ) -> Value:
        """Block a padded array anew: see :class:`Reshape`."""
        attributes = {
            "input_shape": tuple(input_shape),
            "output_shape": tuple(output_shape),
            "fixed_vector_sizes": tuple(fixed_vector_sizes),
        }
        return self.create("vector.reshape", {"vector": vector}, attributes).result
