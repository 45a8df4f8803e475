"""Webs as modules of PyTorch."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.frontends.torch.torch_modules import import_torch
from tvm_iree_ext.mlir.importing.imported import Imported
from tvm_iree_ext.random_programs.doors.door import Door, as_it_is
from tvm_iree_ext.random_programs.doors.python_text import (
    Statements,
    Write,
    at,
    calls,
    executed,
    functions,
)
from tvm_iree_ext.random_programs.drawing.reductions import labels
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

_SAME = ("neg", "abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "sin", "cos")
_UNARY = {name: f"torch.{name}" for name in (*_SAME, "floor", "ceil", "round", "sign")}
_UNARY |= {"logistic": "torch.sigmoid", "not": "torch.bitwise_not"}
_BINARY = {name: f"torch.{name}" for name in ("add", "sub", "mul", "maximum", "minimum")}
_BINARY |= {"max": "torch.maximum", "min": "torch.minimum", "rem": "torch.fmod"}
_BINARY |= {name: f"torch.bitwise_{name}" for name in ("and", "or", "xor")}
_COMPARE = {name: f"torch.{name.lower()}" for name in ("EQ", "NE", "LT", "LE", "GT", "GE")}
_REDUCE = {"add": "sum", "max": "amax", "min": "amin", "or": "any", "and": "all"}

_HEAD = """import numpy as np
import torch
import torch.nn.functional as F


def tensor(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


class Program(torch.nn.Module):
"""


def _broadcast(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    wide = node.attributes["shape"]
    held = [1] * len(wide)
    for axis, extent in zip(node.attributes["axes"], types[0].shape, strict=True):
        held[axis] = extent
    return f"{names[0]}.reshape({held}).expand({wide})"


def _pad(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held = node.attributes
    pairs = zip(reversed(held["low"]), reversed(held["high"]), strict=True)
    edges = [end for pair in pairs for end in pair]
    return f"F.pad({names[0]}, {edges}, value={held['value']})"


def _iota(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    shape, axis = node.type.shape, node.attributes["axis"]
    held = [extent if a == axis else 1 for a, extent in enumerate(shape)]
    places = f"torch.arange({shape[axis]}).reshape({held}).expand({list(shape)})"
    return f"{places}.to(torch.{node.type.dtype})"


def _binary(lines: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    if node.attributes["function"] != "div":
        return functions(_BINARY)(lines, node, names, types)
    mode = "" if node.type.is_float else ", rounding_mode='trunc'"
    return f"torch.div({', '.join(names)}{mode})"


def _reduce(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind, axes = node.attributes["kind"], node.attributes["axes"]
    dtype = f", dtype=torch.{node.type.dtype}" if kind == "add" else ""
    return f"torch.{_REDUCE[kind]}({names[0]}, dim={axes}{dtype})"


def _scan(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    held, axis = node.attributes, node.attributes["axis"]
    name = f"{names[0]}.flip({axis})" if held["reverse"] else names[0]
    if held["kind"] == "add":
        found = f"torch.cumsum({name}, {axis}, dtype=torch.{node.type.dtype})"
    else:
        found = f"torch.cum{held['kind']}({name}, {axis}).values"
    return f"{found}.flip({axis})" if held["reverse"] else found


def _dot(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    left, right, result = labels(node.attributes, (types[0].rank, types[1].rank))
    dtype = f"torch.{node.type.dtype}"
    operands = ", ".join(
        name if type.dtype == node.type.dtype else f"{name}.to({dtype})"
        for name, type in zip(names, types, strict=True)
    )
    return f"torch.einsum('{left},{right}->{result}', {operands})"


def _take(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    value, _places = types
    axis = node.attributes["axis"]
    index = ":, " * axis + f"{names[1]}.clamp(0, {value.shape[axis] - 1}).long()"
    return f"{names[0]}[{index}]"


def _scatter(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
    kind = node.attributes["kind"]
    function = {"set": "index_copy", "add": "index_add", "max": "index_reduce"}[kind]
    mode = ", 'amax'" if kind == "max" else ""
    return f"{names[0]}.{function}(0, {names[1]}.long(), {names[2]}{mode})"


_WRITE: dict[str, Write] = {
    "slice": lambda _, node, names, t: f"{names[0]}[{at(node)}]",
    "reverse": calls("{0}.flip({axes})"),
    "transpose": calls("{0}.permute({permutation})"),
    "broadcast": _broadcast,
    "reshape": calls("{0}.reshape({shape})"),
    "concatenate": lambda _, n, names, t: (
        f"torch.cat([{', '.join(names)}], {n.attributes['axis']})"
    ),
    "pad": _pad,
    "select": calls("torch.where({0}, {1}, {2})"),
    "constant": calls("torch.full({shape}, {value}, dtype=torch.{dtype})"),
    "iota": _iota,
    "unary": functions(_UNARY),
    "binary": _binary,
    "compare": functions(_COMPARE),
    "clamp": calls("{0}.clamp({low}, {high})"),
    "convert": calls("{0}.to(torch.{dtype})"),
    "reduce": _reduce,
    "arg_extreme": calls("torch.arg{kind}({0}, dim={axis}).to(torch.int32)"),
    "scan": _scan,
    "dot": _dot,
    "take": _take,
    "scatter": _scatter,
    "sort": calls("torch.sort({0}, dim={axis}, descending={descending}).values"),
    "argsort": calls(
        "torch.sort({0}, dim={axis}, descending={descending}, stable=True).indices.to(torch.int32)"
    ),
    "softmax": calls("torch.softmax({0}, dim={axis})"),
    "layer_norm": lambda _, node, names, t: (
        f"F.layer_norm({names[0]}, [{node.type.shape[-1]}], {names[1]}, {names[2]})"
    ),
    "activation": calls("F.{function}({0})"),
    "conv": calls("F.conv2d({0}, {1}, stride={stride}, padding={padding})"),
}


def _takes(node: Node, types: Sequence[Type]) -> bool:
    """Whether PyTorch has it for a CPU: no steps between elements in pads, no products of bools."""
    held = node.attributes
    if node.op == "pad":
        return not any(held["interior"])
    if node.op == "constant":
        return node.type.dtype != "bool" or held["value"] in (0, 1)
    return not (node.op in ("arg_extreme", "reduce") and 0 in types[0].shape)


def _text(web: Web) -> str:
    arguments, lines, results = Statements(_WRITE, 2).web(web)
    return (
        f"{_HEAD}    def forward(self, {arguments}):\n{lines}\n        return {results}\n\n\n"
        "program = Program()\n"
    )


def _read(text: str, web: Web) -> Imported:
    names = executed(text)
    return import_torch(names["program"], *map(names["tensor"], web.arrays()))


def _beside(text: str, web: Web) -> Sequence[np.ndarray]:
    names = executed(text)
    results = names["program"](*map(names["tensor"], web.arrays()))
    several: Any = results if isinstance(results, tuple) else (results,)
    return [(one.float() if "bfloat16" in str(one.dtype) else one).numpy() for one in several]


TORCH = Door(
    "torch",
    tuple(_WRITE),
    _takes,
    _text,
    _read,
    "frontends.import_torch(program, *map(tensor, arrays))",
    as_it_is,
    _beside,
    least=3,
    most=10,
    imports="from tvm_iree_ext import frontends",
)
