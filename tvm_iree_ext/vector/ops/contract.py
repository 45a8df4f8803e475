"""contract, outerproduct and fma: products that are summed, or folded by another kind.

A contraction's order of summation is not fixed; results are compared with a tolerance.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.affine_maps import AffineMap
from tvm_iree_ext.vector.ir.combining_kinds import combine
from tvm_iree_ext.vector.ir.core import Operation, Value
from tvm_iree_ext.vector.ir.definition import Definition, RunBlock, register
from tvm_iree_ext.vector.ir.insertion import Insertion
from tvm_iree_ext.vector.ir.printing import ValueNames
from tvm_iree_ext.vector.ir.rounding import fused_multiply_add
from tvm_iree_ext.vector.ir.vector_types import FLOATS, ScalarType, Type, VectorType, extents, short
from tvm_iree_ext.vector.ops import checks

PARALLEL, REDUCTION = "parallel", "reduction"


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two arrays of one type."""
    return combine("mul", a, b)


@register
class Contract(Definition):
    """A sum of products, or another fold of them, over a space with a map for each operand.

    ``out[map_acc(it)] = kind(out[map_acc(it)], ext(lhs[map_lhs(it)]) * ext(rhs[map_rhs(it)]))``
    """

    name = "vector.contract"
    operands = ("lhs", "rhs", "acc")

    def result_types(self, op: Operation) -> Sequence[Type]:
        types = {
            "lhs": checks.vector_of(op, "lhs"),
            "rhs": checks.vector_of(op, "rhs"),
            "acc": checks.value_of(op, "acc"),
        }
        maps, iterators = op.attributes["indexing_maps"], op.attributes["iterator_types"]
        checks.length(op, "indexing_maps", maps, 3, "of lhs, rhs, acc")
        for iterator in iterators:
            if iterator not in (PARALLEL, REDUCTION):
                raise op.error("E_MAP", f"iterator type {iterator!r}; expected parallel, reduction")
        for (name, type), map in zip(types.items(), maps, strict=True):
            if map.num_dims != len(iterators):
                raise op.error(
                    "E_ATTR_LENGTH",
                    f"the map of {name} has {map.num_dims} dims; expected {len(iterators)},"
                    " one for each iterator",
                )
            if not map.is_projected_permutation():
                raise op.error("E_MAP", f"the map of {name} is {map}; expected distinct plain dims")
            if len(map.results) != len(type.shape):
                raise op.error(
                    "E_RANK",
                    f"the map of {name} is {map} with {len(map.results)} results; {name} is {type}",
                )
        self._check_dims(op, maps, iterators)
        extents_of(op)
        checks.same_dtype(op, "rhs", types["rhs"].dtype, types["lhs"].dtype, "lhs")
        checks.widens(op, "lhs and rhs", types["lhs"].dtype, types["acc"].dtype)
        checks.kind_of(op, types["acc"].dtype)
        return [types["acc"]]

    @staticmethod
    def _check_dims(op: Operation, maps: Sequence[AffineMap], iterators: Sequence[str]) -> None:
        lhs, rhs, acc = (set(map.used) for map in maps)
        for dim, iterator in enumerate(iterators):
            if iterator == REDUCTION and dim in acc:
                raise op.error("E_MAP", f"the map of acc {maps[2]} has the reduction dim d{dim}")
            if dim not in lhs | rhs:
                raise op.error("E_MAP", f"d{dim} is in the map of neither lhs nor rhs")
            if iterator == PARALLEL and dim not in acc:
                raise op.error("E_MAP", f"the map of acc {maps[2]} lacks the parallel dim d{dim}")
        if not any(it == REDUCTION and d in lhs & rhs for d, it in enumerate(iterators)):
            raise op.error("E_NO_REDUCTION", "lhs and rhs share no reduction dim")

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        lhs, rhs, acc = values
        maps, iterators = op.attributes["indexing_maps"], op.attributes["iterator_types"]
        sizes = extents_of(op)
        reduced = [d for d, it in enumerate(iterators) if it == REDUCTION]
        # The coordinates of acc's positions; a reduction dim takes one value after the other.
        grid = dict(zip(maps[2].used, np.indices(acc.shape), strict=True))
        out = acc
        for point in np.ndindex(*(sizes[d] for d in reduced)):
            at = [grid[d] if d in grid else point[reduced.index(d)] for d in range(len(iterators))]
            a, b = (
                np.broadcast_to(one[map.at(at)], acc.shape).astype(acc.dtype)
                for one, map in ((lhs, maps[0]), (rhs, maps[1]))
            )
            out = combine(op.attributes["kind"], out, multiply(a, b))
        return [out]

    def text(self, op: Operation, names: ValueNames) -> str:
        maps = ", ".join(f"affine_map<{map}>" for map in op.attributes["indexing_maps"])
        iterators = ", ".join(f'"{it}"' for it in op.attributes["iterator_types"])
        kind = op.attributes["kind"]
        return (
            f"{{indexing_maps = [{maps}], iterator_types = [{iterators}],"
            f" kind = #vector.kind<{kind}>}} {names.list(op.operands)}"
            f" : {names.types(op.operands[:2])} into {op.result.type}"
        )

    def spelling(self, op: Operation) -> str:
        return f"contract {','.join(extents(v.shape) or 'scalar' for v in op.operands)}"


