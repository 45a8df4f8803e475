"""What becomes of each node of a model: a table, made before anything is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Way = Literal["taken", "replaced", "refused"]


@dataclass(frozen=True)
class NodeSupport:
    """What becomes of one node.

    ``way`` is ``taken`` by the front end as it is, ``replaced`` by other operators that are, or
    ``refused``, for a ``reason``.  ``place`` is the line of the user's program, where the model
    knows it.
    """

    name: str
    operator: str
    way: Way
    front_end: str = ""
    reason: str = ""
    place: str = ""


@dataclass(frozen=True)
class ModelSupport:
    """What becomes of a model's nodes, in the model's order.

    ``front_end`` takes the model as a whole; where none does, it is empty, ``reason`` says why, and
    each node was tried alone.
    """

    nodes: tuple[NodeSupport, ...]
    front_end: str = ""
    reason: str = ""

    @property
    def refused(self) -> tuple[NodeSupport, ...]:
        """The nodes that no front end takes."""
        return tuple(node for node in self.nodes if node.way == "refused")

    def __bool__(self) -> bool:
        """Whether the model imports."""
        return bool(self.front_end)


HEADER = ("operator", "nodes", "what becomes of it")


def rows(support: ModelSupport) -> list[tuple[str, str, str]]:
    """The lines of a table by operator and way: what is refused first, then by their number."""

    def said(node: NodeSupport) -> str:
        if node.way == "refused":
            return f"refused: {node.reason}"
        by = f"{node.front_end}'s front end"
        return f"other operators, by {by}" if node.way == "replaced" else by

    found = Counter((node.operator, said(node), node.way != "refused") for node in support.nodes)
    order = sorted(found.items(), key=lambda one: (one[0][2], -one[1], one[0]))
    return [(operator, str(count), text) for (operator, text, _), count in order]


def summary(support: ModelSupport) -> str:
    """One sentence: whether the model imports, and what stands in its way."""
    count, refused = len(support.nodes), support.refused
    if support:
        return f"imports by {support.front_end}'s front end: all nodes, {count}"
    if refused:
        verb = "is" if len(refused) == 1 else "are"
        return f"does not import: {len(refused)} of {count} nodes {verb} refused"
    return f"does not import, though each of its {count} nodes alone does: {support.reason}"


def places(nodes: Sequence[NodeSupport]) -> list[str]:
    """Names of nodes, with the lines of the user's program that they are of."""
    return [f"{node.name}, {node.place}" if node.place else node.name for node in nodes]
