"""Products of groups of rows with a matrix for each group, as experts of a mixture have them.

    sums[m, n] = sum over k of lhs[m, k] * rhs[group(m), k, n]
    result[m, n] = epilogue(sums[m, n], operand0, operand1, ...)

Rows of a group lie together: those of group g end before row ``offsets[g]``, where those of group
g + 1 begin, which may be none.  ``offsets`` ascend; one below 0 is taken for 0, one beyond the rows
for their number.  Rows from the last of them on are of no group, and their results are 0.  It is
what PyTorch has in ``_grouped_mm`` and JAX in ``ragged_dot``; no dialect has it.

Types, and what an epilogue is, are those of the contraction that it is a part of: all groups'
products with all rows, ``full[g, m, n]``, of which each row has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.op import Op, resolve
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.regions import PlainRegion
from tvm_iree_ext.ops.families.contraction.contraction import FACTORS, Contraction, contraction

_NAME = "tvm_iree_ext.grouped_matmul"
G, M, N, K = range(4)
"""The dims of the whole contraction."""


@dataclass(frozen=True, eq=False)
class GroupedMatmul(Op):
    """A grouped product; made by :func:`grouped_matmul`, which checks it.

    ``full`` is the contraction of all groups with all rows, over the dims ``G, M, N, K``.
    """

    full: Contraction
    offsets: TensorType

    name = _NAME

    own_numbers = frozenset(dtypes.FLOATS8)

    @cached_property
    def in_words(self) -> Op:
        """The op of the contraction over words."""
        full = self.full.in_words
        return self if full is self.full else replace(self, full=full)  # type: ignore[arg-type]

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """By operand: those of the contraction, but for ``offsets`` and a result of rows alone."""
        types = dict(self.full.types)
        result = types.pop("result")
        others = {name: types.pop(name) for name in self.full.others}
        shape = result.shape[1:]
        return {
            **types, "offsets": self.offsets, **others, "result": TensorType(shape, result.dtype)
        }  # fmt: skip

    @cached_property
    def signature(self) -> Signature:
        """``lhs, rhs, offsets, operand0, ..., result``."""
        operands = [Operand(n, kind.shape, kind.dtype) for n, kind in self.types.items()]
        kind, over = self.types["result"], (self.full.extents[G], self.full.extents[K])
        operands[-1] = Operand("result", kind.shape, kind.dtype, "result", over=over)
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the contraction."""
        return self.full.attributes

    def flops(self, extents: Mapping[str, int] | None = None) -> int:
        """Two for each product, where every row has a group."""
        _, *own = (resolve(extent, extents) for extent in self.full.extents)
        return 2 * own[0] * own[1] * own[2]


def grouped_matmul(
    lhs: OperandLike,
    rhs: OperandLike,
    offsets: OperandLike,
    operands: Sequence[OperandLike] = (),
    *,
    transpose_rhs: bool = False,
    epilogue: PlainRegion | None = None,
    dtype: str = "float32",
    result_dtype: str | None = None,
) -> GroupedMatmul:
    """Multiply each group of rows with a matrix of its own, and put sums through an epilogue.

    Args:
        lhs: (rows, k), of ``dtype`` where a bare shape: floats, those of 8 bits among them, int8,
            int4 or uint4.
        rhs: (groups, k, n), or (groups, n, k) with ``transpose_rhs``; likewise.
        offsets: (groups,), int32 where a bare shape, or int64: the row before which each group
            ends.  Where they do not ascend the result is unspecified.
        operands: what the epilogue takes beside the sum, of any type; their axes are the last ones
            of (groups, rows, n), and where an extent is 1 and theirs is not, or an axis is not
            there, one element goes for all.
        epilogue, result_dtype: as of :func:`.contraction`.
        dtype: element type of operands given as bare shapes.

    Raises:
        OpError: as there, and for operands of other ranks, or another number of offsets.
    """
    types = {
        name: as_tensor(_NAME, name, given, dtype, FACTORS, least=0)
        for name, given in (("lhs", lhs), ("rhs", rhs))
    }
    for name, rank in (("lhs", 2), ("rhs", 3)):
        if (came := len(types[name].shape)) != rank:
            raise OpError(f"{_NAME}: {name} has rank {came}; expected {rank}")
    kind = as_tensor(_NAME, "offsets", offsets, "int32", ("int32", "int64"), least=0)
    groups, columns = types["rhs"].shape[0], types["rhs"].shape[1 if transpose_rhs else 2]
    if len(kind.shape) != 1 or kind.shape[0] not in (groups, "?"):
        raise OpError(
            f"{_NAME}: offsets has shape {list(kind.shape)}; expected one for each of the"
            f" {groups} groups of rhs"
        )
    wide = (groups, types["lhs"].shape[0], columns)
    every = dtypes.FLOATS + dtypes.INTEGERS
    others = [
        as_tensor(_NAME, f"operand{i}", o, dtype, every, least=0) for i, o in enumerate(operands)
    ]
    maps = [
        IndexingMap(4, ((M,), (K,))),
        IndexingMap(4, ((G,), (N,), (K,)) if transpose_rhs else ((G,), (K,), (N,))),
    ]
    for i, one in enumerate(others):
        rank = len(one.shape)
        if rank > len(wide):
            raise OpError(f"{_NAME}: operand{i} has rank {rank}; expected at most {len(wide)}")
        axes = zip(one.shape, range(3 - rank, 3), wide[3 - rank :], strict=True)
        maps.append(
            IndexingMap(4, tuple(() if e == 1 and full != 1 else (d,) for e, d, full in axes))
        )
    full = contraction(
        types["lhs"],
        types["rhs"],
        others,
        indexing_maps=[*maps, IndexingMap(4, ((G,), (M,), (N,)))],
        epilogue=epilogue,
        result_dtype=result_dtype,
    )
    return GroupedMatmul(full, TensorType((full.extents[G],), kind.dtype))
