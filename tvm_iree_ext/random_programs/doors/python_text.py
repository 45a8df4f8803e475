"""A web as a file of Python: a line for each operation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

Write = Callable[["Statements", Node, Sequence[str], Sequence[Type]], str]
"""Writes an operation of arrays that have these names and types; an expression for its result."""


class Statements:
    """The lines of a function that is being written."""

    def __init__(self, table: Mapping[str, Write], depth: int, emit: str = "{}") -> None:
        self._table, self._depth, self._emit = table, depth, emit
        self._lines: list[str] = []
        self._count = 0

    def name(self, prefix: str = "v") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def line(self, text: str) -> None:
        """A line as it is."""
        self._lines.append("    " * self._depth + text)

    def value(self, expression: str) -> str:
        """A line that gives an expression a name."""
        name = self.name()
        self.line(f"{name} = {self._emit.format(expression)}")
        return name

    def function(self, arguments: Sequence[str], write: Callable[[], str]) -> str:
        """A function within this one, of lines that ``write`` adds; its name."""
        name = self.name("f")
        self.line(f"def {name}({', '.join(arguments)}):")
        self._depth += 1
        self.line(f"return {write()}")
        self._depth -= 1
        return name

    def nodes(
        self, nodes: Sequence[Node], names: Sequence[str], types: Sequence[Type]
    ) -> list[str]:
        """Operations over arrays that have names; the names of all arrays."""
        known, kinds = list(names), list(types)
        for node in nodes:
            operands = [known[one] for one in node.operands]
            held = [kinds[one] for one in node.operands]
            known.append(self.value(self._table[node.op](self, node, operands, held)))
            kinds.append(node.type)
        return known

    def web(self, web: Web) -> tuple[str, str, str]:
        """The arguments, the lines and the results of a web, as text."""
        names = [f"a{place}" for place in range(len(web.inputs))]
        known = self.nodes(web.nodes, names, web.types[: len(names)])
        results = ", ".join(known[one] for one in web.results)
        return ", ".join(names), "\n".join(self._lines), results


def calls(pattern: str) -> Write:
    """An expression with the operands as ``{0}``, ``{1}`` and the attributes by name."""

    def write(_: Statements, node: Node, names: Sequence[str], types: Sequence[Type]) -> str:
        return pattern.format(*names, **{**node.attributes, "dtype": node.type.dtype})

    return write


def functions(names: Mapping[str, str]) -> Write:
    """The function that an attribute names, of all operands."""

    def write(_: Statements, node: Node, operands: Sequence[str], types: Sequence[Type]) -> str:
        held = node.attributes
        key = held.get("function") or held.get("direction")
        return f"{names[str(key)]}({', '.join(operands)})"

    return write


def at(node: Node) -> str:
    """The subscript of a slice."""
    held = node.attributes
    ends = zip(held["start"], held["limit"], held["stride"], strict=True)
    return ", ".join(f"{start}:{limit}:{step}" for start, limit, step in ends)


def executed(text: str) -> dict[str, Any]:
    """The names that a file of Python defines."""
    names: dict[str, Any] = {}
    exec(compile(text, "<random program>", "exec"), names)
    return names
