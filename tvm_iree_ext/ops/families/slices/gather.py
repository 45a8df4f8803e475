"""``iree_linalg_ext.gather``: the slices of a tensor that indices address.

For each batch position p and window position x, with c as :mod:`.slices` defines it:

    output[p, x] = source[c]

Differences to the dialect, each with its reason:

- The init is an operand of its own, as for every op, and may be left out: only where a slice is
  suppressed by the mask or for its index does its value show, and without an init that is 0.
- An index out of range, undefined there, suppresses its slice or is an error.  In range is an index
  whose whole window lies in ``source``.
- As in scatter, the window may cover indexed dims, with the index as its start corner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType
from tvm_iree_ext.ops.base.op import UncountedOp, operand_bytes
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.families.slices.scatter import OutOfRange
from tvm_iree_ext.ops.families.slices.slices import (
    IndexedSlices,
    check_dimension_map,
    check_mask,
    check_out_of_range,
    index_tensor,
    mask_tensor,
    resolve_slices,
)

_NAME = "iree_linalg_ext.gather"


@dataclass(frozen=True, eq=False)
class Gather(UncountedOp):
    """A gather of slices; made by :func:`gather`, which checks it."""

    types: Mapping[str, TensorType]
    slices: IndexedSlices
    has_init: bool
    out_of_range: OutOfRange
    name: str = _NAME

    @property
    def dtype(self) -> str:
        """The element type of source and output."""
        return self.types["source"].dtype

    @cached_property
    def signature(self) -> Signature:
        """``source, indices, [mask], [output_init], output``."""
        operands = [
            Operand(name, self.types[name].shape, self.types[name].dtype)
            for name in ("source", "indices", "mask")
            if name in self.types
        ]
        output = self.types["output"]
        if self.has_init:
            operands.append(Operand("output_init", output.shape, output.dtype))
        init = "output_init" if self.has_init else ""
        over = self.types["source"].shape
        operands.append(
            Operand("output", output.shape, output.dtype, "result", init=init, over=over)
        )
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's, and what becomes of an index out of range."""
        return {
            "dimension_map": list(self.slices.dimension_map),
            "out_of_range": self.out_of_range,
        }

    def bytes(self, extents: Mapping[str, int] | None = None) -> int:
        """The slices read and written, the indices and the mask; not all of source."""
        operands = {operand.name: operand for operand in self.signature.operands}
        counted = [operands[n] for n in ("indices", "mask", "output", "output") if n in operands]
        return sum(operand_bytes(operand, extents) for operand in counted)


def gather(
    source: OperandLike,
    indices: OperandLike,
    *,
    mask: OperandLike | None = None,
    output: OperandLike | None = None,
    dimension_map: Sequence[int] = (0,),
    out_of_range: OutOfRange = "skip",
    dtype: str = "float32",
    index_dtype: str = "int32",
) -> Gather:
    """The slices of ``source`` that ``indices`` address.

    Args:
        source: what is read; a shape (of ``dtype``), :class:`TensorType`, or anything with
            ``shape`` and ``dtype``.
        indices: batch dims, then the depth, ``len(dimension_map)``, which may be left out when it
            is 1; a bare shape means ``index_dtype``.
        mask: of the batch's shape, bool or int8; where its lowest bit is 0 the slice is suppressed.
            A bare shape means bool.
        output: an init, whose slices stay where they are suppressed.  Without one these are 0, the
            window covers the dims that are not indexed, and a last extent of indices of 1 is the
            depth, unless a mask has their rank.
        dimension_map: the dim of source that each index component addresses; a permutation.
        out_of_range: ``"skip"`` suppresses such slices; with ``"error"`` the kernel raises
            CallError before it writes anything.

    Raises:
        OpError: for a rank, extent, dtype, dimension map or mask that does not fit.
    """
    every = dtypes.ELEMENTS
    source_type = as_tensor(_NAME, "source", source, dtype, every, least=0)
    index_type = index_tensor(_NAME, indices, index_dtype)
    check_out_of_range(_NAME, out_of_range)
    mask_type = None if mask is None else mask_tensor(_NAME, mask)
    batch_rank = None if mask_type is None else len(mask_type.shape)
    depth = len(dimension_map)
    if output is None:
        check_dimension_map(_NAME, dimension_map, len(source_type.shape), "source")
        rank = len(index_type.shape)
        depth_dim = depth > 1 or (index_type.shape[-1] == 1 and batch_rank != rank)
        batch = index_type.shape[:-1] if depth_dim else index_type.shape
        output_type = TensorType(batch + source_type.shape[depth:], source_type.dtype)
    else:
        output_type = as_tensor(_NAME, "output", output, source_type.dtype, every, least=0)
    if output_type.dtype != source_type.dtype:
        raise OpError(
            f"{_NAME}: output has dtype {output_type.dtype};"
            f" expected {source_type.dtype} as source has"
        )
    slices = resolve_slices(
        _NAME,
        ("source", source_type),
        ("output", output_type),
        index_type,
        dimension_map,
        batch_rank,
    )
    types = {
        "source": TensorType(slices.full, source_type.dtype),
        "indices": TensorType(slices.indices, index_type.dtype),
        "output": TensorType(slices.slices, source_type.dtype),
    }
    if mask_type is not None:
        check_mask(_NAME, mask_type, slices.batch)
        types["mask"] = TensorType(slices.batch, mask_type.dtype)
    return Gather(
        types=types, slices=slices, has_init=output is not None, out_of_range=out_of_range
    )
