"""Webs as StableHLO, which IREE's front end brings to linalg."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.frontends.lowered_modules import import_lowered
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.random_programs.doors.door import Door
from tvm_iree_ext.random_programs.doors.mlir_text import MlirLines, Write
from tvm_iree_ext.random_programs.drawing.scalars import largest, least
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

UNARY = {
    "neg": "negate",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "sin": "sine",
    "cos": "cosine",
    "round": "round_nearest_even",
}
BINARY = {
    "sub": "subtract",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
    "div": "divide",
    "rem": "remainder",
}
_COUNTER = Type("int32", ())


def ints(values: Sequence[int]) -> str:
    """An attribute of integers."""
    return f"array<i64{':' if values else ''} {', '.join(map(str, values))}>"


def _op(
    lines: MlirLines,
    op: str,
    names: Sequence[str],
    types: Sequence[Type],
    result: Type,
    **attributes: str,
) -> str:
    """An operation in MLIR's general form."""
    named = ", ".join(f"{key} = {value}" for key, value in attributes.items())
    properties = f" <{{{named}}}>" if named else ""
    kinds = ", ".join(map(lines.type, types))
    return lines.value(
        f'"stablehlo.{op}"({", ".join(names)}){properties} : ({kinds}) -> {lines.type(result)}'
    )


def constant(lines: MlirLines, value: Any, type: Type) -> str:
    """A tensor of one number everywhere."""
    literal = lines.literal(value, type.dtype)
    return lines.value(f"stablehlo.constant dense<{literal}> : {lines.type(type)}")


