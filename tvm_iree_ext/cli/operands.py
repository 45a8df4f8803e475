"""Ops from words: ``attention 1x8xSEQx64xf32 ... mask=SEQxSEQxi1`` and ``causal=true``.

Any op is made so: the words are handed to its function in :mod:`tvm_iree_ext.ops`, whose parameters
say which are operands (their annotation has ``TensorType``) and which are attributes.
"""

import inspect
import json
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm_iree_ext as ext
from tvm_iree_ext.base.dtypes import MEANT, WORDS, mlir_name, mlir_names
from tvm_iree_ext.base.errors import OpError
from tvm_iree_ext.base.suggestions import did_you_mean, meant, near_file


class UsageError(OpError):
    """The words are not those that a command takes."""


# Functions that make an op of another name: the short forms.
_SHORT = frozenset({"matmul"})
_MEANT = {"gemm": "matmul", "mm": "matmul", "bmm": "matmul"}

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
# Capitals, since a small x separates extents.
_EXTENT = re.compile(r"(?P<number>\d+)|(?P<name>[A-Z_][A-Z0-9_]*|\?)")
_LONG_NAMES = (*WORDS, *map(mlir_name, WORDS))
_DTYPE = re.compile(r"(i|ui|f|bf|int|uint|float|bfloat)\d+|bool")


def op_function(op: str) -> Callable[..., Any]:
    """The function that makes an op, by the op's name or by its own where that is a short form.

    Raises:
        OpError: for an unknown name.
    """
    if op in _SHORT:
        return getattr(ext.ops, op)
    if "." not in op and meant(op, _SHORT, _MEANT) in _SHORT:
        raise OpError(f"no op {op!r}{did_you_mean(op, _SHORT, _MEANT)}")
    if Path(op).suffix and (hint := near_file(op)):  # of a program, by a name that is not right
        raise OpError(f"no op or program {op!r}{hint}")
    return ext.registry.find(op).make


def explained(op: str) -> str:
    """Describe an op, its operands and attributes.

    Raises:
        OpError: for an unknown name.
    """
    text = inspect.getdoc(op_function(op)) or ""
    if op in _SHORT:
        return f"{op}: {text}"
    entry = ext.registry.find(op)
    return f"{entry.name}: {entry.summary}\n\n{text}"


def make_op(op: str, operands: Sequence[str], settings: Sequence[str]) -> Any:
    """The op that the words describe.

    Raises:
        UsageError: for operands that are missing or too many, and unknown names.
        OpError: for an unknown op, a malformed type, and what the op refuses.
    """
    make = op_function(op)
    parameters = inspect.signature(make).parameters
    tensors = _tensor_parameters(make)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for word in operands:
        if match := _NAMED.fullmatch(word):
            _check_name(op, "operand", match[1], tensors, named)
            named[match[1]] = parse_type(match[2])
        else:
            positional.append(parse_type(word))
    attributes = [name for name in parameters if name not in tensors]
    for word in settings:
        if (match := _NAMED.fullmatch(word)) is None:
            raise UsageError(f"{op}: {word!r} is not NAME=VALUE; names are {', '.join(attributes)}")
        _check_name(op, "attribute", match[1], attributes, named)
        named[match[1]] = parse_value(match[2])
    try:
        inspect.signature(make).bind(*positional, **named)
    except TypeError as error:
        raise UsageError(
            f"{op}: {error}; operands are {', '.join(tensors)};"
            f" attributes, by --set, {', '.join(attributes)}"
        ) from None
    try:
        return make(*positional, **named)
    except TypeError as error:  # JSON of a type that the op did not reckon with
        raise OpError(f"{op}: {error}") from None


def _check_name(op: str, what: str, name: str, known: Sequence[str], given: dict[str, Any]) -> None:
    if name not in known:
        there = f"{op}: no {what} {name!r}; there are {', '.join(known) or 'none'}"
        raise UsageError(f"{there}{did_you_mean(name, known)}")
    if name in given:
        raise UsageError(f"{op}: {what} {name!r} came twice")


def _tensor_parameters(make: Callable[..., Any]) -> list[str]:
    hints = typing.get_type_hints(make)
    return [
        name
        for name in inspect.signature(make).parameters
        if ext.TensorType in typing.get_args(hints.get(name))
    ]


def parse_type(text: str) -> Any:
    """``1x8xSEQx64xf32`` as a TensorType; without a dtype as a shape.

    Raises:
        OpError: for a part that is no number, name in capitals, ``?`` or, at the end, dtype.
    """
    # Names of types may have an x, too: complex<f32>.
    found = next((one for one in _LONG_NAMES if f"x{text}".endswith(f"x{one}")), None)
    *parts, last = text.removesuffix(found or "").split("x")
    dtype = found or (last if _DTYPE.fullmatch(last) else None)
    if dtype is None:
        parts.append(last)
    shape: list[int | str] = []
    for part in parts:
        match = _EXTENT.fullmatch(part)
        if match is None:
            raise OpError(
                f"{text!r} is not a type such as 1x8xSEQx64xf32: {part!r} is neither a number,"
                f" a name in capitals, '?' nor, at the end, a dtype{_meant_type(text, part)}"
            )
        shape.append(int(part) if match["number"] else part)
    return tuple(shape) if dtype is None else ext.TensorType(tuple(shape), dtype)


def _meant_type(text: str, part: str) -> str:
    """A suggestion for a type of which a part is no dtype, or a name in small letters."""
    *extents, last = text.split("x")
    if part == last:
        name = meant(part, mlir_names(), MEANT)
        return "" if name is None else f"; did you mean {'x'.join([*extents, name])!r}?"
    if not part.isidentifier():
        return ""
    extents = [one.upper() if one == part else one for one in extents]
    return f"; did you mean {'x'.join([*extents, last])!r}?"


def parse_value(text: str) -> Any:
    """An attribute's value: JSON (its lists as tuples), and all else the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return tuple(value) if isinstance(value, list) else value
