"""Webs as functions of JAX."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.jax.jax_functions import import_jax
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.random_programs.doors.door import Door, as_it_is
from tvm_iree_ext.random_programs.doors.python_text import (
    Statements,
    Write,
    calls,
    executed,
    functions,
)
from tvm_iree_ext.random_programs.drawing.loops import body_nodes
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

_UNARY = {
    name: f"lax.{name}"
    for name in ("neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "logistic")
}
_UNARY |= {name: f"lax.{name}" for name in ("sin", "cos", "floor", "ceil", "sign")}
_UNARY |= {"round": "jnp.round", "not": "lax.bitwise_not"}
_BINARY = {name: f"lax.{name}" for name in ("add", "sub", "mul", "max", "min", "div", "rem")}
_BINARY |= {name: f"lax.bitwise_{name}" for name in ("and", "or", "xor")}
_COMPARE = {name: f"lax.{name.lower()}" for name in ("EQ", "NE", "LT", "LE", "GT", "GE")}
_REDUCE = {"add": "sum", "max": "max", "min": "min", "or": "any", "and": "all"}
_WINDOW = {"add": ("0", "lax.add"), "max": ("-inf", "lax.max"), "min": ("inf", "lax.min")}


def _pad(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    edges = list(zip(held["low"], held["high"], held["interior"], strict=True))
    return f"lax.pad({names[0]}, jnp.asarray({held['value']}, '{node.type.dtype}'), {edges})"


def _clamp(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    low, high = (f"jnp.asarray({node.attributes[n]}, '{node.type.dtype}')" for n in ("low", "high"))
    return f"lax.clamp({low}, {names[0]}, {high})"


def _reduce(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = node.attributes["kind"]
    dtype = f", dtype='{node.type.dtype}'" if kind == "add" else ""
    return f"jnp.{_REDUCE[kind]}({names[0]}, axis={tuple(node.attributes['axes'])}{dtype})"


def _arg_extreme(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    return f"lax.arg{held['kind']}({names[0]}, {held['axis']}, 'int32')"


def _scan(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    """One half as JAX's own sums, the other as associative scans."""
    held = node.attributes
    axis, reverse = held["axis"], held["reverse"]
    if types[0].size % 2 and 0 not in types[0].shape:
        combine = _BINARY[held["kind"]]
        return f"lax.associative_scan({combine}, {names[0]}, reverse={reverse}, axis={axis})"
    function = {"add": "sum"}.get(held["kind"], held["kind"])
    return f"lax.cum{function}({names[0]}, axis={axis}, reverse={reverse})"


