"""Shapes of operands that must agree axis by axis."""

from collections.abc import Collection, Mapping

from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.signature import Extent, Shape, TensorType, shape_text


def agree(op: str, types: Mapping[str, TensorType], free: Collection[int] = ()) -> dict[str, Shape]:
    """The shapes of operands of one rank, with one extent for an axis unless it is ``free``.

    Where several meet, a number goes before a name, and a name before ``"?"``.

    Raises:
        OpError: for another rank, or two numbers on one axis.
    """
    names = list(types)
    first = types[names[0]].shape
    shapes = {name: list(kind.shape) for name, kind in types.items()}
    for name, shape in shapes.items():
        if len(shape) != len(first):
            raise OpError(
                f"{op}: {name} {shape_text(shape)} has rank {len(shape)};"
                f" expected {len(first)} as {names[0]} {shape_text(first)}"
            )
    for axis in range(len(first)):
        if axis in free:
            continue
        one: Extent = "?"
        source = names[0]
        for name, shape in shapes.items():
            extent = shape[axis]
            if isinstance(extent, int) and isinstance(one, int) and extent != one:
                raise OpError(
                    f"{op}: {name} axis {axis} has extent {extent}; expected {one} as in {source}"
                )
            if one == "?" or (isinstance(extent, int) and not isinstance(one, int)):
                one, source = extent, name
        for shape in shapes.values():
            shape[axis] = one
    return {name: tuple(shape) for name, shape in shapes.items()}


def named(shape: Shape, prefixes: Mapping[int, str] | None = None) -> Shape:
    """The shape with a name, ``d0`` and so on, for each ``"?"``; ``prefixes`` go before some."""
    prefixes = prefixes or {}
    return tuple(
        f"{prefixes.get(axis, '')}d{axis}" if extent == "?" else extent
        for axis, extent in enumerate(shape)
    )