def _plain(op: str, **renamed: str) -> Write:
    """An operation whose attributes are lists of integers, by other names."""

    def write(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
        attributes = {new: ints(node.attributes[old]) for new, old in renamed.items()}
        return _op(lines, op, names, types, node.type, **attributes)

    return write


def _named(names: Mapping[str, str]) -> Write:
    def write(lines: MlirLines, node: Node, operands: Sequence[str], types: Sequence[Type]) -> str:
        function = node.attributes["function"]
        return _op(lines, names.get(function, function), operands, types, node.type)

    return write


def _concatenate(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    axis = f"{node.attributes['axis']} : i64"
    return _op(lines, "concatenate", names, types, node.type, dimension=axis)


def _pad(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalar = Type(node.type.dtype, ())
    value = constant(lines, node.attributes["value"], scalar)
    return _op(
        lines,
        "pad",
        [*names, value],
        [*types, scalar],
        node.type,
        edge_padding_low=ints(node.attributes["low"]),
        edge_padding_high=ints(node.attributes["high"]),
        interior_padding=ints(node.attributes["interior"]),
    )


def _constant(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return constant(lines, node.attributes["value"], node.type)


def _iota(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return iota(lines, node.type, node.attributes["axis"])


def iota(lines: MlirLines, type: Type, axis: int) -> str:
    """Places along an axis."""
    return _op(lines, "iota", [], [], type, iota_dimension=f"{axis} : i64")


def _direction(name: str) -> str:
    return f"#stablehlo<comparison_direction {name}>"


def _compare(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    direction = _direction(node.attributes["direction"])
    return _op(lines, "compare", names, types, node.type, comparison_direction=direction)


def _clamp(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    scalar = Type(node.type.dtype, ())
    low, high = (constant(lines, node.attributes[name], scalar) for name in ("low", "high"))
    return _op(lines, "clamp", [low, *names, high], [scalar, *types, scalar], node.type)


def _region(
    lines: MlirLines,
    op: str,
    names: Sequence[str],
    types: Sequence[Type],
    results: Sequence[Type],
    attributes: str,
    arguments: Sequence[Type],
    body: Callable[[list[str]], list[tuple[str, Type]]],
) -> list[str]:
    """An operation with one region; the names of its results."""
    found = lines.name()
    count = f":{len(results)}" if len(results) > 1 else ""
    inside = [lines.name() for _ in arguments]
    head = ", ".join(f"{n}: {lines.type(t)}" for n, t in zip(inside, arguments, strict=True))

    def write() -> None:
        lines.line(f"^bb0({head}):")
        given = body(inside)
        kinds = ", ".join(lines.type(type) for _, type in given)
        lines.line(f"stablehlo.return {', '.join(name for name, _ in given)} : {kinds}")

    kinds, gives = (", ".join(map(lines.type, some)) for some in (types, results))
    lines.block(
        f'{found}{count} = "stablehlo.{op}"({", ".join(names)}) <{{{attributes}}}> ({{',
        write,
        f"}}) : ({kinds}) -> ({gives})",
    )
    return [f"{found}#{n}" for n in range(len(results))] if count else [found]


def _start(kind: str, dtype: str) -> Any:
    """Start value of a reduction."""
    if kind in ("add", "or"):
        return 0
    if kind == "and":
        return 1
    return least(dtype) if kind == "max" else largest(dtype)


def _number(lines: MlirLines, value: Any, dtype: str) -> str:
    """A constant that may be infinite."""
    scalar = Type(dtype, ())
    bits = {
        "float16": ("0x7C00", "0xFC00"),
        "bfloat16": ("0x7F80", "0xFF80"),
        "float32": ("0x7F800000", "0xFF800000"),
        "float64": ("0x7FF0000000000000", "0xFFF0000000000000"),
    }
    if value in (float("inf"), float("-inf")):
        literal = bits[dtype][value < 0]
        return lines.value(f"stablehlo.constant dense<{literal}> : {lines.type(scalar)}")
    return constant(lines, value, scalar)


def _reducer(
    lines: MlirLines, kind: str, scalar: Type
) -> Callable[[list[str]], list[tuple[str, Type]]]:
    op = BINARY.get(kind, kind)

    def body(inside: list[str]) -> list[tuple[str, Type]]:
        return [(_op(lines, op, inside, [scalar, scalar], scalar), scalar)]

    return body


def _reduce(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind, dtype = node.attributes["kind"], node.type.dtype
    scalar = Type(dtype, ())
    start = _number(lines, _start(kind, dtype), dtype)
    return _region(
        lines,
        "reduce",
        [*names, start],
        [*types, scalar],
        [node.type],
        f"dimensions = {ints(node.attributes['axes'])}",
        [scalar, scalar],
        _reducer(lines, kind, scalar),
    )[0]


def _arg_extreme(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """Arg-max or arg-min in JAX's form: the first of the largest, with its place."""
    (type,), axis, kind = types, node.attributes["axis"], node.attributes["kind"]
    places = iota(lines, Type("int32", type.shape), axis)
    value, place = Type(type.dtype, ()), _COUNTER
    starts = [
        _number(lines, _start(kind, type.dtype), type.dtype),
        constant(lines, 0, place),
    ]
    flag = Type("bool", ())

    def compare(direction: str, a: str, b: str, of: Type) -> str:
        held = {"comparison_direction": _direction(direction)}
        return _op(lines, "compare", [a, b], [of, of], flag, **held)

    def body(inside: list[str]) -> list[tuple[str, Type]]:
        a, at, b, other = inside
        further = compare("GT" if kind == "max" else "LT", a, b, value)
        tie = compare("EQ", a, b, value)
        first = compare("LT", at, other, place)
        both = _op(lines, "and", [tie, first], [flag, flag], flag)
        either = _op(lines, "or", [further, both], [flag, flag], flag)
        kept = _op(lines, "select", [further, a, b], [flag, value, value], value)
        where = _op(lines, "select", [either, at, other], [flag, place, place], place)
        return [(kept, value), (where, place)]

    return _region(
        lines,
        "reduce",
        [*names, places, *starts],
        [type, Type("int32", type.shape), value, place],
        [Type(type.dtype, node.type.shape), node.type],
        f"dimensions = {ints([axis])}",
        [value, place, value, place],
        body,
    )[1]


def _windowed(
    lines: MlirLines,
    node: Node,
    names: Sequence[str],
    types: Sequence[Type],
    size: Sequence[int],
    stride: Sequence[int],
    more: Sequence[Sequence[int]],
) -> str:
    kind, scalar = node.attributes["kind"], Type(node.type.dtype, ())
    start = _number(lines, _start(kind, scalar.dtype), scalar.dtype)
    padding = f"dense<{[list(pair) for pair in more]}> : tensor<{len(size)}x2xi64>"
    return _region(
        lines,
        "reduce_window",
        [*names, start],
        [*types, scalar],
        [node.type],
        f"window_dimensions = {ints(size)}, window_strides = {ints(stride)}, padding = {padding}",
        [scalar, scalar],
        _reducer(lines, kind, scalar),
    )[0]


def _window(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    more = list(zip(held["low"], held["high"], strict=True))
    return _windowed(lines, node, names, types, held["size"], held["stride"], more)


def _scan(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """Scan in the form JAX uses for a CPU: a window over all that comes before."""
    (type,), axis = types, node.attributes["axis"]
    size, more = [1] * type.rank, [[0, 0] for _ in type.shape]
    size[axis] = type.shape[axis]
    more[axis] = [0, size[axis] - 1] if node.attributes["reverse"] else [size[axis] - 1, 0]
    return _windowed(lines, node, names, types, size, [1] * type.rank, more)


def _dot(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    numbers = {
        "lhs_batching_dimensions": [a for a, _ in held["batch"]],
        "rhs_batching_dimensions": [b for _, b in held["batch"]],
        "lhs_contracting_dimensions": [a for a, _ in held["contract"]],
        "rhs_contracting_dimensions": [b for _, b in held["contract"]],
    }
    text = ", ".join(f"{key} = {value}" for key, value in numbers.items() if value)
    numbered = f"#stablehlo.dot<{text}>"
    return _op(lines, "dot_general", names, types, node.type, dot_dimension_numbers=numbered)


def _take(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places = types
    axis, rank = node.attributes["axis"], places.rank
    wide = Type("int32", (*places.shape, 1))
    at = _op(lines, "reshape", names[1:], [places], wide)
    offsets = [*range(axis), *range(axis + rank, node.type.rank)]
    sizes = [1 if a == axis else extent for a, extent in enumerate(value.shape)]
    numbers = (
        f"#stablehlo.gather<offset_dims = {offsets}, collapsed_slice_dims = [{axis}],"
        f" start_index_map = [{axis}], index_vector_dim = {rank}>"
    )
    return _op(
        lines,
        "gather",
        [names[0], at],
        [value, wide],
        node.type,
        dimension_numbers=numbers,
        slice_sizes=ints(sizes),
    )


def _scatter(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places, updates = types
    kind, scalar = node.attributes["kind"], Type(value.dtype, ())
    wide = Type("int32", (*places.shape, 1))
    at = _op(lines, "reshape", [names[1]], [places], wide)
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(range(1, value.rank))},"
        " inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    )
    unique = "true" if kind == "set" else "false"
    reducer = _reducer(lines, kind, scalar)
    return _region(
        lines,
        "scatter",
        [names[0], at, names[2]],
        [value, wide, updates],
        [node.type],
        f"scatter_dimension_numbers = {numbers}, unique_indices = {unique}",
        [scalar, scalar],
        reducer if kind != "set" else lambda inside: [(inside[1], scalar)],
    )[0]


def _sorted(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> list[str]:
    value, others = Type(types[0].dtype, ()), [Type(type.dtype, ()) for type in types[1:]]
    arguments = [one for type in (value, *others) for one in (type, type)]
    direction = "GT" if node.attributes["descending"] else "LT"
    flag = Type("bool", ())

    def body(inside: list[str]) -> list[tuple[str, Type]]:
        held = {"comparison_direction": _direction(direction)}
        return [(_op(lines, "compare", inside[:2], [value, value], flag, **held), flag)]

    attributes = f"dimension = {node.attributes['axis']} : i64, is_stable = true"
    return _region(lines, "sort", names, types, types, attributes, arguments, body)


def _sort(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return _sorted(lines, node, names, types)[0]


def _argsort(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    places = Type("int32", types[0].shape)
    at = iota(lines, places, node.attributes["axis"])
    return _sorted(lines, node, [*names, at], [*types, places])[1]


def _repeated(
    lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type], count: str
) -> str:
    carried = node.type
    zero, one = constant(lines, 0, _COUNTER), constant(lines, 1, _COUNTER)
    found, at, inside = lines.name(), lines.name(), lines.name()
    kinds = f"{lines.type(_COUNTER)}, {lines.type(carried)}"
    head = f"({at}: {lines.type(_COUNTER)}, {inside}: {lines.type(carried)}):"
    flag = Type("bool", ())

    def condition() -> None:
        lines.line(f"^bb0{head}")
        held = {"comparison_direction": _direction("LT")}
        less = _op(lines, "compare", [at, count], [_COUNTER, _COUNTER], flag, **held)
        lines.line(f"stablehlo.return {less} : {lines.type(flag)}")

    def step() -> None:
        lines.line(f"^bb0{head}")
        given = lines.body(node.attributes["body"], [inside, *names[1:]], types)
        further = _op(lines, "add", [at, one], [_COUNTER, _COUNTER], _COUNTER)
        lines.line(f"stablehlo.return {further}, {given} : {kinds}")

    lines.block(f'{found}:2 = "stablehlo.while"({zero}, {names[0]}) ({{', condition, "}, {")
    lines.block("// the body", step, f"}}) : ({kinds}) -> ({kinds})")
    return f"{found}#1"


def _loop(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    count = constant(lines, node.attributes["count"], _COUNTER)
    return _repeated(lines, node, names, types, count)


def _while(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    return _repeated(lines, node, names[:-1], types[:-1], names[-1])


def _cond(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    found, kind = lines.name(), lines.type(node.type)

    def branch(which: str) -> Callable[[], None]:
        def write() -> None:
            given = lines.body(node.attributes[which], names[:-1], types[:-1])
            lines.line(f"stablehlo.return {given} : {kind}")

        return write

    flag = lines.type(Type("bool", ()))
    lines.block(f'{found} = "stablehlo.if"({names[-1]}) ({{', branch("then"), "}, {")
    lines.block("// otherwise", branch("else"), f"}}) : ({flag}) -> ({kind})")
    return found


def _conv(lines: MlirLines, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    more, step = node.attributes["padding"], node.attributes["stride"]
    return _op(
        lines,
        "convolution",
        names,
        types,
        node.type,
        dimension_numbers="#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>",
        window_strides=ints([step, step]),
        padding=f"dense<{more}> : tensor<2x2xi64>",
        feature_group_count="1 : i64",
        batch_group_count="1 : i64",
    )


_WRITE: dict[str, Write] = {
    "slice": _plain("slice", start_indices="start", limit_indices="limit", strides="stride"),
    "reverse": _plain("reverse", dimensions="axes"),
    "transpose": _plain("transpose", permutation="permutation"),
    "broadcast": _plain("broadcast_in_dim", broadcast_dimensions="axes"),
    "reshape": _plain("reshape"),
    "select": _plain("select"),
    "convert": _plain("convert"),
    "dynamic_slice": _plain("dynamic_slice", slice_sizes="sizes"),
    "dynamic_update": _plain("dynamic_update_slice"),
    "unary": _named(UNARY),
    "binary": _named(BINARY),
    "concatenate": _concatenate,
    "pad": _pad,
    "constant": _constant,
    "iota": _iota,
    "compare": _compare,
    "clamp": _clamp,
    "reduce": _reduce,
    "arg_extreme": _arg_extreme,
    "window": _window,
    "scan": _scan,
    "dot": _dot,
    "take": _take,
    "scatter": _scatter,
    "sort": _sort,
    "argsort": _argsort,
    "loop": _loop,
    "while": _while,
    "cond": _cond,
    "conv": _conv,
}


def _takes(node: Node, types: Sequence[Type]) -> bool:
    return not (node.op == "scan" and 0 in node.type.shape)  # JAX writes no window of nothing


def _text(web: Web) -> str:
    return MlirLines(_WRITE, signless=False).function(web)


def _read(text: str, web: Web) -> Imported:
    return import_lowered(text, "stablehlo")


STABLEHLO = Door(
    "stablehlo",
    tuple(_WRITE),
    _takes,
    _text,
    _read,
    'frontends.import_lowered(TEXT, "stablehlo")',
    imports="from tvm_iree_ext import frontends",
)