def _window(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    start, combine = _WINDOW[held["kind"]]
    if held["kind"] != "add":
        limits = "jnp.finfo" if node.type.is_float else "jnp.iinfo"
        end = "min" if held["kind"] == "max" else "max"
        infinity = f"{start!r}" if node.type.is_float else f"{limits}('{node.type.dtype}').{end}"
        start = f"float({infinity})" if node.type.is_float else infinity
    edges = list(zip(held["low"], held["high"], strict=True))
    value = f"np.asarray({start}, '{node.type.dtype}')[()]"
    return (
        f"lax.reduce_window({names[0]}, {value}, {combine}, {tuple(held['size'])},"
        f" {tuple(held['stride'])}, {edges})"
    )


def _dot(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    contract, batch = (
        tuple(tuple(pair[side] for pair in held[key]) for side in (0, 1))
        for key in ("contract", "batch")
    )
    return (
        f"lax.dot_general({names[0]}, {names[1]}, {(contract, batch)},"
        f" preferred_element_type='{node.type.dtype}')"
    )


def _scatter(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = node.attributes["kind"]
    unique = ", unique_indices=True" if kind == "set" else ""
    return f"{names[0]}.at[{names[1]}].{kind}({names[2]}{unique})"


def _starts(names: Sequence[str], sizes: Sequence[int], shape: Sequence[int]) -> str:
    """Places that are not below 0, which JAX would count from the end."""
    named = zip(names, sizes, shape, strict=True)
    return f"[{', '.join(f'jnp.clip({name}, 0, {n - size})' for name, size, n in named)}]"


def _dynamic_slice(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    sizes = node.attributes["sizes"]
    return f"lax.dynamic_slice({names[0]}, {_starts(names[1:], sizes, types[0].shape)}, {sizes})"


def _dynamic_update(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    starts = _starts(names[2:], types[1].shape, types[0].shape)
    return f"lax.dynamic_update_slice({names[0]}, {names[1]}, {starts})"


def _body(
    lines: Statements,
    body: Mapping[str, Any],
    arguments: Sequence[str],
    names: Sequence[str],
    types: Sequence[Type],
) -> str:
    """A function of these arguments; ``names`` are those of the arrays of the body."""

    def write() -> str:
        return lines.nodes(body_nodes(body), names, types)[-1]

    return lines.function(arguments, write)


def _loop(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    step = _body(lines, held["body"], ["i", "carried"], ["carried", *names[1:]], types)
    return f"lax.fori_loop(0, {held['count']}, {step}, {names[0]})"


def _while(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    inside = ["carried", *names[1:-1]]
    step = _body(lines, node.attributes["body"], ["carried"], inside, types[:-1])
    return (
        f"lax.while_loop(lambda s: s[0] < {names[-1]}, lambda s: (s[0] + 1, {step}(s[1])),"
        f" (jnp.int32(0), {names[0]}))[1]"
    )


def _cond(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held, arguments = node.attributes, [f"b{place}" for place in range(len(names) - 1)]
    then, other = (_body(lines, held[w], arguments, arguments, types) for w in ("then", "else"))
    return f"lax.cond({names[-1]}, {then}, {other}, {', '.join(names[:-1])})"


_WRITE: dict[str, Write] = {
    "slice": calls("lax.slice({0}, {start}, {limit}, {stride})"),
    "reverse": calls("lax.rev({0}, {axes})"),
    "transpose": calls("jnp.transpose({0}, {permutation})"),
    "broadcast": calls("lax.broadcast_in_dim({0}, {shape}, {axes})"),
    "reshape": calls("jnp.reshape({0}, {shape})"),
    "concatenate": lambda _, n, names, t: (
        f"jnp.concatenate([{', '.join(names)}], {n.attributes['axis']})"
    ),
    "pad": _pad,
    "select": calls("jnp.where({0}, {1}, {2})"),
    "constant": calls("jnp.full({shape}, {value}, '{dtype}')"),
    "iota": calls("lax.broadcasted_iota('{dtype}', {shape}, {axis})"),
    "unary": functions(_UNARY),
    "binary": functions(_BINARY),
    "compare": functions(_COMPARE),
    "clamp": _clamp,
    "convert": calls("lax.convert_element_type({0}, '{dtype}')"),
    "reduce": _reduce,
    "arg_extreme": _arg_extreme,
    "scan": _scan,
    "window": _window,
    "dot": _dot,
    "take": calls("jnp.take({0}, {1}, axis={axis}, mode='clip')"),
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "sort": calls("jnp.sort({0}, axis={axis}, descending={descending})"),
    "argsort": calls(
        "jnp.argsort({0}, axis={axis}, descending={descending}, stable=True).astype('int32')"
    ),
    "loop": _loop,
    "while": _while,
    "cond": _cond,
    "softmax": calls("jax.nn.softmax({0}, axis={axis})"),
    "activation": calls("jax.nn.{function}({0})"),
    "conv": calls(
        "lax.conv_general_dilated({0}, {1}, ({stride}, {stride}), 2 * [({padding}, {padding})])"
    ),
}


def _takes(node: Node, types: Sequence[Type]) -> bool:
    return not (node.op == "unary" and node.attributes["function"] == "sign" and not types[0].size)


def _text(web: Web) -> str:
    arguments, lines, results = Statements(_WRITE, 1).web(web)
    wide = any(type.dtype == "float64" for type in web.types)
    return (
        "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n\n"
        f"jax.config.update('jax_enable_x64', {wide})\n\n\n"
        f"def program({arguments}):\n{lines}\n    return {results}\n\n\n"
    )


def _read(text: str, web: Web) -> Imported:
    return import_jax(executed(text)["program"], *web.arrays())


def _beside(text: str, web: Web) -> Sequence[np.ndarray]:
    import jax

    program: Callable[..., Any] = jax.jit(executed(text)["program"])
    results = program(*web.arrays())
    several = results if isinstance(results, tuple) else (results,)
    return [np.asarray(one) for one in several]


JAX = Door(
    "jax",
    tuple(_WRITE),
    _takes,
    _text,
    _read,
    "frontends.import_jax(program, *arrays)",
    as_it_is,
    _beside,
    imports="from tvm_iree_ext import frontends",
)
