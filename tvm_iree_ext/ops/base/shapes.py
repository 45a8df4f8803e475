"""Shapes of operands that must agree axis by axis, and names for their nameless extents."""

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


def unify(op: str, name: str, given: TensorType, shape: Shape, dtype: str, expected: str) -> Shape:
    """``shape``, with the numbers of an operand that must have it where it is dynamic.

    Raises:
        OpError: for another rank, extent or element type.
    """
    if given.dtype != dtype:
        raise OpError(f"{op}: {name} has dtype {given.dtype}; expected {dtype} as input has")
    if len(given.shape) != len(shape):
        raise OpError(
            f"{op}: {name} {shape_text(given.shape)} has rank {len(given.shape)};"
            f" expected {len(shape)} ({expected}, {shape_text(shape)})"
        )
    settled: list[Extent] = []
    for axis, (came, want) in enumerate(zip(given.shape, shape, strict=True)):
        if isinstance(came, int) and isinstance(want, int) and came != want:
            raise OpError(
                f"{op}: {name} axis {axis} has extent {came}; expected {want} ({expected})"
            )
        settled.append(came if isinstance(came, int) or want == "?" else want)
    return tuple(settled)


def unused(name: str, taken: Collection[Extent]) -> str:
    """``name``, with underscores where an extent has that name already."""
    while name in taken:
        name += "_"
    return name


def named(shape: Shape, prefix: str = "d", taken: Collection[Extent] = ()) -> Shape:
    """The shape with a name of its own, of ``prefix`` and axis, for each ``"?"``.

    ``taken`` are extents of other operands, whose names stand for other numbers.
    """
    settled: list[Extent] = []
    for axis, extent in enumerate(shape):
        if extent == "?":
            extent = unused(f"{prefix}{axis}", (*shape, *taken, *settled))
        settled.append(extent)
    return tuple(settled)
