"""The types of an op's operands: from what a user gives to extents that agree."""

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, TensorType, shape_text
from tvm_iree_ext.ops.base.maps import IndexingMap
from tvm_iree_ext.ops.base.shapes import named, unused

OperandLike: TypeAlias = Sequence[Extent] | TensorType | Any
"""A shape, a :class:`TensorType`, or anything with ``shape`` and ``dtype``."""

INDEX_DTYPES = tuple(dtype for dtype in dtypes.INTEGERS if dtype != "bool")

_MOST = 2**63 - 1  # extents and indices are int64


def whole_number(value: object) -> int | None:
    """``value`` as an int: one of Python's or NumPy's; None for all else, bools too."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def as_tensor(
    op: str,
    name: str,
    operand: OperandLike,
    dtype: str,
    allowed: Sequence[str],
    least: int = 1,
) -> TensorType:
    """The type of an operand given as a shape, a TensorType, or an array.

    Raises:
        OpError: for an extent below ``least`` or beyond int64, an odd name of an extent, or a
            dtype not ``allowed``.
    """
    if hasattr(operand, "shape") and hasattr(operand, "dtype"):
        shape, dtype = tuple(operand.shape), operand.dtype
    elif isinstance(operand, Sequence) and not isinstance(operand, str):
        shape = tuple(operand)
    else:
        raise OpError(f"{op}: {name} is {operand!r}; expected a shape, a TensorType or an array")
    shape = tuple(
        _extent(op, f"{name} axis {axis}", extent, least) for axis, extent in enumerate(shape)
    )
    try:
        canonical = dtypes.canonical(dtype)
    except OpError as error:
        raise OpError(f"{op}: {name}: {error}") from None
    if canonical not in allowed:
        raise OpError(f"{op}: {name} has dtype {canonical}; supported are {', '.join(allowed)}")
    return TensorType(shape, canonical)


def as_vector(
    op: str, name: str, operand: OperandLike, dtype: str, allowed: Sequence[str]
) -> TensorType:
    """Type of a vector operand, whose extents are numbers; see :func:`as_tensor`.

    Raises:
        OpError: as there, and for an extent that is a name.
    """
    kind = as_tensor(op, name, operand, dtype, allowed)
    for axis, extent in enumerate(kind.shape):
        if isinstance(extent, str):
            raise OpError(
                f"{op}: {name} axis {axis} has extent {extent!r}; a vector's extents are numbers"
            )
    return kind


def _extent(op: str, where: str, extent: object, least: int) -> Extent:
    if isinstance(extent, str):
        if extent != "?" and not extent.isidentifier():
            raise OpError(f"{op}: {where}: extent {extent!r} is not a name or '?'")
        return extent
    number = whole_number(extent)
    if number is None or number < least:
        raise OpError(f"{op}: {where} has extent {extent!r}; extents start at {least}")
    if number > _MOST:
        raise OpError(f"{op}: {where} has extent {number}; extents end at 2**63 - 1")
    return number


def check_dimension(op: str, dimension: object, rank: int) -> int:
    """``dimension``, when it is one of a tensor of ``rank``.

    Raises:
        OpError: otherwise.
    """
    number = whole_number(dimension)
    if number is None or not 0 <= number < rank:
        expected = f"expected 0 .. {rank - 1}" if rank else "a scalar has none"
        raise OpError(f"{op}: dimension is {dimension!r}; {expected}")
    return number


def named_extents(kind: TensorType, prefix: str, taken: Collection[Extent] = ()) -> TensorType:
    """The type with the extents that :func:`.shapes.named` gives."""
    return TensorType(named(kind.shape, prefix, taken), kind.dtype)


def _axes(
    op: str, types: Mapping[str, TensorType], maps: Mapping[str, IndexingMap]
) -> Iterator[tuple[tuple[int, ...], Extent, str]]:
    """The dims of each operand's axes, with the extent and its place for a message."""
    for name, kind in types.items():
        axes = maps[name].axes
        if len(axes) != len(kind.shape):
            raise OpError(
                f"{op}: {name} {shape_text(kind.shape)} has rank {len(kind.shape)};"
                f" its indexing map has {len(axes)} results: rank mismatch"
            )
        for index, (axis, extent) in enumerate(zip(axes, kind.shape, strict=True)):
            yield axis, extent, f"{name} axis {index}"


def resolve_extents(
    op: str,
    types: Mapping[str, TensorType],
    maps: Mapping[str, IndexingMap],
    known: Mapping[int, Extent],
) -> tuple[dict[str, TensorType], tuple[Extent, ...]]:
    """The extent of each dim, and the operand types with these extents in their shapes.

    One name is one extent, wherever it stands.  A number and a name may meet on one dim: then the
    number holds, for all dims of that name.

    Raises:
        OpError: for a rank that is not its map's, two numbers for one dim or name, a dim without
            any, or an axis of several dims that are not all numbers.
    """
    num_dims = next(iter(maps.values())).num_dims
    groups: dict[int | str, set[int | str]] = {dim: {dim} for dim in range(num_dims)}
    found: dict[int | str, tuple[int, str]] = {}

    def settle(key: int | str, number: int, where: str) -> None:
        came, source = found.get(key, (number, where))
        if came != number:
            raise OpError(f"{op}: {where} has extent {number}; expected {came} as in {source}")
        found.update(dict.fromkeys(groups[key], (came, source)))

    axes = list(_axes(op, types, maps))
    single: list[tuple[int, Extent, str]] = [(d, e, "the layout") for d, e in known.items()]
    single += [(a[0], e, f"{where} (d{a[0]})") for a, e, where in axes if len(a) == 1]
    for dim, extent, _ in single:
        if isinstance(extent, str) and extent != "?":
            merged = groups[dim] | groups.setdefault(extent, {extent})
            groups |= dict.fromkeys(merged, merged)
    for dim, extent, where in single:
        if isinstance(extent, int):
            settle(dim, extent, where)
    for axis, extent, where in (one for one in axes if len(one[0]) != 1):
        if unknown := [dim for dim in axis if dim not in found]:
            raise OpError(f"{op}: {where} collapses d{unknown[0]}, whose extent is not a number")
        product = math.prod(found[dim][0] for dim in axis)
        if isinstance(extent, int) and extent != product:
            raise OpError(f"{op}: {where} has extent {extent}; expected {product}")
        if isinstance(extent, str) and extent != "?":
            groups.setdefault(extent, {extent})
            settle(extent, product, where)

    used = {dim for name in types for dim in maps[name].dims}
    names = [key for key in groups if isinstance(key, str)]
    extents: list[Extent] = []
    for dim in range(num_dims):
        if dim not in used:
            raise OpError(f"{op}: d{dim} appears in no indexing map of {', '.join(types)}")
        shared = (name for name in names if name in groups[dim])
        name = next(shared, unused(f"d{dim}", names))
        extents.append(found[dim][0] if dim in found else name)
    settled = {
        name: TensorType(tuple(collapsed(axis, extents) for axis in maps[name].axes), kind.dtype)
        for name, kind in types.items()
    }
    return settled, tuple(extents)


def collapsed(axis: Sequence[int], extents: Sequence[Extent]) -> Extent:
    """The extent of an axis of these dims; where they are several, they are numbers."""
    if len(axis) == 1:
        return extents[axis[0]]
    return math.prod(int(extents[dim]) for dim in axis)
