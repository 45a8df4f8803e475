"""``iree_vector_ext.to_simt`` and ``to_simd``: a whole vector, and what each lane holds of it.

    to_simt:  result[g, t, (p,) *local] = input[x]        to_simd:  result[x] = input[g, t, ...]

x is the coordinate of element ``local`` of lane t of subgroup g, by the layout: see
:mod:`tvm_iree_ext.layout.nested`.  ``local`` has the vector's rank (``batch*outer*element`` per
dimension), or packed ``batch ++ outer ++ element``.  Where there are fewer subgroups than subgroup
tiles, an axis p counts the parts that each holds.  These are the arrays of
:mod:`tvm_iree_ext.layout.distribute`, whose shapes and ids are used here.

Where several lanes hold an element they hold the same value, and ``to_simd`` reads the first of
them.  A tensor may be smaller than its layout: lanes then hold the padding where it ends, which
``to_simd`` leaves out.  Difference to the dialect: the layout, which there comes from the context,
and the hardware are parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import LayoutError, OpError
from tvm_iree_ext.base.signature import Operand, Shape, Signature, TensorType, shape_text
from tvm_iree_ext.layout import NestedLayout
from tvm_iree_ext.layout.distribute import simt_shape
from tvm_iree_ext.layout.ownership import check_hardware
from tvm_iree_ext.ops.base.layouts import LayoutLike, as_layout
from tvm_iree_ext.ops.base.op import UncountedOp
from tvm_iree_ext.ops.base.operands import OperandLike, as_vector
from tvm_iree_ext.ops.base.padding import Padding, check_padding, padding_json

_DTYPES = dtypes.ELEMENTS


@dataclass(frozen=True, eq=False)
class Distribution(UncountedOp):
    """A to_simt or to_simd; made by the functions of these names, which check it.

    ``whole`` is the type of the vector or tensor; ``padding`` is None for ``to_simd``.
    """

    name: str
    whole: TensorType
    layout: NestedLayout
    num_subgroups: int
    subgroup_size: int
    packed: bool
    padding: Padding | None

    @property
    def distributes(self) -> bool:
        """Whether this is ``to_simt``."""
        return self.name.endswith("to_simt")

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.whole.dtype

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return tuple(int(extent) for extent in self.whole.shape)

    @cached_property
    def parts_shape(self) -> tuple[int, ...]:
        """The shape of what all lanes hold."""
        hardware = (self.num_subgroups, self.subgroup_size)
        return simt_shape(self.layout, *hardware, packed=self.packed)

    @property
    def parts(self) -> int:
        """How many parts each subgroup holds; they have an axis where they are several."""
        return max(1, prod(self.layout.subgroup_tile) // self.num_subgroups)

    @cached_property
    def signature(self) -> Signature:
        """``input, [padding], result``."""
        shapes: tuple[Shape, Shape] = (self.whole.shape, self.parts_shape)
        source, result = shapes if self.distributes else shapes[::-1]
        operands = [Operand("input", source, self.dtype)]
        if self.padding == "operand":
            operands.append(Operand("padding", (), self.dtype, "scalar"))
        return Signature((*operands, Operand("result", result, self.dtype, "result")))

    @property
    def attributes(self) -> dict[str, Any]:
        """The layout, the hardware and the form; for ``to_simt`` the padding."""
        plain: dict[str, Any] = {
            "layout": str(self.layout),
            "num_subgroups": self.num_subgroups,
            "subgroup_size": self.subgroup_size,
            "packed": self.packed,
        }
        return plain | ({"padding": padding_json(self.padding)} if self.distributes else {})


def to_simt(
    input: OperandLike,
    layout: LayoutLike,
    *,
    num_subgroups: int,
    subgroup_size: int,
    packed: bool = False,
    padding: Padding = 0,
    result: OperandLike | None = None,
    dtype: str = "float32",
) -> Distribution:
    """Distribute a vector over lanes.

    Args:
        input: the whole: a shape (of ``dtype``), a :class:`TensorType`, or anything with ``shape``
            and ``dtype``; extents are numbers, at most the layout's.
        layout: a NestedLayout, the text of its attribute, or its seven lists by name.
        num_subgroups, subgroup_size: the hardware: a multiple of what the layout takes (lanes then
            hold the same), or, of subgroups, a divisor (each then holds several parts).
        packed: whether a lane's elements have the packed shape.
        padding: what lanes hold where the input ends before the layout: a number or ``"operand"``.
        result: the result's type, to be checked when given.
        dtype: element type of operands given as bare shapes.

    Raises:
        OpError: for a rank, extent, dtype or hardware that does not fit the layout.
    """
    op = "iree_vector_ext.to_simt"
    whole = as_vector(op, "input", input, dtype, _DTYPES)
    nested = _layout(op, layout, num_subgroups, subgroup_size)
    _check_whole(op, "input", whole, nested)
    fill = check_padding(op, "padding", padding, whole.dtype)
    made = Distribution(op, whole, nested, num_subgroups, subgroup_size, bool(packed), fill)
    if result is not None:
        came = as_vector(op, "result", result, whole.dtype, _DTYPES)
        _check_dtype(op, came, whole.dtype)
        if came.shape != made.parts_shape:
            raise OpError(
                f"{op}: result has shape {shape_text(came.shape)};"
                f" expected {shape_text(made.parts_shape)}"
            )
    return made


def to_simd(
    input: OperandLike,
    layout: LayoutLike,
    *,
    num_subgroups: int,
    subgroup_size: int,
    result: OperandLike | None = None,
    dtype: str = "float32",
) -> Distribution:
    """The whole vector, from what every lane holds of it.

    Args:
        input: what the lanes hold: a shape (of ``dtype``), a :class:`TensorType`, or anything with
            ``shape`` and ``dtype``, of the packed or the unpacked form.
        layout, num_subgroups, subgroup_size: as in :func:`to_simt`.
        result: the whole's type, by default of the layout's shape; a smaller one leaves out what
            lanes hold beyond it.
        dtype: element type of operands given as bare shapes.

    Raises:
        OpError: for a shape, dtype or hardware that does not fit the layout.
    """
    op = "iree_vector_ext.to_simd"
    given = as_vector(op, "input", input, dtype, _DTYPES)
    nested = _layout(op, layout, num_subgroups, subgroup_size)
    shape = nested.undistributed_shape if result is None else result
    whole = as_vector(op, "result", shape, given.dtype, _DTYPES)
    _check_dtype(op, whole, given.dtype)
    _check_whole(op, "result", whole, nested)
    forms = [
        Distribution(op, whole, nested, num_subgroups, subgroup_size, packed, None)
        for packed in (False, True)
    ]
    for made in forms:
        if given.shape == made.parts_shape:
            return made
    raise OpError(
        f"{op}: input has shape {shape_text(given.shape)}; expected"
        f" {shape_text(forms[0].parts_shape)}, or packed {shape_text(forms[1].parts_shape)}"
    )


def _layout(op: str, layout: LayoutLike, num_subgroups: object, subgroup_size: object) -> Any:
    nested = as_layout(op, layout)
    for name, value in (("num_subgroups", num_subgroups), ("subgroup_size", subgroup_size)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise OpError(f"{op}: {name} is {value!r}; expected a number")
    try:
        check_hardware(nested, num_subgroups, subgroup_size)  # type: ignore[arg-type]
    except LayoutError as error:
        raise OpError(f"{op}: {error}") from None
    return nested


def _check_dtype(op: str, result: TensorType, dtype: str) -> None:
    if result.dtype != dtype:
        raise OpError(f"{op}: result has dtype {result.dtype}; expected {dtype} as input has")


def _check_whole(op: str, name: str, whole: TensorType, layout: NestedLayout) -> None:
    """Raise OpError unless a whole has the layout's rank, and extents that are at most its own."""
    if len(whole.shape) != layout.rank:
        raise OpError(
            f"{op}: {name} {shape_text(whole.shape)} has rank {len(whole.shape)};"
            f" the layout has rank {layout.rank}"
        )
    for dim, (came, most) in enumerate(zip(whole.shape, layout.undistributed_shape, strict=True)):
        if int(came) > most:
            raise OpError(
                f"{op}: dimension {dim} of {name} has extent {came}; the layout holds {most}"
            )