def extents_of(op: Operation) -> list[int]:
    """The extent of each dim of a contraction, on which all operands agree."""
    found: dict[int, tuple[int, str]] = {}
    for name, map in zip(("lhs", "rhs", "acc"), op.attributes["indexing_maps"], strict=True):
        for axis, (dim, extent) in enumerate(zip(map.used, op.operand(name).shape, strict=True)):
            known, of = found.setdefault(dim, (extent, name))
            if known != extent:
                raise op.error(
                    "E_SHAPE_MISMATCH",
                    f"d{dim} is {extent} in dim {axis} of {name}; expected {known} as in {of}",
                )
    return [found[dim][0] for dim in range(len(op.attributes["iterator_types"]))]


@register
class OuterProduct(Definition):
    """``R[i, j] = kind(acc[i, j], a[i] * b[j])``; b may be a scalar: ``kind(acc[i], a[i] * b)``."""

    name = "vector.outerproduct"
    operands = ("lhs", "rhs", "acc?")
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        lhs, rhs = checks.vector_of(op, "lhs"), checks.value_of(op, "rhs")
        if len(lhs.shape) != 1 or len(rhs.shape) > 1:
            raise op.error(
                "E_RANK", f"lhs is {lhs}, rhs is {rhs}; expected 1-D vectors, rhs may be a scalar"
            )
        checks.same_dtype(op, "rhs", rhs.dtype, lhs.dtype, "lhs")
        checks.kind_of(op, lhs.dtype)
        result = VectorType(lhs.shape + rhs.shape, lhs.dtype)
        acc = op.optional("acc")
        if acc is not None:
            checks.vector_of(op, "acc")
            checks.same_shape(op, "acc", acc.shape, result.shape, "of lhs, then rhs")
            checks.same_dtype(op, "acc", acc.dtype, lhs.dtype, "lhs")
        return [result]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        a, b = values[:2]
        shape = op.result.shape
        column = a[:, None] if b.ndim else a
        product = multiply(*(np.broadcast_to(one, shape).copy() for one in (column, b)))
        return [combine(op.attributes["kind"], values[2], product) if len(values) > 2 else product]

    def text(self, op: Operation, names: ValueNames) -> str:
        kind = op.attributes["kind"]
        kinds = names.attributes([] if kind == "add" else [f"kind = #vector.kind<{kind}>"])
        return f"{names.list(op.operands)}{kinds} : {names.types(op.operands[:2])}"


@register
class Fma(Definition):
    """``a * b + c`` with one rounding."""

    name = "vector.fma"
    operands = ("lhs", "rhs", "acc")
    counted = "result"

    def result_types(self, op: Operation) -> Sequence[Type]:
        lhs = checks.vector_of(op, "lhs")
        if lhs.dtype not in FLOATS:
            raise op.error("E_ELEMENT_TYPE", f"lhs has {short(lhs.dtype)}; expected floats")
        for name in ("rhs", "acc"):
            checks.vector_of(op, name)
            checks.same_shape(op, name, op.operand(name).shape, lhs.shape, "lhs")
            checks.same_dtype(op, name, op.operand(name).dtype, lhs.dtype, "lhs")
        return [lhs]

    def evaluate(self, op: Operation, values: Sequence[Any], run_block: RunBlock) -> Sequence[Any]:
        return [fused_multiply_add(*values)]

    def text(self, op: Operation, names: ValueNames) -> str:
        return f"{names.list(op.operands)} : {op.result.type}"


class ContractionOps(Insertion):
    """The builder's contractions."""

    def contract(
        self,
        lhs: Value,
        rhs: Value,
        acc: Value | float,
        *,
        indexing_maps: Sequence[AffineMap | str],
        iterator_types: Sequence[str],
        kind: str = "add",
    ) -> Value:
        """Multiply and fold: see :class:`Contract`.  ``acc`` is a vector or scalar.

        Args:
            lhs: a vector.
            rhs: a vector of the same element type.
            acc: what is added to; its type may be wider.
            indexing_maps: of lhs, rhs and acc, each a projected permutation of the same dims.
            iterator_types: "parallel" or "reduction" for each dim.
            kind: how products are folded; see :data:`..kinds.KINDS`.
        """
        attributes = {
            "indexing_maps": tuple(AffineMap.parse(map) for map in indexing_maps),
            "iterator_types": tuple(iterator_types),
            "kind": kind,
        }
        acc = self.element(acc, ScalarType(lhs.dtype))
        return self.create(
            "vector.contract", {"lhs": lhs, "rhs": rhs, "acc": acc}, attributes
        ).result

    def outerproduct(
        self, lhs: Value, rhs: Value, acc: Value | None = None, *, kind: str = "add"
    ) -> Value:
        """The products of all pairs, folded into ``acc``; with a scalar ``rhs``, an AXPY."""
        operands = {"lhs": lhs, "rhs": rhs, "acc": acc}
        return self.create("vector.outerproduct", operands, {"kind": kind}).result

    def fma(self, lhs: Value, rhs: Value, acc: Value) -> Value:
        """``lhs * rhs + acc`` with one rounding."""
        return self.create("vector.fma", {"lhs": lhs, "rhs": rhs, "acc": acc}).result
