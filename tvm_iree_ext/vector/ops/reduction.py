"""multi_reduction and reduction: folding dims of a vector.

The order in which floats are added is not fixed; results are compared with a tolerance.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.combining_kinds import combine
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.vector_types import ScalarType, Type, VectorType, extents
from tvm_iree_ext.vector.ops import checks


@register
class MultiReduction(Definition):
    """``out[q]``: ``acc[q]`` folded with all elements whose position without some dims is q."""

    name = "vector.multi_reduction"
    operands = ("source", "acc")

    def result_types(self, op: Operation) -> Sequence[Type]:
        source, acc = checks.vector_of(op, "source"), checks.value_of(op, "acc")
        dims = checks.ints(op, "reduction_dims")
        if not dims:
            raise op.error("E_NO_REDUCTION", "reduction_dims is empty")
        for dim in dims:
            if not 0 <= dim < source.rank:
                raise op.error("E_INDEX_RANGE", f"reduction_dims has {dim}; source is {source}")
        if len(set(dims)) != len(dims):
            raise op.error("E_PERMUTATION", f"reduction_dims {list(dims)} has a dim twice")
        checks.kind_of(op, source.dtype)
        shape = [extent for dim, extent in enumerate(source.shape) if dim not in dims]
        checks.same_dtype(op, "acc", acc.dtype, source.dtype, "source")
        checks.same_shape(op, "acc", acc.shape, shape, "the dims of source that are kept")
        return [acc]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        source, out = values
        dims = op.attributes["reduction_dims"]
        kept = [dim for dim in range(source.ndim) if dim not in dims]
        moved = source.transpose([*dims, *kept])
        for point in np.ndindex(moved.shape[: len(dims)]):
            out = combine(op.attributes["kind"], out, np.asarray(moved[point]))
        return [out]

    def text(self, op: Operation, names: ValueNames) -> str:
        kind, dims = op.attributes["kind"], list(op.attributes["reduction_dims"])
        source = op.operand("source").type
        return f"<{kind}>, {names.list(op.operands)} {dims} : {source} to {op.result.type}"

    def spelling(self, op: Operation) -> str:
        kept = extents(op.result.shape) or "scalar"
        return f"multi_reduction {extents(op.operand('source').shape)}->{kept}"


@register
class VectorReduction(Definition):
    """A scalar: all lanes of a 1-D vector folded, and ``acc`` where there is one."""

    name = "vector.reduction"
    operands = ("vector", "acc?")
    counted = "vector"

    def result_types(self, op: Operation) -> Sequence[Type]:
        vector = checks.vector_of(op, "vector")
        if vector.rank > 1:
            raise op.error("E_RANK", f"vector is {vector}; expected rank 1 or 0")
        checks.kind_of(op, vector.dtype)
        acc = op.optional("acc")
        if acc is not None and acc.type != ScalarType(vector.dtype):
            raise op.error(
                "E_ELEMENT_TYPE", f"acc is {acc.type}; expected {ScalarType(vector.dtype)}"
            )
        return [ScalarType(vector.dtype)]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        lanes = [np.asarray(lane) for lane in values[0].ravel()]
        out, *rest = [values[1], *lanes] if len(values) > 1 else lanes
        for lane in rest:
            out = combine(op.attributes["kind"], out, lane)
        return [out]

    def text(self, op: Operation, names: ValueNames) -> str:
        kind, vector = op.attributes["kind"], op.operand("vector").type
        return f"<{kind}>, {names.list(op.operands)} : {vector} into {op.result.type}"


class ReductionOps(Insertion):
    """The builder's reductions."""

    def multi_reduction(
        self, source: Value, acc: Any, reduction_dims: Sequence[int], *, kind: str = "add"
    ) -> Value:
        """Fold some dims of ``source`` into ``acc``, which has the other dims."""
        dims = set(reduction_dims)
        shape = tuple(e for dim, e in enumerate(source.shape) if dim not in dims)
        of: Type = VectorType(shape, source.dtype) if shape else ScalarType(source.dtype)
        operands = {"source": source, "acc": self.element(acc, of)}
        attributes = {"reduction_dims": tuple(reduction_dims), "kind": kind}
        return self.create("vector.multi_reduction", operands, attributes).result

    def reduction(self, vector: Value, acc: Any = None, *, kind: str = "add") -> Value:
        """Fold a 1-D vector, and ``acc`` where it is given, to a scalar."""
        given = None if acc is None else self.element(acc, vector.dtype)
        operands = {"vector": vector, "acc": given}
        return self.create("vector.reduction", operands, {"kind": kind}).result
