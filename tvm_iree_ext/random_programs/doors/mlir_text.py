"""A web as a function of MLIR: lines of text with a name for each value."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_iree_ext.base.dtypes import FLOATS, mlir_name
from tvm_iree_ext.random_programs.drawing.loops import body_nodes
from tvm_iree_ext.random_programs.drawing.web import Node, Type, Web

Write = Callable[["MlirLines", Node, Sequence[str], Sequence[Type]], str]
"""Writes an operation of values that have these names and types; the name of its result."""


class MlirLines:
    """The lines of a function that is being written."""

    def __init__(self, table: Mapping[str, Write], *, signless: bool) -> None:
        self._table, self._signless = table, signless
        self._lines: list[str] = []
        self._count = 0
        self._depth = 2

    def element(self, dtype: str) -> str:
        """An element type."""
        return "i8" if self._signless and dtype == "uint8" else mlir_name(dtype)

    def type(self, type: Type) -> str:
        """The type of a tensor."""
        return f"tensor<{''.join(f'{n}x' for n in type.shape)}{self.element(type.dtype)}>"

    def literal(self, value: Any, dtype: str) -> str:
        """A number as MLIR writes it."""
        if dtype in FLOATS:
            return f"{float(value):.17e}"
        return ("true" if value else "false") if dtype == "bool" else str(int(value))

    def name(self) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        """A line as it is."""
        self._lines.append("  " * self._depth + text)

    def value(self, text: str) -> str:
        """A line that gives one value; its name."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def block(self, head: str, write: Callable[[], None], tail: str = "}") -> None:
        """Lines between a head and a tail, further in."""
        self.line(head)
        self._depth += 1
        write()
        self._depth -= 1
        self.line(tail)

    def body(self, body: Mapping[str, Any], names: Sequence[str], types: Sequence[Type]) -> str:
        """The result of a node's body, whose operations are written here."""
        return self.nodes(body_nodes(body), names, types)[-1]

    def nodes(
        self, nodes: Sequence[Node], names: Sequence[str], types: Sequence[Type]
    ) -> list[str]:
        """Operations over arrays that have names; the names of all arrays."""
        known, kinds = list(names), list(types)
        for node in nodes:
            operands = [known[one] for one in node.operands]
            known.append(
                self._table[node.op](self, node, operands, [kinds[i] for i in node.operands])
            )
            kinds.append(node.type)
        return known

    def function(self, web: Web) -> str:
        """The module of a web."""
        types = web.types
        names = [f"%arg{place}" for place in range(len(web.inputs))]
        arguments = ", ".join(
            f"{name}: {self.type(type)}" for name, type in zip(names, types, strict=False)
        )
        known = self.nodes(web.nodes, names, types[: len(names)])
        results = ", ".join(self.type(types[one]) for one in web.results)
        self.line(f"return {', '.join(known[one] for one in web.results)} : {results}")
        body = "\n".join(self._lines)
        return f"module {{\n  func.func @main({arguments}) -> ({results}) {{\n{body}\n  }}\n}}\n"
