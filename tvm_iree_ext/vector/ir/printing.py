"""Programs as text, close to MLIR's: the same program always gives the same text."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tvm_iree_ext.vector.ir.core import Block, Operation, Value

_INDENT = "  "


class ValueNames:
    """Names of values: hints made unique, numbers for the rest, in order of definition."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._number = 0

    def add(self, value: Value) -> str:
        """Name a value that is defined here."""
        if value.hint:
            name, again = value.hint, 0
            while name in self._taken:
                name, again = f"{value.hint}_{again}", again + 1
        else:
            name = str(self._number)
            self._number += 1
        self._taken.add(name)
        self._names[value] = f"%{name}"
        return f"%{name}"

    def __getitem__(self, value: Value) -> str:
        return self._names.get(value) or f"%<undefined {value.type}>"

    def list(self, values: Iterable[Value]) -> str:
        """Names with commas."""
        return ", ".join(self[value] for value in values)

    @staticmethod
    def types(values: Iterable[Value]) -> str:
        """Types with commas."""
        return ", ".join(str(value.type) for value in values)

    @staticmethod
    def attributes(texts: Sequence[str]) -> str:
        """``{a = 1, b = 2}`` with a space before it; nothing where there are none."""
        return f" {{{', '.join(texts)}}}" if texts else ""

    def plain(self, op: Operation) -> str:
        """Operands, attributes, types of operands and results."""
        texts = [f"{name} = {attribute(value)}" for name, value in op.attributes.items()]
        text = f"{self.list(op.operands)}{self.attributes(texts)} : {self.types(op.operands)}"
        return f"{text} -> {self.types(op.results)}" if op.results else text


def attribute(value: Any) -> str:
    """An attribute's value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(attribute, value))}]"
    return str(value)


def dense(array: np.ndarray) -> str:
    """A constant's elements; one alone where all are equal."""
    flat = array.ravel()
    first = flat[0].tobytes()
    if all(one.tobytes() == first for one in flat):
        return number(flat[0])
    return _nested(array)


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return number(array[()])
    return f"[{', '.join(_nested(one) for one in array)}]"


def number(value: Any) -> str:
    """An element: with a point or an exponent where it is a float."""
    if value.dtype.kind == "b":
        return str(bool(value)).lower()
    return str(int(value)) if value.dtype.kind == "i" else repr(float(value))


def print_block(block: Block, names: ValueNames, depth: int) -> list[str]:
    """The lines of a block's operations."""
    lines = []
    for op in block.operations:
        lines += print_operation(op, names, depth)
    return lines


def print_operation(op: Operation, names: ValueNames, depth: int) -> list[str]:
    """The lines of an operation: its own, then those of its blocks."""
    results = ", ".join([names.add(result) for result in op.results])
    for block in op.regions:
        for argument in block.arguments:
            names.add(argument)
    text = op.definition.text(op, names)
    blocks = [print_block(block, names, depth + 1) for block in op.regions]
    head = f"{_INDENT * depth}{results + ' = ' if results else ''}{op.name}{text and ' ' + text}"
    if not blocks:
        return [head]
    lines = [f"{head} {{"]
    for number, body in enumerate(blocks):
        if number:
            lines.append(f"{_INDENT * depth}}} else {{")
        lines += body
    return [*lines, f"{_INDENT * depth}}}"]
