"""``iree_vector_ext.to_layout``: says which lane holds which element; the value is unchanged.

    result = input

The layout is a :class:`~tvm_iree_ext.layout.NestedLayout`.  What a change of layouts costs is asked
of the op: :meth:`ToLayout.conversion_from`.  Difference to the dialect: the layout that the value
had before, which there comes from the context, is a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any, Literal, get_args

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import LayoutError, OpError
from tvm_iree_ext.base.signature import Operand, Signature, TensorType
from tvm_iree_ext.layout import Conversion, Movement, NestedLayout, analyse_conversion
from tvm_iree_ext.ops.base.layouts import LayoutLike, as_layout, as_mma_kind
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_tensor, as_vector, named_extents

OperandKind = Literal["tensor", "vector", "buffer"]

_NAME = "iree_vector_ext.to_layout"


@dataclass(frozen=True, eq=False)
class ToLayout(UncountedOp):
    """A value with a layout; made by :func:`to_layout`, which checks it."""

    type: TensorType
    layout: NestedLayout
    shared_memory_conversion: bool
    mma_kind: Any
    source_layout: NestedLayout | None = None
    name: str = _NAME

    @property
    def signature(self) -> Signature:
        """``input, result``."""
        shape, dtype = self.type.shape, self.type.dtype
        return Signature(
            (Operand("input", shape, dtype), Operand("result", shape, dtype, "result"))
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """The dialect's, and the layout before where one is given."""
        found = {
            "layout": str(self.layout),
            "shared_memory_conversion": self.shared_memory_conversion,
            "mma_kind": self.mma_kind,
        }
        if self.source_layout is not None:
            found["source_layout"] = str(self.source_layout)
        return found

    @property
    def moves_between_lanes(self) -> bool:
        """Whether it says how lanes come to hold the value: from which layout, or which way."""
        return self.shared_memory_conversion or self.source_layout is not None

    @property
    def keeps_lanes(self) -> bool:
        """Whether lanes certainly hold what they held in the source layout."""
        source = self.source_layout
        if source is None:
            return False
        subgroups = lcm(source.subgroup_period, self.layout.subgroup_period)
        lanes = lcm(source.lane_period, self.layout.lane_period)
        try:
            return self.conversion_from(source, subgroups, lanes).movement is Movement.FREE
        except LayoutError:  # too large to look at each element, or held by no hardware
            return False

    def conversion_from(
        self,
        source: LayoutLike,
        num_subgroups: int,
        subgroup_size: int,
        *,
        packed: bool = False,
    ) -> Conversion:
        """Steps to convert a value of another layout to this one.

        Raises:
            LayoutError: for layouts of different shapes, or that do not fit the hardware.
        """
        layout = as_layout(self.name, source)
        return analyse_conversion(layout, self.layout, num_subgroups, subgroup_size, packed=packed)

    def goes_through_shared_memory(
        self, source: LayoutLike, num_subgroups: int, subgroup_size: int
    ) -> bool:
        """Whether a change from another layout does: where this op demands it, or nothing else can.

        Raises:
            LayoutError: as :meth:`conversion_from`.
        """
        found = self.conversion_from(source, num_subgroups, subgroup_size)
        return self.shared_memory_conversion or found.movement is Movement.SHARED


def to_layout(
    input: OperandLike,
    layout: LayoutLike,
    *,
    shared_memory_conversion: bool = False,
    mma_kind: Any = None,
    source_layout: LayoutLike | None = None,
    operand_kind: OperandKind = "tensor",
    dtype: str = "float32",
) -> ToLayout:
    """``input``, with a layout.

    On a GPU the kernel is a copy, unless ``source_layout`` or ``shared_memory_conversion`` say how
    lanes come to hold the value: then a workgroup holds a tile of the layout's shape in registers
    by the first layout, converts it, and writes what it holds by the second.

    Args:
        input: a shape (of ``dtype``), a :class:`TensorType`, or anything with ``shape`` and
            ``dtype``.
        layout: a NestedLayout, the text of its attribute, or its seven lists by name.
        shared_memory_conversion: demands that a change of layouts goes through shared memory.
        mma_kind: names the matrix instruction of which this is an operand's layout, as text or
            plain JSON.  Rules for GPUs refuse a layout that is of no operand of it.
        source_layout: by which lanes hold the value before; of the layout's shape.
        operand_kind: a ``"tensor"`` may be smaller than the layout; a ``"vector"`` and a
            ``"buffer"`` have its extents, and a vector's are all numbers.
        dtype: element type of an input given as a bare shape.

    Raises:
        OpError: for a rank or extent that is not the layout's, and attributes that do not fit.
    """
    if operand_kind not in get_args(OperandKind):
        kinds = ", ".join(get_args(OperandKind))
        raise OpError(f"{_NAME}: operand_kind is {operand_kind!r}; expected one of {kinds}")
    allowed = dtypes.ELEMENTS
    if operand_kind == "vector":
        kind = as_vector(_NAME, "input", input, dtype, allowed)
    else:
        kind = named_extents(as_tensor(_NAME, "input", input, dtype, allowed, least=0), "input")
    nested = as_layout(_NAME, layout)
    try:
        nested.check_shape(kind.shape, exact=operand_kind != "tensor", op=_NAME)
    except LayoutError as error:
        raise OpError(str(error)) from None
    if not isinstance(shared_memory_conversion, bool):
        raise OpError(
            f"{_NAME}: shared_memory_conversion is {shared_memory_conversion!r};"
            " expected True or False"
        )
    source = None if source_layout is None else as_layout(_NAME, source_layout)
    if source is not None and source.undistributed_shape != nested.undistributed_shape:
        raise OpError(
            f"{_NAME}: source_layout has shape {list(source.undistributed_shape)};"
            f" expected {list(nested.undistributed_shape)} as the layout has"
        )
    named = as_mma_kind(_NAME, mma_kind)
    return ToLayout(kind, nested, shared_memory_conversion, named, source)
