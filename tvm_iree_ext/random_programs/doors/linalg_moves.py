"""Operations that move elements, as tensor and linalg."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm_iree_ext.random_programs.doors.arith import Scalars
from tvm_iree_ext.random_programs.doors.linalg_nests import each, filled, index_of, list_text
from tvm_iree_ext.random_programs.doors.mlir_text import MlirLines
from tvm_iree_ext.random_programs.drawing.web import Node, Type


def slice_of(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``slice``."""
    held = node.attributes
    return extracted(lines, names[0], types[0], held["start"], node.type, held["stride"])


def extracted(
    lines: MlirLines,
    name: str,
    type: Type,
    start: Sequence[object],
    result: Type,
    stride: Sequence[int] | None = None,
) -> str:
    """A slice, as tensor.extract_slice."""
    steps = stride or [1] * type.rank
    return lines.value(
        f"tensor.extract_slice {name}{list_text(start)} {list_text(result.shape)}"
        f" {list_text(steps)} : {lines.type(type)} to {lines.type(result)}"
    )


def inserted(
    lines: MlirLines,
    update: tuple[str, Type],
    into: tuple[str, Type],
    start: Sequence[object],
    stride: Sequence[int] | None = None,
) -> str:
    """One tensor in another, as tensor.insert_slice."""
    (name, type), (target, wide) = update, into
    steps = stride or [1] * type.rank
    return lines.value(
        f"tensor.insert_slice {name} into {target}{list_text(start)} {list_text(type.shape)}"
        f" {list_text(steps)} : {lines.type(type)} into {lines.type(wide)}"
    )


def reverse(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``reverse``."""
    return reversed_along(lines, names[0], types[0], node.attributes["axes"])


def reversed_along(lines: MlirLines, name: str, type: Type, axes: Sequence[int]) -> str:
    """A tensor from its end to its beginning along axes."""
    places = [f"{n - 1} - d{d}" if d in axes else f"d{d}" for d, n in enumerate(type.shape)]
    return each(lines, [name], [type], type, lambda ins: ins[0], [places])


def transpose(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``transpose``."""
    order = node.attributes["permutation"]
    places = [f"d{order.index(axis)}" for axis in range(len(order))]
    return each(lines, names, types, node.type, lambda ins: ins[0], [places])


def broadcast(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``broadcast``."""
    wide = node.attributes["shape"]
    axes = zip(node.attributes["axes"], types[0].shape, strict=True)
    places = [f"d{axis}" if n == wide[axis] else "0" for axis, n in axes]
    return each(lines, names, types, node.type, lambda ins: ins[0], [places])


def reshape(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """By way of a line."""
    (name,), (type,), result = names, types, node.type
    flat = Type(type.dtype, (prod(type.shape),))
    if type.rank != 1:
        if type.rank == 0:
            groups = f"[] output_shape [1] : {lines.type(type)} into {lines.type(flat)}"
            name = lines.value(f"tensor.expand_shape {name} {groups}")
        else:
            groups = f"[{list_text(range(type.rank))}] : {lines.type(type)} into {lines.type(flat)}"
            name = lines.value(f"tensor.collapse_shape {name} {groups}")
    if result.rank == 1:
        return name
    if result.rank == 0:
        return lines.value(
            f"tensor.collapse_shape {name} [] : {lines.type(flat)} into {lines.type(result)}"
        )
    return lines.value(
        f"tensor.expand_shape {name} [{list_text(range(result.rank))}] output_shape"
        f" {list_text(result.shape)} : {lines.type(flat)} into {lines.type(result)}"
    )


def concatenate(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``concatenate``."""
    kinds = ", ".join(map(lines.type, types))
    return lines.value(
        f"tensor.concat dim({node.attributes['axis']}) {', '.join(names)} : ({kinds}) ->"
        f" {lines.type(node.type)}"
    )


def pad(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``pad``."""
    held, dtype = node.attributes, node.type.dtype
    (name,), (type,) = names, types
    interior = held["interior"]
    if any(interior):
        shape = [n + max(n - 1, 0) * i for n, i in zip(type.shape, interior, strict=True)]
        wide = Type(dtype, tuple(shape))
        into = filled(lines, wide, held["value"]), wide
        name = inserted(lines, (name, type), into, [0] * type.rank, [i + 1 for i in interior])
        type = wide
    low, high = held["low"], held["high"]
    if min(*low, *high) < 0:
        ends = zip(type.shape, low, high, strict=True)
        cut = Type(dtype, tuple(n + min(lo, 0) + min(hi, 0) for n, lo, hi in ends))
        name, type = extracted(lines, name, type, [max(-lo, 0) for lo in low], cut), cut
    return padded(lines, name, type, low, high, node.type, held["value"])


def padded(
    lines: MlirLines,
    name: str,
    type: Type,
    low: Sequence[int],
    high: Sequence[int],
    result: Type,
    value: Any,
) -> str:
    """A tensor with numbers around it and between."""
    number = Scalars(lines, type.dtype).number(value)
    found, element = lines.name(), lines.element(type.dtype)
    inside = ", ".join(f"{lines.name()}: index" for _ in type.shape)

    def write() -> None:
        lines.line(f"^bb0({inside}):")
        lines.line(f"tensor.yield {number} : {element}")

    more = (list_text([max(one, 0) for one in some]) for some in (low, high))
    lines.block(
        f"{found} = tensor.pad {name} low{next(more)} high{next(more)} {{",
        write,
        f"}} : {lines.type(type)} to {lines.type(result)}",
    )
    return found


def select(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``select``."""
    scalars = Scalars(lines, node.type.dtype)
    return each(lines, names, types, node.type, lambda ins: scalars.select(*ins[:3]))


def constant(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``constant``."""
    literal = lines.literal(node.attributes["value"], node.type.dtype)
    return lines.value(f"arith.constant dense<{literal}> : {lines.type(node.type)}")


def iota_of(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """``iota``."""
    return iota(lines, node.type, node.attributes["axis"])


def iota(lines: MlirLines, type: Type, axis: int) -> str:
    """Places along an axis."""

    def body(_: list[str]) -> str:
        return Scalars(lines, "int32").to(type.dtype, index_of(lines, axis))

    return each(lines, [], [], type, body)
