"""``iree_linalg_ext.scatter``: combine slices of updates into a tensor, where indices say.

For each batch position p and window position x, with c as :mod:`.slices` defines it:

    result = original;   result[c] = region(updates[p, x], result[c])

Differences to the dialect, each with its reason:

- ``original`` and the result are two buffers: a kernel fills a result from operands that it leaves
  alone, and TensorIR cannot bind the loops of a block that reads what it writes.
- An index out of range, undefined there, is skipped or is an error.  In range is an index whose
  whole window lies in ``original``, as in XLA.
- With ``unique_indices=False`` updates hit an element in row-major batch order whatever the region,
  so the result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType
from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor
from tvm_iree_ext.ops.base.regions import Region, RegionLike, trace
from tvm_iree_ext.ops.families.slices.slices import (
    IndexedSlices,
    check_mask,
    check_out_of_range,
    index_tensor,
    mask_tensor,
    resolve_slices,
)

OutOfRange = Literal["skip", "error"]

_NAME = "iree_linalg_ext.scatter"


@dataclass(frozen=True, eq=False)
class Scatter(UncountedOp):
    """A scatter of slices; made by :func:`scatter`, which checks it."""

    types: Mapping[str, TensorType]
    slices: IndexedSlices
    unique_indices: bool
    region: Region
    out_of_range: OutOfRange
    name: str = _NAME

    @property
    def dtype(self) -> str:
        """The element type of updates and original."""
        return self.types["original"].dtype

    @property
    def compute_dtype(self) -> str:
        """The type that the region computes in."""
        return computed_dtype(self.dtype)

    @property
    def replaces(self) -> bool:
        """Whether an update takes the place of the current value."""
        return self.region.body.same_as(self.region.parameters[0])

    @cached_property
    def signature(self) -> Signature:
        """``updates, indices, [mask], original``, the region's numbers, ``result``."""
        operands = [
            Operand(name, self.types[name].shape, self.types[name].dtype)
            for name in ("updates", "indices", "mask", "original")
            if name in self.types
        ]
        operands += [one.operand for one in self.region_scalars]
        original = self.types["original"]
        shape, dtype = original.shape, original.dtype
        operands.append(
            Operand(
                "result",
                shape,
                dtype,
                "result",
                in_place_of="original",
                init="original",
                over=self.types["updates"].shape,
            )
        )
        return Signature(tuple(operands))

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's, the region, and what becomes of an index out of range."""
        return {
            "dimension_map": list(self.slices.dimension_map),
            "unique_indices": self.unique_indices,
            "region": self.region.text,
            "out_of_range": self.out_of_range,
        }


def scatter(
    updates: OperandLike,
    indices: OperandLike,
    original: OperandLike,
    *,
    mask: OperandLike | None = None,
    dimension_map: Sequence[int] = (0,),
    unique_indices: bool = True,
    region: RegionLike = "arg0",
    out_of_range: OutOfRange = "skip",
    dtype: str = "float32",
    index_dtype: str = "int32",
) -> Scatter:
    """``original`` with ``updates`` combined into the slices that ``indices`` address.

    Args:
        updates: batch dims, then the window; shapes (of ``dtype``), :class:`TensorType`, or
            anything with ``shape`` and ``dtype``.
        indices: batch dims, then the depth, ``len(dimension_map)``, which may be left out when it
            is 1; a bare shape means ``index_dtype``.
        original: what the updates are combined into.
        mask: of the batch's shape, bool or int8; where its lowest bit is 0 the update is skipped.
            A bare shape means bool.
        dimension_map: the dim of original that each index component addresses; a permutation.
        unique_indices: promises that no two updates hit one element; if two do, that element is
            unspecified.  ``False``: they are applied one after another, in row-major batch order.
        region: of the update (``arg0``) and the current value (``arg1``); a callable over TIR
            expressions, text such as ``"arg0 - arg1"``, or a name such as ``"add"`` or ``"max"``.
            The default replaces.  Over half floats it computes in float32.
        out_of_range: ``"skip"`` leaves such updates out; with ``"error"`` the kernel raises
            CallError before it writes anything.

    Raises:
        OpError: for a rank, extent, dtype, dimension map, mask or region that does not fit.
    """
    every = dtypes.ELEMENTS
    types = {
        "updates": as_tensor(_NAME, "updates", updates, dtype, every, least=0),
        "indices": index_tensor(_NAME, indices, index_dtype),
        "original": as_tensor(_NAME, "original", original, dtype, every, least=0),
    }
    element = types["original"].dtype
    if types["updates"].dtype != element:
        raise OpError(
            f"{_NAME}: updates has dtype {types['updates'].dtype};"
            f" expected {element} as original has"
        )
    check_out_of_range(_NAME, out_of_range)
    mask_type = None if mask is None else mask_tensor(_NAME, mask)
    batch_rank = None if mask_type is None else len(mask_type.shape)
    slices = resolve_slices(
        _NAME,
        ("original", types["original"]),
        ("updates", types["updates"]),
        types["indices"],
        dimension_map,
        batch_rank,
    )
    types["updates"] = TensorType(slices.slices, element)
    types["indices"] = TensorType(slices.indices, types["indices"].dtype)
    if mask_type is not None:
        check_mask(_NAME, mask_type, slices.batch)
        types["mask"] = TensorType(slices.batch, mask_type.dtype)
    types["original"] = TensorType(slices.full, element)
    compute = computed_dtype(element)
    traced = trace(_NAME, region, [compute, compute], yields=compute, takes_scalars=True)
    if element == "bool" and traced.known_as in ("add", "mul"):
        raise OpError(f"{_NAME}: region {traced.text!r} over bool; expected and, or, xor, min, max")
    return Scatter(
        types=types,
        slices=slices,
        unique_indices=bool(unique_indices),
        region=traced,
        out_of_range=out_of_range,
    )
