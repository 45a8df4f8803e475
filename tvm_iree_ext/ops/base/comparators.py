"""Comparators: regions over pairs of elements that say which of two goes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_iree_ext.ops.base.compute_dtypes import computed_dtype
from tvm_iree_ext.ops.base.regions import Region, RegionLike, trace
from tvm_iree_ext.tir.bool_order import as_number
from tvm_iree_ext.tir.tvm_modules import ir, tirx

_PLAIN = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">="}  # classes of tirx
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class PlainOrder:
    """A comparator that is one comparison of the elements of one operand.

    ``sign`` is ``<``, ``<=``, ``>`` or ``>=``, the first of the pair standing left of it.
    """

    operand: int
    sign: str

    @property
    def descending(self) -> bool:
        """Whether larger elements go first."""
        return self.sign in (">", ">=")

    @property
    def strict(self) -> bool:
        """Whether equal elements compare false."""
        return self.sign in ("<", ">")


def region_dtype(dtype: str) -> str:
    """The type in which a comparator sees elements of ``dtype``.

    Floats of 16 bits come as float32, which holds them exactly, and a bool as 0 or 1.
    """
    return "int8" if dtype == "bool" else computed_dtype(dtype)


def as_seen(element: ir.Expr) -> ir.Expr:
    """An element as a comparator sees it."""
    dtype = str(element.ty.dtype)
    if dtype == "bool":
        return as_number(element)
    return element if region_dtype(dtype) == dtype else tirx.Cast(region_dtype(dtype), element)


def as_stored(element: ir.Expr, dtype: str) -> ir.Expr:
    """The inverse of :func:`as_seen`."""
    if dtype == "bool":
        return element != tirx.const(0, "int8")
    return element if str(element.ty.dtype) == dtype else tirx.Cast(dtype, element)


def comparator(op: str, region: RegionLike, dtypes: Sequence[str]) -> Region:
    """Trace a comparator over pairs of elements of ``dtypes``; it yields a bool.

    Raises:
        OpError: as :func:`trace`, and for a callable with another number of arguments.
    """
    pairs = [region_dtype(dtype) for dtype in dtypes for _ in range(2)]
    return trace(op, region, pairs, yields="bool", takes_scalars=True)


def plain_order(region: Region) -> PlainOrder | None:
    """The plain comparison that a comparator is, or None."""
    body = region.body
    sign = _PLAIN.get(type(body).__name__)
    if sign is None:
        return None
    left, right = (_position(region, side) for side in (body.a, body.b))
    if left is None or right is None or left // 2 != right // 2 or left == right:
        return None
    return PlainOrder(left // 2, sign if left < right else _FLIPPED[sign])


def strict_companion(op: str, region: Region) -> Region:
    """The comparator that holds where ``region`` does, and does not the other way around."""
    plain = plain_order(region)
    if plain is not None and plain.strict:
        return region
    kinds = [str(parameter.ty.dtype) for parameter in region.parameters]
    if plain is not None and len(kinds) == 2:
        return trace(op, plain.sign[0], kinds, yields="bool")
    left, right = region.parameters
    body = tirx.And(region(left, right), tirx.Not(region(right, left)))
    return Region.of((left, right), body, scalars=region.scalars)


def is_nan(value: ir.Expr) -> ir.Expr:
    """Whether a value, as a comparator sees it, is NaN; never for one that is no float."""
    if not str(value.ty.dtype).startswith("float"):
        return tirx.const(False, "bool")
    return tirx.isnan(value)


def _position(region: Region, value: ir.Expr) -> int | None:
    """Index of the parameter that a value is."""
    return next((i for i, p in enumerate(region.parameters) if value.same_as(p)), None)


def goes_before(region: Region, left: Sequence[ir.Expr], right: Sequence[ir.Expr]) -> ir.Expr:
    """Whether elements ``right`` must go before ``left``, which stand first now.

    Only where the comparator says so both ways: ties keep their order even when it is ``<=``.
    """
    there = [value for pair in zip(right, left, strict=True) for value in pair]
    here = [value for pair in zip(left, right, strict=True) for value in pair]
    plain = plain_order(region)
    if plain is not None and plain.strict:
        return region(*there)
    return tirx.And(region(*there), tirx.Not(region(*here)))
