"""Messages of ONNX: copies, and the graphs inside a graph."""

from collections.abc import Iterator
from typing import Any


def copied(proto: Any) -> Any:
    """A message of the same kind and content."""
    copy = type(proto)()
    copy.CopyFrom(proto)
    return copy


def graphs_of(graph: Any) -> Iterator[Any]:
    """A graph, and those inside its nodes: ``GraphProto``."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from graphs_of(inner)
