"""The types of an op's operands: from what a user gives to extents that agree."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tvm_iree_ext import dtypes
from tvm_iree_ext.errors import OpError
from tvm_iree_ext.ops.maps import IndexingMap
from tvm_iree_ext.signature import Extent, TensorType, shape_text

OperandLike: TypeAlias = Sequence[Extent] | TensorType | Any
"""A shape, a :class:`TensorType`, or anything with ``shape`` and ``dtype``."""


def as_tensor(
    op: str, name: str, operand: OperandLike, dtype: str, allowed: Sequence[str]
) -> TensorType:
    """The type of an operand given as a shape, a TensorType, or an array.

    Raises:
        OpError: for an extent below 1, an odd name of an extent, or a dtype not ``allowed``.
    """
    if hasattr(operand, "shape") and hasattr(operand, "dtype"):
        shape, dtype = tuple(operand.shape), str(operand.dtype).removeprefix("torch.")
    elif isinstance(operand, Sequence) and not isinstance(operand, str):
        shape = tuple(operand)
    else:
        raise OpError(f"{op}: {name} is {operand!r}; expected a shape, a TensorType or an array")
    for axis, extent in enumerate(shape):
        if isinstance(extent, str):
            if extent != "?" and not extent.isidentifier():
                raise OpError(f"{op}: {name} axis {axis}: extent {extent!r} is not a name or '?'")
        elif not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
            raise OpError(f"{op}: {name} axis {axis} has extent {extent!r}; extents start at 1")
    try:
        canonical = dtypes.canonical(dtype)
    except OpError as error:
        raise OpError(f"{op}: {name}: {error}") from None
    if canonical not in allowed:
        raise OpError(f"{op}: {name} has dtype {canonical}; supported are {', '.join(allowed)}")
    return TensorType(shape, canonical)


def resolve_extents(
    op: str,
    types: Mapping[str, TensorType],
    maps: Mapping[str, IndexingMap],
    known: Mapping[int, Extent],
) -> tuple[dict[str, TensorType], tuple[Extent, ...]]:
    """The extent of each dim, and the operand types with these extents in their shapes.

    A number and a name may meet on one dim: then the number holds.

    Raises:
        OpError: for a rank that is not its map's, two numbers for one dim, or a dim without any.
    """
    extents: dict[int, Extent] = dict(known)
    source: dict[int, str] = dict.fromkeys(known, "the layout")
    for name, kind in types.items():
        axes = maps[name].axes
        if len(axes) != len(kind.shape):
            raise OpError(
                f"{op}: {name} {shape_text(kind.shape)} has rank {len(kind.shape)};"
                f" its indexing map has {len(axes)} results: rank mismatch"
            )
        for index, (axis, extent) in enumerate(zip(axes, kind.shape, strict=True)):
            if len(axis) != 1:
                continue
            dim = axis[0]
            seen = extents.get(dim)
            if isinstance(extent, int) and isinstance(seen, int) and extent != seen:
                raise OpError(
                    f"{op}: {name} axis {index} (d{dim}) has extent {extent};"
                    f" expected {seen} as in {source[dim]}"
                )
            if seen is None or seen == "?" or isinstance(extent, int):
                extents[dim] = extent
                source[dim] = f"{name} axis {index}"
    count = maps["query"].num_dims
    for dim in range(count):
        if dim not in extents:
            raise OpError(f"{op}: d{dim} appears in no indexing map of query, key, value or mask")
        if extents[dim] == "?":
            extents[dim] = f"d{dim}"

    def settled(name: str) -> TensorType:
        kind = types[name]
        axes = zip(maps[name].axes, kind.shape, strict=True)
        shape = tuple(extents[axis[0]] if len(axis) == 1 else extent for axis, extent in axes)
        return TensorType(shape, kind.dtype)

    return {name: settled(name) for name in types}, tuple(extents[d] for d in range(count))
