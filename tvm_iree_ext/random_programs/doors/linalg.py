"""Webs as linalg, tensor, scf and iree_linalg_ext, which the importer reads as they are."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tvm_iree_ext.mlir.imported import Imported
from tvm_iree_ext.mlir.program import import_program
from tvm_iree_ext.random_programs.doors.arith import Scalars
from tvm_iree_ext.random_programs.doors.door import Door
from tvm_iree_ext.random_programs.doors.mlir_text import Lines, Write
from tvm_iree_ext.random_programs.loops import body_nodes
from tvm_iree_ext.random_programs.reductions import labels
from tvm_iree_ext.random_programs.scalars import largest, least
from tvm_iree_ext.random_programs.web import Node, Type, Web

_INDEX = "index"


def _list(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _empty(lines: Lines, type: Type) -> str:
    return lines.value(f"tensor.empty() : {lines.type(type)}")


def _filled(lines: Lines, type: Type, value: Any) -> str:
    number = Scalars(lines, type.dtype).number(value)
    kinds = lines.element(type.dtype), lines.type(type)
    into = _empty(lines, type)
    return lines.value(
        f"linalg.fill ins({number} : {kinds[0]}) outs({into} : {kinds[1]}) -> {kinds[1]}"
    )


def _map(rank: int, places: Sequence[object]) -> str:
    dims = ", ".join(f"d{d}" for d in range(rank))
    return f"affine_map<({dims}) -> ({', '.join(map(str, places))})>"


def _same(rank: int) -> list[str]:
    return [f"d{d}" for d in range(rank)]


def _generic(
    lines: Lines,
    inputs: Sequence[tuple[str, Type, Sequence[object]]],
    outputs: Sequence[tuple[str, Type, Sequence[object]]],
    iterators: Sequence[bool],
    body: Callable[[list[str]], list[str]],
) -> list[str]:
    """A ``linalg.generic``: operands with their places, and which dims are reduced."""
    found, rank = lines.name(), len(iterators)
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    maps = ", ".join(_map(rank, places) for _, _, places in (*inputs, *outputs))
    kinds = ", ".join(f'"{"reduction" if one else "parallel"}"' for one in iterators)

    def operands(some: Sequence[tuple[str, Type, Sequence[object]]]) -> str:
        names = ", ".join(name for name, _, _ in some)
        return f"{names} : {', '.join(lines.type(type) for _, type, _ in some)}"

    inside = [lines.name() for _ in (*inputs, *outputs)]
    elements = [lines.element(type.dtype) for _, type, _ in (*inputs, *outputs)]
    head = ", ".join(f"{n}: {e}" for n, e in zip(inside, elements, strict=True))

    def write() -> None:
        lines.line(f"^bb0({head}):")
        given = body(inside)
        lines.line(f"linalg.yield {', '.join(given)} : {', '.join(elements[len(inputs) :])}")

    ins = f" ins({operands(inputs)})" if inputs else ""
    results = ", ".join(lines.type(type) for _, type, _ in outputs)
    lines.block(
        f"{found}{count} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}"
        f"{ins} outs({operands(outputs)}) {{",
        write,
        f"}} -> {f'({results})' if count else results}",
    )
    return [f"{found}#{n}" for n in range(len(outputs))] if count else [found]


def _each(
    lines: Lines,
    names: Sequence[str],
    types: Sequence[Type],
    result: Type,
    body: Callable[[list[str]], str],
    places: Sequence[Sequence[object]] | None = None,
) -> str:
    """A result element by element, of operands at these places."""
    same = _same(result.rank)
    at = places if places is not None else [same] * len(names)
    inputs = list(zip(names, types, at, strict=True))
    output = (_empty(lines, result), result, same)
    return _generic(lines, inputs, [output], [False] * result.rank, lambda ins: [body(ins)])[0]


def _slice(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    return _extracted(lines, names[0], types[0], held["start"], node.type, held["stride"])


def _extracted(
    lines: Lines,
    name: str,
    type: Type,
    start: Sequence[object],
    result: Type,
    stride: Sequence[int] | None = None,
) -> str:
    steps = stride or [1] * type.rank
    return lines.value(
        f"tensor.extract_slice {name}{_list(start)} {_list(result.shape)} {_list(steps)} :"
        f" {lines.type(type)} to {lines.type(result)}"
    )


def _inserted(
    lines: Lines,
    update: tuple[str, Type],
    into: tuple[str, Type],
    start: Sequence[object],
    stride: Sequence[int] | None = None,
) -> str:
    (name, type), (target, wide) = update, into
    steps = stride or [1] * type.rank
    return lines.value(
        f"tensor.insert_slice {name} into {target}{_list(start)} {_list(type.shape)} {_list(steps)}"
        f" : {lines.type(type)} into {lines.type(wide)}"
    )


def _reverse(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return _reversed(lines, names[0], types[0], node.attributes["axes"])


def _reversed(lines: Lines, name: str, type: Type, axes: Sequence[int]) -> str:
    places = [f"{n - 1} - d{d}" if d in axes else f"d{d}" for d, n in enumerate(type.shape)]
    return _each(lines, [name], [type], type, lambda ins: ins[0], [places])


def _transpose(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    order = node.attributes["permutation"]
    places = [f"d{order.index(axis)}" for axis in range(len(order))]
    return _each(lines, names, types, node.type, lambda ins: ins[0], [places])


def _broadcast(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    wide = node.attributes["shape"]
    axes = zip(node.attributes["axes"], types[0].shape, strict=True)
    places = [f"d{axis}" if n == wide[axis] else "0" for axis, n in axes]
    return _each(lines, names, types, node.type, lambda ins: ins[0], [places])


def _reshape(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """By way of a line."""
    (name,), (type,), result = names, types, node.type
    flat = Type(type.dtype, (prod(type.shape),))
    if type.rank != 1:
        if type.rank == 0:
            groups = f"[] output_shape [1] : {lines.type(type)} into {lines.type(flat)}"
            name = lines.value(f"tensor.expand_shape {name} {groups}")
        else:
            groups = f"[{_list(range(type.rank))}] : {lines.type(type)} into {lines.type(flat)}"
            name = lines.value(f"tensor.collapse_shape {name} {groups}")
    if result.rank == 1:
        return name
    if result.rank == 0:
        return lines.value(
            f"tensor.collapse_shape {name} [] : {lines.type(flat)} into {lines.type(result)}"
        )
    return lines.value(
        f"tensor.expand_shape {name} [{_list(range(result.rank))}] output_shape"
        f" {_list(result.shape)} : {lines.type(flat)} into {lines.type(result)}"
    )


def _concatenate(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kinds = ", ".join(map(lines.type, types))
    return lines.value(
        f"tensor.concat dim({node.attributes['axis']}) {', '.join(names)} : ({kinds}) ->"
        f" {lines.type(node.type)}"
    )


def _pad(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held, dtype = node.attributes, node.type.dtype
    (name,), (type,) = names, types
    interior = held["interior"]
    if any(interior):
        shape = [n + max(n - 1, 0) * i for n, i in zip(type.shape, interior, strict=True)]
        wide = Type(dtype, tuple(shape))
        into = _filled(lines, wide, held["value"]), wide
        name = _inserted(lines, (name, type), into, [0] * type.rank, [i + 1 for i in interior])
        type = wide
    low, high = held["low"], held["high"]
    if min(*low, *high) < 0:
        ends = zip(type.shape, low, high, strict=True)
        cut = Type(dtype, tuple(n + min(lo, 0) + min(hi, 0) for n, lo, hi in ends))
        name, type = _extracted(lines, name, type, [max(-lo, 0) for lo in low], cut), cut
    return _padded(lines, name, type, low, high, node.type, held["value"])


def _padded(
    lines: Lines,
    name: str,
    type: Type,
    low: Sequence[int],
    high: Sequence[int],
    result: Type,
    value: Any,
) -> str:
    number = Scalars(lines, type.dtype).number(value)
    found, element = lines.name(), lines.element(type.dtype)
    inside = ", ".join(f"{lines.name()}: index" for _ in type.shape)

    def write() -> None:
        lines.line(f"^bb0({inside}):")
        lines.line(f"tensor.yield {number} : {element}")

    more = (_list([max(one, 0) for one in some]) for some in (low, high))
    lines.block(
        f"{found} = tensor.pad {name} low{next(more)} high{next(more)} {{",
        write,
        f"}} : {lines.type(type)} to {lines.type(result)}",
    )
    return found


def _select(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars = Scalars(lines, node.type.dtype)
    return _each(lines, names, types, node.type, lambda ins: scalars.select(*ins[:3]))


def _constant(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    literal = lines.literal(node.attributes["value"], node.type.dtype)
    return lines.value(f"arith.constant dense<{literal}> : {lines.type(node.type)}")


def _iota(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return iota(lines, node.type, node.attributes["axis"])


def iota(lines: Lines, type: Type, axis: int) -> str:
    """Places along an axis."""

    def body(_: list[str]) -> str:
        return Scalars(lines, "int32").to(type.dtype, _place(lines, axis))

    return _each(lines, [], [], type, body)


def _place(lines: Lines, dim: int) -> str:
    at = lines.value(f"linalg.index {dim} : index")
    return lines.value(f"arith.index_cast {at} : index to i32")


def _unary(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, function = Scalars(lines, node.type.dtype), node.attributes["function"]
    return _each(lines, names, types, node.type, lambda ins: scalars.unary(function, ins[0]))


def _binary(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, function = Scalars(lines, node.type.dtype), node.attributes["function"]
    return _each(lines, names, types, node.type, lambda ins: scalars.binary(function, *ins[:2]))


def _compare(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars, direction = Scalars(lines, types[0].dtype), node.attributes["direction"]
    return _each(lines, names, types, node.type, lambda ins: scalars.compare(direction, *ins[:2]))


def _clamp(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars = Scalars(lines, node.type.dtype)

    def body(ins: list[str]) -> str:
        low, high = (scalars.number(node.attributes[name]) for name in ("low", "high"))
        return scalars.binary("min", scalars.binary("max", ins[0], low), high)

    return _each(lines, names, types, node.type, body)


def _convert(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalars = Scalars(lines, types[0].dtype)
    return _each(lines, names, types, node.type, lambda ins: scalars.to(node.type.dtype, ins[0]))


def _start(kind: str, dtype: str) -> Any:
    ends = {"add": 0, "or": 0, "and": 1, "max": least(dtype), "min": largest(dtype)}
    return ends[kind]


def _reduce(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (type,), kind, dtype = types, node.attributes["kind"], node.type.dtype
    axes = node.attributes["axes"]
    start = _filled(lines, node.type, _start(kind, dtype))
    kept = [f"d{d}" for d in range(type.rank) if d not in axes]
    scalars = Scalars(lines, dtype)
    return _generic(
        lines,
        [(names[0], type, _same(type.rank))],
        [(start, node.type, kept)],
        [d in axes for d in range(type.rank)],
        lambda ins: [scalars.binary(kind, ins[0], ins[1])],
    )[0]


def _arg_extreme(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (type,), axis, kind = types, node.attributes["axis"], node.attributes["kind"]
    value = Type(type.dtype, node.type.shape)
    kept = [f"d{d}" for d in range(type.rank) if d != axis]
    scalars, places = Scalars(lines, type.dtype), Scalars(lines, "int32")
    flags = Scalars(lines, "bool")

    def body(ins: list[str]) -> list[str]:
        element, best, at = ins
        place = _place(lines, axis)
        further = scalars.compare("GT" if kind == "max" else "LT", element, best)
        tie = scalars.compare("EQ", element, best)
        first = flags.binary("and", tie, places.compare("LT", place, at))
        either = flags.binary("or", further, first)
        return [scalars.select(further, element, best), places.select(either, place, at)]

    return _generic(
        lines,
        [(names[0], type, _same(type.rank))],
        [
            (_filled(lines, value, _start(kind, type.dtype)), value, kept),
            (_filled(lines, node.type, 0), node.type, kept),
        ],
        [d == axis for d in range(type.rank)],
        body,
    )[1]


def _combined(lines: Lines, kind: str, dtype: str) -> tuple[str, Callable[[], None]]:
    """The block of an op of iree_linalg_ext that combines two elements."""
    x, y, element = lines.name(), lines.name(), lines.element(dtype)

    def write() -> None:
        lines.line(f"^bb0({x}: {element}, {y}: {element}):")
        found = x if kind == "set" else Scalars(lines, dtype).binary(kind, x, y)
        lines.line(f"iree_linalg_ext.yield {found} : {element}")

    return element, write


def _scan(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (name,), (type,) = names, types
    kind, axis = node.attributes["kind"], node.attributes["axis"]
    if node.attributes["reverse"]:
        name = _reversed(lines, name, type, [axis])
    rest = Type(type.dtype, (*type.shape[:axis], *type.shape[axis + 1 :]))
    into, total = _empty(lines, type), _filled(lines, rest, _start(kind, type.dtype))
    found, kinds = lines.name(), (lines.type(type), lines.type(rest))
    _, write = _combined(lines, kind, type.dtype)
    lines.block(
        f"{found}:2 = iree_linalg_ext.scan dimension({axis}) inclusive(true) ins({name} :"
        f" {kinds[0]}) outs({into}, {total} : {kinds[0]}, {kinds[1]}) {{",
        write,
        f"}} -> {kinds[0]}, {kinds[1]}",
    )
    name = f"{found}#0"
    return _reversed(lines, name, type, [axis]) if node.attributes["reverse"] else name


def _window(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (name,), (type,), held = names, types, node.attributes
    kind, dtype, rank = held["kind"], type.dtype, type.rank
    low, high = held["low"], held["high"]
    if any(low) or any(high):
        ends = zip(type.shape, low, high, strict=True)
        wide = Type(dtype, tuple(n + lo + hi for n, lo, hi in ends))
        name = _padded(lines, name, type, low, high, wide, _start(kind, dtype))
        type = wide
    places = [f"d{d} * {step} + d{rank + d}" for d, step in enumerate(held["stride"])]
    sizes = Type(dtype, tuple(held["size"]))
    start = _filled(lines, node.type, _start(kind, dtype))
    scalars = Scalars(lines, dtype)
    inside = [f"d{rank + d}" for d in range(rank)]
    return _generic(
        lines,
        [(name, type, places), (_empty(lines, sizes), sizes, inside)],
        [(start, node.type, _same(rank))],
        [False] * rank + [True] * rank,
        lambda ins: [scalars.binary(kind, ins[0], ins[2])],
    )[0]


def _dot(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
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

    return _generic(
        lines,
        [(names[0], a, maps[0]), (names[1], b, maps[1])],
        [(_filled(lines, node.type, 0), node.type, maps[2])],
        [False] * len(result) + [True] * len(reduced),
        body,
    )[0]


def _clamped(lines: Lines, at: str, most: int) -> str:
    """A place within an extent, as an index."""
    scalars = Scalars(lines, "int32")
    low = scalars.binary("max", at, scalars.number(0))
    high = scalars.binary("min", low, scalars.number(most))
    return lines.value(f"arith.index_cast {high} : i32 to index")


def _take(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
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
        return lines.value(f"tensor.extract {names[0]}{_list(at)} : {kind}")

    inside = [f"d{d}" for d in range(axis, axis + rank)]
    return _each(lines, names[1:], types[1:], node.type, body, [inside])


def _scatter(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places, updates = types
    kind = node.attributes["kind"]
    wide = Type("int32", (*places.shape, 1))
    at = lines.value(
        f"tensor.expand_shape {names[1]} [[0, 1]] output_shape {_list(wide.shape)} :"
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
    lines: Lines, names: Sequence[str], sizes: Sequence[int], shape: Sequence[int]
) -> list[str]:
    found = []
    for name, size, extent in zip(names, sizes, shape, strict=True):
        at = lines.value(f"tensor.extract {name}[] : tensor<i32>")
        found.append(_clamped(lines, at, extent - size))
    return found


def _dynamic_slice(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    start = _firsts(lines, names[1:], node.attributes["sizes"], types[0].shape)
    return _extracted(lines, names[0], types[0], start, node.type)


def _dynamic_update(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    start = _firsts(lines, names[2:], types[1].shape, types[0].shape)
    return _inserted(lines, (names[1], types[1]), (names[0], types[0]), start)


def _sorted(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
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


def _argsort(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    places = Type("int32", types[0].shape)
    at = iota(lines, places, node.attributes["axis"])
    return _sorted(lines, node, [*names, at], [*types, places])


def _body(
    lines: Lines, body: Mapping[str, Any], names: Sequence[str], types: Sequence[Type]
) -> str:
    return lines.nodes(body_nodes(body), names, types)[-1]


def _repeated(
    lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type], count: str
) -> str:
    zero, one = (lines.value(f"arith.constant {n} : index") for n in (0, 1))
    found, inside, kind = lines.name(), lines.name(), lines.type(node.type)

    def step() -> None:
        given = _body(lines, node.attributes["body"], [inside, *names[1:]], types)
        lines.line(f"scf.yield {given} : {kind}")

    lines.block(
        f"{found} = scf.for {lines.name()} = {zero} to {count} step {one} iter_args({inside} ="
        f" {names[0]}) -> ({kind}) {{",
        step,
    )
    return found


def _loop(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    count = lines.value(f"arith.constant {node.attributes['count']} : index")
    return _repeated(lines, node, names, types, count)


def _while(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    at = lines.value(f"tensor.extract {names[-1]}[] : tensor<i32>")
    count = lines.value(f"arith.index_cast {at} : i32 to index")
    return _repeated(lines, node, names[:-1], types[:-1], count)


def _cond(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    flag = lines.value(f"tensor.extract {names[-1]}[] : tensor<i1>")
    found, kind = lines.name(), lines.type(node.type)

    def branch(which: str) -> Callable[[], None]:
        def write() -> None:
            given = _body(lines, node.attributes[which], names[:-1], types[:-1])
            lines.line(f"scf.yield {given} : {kind}")

        return write

    lines.block(f"{found} = scf.if {flag} -> ({kind}) {{", branch("then"), "} else {")
    lines.block("// otherwise", branch("else"))
    return found


def _softmax(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = lines.type(node.type)
    return lines.value(
        f"linalg.softmax dimension({node.attributes['axis']}) ins({names[0]} : {kind})"
        f" outs({_empty(lines, node.type)} : {kind}) -> {kind}"
    )


def _conv(lines: Lines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    image, weight = types
    more, step = node.attributes["padding"], node.attributes["stride"]
    name = names[0]
    if more:
        ends = [0, 0, more, more]
        shape = tuple(n + 2 * end for n, end in zip(image.shape, ends, strict=True))
        wide = Type(image.dtype, shape)
        name, image = _padded(lines, name, image, ends, ends, wide, 0), wide
    into, kind = _filled(lines, node.type, 0), lines.type(node.type)
    return lines.value(
        f"linalg.conv_2d_nchw_fchw {{dilations = dense<1> : tensor<2xi64>, strides = dense<{step}>"
        f" : tensor<2xi64>}} ins({name}, {names[1]} : {lines.type(image)}, {lines.type(weight)})"
        f" outs({into} : {kind}) -> {kind}"
    )


_WRITE: dict[str, Write] = {
    "slice": _slice,
    "reverse": _reverse,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "pad": _pad,
    "select": _select,
    "constant": _constant,
    "iota": _iota,
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
    return Lines(_WRITE, signless=True).function(web)


def _read(text: str, web: Web) -> Imported:
    return import_program(text)


LINALG = Door("linalg", tuple(_WRITE), _takes, _text, _read, "ext.mlir.import_program(TEXT)")
