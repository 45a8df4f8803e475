"""Webs as modules of Relax, beside TVM's own compilation of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.programs.relax_import.from_relax import from_relax
from tvm_iree_ext.random_programs.doors.door import Door
from tvm_iree_ext.random_programs.doors.python_text import (
    Statements,
    Write,
    calls,
    executed,
    functions,
)
from tvm_iree_ext.random_programs.drawing.reductions import labels
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

_SAME = ("abs", "exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "floor", "ceil", "sign")
_UNARY = {name: f"R.{name}" for name in _SAME}
_UNARY |= {"neg": "R.negative", "logistic": "R.sigmoid", "round": "R.round"}
_BINARY = {"add": "R.add", "sub": "R.subtract", "mul": "R.multiply", "div": "R.divide"}
_BINARY |= {"max": "R.maximum", "min": "R.minimum"}
_BINARY |= {name: f"R.bitwise_{name}" for name in ("and", "or", "xor")}
_COMPARE = {"EQ": "R.equal", "NE": "R.not_equal", "LT": "R.less", "LE": "R.less_equal"}
_COMPARE |= {"GT": "R.greater", "GE": "R.greater_equal"}


def _unary(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    if node.attributes["function"] == "not":
        return f"R.{'logical' if node.type.dtype == 'bool' else 'bitwise'}_not({names[0]})"
    return functions(_UNARY)(lines, node, names, types)


def _binary(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    if node.type.dtype == "bool":
        return f"R.logical_{node.attributes['function']}({', '.join(names)})"
    return functions(_BINARY)(lines, node, names, types)


def _reverse(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    (name,) = names
    *axes, last = node.attributes["axes"]
    for axis in axes:
        name = lines.value(f"R.flip({name}, {axis})")
    return f"R.flip({name}, {last})"


def _broadcast(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    wide = node.attributes["shape"]
    held = [1] * len(wide)
    for axis, extent in zip(node.attributes["axes"], types[0].shape, strict=True):
        held[axis] = extent
    return f"R.broadcast_to({lines.value(f'R.reshape({names[0]}, {held})')}, {wide})"


def _slice(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    ends = ", ".join(f"{held[name]}" for name in ("start", "limit", "stride"))
    return f"R.strided_slice({names[0]}, {list(range(types[0].rank))}, {ends})"


def _pad(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    edges = [end for pair in zip(held["low"], held["high"], strict=True) for end in pair]
    return f"R.nn.pad({names[0]}, {edges}, pad_value={float(held['value'])})"


def _dot(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    left, right, result = labels(node.attributes, (types[0].rank, types[1].rank))
    return f"R.einsum(({', '.join(names)}), '{left},{right}->{result}')"


def _reduce(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = {"add": "sum"}.get(node.attributes["kind"], node.attributes["kind"])
    return f"R.{kind}({names[0]}, {node.attributes['axes']})"


def _scatter(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, places, _updates = types
    kind = {"set": "update"}.get(node.attributes["kind"], node.attributes["kind"])
    at = lines.value(f"R.reshape({names[1]}, {[*places.shape, 1]})")
    if value.rank == 1 and kind != "update":
        return f"R.scatter_elements({names[0]}, {names[1]}, {names[2]}, 0, '{kind}')"
    return f"R.scatter_nd({names[0]}, {at}, {names[2]}, '{kind}')"


_WRITE: dict[str, Write] = {
    "slice": _slice,
    "reverse": _reverse,
    "transpose": calls("R.permute_dims({0}, {permutation})"),
    "broadcast": _broadcast,
    "reshape": calls("R.reshape({0}, {shape})"),
    "concatenate": lambda _, n, names, t: f"R.concat([{', '.join(names)}], {n.attributes['axis']})",
    "pad": _pad,
    "select": calls("R.where({0}, {1}, {2})"),
    "constant": calls("R.full({shape}, relax.const({value}, '{dtype}'), '{dtype}')"),
    "unary": _unary,
    "binary": _binary,
    "compare": functions(_COMPARE),
    "clamp": calls("R.clip({0}, {low}, {high})"),
    "convert": calls("R.astype({0}, '{dtype}')"),
    "reduce": _reduce,
    "arg_extreme": calls("R.astype(R.arg{kind}({0}, {axis}), 'int32')"),
    "scan": calls("R.cumsum({0}, {axis}, '{dtype}')"),
    "dot": _dot,
    "take": calls("R.take({0}, {1}, {axis}, 'clip')"),
    "scatter": _scatter,
    "sort": calls("R.sort({0}, {axis}, {descending})"),
    "argsort": calls("R.argsort({0}, {axis}, {descending}, 'int32')"),
    "softmax": calls("R.nn.softmax({0}, {axis})"),
    "layer_norm": calls("R.nn.layer_norm({0}, {1}, {2}, -1)"),
    "activation": calls("R.nn.{function}({0})"),
    "conv": calls("R.nn.conv2d({0}, {1}, strides={stride}, padding={padding})"),
}


def _takes(node: Node, types: Sequence[Type]) -> bool:
    """Whether Relax has it; its integers overflow as C's: none is multiplied or wraps."""
    held, dtype = node.attributes, node.type.dtype
    match node.op:
        case "pad":
            return not any(held["interior"]) and min(*held["low"], *held["high"]) >= 0
        case "scan":
            return held["kind"] == "add" and not held["reverse"]
        case "unary":
            return held["function"] in (_UNARY if node.type.is_float else ("not", "neg", "abs"))
        case "binary":
            return node.type.is_float or held["function"] not in ("div", "rem")
        case "reduce":
            return held["kind"] not in ("or", "and")
        case "dot":
            return types[0].dtype == dtype
    return 0 not in node.type.shape


def _text(web: Web) -> str:
    arguments, lines, results = Statements(_WRITE, 2, "builder.emit({})").web(web)
    head = [
        "import tvm",
        "from tvm import relax",
        "from tvm.relax import op as R",
        "",
        "builder = relax.BlockBuilder()",
    ]
    for place, one in enumerate(web.inputs):
        type = f"relax.TensorType({one.type.shape}, '{one.type.dtype}')"
        head.append(f"a{place} = relax.Var('a{place}', {type})")
    several = f"relax.Tuple([{results}])" if len(web.results) > 1 else results
    return "\n".join(
        [
            *head,
            f"with builder.function('main', [{arguments}], attrs={{'global_symbol': 'main'}}):",
            "    with builder.dataflow():",
            lines,
            f"        given = builder.emit_output({several})",
            "    builder.emit_func_output(given)",
            "module = builder.get()",
            "",
        ]
    )


def _read(text: str, web: Web) -> Imported:
    return from_relax(executed(text)["module"])


def _beside(text: str, web: Web) -> Sequence[np.ndarray]:
    import tvm
    from tvm import relax

    built = tvm.compile(executed(text)["module"], target="llvm")
    machine: Any = relax.VirtualMachine(built, tvm.cpu())
    results = machine["main"](*map(tvm.runtime.tensor, web.arrays()))
    several = [results] if hasattr(results, "numpy") else list(results)
    return [one.numpy() for one in several]


RELAX = Door(
    "relax",
    tuple(_WRITE),
    _takes,
    _text,
    _read,
    "from_relax(module)",
    lambda text: f"from tvm_iree_ext.programs.relax_import.from_relax import from_relax\n{text}",
    _beside,
)
