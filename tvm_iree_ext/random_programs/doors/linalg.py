"""Webs as linalg, tensor, scf and iree_linalg_ext, which the importer reads as they are."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm_iree_ext.mlir.from_file import import_program
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.random_programs.doors.arith import Scalars
from tvm_iree_ext.random_programs.doors.door import Door
from tvm_iree_ext.random_programs.doors.linalg_moves import (
    broadcast,
    concatenate,
    constant,
    extracted,
    inserted,
    iota,
    iota_of,
    pad,
    padded,
    reshape,
    reverse,
    reversed_along,
    select,
    slice_of,
    transpose,
)
from tvm_iree_ext.random_programs.doors.linalg_nests import (
    all_dims,
    each,
    empty,
    filled,
    generic,
    index_of,
    list_text,
)
from tvm_iree_ext.random_programs.doors.mlir_text import MlirLines, Write
from tvm_iree_ext.random_programs.drawing.reductions import labels
from tvm_iree_ext.random_programs.drawing.scalars import largest, least
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web


def _unary(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, function = Scalars(lines, node.type.dtype), node.attributes["function"]
    return each(lines, names, types, node.type, lambda ins: scalars.unary(function, ins[0]))


def _binary(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, function = Scalars(lines, node.type.dtype), node.attributes["function"]
    return each(lines, names, types, node.type, lambda ins: scalars.binary(function, *ins[:2]))


def _compare(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, direction = Scalars(lines, types[0].dtype), node.attributes["direction"]
    return each(lines, names, types, node.type, lambda ins: scalars.compare(direction, *ins[:2]))


def _clamp(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars = Scalars(lines, node.type.dtype)

    def body(ins: list[str]) -> str:
        low, high = (scalars.number(node.attributes[name]) for name in ("low", "high"))
        return scalars.binary("min", scalars.binary("max", ins[0], low), high)

    return each(lines, names, types, node.type, body)


def _convert(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars = Scalars(lines, types[0].dtype)
    return each(lines, names, types, node.type, lambda ins: scalars.to(node.type.dtype, ins[0]))


def _start(kind: str, dtype: str) -> Any:
    ends = {"add": 0, "or": 0, "and": 1, "max": least(dtype), "min": largest(dtype)}
    return ends[kind]


def _reduce(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (type,), kind, dtype = types, node.attributes["kind"], node.type.dtype
    axes = node.attributes["axes"]
    start = filled(lines, node.type, _start(kind, dtype))
    kept = [f"d{d}" for d in range(type.rank) if d not in axes]
    scalars = Scalars(lines, dtype)
    return generic(
        lines,
        [(names[0], type, all_dims(type.rank))],
        [(start, node.type, kept)],
        [d in axes for d in range(type.rank)],
        lambda ins: [scalars.binary(kind, ins[0], ins[1])],
    )[0]


def _arg_extreme(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (type,), axis, kind = types, node.attributes["axis"], node.attributes["kind"]
    value = Type(type.dtype, node.type.shape)
    kept = [f"d{d}" for d in range(type.rank) if d != axis]
    scalars, places = Scalars(lines, type.dtype), Scalars(lines, "int32")
    flags = Scalars(lines, "bool")

    def body(ins: list[str]) -> list[str]:
        element, best, at = ins
        place = index_of(lines, axis)
        further = scalars.compare("GT" if kind == "max" else "LT", element, best)
        tie = scalars.compare("EQ", element, best)
        first = flags.binary("and", tie, places.compare("LT", place, at))
        either = flags.binary("or", further, first)
        return [scalars.select(further, element, best), places.select(either, place, at)]

    return generic(
        lines,
        [(names[0], type, all_dims(type.rank))],
        [
            (filled(lines, value, _start(kind, type.dtype)), value, kept),
            (filled(lines, node.type, 0), node.type, kept),
        ],
        [d == axis for d in range(type.rank)],
        body,
    )[1]


def _combined(lines: MlirLines, kind: str, dtype: str) -> tuple[str, Callable[[], None]]:
    """The block of an op of iree_linalg_ext that combines two elements."""
    x, y, element = lines.name(), lines.name(), lines.element(dtype)

    def write() -> None:
        lines.line(f"^bb0({x}: {element}, {y}: {element}):")
        found = x if kind == "set" else Scalars(lines, dtype).binary(kind, x, y)
        lines.line(f"iree_linalg_ext.yield {found} : {element}")

    return element, write


def _scan(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (name,), (type,) = names, types
    kind, axis = node.attributes["kind"], node.attributes["axis"]
    if node.attributes["reverse"]:
        name = reversed_along(lines, name, type, [axis])
    rest = Type(type.dtype, (*type.shape[:axis], *type.shape[axis + 1 :]))
    into, total = empty(lines, type), filled(lines, rest, _start(kind, type.dtype))
    found, kinds = lines.name(), (lines.type(type), lines.type(rest))
    _, write = _combined(lines, kind, type.dtype)
    lines.block(
        f"{found}:2 = iree_linalg_ext.scan dimension({axis}) inclusive(true) ins({name} :"
        f" {kinds[0]}) outs({into}, {total} : {kinds[0]}, {kinds[1]}) {{",
        write,
        f"}} -> {kinds[0]}, {kinds[1]}",
    )
    name = f"{found}#0"
    return reversed_along(lines, name, type, [axis]) if node.attributes["reverse"] else name


def _window(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (name,), (type,), held = names, types, node.attributes
    kind, dtype, rank = held["kind"], type.dtype, type.rank
    low, high = held["low"], held["high"]
    if any(low) or any(high):
        ends = zip(type.shape, low, high, strict=True)
        wide = Type(dtype, tuple(n + lo + hi for n, lo, hi in ends))
        name = padded(lines, name, type, low, high, wide, _start(kind, dtype))
        type = wide
    places = [f"d{d} * {step} + d{rank + d}" for d, step in enumerate(held["stride"])]
    sizes = Type(dtype, tuple(held["size"]))
    start = filled(lines, node.type, _start(kind, dtype))
    scalars = Scalars(lines, dtype)
    inside = [f"d{rank + d}" for d in range(rank)]
    return generic(
        lines,
        [(name, type, places), (empty(lines, sizes), sizes, inside)],
        [(start, node.type, all_dims(rank))],
        [False] * rank + [True] * rank,
        lambda ins: [scalars.binary(kind, ins[0], ins[2])],
    )[0]


def _dot(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    a, b = types
    texts = labels(node.attributes, (a.rank, b.rank))
    result, dtype = texts[2], node.type.dtype
    reduced = "".join(name for name in texts[0] if name not in result)
    order = result + reduced
    maps = [[f"d{order.index(name)}" for name in text] for text in texts]
    scalars = Scalars(lines, dtype)

    def body(ins: list[str]) -> list[str]:
        x, y = (
            Scalars(lines, type.dtype).to(dtype, one) for one, type in zip(ins, types, strict=False)
        )
        return [scalars.binary("add", ins[2], scalars.binary("mul", x, y))]

    return generic(
        lines,
        [(names[0], a, maps[0]), (names[1], b, maps[1])],
        [(filled(lines, node.type, 0), node.type, maps[2])],
        [False] * len(result) + [True] * len(reduced),
        body,
    )[0]


def _clamped(lines: MlirLines, at: str, most: int) -> str:
    """A place within an extent, as an index."""
    scalars = Scalars(lines, "int32")
    low = scalars.binary("max", at, scalars.number(0))
    high = scalars.binary("min", low, scalars.number(most))
    return lines.value(f"arith.index_cast {high} : i32 to index")


def _take(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places = types
    axis, rank = node.attributes["axis"], places.rank
    kind = lines.type(value)

    def body(ins: list[str]) -> str:
        at = []
        for d in range(value.rank):
            if d == axis:
                at.append(_clamped(lines, ins[0], value.shape[axis] - 1))
            else:
                at.append(lines.value(f"linalg.index {d if d < axis else d + rank - 1} : index"))
        return lines.value(f"tensor.extract {names[0]}{list_text(at)} : {kind}")

    inside = [f"d{d}" for d in range(axis, axis + rank)]
    return each(lines, names[1:], types[1:], node.type, body, [inside])


def _scatter(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places, updates = types
    kind = node.attributes["kind"]
    wide = Type("int32", (*places.shape, 1))
    at = lines.value(
        f"tensor.expand_shape {names[1]} [[0, 1]] output_shape {list_text(wide.shape)} :"
        f" {lines.type(places)} into {lines.type(wide)}"
    )
    found = lines.name()
    _, write = _combined(lines, kind, value.dtype)
    unique = "true" if kind == "set" else "false"
    lines.block(
        f"{found} = iree_linalg_ext.scatter dimension_map = [0] unique_indices({unique})"
        f" ins({names[2]}, {at} : {lines.type(updates)}, {lines.type(wide)})"
        f" outs({names[0]} : {lines.type(value)}) {{",
        write,
        f"}} -> {lines.type(value)}",
    )
    return found


def _firsts(
    lines: MlirLines, names: Sequence[str], sizes: Sequence[int], shape: Sequence[int]
) -> list[str]:
    found = []
    for name, size, extent in zip(names, sizes, shape, strict=True):
        at = lines.value(f"tensor.extract {name}[] : tensor<i32>")
        found.append(_clamped(lines, at, extent - size))
    return found


def _dynamic_slice(
    lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]
) -> str:
    start = _firsts(lines, names[1:], node.attributes["sizes"], types[0].shape)
    return extracted(lines, names[0], types[0], start, node.type)


def _dynamic_update(
    lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]
) -> str:
    start = _firsts(lines, names[2:], types[1].shape, types[0].shape)
    return inserted(lines, (names[1], types[1]), (names[0], types[0]), start)


def _sorted(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    inside = [(lines.name(), lines.element(type.dtype)) for type in types for _ in range(2)]
    direction = "GT" if node.attributes["descending"] else "LT"
    kinds = ", ".join(map(lines.type, types))
    found, count = lines.name(), f":{len(names)}" if len(names) > 1 else ""

    def write() -> None:
        lines.line(f"^bb0({', '.join(f'{name}: {kind}' for name, kind in inside)}):")
        scalars = Scalars(lines, types[0].dtype)
        flag = scalars.compare(direction, inside[0][0], inside[1][0])
        lines.line(f"iree_linalg_ext.yield {flag} : i1")

    axis = node.attributes["axis"]
    lines.block(
        f"{found}{count} = iree_linalg_ext.sort dimension({axis}) outs({', '.join(names)} :"
        f" {kinds}) {{",
        write,
        f"}} -> {kinds}",
    )
    return f"{found}#1" if count else found


def _argsort(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    places = Type("int32", types[0].shape)
    at = iota(lines, places, node.attributes["axis"])
    return _sorted(lines, node, [*names, at], [*types, places])


def _repeated(
    lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type], count: str
) -> str:
    zero, one = (lines.value(f"arith.constant {n} : index") for n in (0, 1))
    found, inside, kind = lines.name(), lines.name(), lines.type(node.type)

    def step() -> None:
        given = lines.body(node.attributes["body"], [inside, *names[1:]], types)
        lines.line(f"scf.yield {given} : {kind}")

    lines.block(
        f"{found} = scf.for {lines.name()} = {zero} to {count} step {one} iter_args({inside} ="
        f" {names[0]}) -> ({kind}) {{",
        step,
    )
    return found


def _loop(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    count = lines.value(f"arith.constant {node.attributes['count']} : index")
    return _repeated(lines, node, names, types, count)


def _while(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    at = lines.value(f"tensor.extract {names[-1]}[] : tensor<i32>")
    count = lines.value(f"arith.index_cast {at} : i32 to index")
    return _repeated(lines, node, names[:-1], types[:-1], count)


def _cond(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    flag = lines.value(f"tensor.extract {names[-1]}[] : tensor<i1>")
    found, kind = lines.name(), lines.type(node.type)

    def branch(which: str) -> Callable[[], None]:
        def write() -> None:
            given = lines.body(node.attributes[which], names[:-1], types[:-1])
            lines.line(f"scf.yield {given} : {kind}")

        return write

    lines.block(f"{found} = scf.if {flag} -> ({kind}) {{", branch("then"), "} else {")
    lines.block("// otherwise", branch("else"))
    return found


def _softmax(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = lines.type(node.type)
    return lines.value(
        f"linalg.softmax dimension({node.attributes['axis']}) ins({names[0]} : {kind})"
        f" outs({empty(lines, node.type)} : {kind}) -> {kind}"
    )


def _conv(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    image, weight = types
    more, step = node.attributes["padding"], node.attributes["stride"]
    name = names[0]
    if more:
        ends = [0, 0, more, more]
        shape = tuple(n + 2 * end for n, end in zip(image.shape, ends, strict=True))
        wide = Type(image.dtype, shape)
        name, image = padded(lines, name, image, ends, ends, wide, 0), wide
    into, kind = filled(lines, node.type, 0), lines.type(node.type)
    return lines.value(
        f"linalg.conv_2d_nchw_fchw {{dilations = dense<1> : tensor<2xi64>, strides = dense<{step}>"
        f" : tensor<2xi64>}} ins({name}, {names[1]} : {lines.type(image)}, {lines.type(weight)})"
        f" outs({into} : {kind}) -> {kind}"
    )


_WRITE: dict[str, Write] = {
    "slice": slice_of,
    "reverse": reverse,
    "transpose": transpose,
    "broadcast": broadcast,
    "reshape": reshape,
    "concatenate": concatenate,
    "pad": pad,
    "select": select,
    "constant": constant,
    "iota": iota_of,
    "unary": _unary,
    "binary": _binary,
    "compare": _compare,
    "clamp": _clamp,
    "convert": _convert,
    "reduce": _reduce,
    "arg_extreme": _arg_extreme,
    "scan": _scan,
    "window": _window,
    "dot": _dot,
    "take": _take,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "sort": _sorted,
    "argsort": _argsort,
    "loop": _loop,
    "while": _while,
    "cond": _cond,
    "softmax": _softmax,
    "conv": _conv,
}


def _takes(node: Node, types: Sequence[Type]) -> bool:
    """All but maps that would be below 0, and slices at the end, which MLIR refuses, of nothing."""
    is_empty = any(0 in type.shape for type in (node.type, *types))
    return not is_empty or node.op not in ("reverse", "scan", "slice", "pad", "dynamic_update")


def _text(web: Web) -> str:
    return MlirLines(_WRITE, signless=True).function(web)


def _read(text: str, web: Web) -> Imported:
    return import_program(text)


LINALG = Door("linalg", tuple(_WRITE), _takes, _text, _read, "ext.mlir.import_program(TEXT)")
