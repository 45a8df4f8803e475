"""PyTorch on the GPU, where it is there, and what it launches as a graph."""

from collections.abc import Callable
from typing import Any


def torch_on_gpu() -> Any:
    """PyTorch's module; None where it, or a GPU that it knows, is not there."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def replay(torch: Any, stream: Any, function: Callable[[], Any]) -> Callable[[int], None]:
    """What a function launches as a graph; the function itself where it waits for the GPU."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            function()
    except RuntimeError:
        torch.cuda.synchronize()
        return lambda _stream: function()
    return lambda _stream: graph.replay()
