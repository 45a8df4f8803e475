"""transfer_read and transfer_write: vectors of any rank out of and into memory of any rank.

m[k]  = indices[k] + (v[p] where map[p] is d_k, else 0)
live  = 0 <= m[k] < extent_k for all k in the map whose position is not in bounds, and mask(v)
read:   V[v] = M[m] if live, else padding         write:  M[m] = V[v] if live
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import IndexLike, Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_errors import VectorError
from tvm_iree_ext.vector.ir.vector_types import RankedTensorType, ScalarType, Type, VectorType
from tvm_iree_ext.vector.ops import checks


def mask_dims(map: AffineMap) -> list[int]:
    """The vector's dims in the order of the mask's: as in memory, without broadcasts."""
    found = {d: p for p, d in enumerate(map.dims) if d is not None}
    return [found[d] for d in sorted(found)]


def _check(op: Operation, memory: str, shape: Sequence[int], dtype: str) -> None:
    """The rules that both transfers have."""
    type = checks.memory_of(op, memory)
    map = op.attributes["permutation_map"]
    checks.indices_of(op, "indices", type.rank, memory)
    if map.num_dims != type.rank:
        raise op.error(
            "E_MAP",
            f"permutation_map {map} has {map.num_dims} dims; {memory} {type} has {type.rank}",
        )
    if not map.is_projected_permutation(zero=True):
        raise op.error(
            "E_MAP", f"permutation_map {map}: expected distinct plain dims, or 0 for a broadcast"
        )
    if len(map.results) != len(shape):
        raise op.error(
            "E_RANK",
            f"permutation_map {map} has {len(map.results)} results; the vector has"
            f" rank {len(shape)}",
        )
    checks.length(op, "in_bounds", op.attributes["in_bounds"], len(shape), "dim of the vector")
    checks.same_dtype(op, "the vector", dtype, type.dtype, memory)
    checks.mask_of(op, [shape[p] for p in mask_dims(map)], "the vector's dims in memory order")


def _text(op: Operation, names: ValueNames, memory: str, first: str, last: str) -> str:
    map, in_bounds = op.attributes["permutation_map"], op.attributes["in_bounds"]
    attributes = []
    if not map.is_minor_identity:
        attributes.append(f"permutation_map = affine_map<{map}>")
    if any(in_bounds):
        attributes.append(f"in_bounds = [{', '.join(str(b).lower() for b in in_bounds)}]")
    at = f"{names[op.operand(memory)]}[{names.list(op.group('indices'))}]"
    operands = [one for one in (first, at, last, names.list(op.group("mask"))) if one]
    return f"{', '.join(operands)}{names.attributes(attributes)}"


def _places(
    op: Operation, memory: np.ndarray, indices: Sequence[Any], shape: Sequence[int], mask: Any
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """For each position of the vector: its index in memory, and whether it is live."""
    map, in_bounds = op.attributes["permutation_map"], op.attributes["in_bounds"]
    grid = np.indices(shape)
    position = {d: p for p, d in enumerate(map.dims) if d is not None}
    live = np.ones(shape, bool)
    at = []
    for k in range(map.num_dims):
        m = np.full(shape, int(indices[k]))
        if k in position:
            m = m + grid[position[k]]
            if not in_bounds[position[k]]:
                live &= (m >= 0) & (m < memory.shape[k])
        at.append(m)
    if mask is not None:
        live &= mask[tuple(grid[p] for p in mask_dims(map))]
    for k, m in enumerate(at):
        if ((m < 0) | (m >= memory.shape[k]))[live].any():
            raise op.error(
                "E_INDEX_RANGE",
                f"dim {k} is touched at {int(m.max())}, outside its extent {memory.shape[k]},"
                " and said to be in bounds",
            )
    return tuple(at), live


@register
class TransferRead(Definition):
    """Reads a vector; what lies outside, or is masked off, is padding."""

    name = "vector.transfer_read"
    operands = ("source", "indices*", "padding", "mask?")
    read = "source"
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        source = checks.memory_of(op, "source")
        result = VectorType(op.attributes["shape"], source.dtype)
        _check(op, "source", result.shape, source.dtype)
        padding = op.operand("padding").type
        if padding != ScalarType(source.dtype):
            raise op.error(
                "E_ELEMENT_TYPE",
                f"padding is {padding}; expected {ScalarType(source.dtype)} as source has",
            )
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        source = op.segment_of(values, "source")[0]
        padding = op.segment_of(values, "padding")[0]
        mask = next(iter(op.segment_of(values, "mask")), None)
        shape = op.result.shape
        at, live = _places(op, source, op.segment_of(values, "indices"), shape, mask)
        result = np.full(shape, padding, source.dtype)
        result[live] = source[tuple(m[live] for m in at)]
        return [result]

    def text(self, op: Operation, names: ValueNames) -> str:
        body = _text(op, names, "source", "", names[op.operand("padding")])
        return f"{body} : {op.operand('source').type}, {op.result.type}"


@register
class TransferWrite(Definition):
    """Writes a vector; what lies outside, or is masked off, is left out."""

    name = "vector.transfer_write"
    operands = ("vector", "dest", "indices*", "mask?")
    written = "dest"
    counted = "vector"

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        dest = checks.memory_of(op, "dest")
        map = op.attributes["permutation_map"]
        if any(result.is_zero for result in map.results):
            raise op.error("E_BROADCAST_WRITE", f"permutation_map {map} has a 0")
        _check(op, "dest", vector.shape, vector.dtype)
        return [dest] if isinstance(dest, RankedTensorType) else []

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        vector, dest = values[:2]
        mask = next(iter(op.segment_of(values, "mask")), None)
        at, live = _places(op, dest, op.segment_of(values, "indices"), vector.shape, mask)
        if op.results:
            dest = dest.copy()
        if dest.ndim:
            dest[tuple(m[live] for m in at)] = vector[live]
        elif live:
            dest[()] = vector
        return [dest] if op.results else []

    def text(self, op: Operation, names: ValueNames) -> str:
        vector = op.operand("vector")
        body = _text(op, names, "dest", names[vector], "")
        return f"{body} : {vector.type}, {op.operand('dest').type}"


class TransferOps(Insertion):
    """The builder's transfers."""

    def transfer_read(
        self,
        source: Value,
        indices: Sequence[IndexLike],
        shape: Sequence[int],
        *,
        padding: Any = 0,
        permutation_map: AffineMap | str | None = None,
        in_bounds: Sequence[bool] | None = None,
        mask: Value | None = None,
    ) -> Value:
        """Read a vector of ``shape`` from a tensor or buffer, starting at ``indices``.

        Args:
            source: a tensor or buffer.
            indices: one for each of its dims.
            shape: of the vector.
            padding: what stands for elements outside; a number, or a scalar of the element type.
            permutation_map: from the dims of memory to those of the vector; 0 broadcasts.  By
                default the last dims in order.
            in_bounds: for each dim of the vector, a promise that nothing lies outside; by default
                none is given.
            mask: i1; in the order of the dims in memory, without broadcast dims.
        """
        operands = {
            "source": source,
            "indices": self.indices(indices),
            "padding": self.element(padding, source.dtype),
            "mask": mask,
        }
        attributes = _attributes(source, shape, permutation_map, in_bounds)
        return self.create(
            "vector.transfer_read", operands, {"shape": tuple(shape), **attributes}
        ).result

    def transfer_write(
        self,
        vector: Value,
        dest: Value,
        indices: Sequence[IndexLike],
        *,
        permutation_map: AffineMap | str | None = None,
        in_bounds: Sequence[bool] | None = None,
        mask: Value | None = None,
    ) -> Value | None:
        """Write a vector into a tensor, which gives a new tensor, or into a buffer, in place.

        The arguments are as in :meth:`transfer_read`, but the map has no 0.
        """
        operands = {
            "vector": vector,
            "dest": dest,
            "indices": self.indices(indices),
            "mask": mask,
        }
        attributes = _attributes(dest, vector.shape, permutation_map, in_bounds)
        op = self.create("vector.transfer_write", operands, attributes)
        return op.result if op.results else None


def _attributes(
    memory: Value,
    shape: Sequence[int],
    permutation_map: AffineMap | str | None,
    in_bounds: Sequence[bool] | None,
) -> dict[str, Any]:
    if permutation_map is None:
        if len(shape) > memory.rank:
            raise VectorError(
                "E_RANK",
                f"transfer: the vector has rank {len(shape)} and {memory.type} only {memory.rank};"
                " give a permutation_map",
            )
        permutation_map = AffineMap.minor_identity(memory.rank, len(shape))
    map = AffineMap.parse(permutation_map)
    flags = tuple(in_bounds) if in_bounds is not None else tuple(r.is_zero for r in map.results)
    return {"permutation_map": map, "in_bounds": flags}
