"""Messages of ONNX: copies, and the graphs inside a graph."""

from collections.abc import Iterator, Sequence
from typing import Any

from tvm_iree_ext.base.errors import OnnxError


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


def set_extents(kind: Any, name: str, extents: Any) -> None:
    """Give a type of tensors the extents that a caller says of the input ``name``.

    Raises:
        OnnxError: for another number of them than the type has, and for what are none.
    """
    if (
        not isinstance(extents, Sequence)
        or isinstance(extents, str)
        or not all(one is None or isinstance(one, str | int) for one in extents)
    ):
        raise OnnxError(f"shapes: {name} is a tensor; expected its extents; {extents!r} came")
    if kind.HasField("shape") and len(kind.shape.dim) != len(extents):
        raise OnnxError(
            f"shapes: {name} has {len(extents)} extents; the model's has {len(kind.shape.dim)}"
        )
    kind.ClearField("shape")
    kind.shape.SetInParent()  # also for a tensor of no axes
    for extent in extents:
        axis = kind.shape.dim.add()
        if isinstance(extent, str):
            axis.dim_param = extent
        elif extent is not None:
            axis.dim_value = extent
