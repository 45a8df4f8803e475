"""Weights of PyTorch modules: their own memory beside the program, and no copies on the way.

PyTorch is imported when it is asked for.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_iree_ext.base.dtypes import is_dtype, numpy_dtype

_LEAST_BYTES = 1024  # of a weight that does not pass through the IR
_MOST_NAME = 80  # characters: MLIR's text of longer ones is cut


@contextmanager
def lazy_clones() -> Iterator[None]:
    """Have PyTorch's tracer clone weights by their pages only where one of them is written.

    It clones all that a module holds, and looks at few.
    """
    import torch
    from torch._dynamo.variables import builder

    clone, lazy = getattr(builder, "clone_input", None), getattr(torch, "_lazy_clone", None)
    if clone is None or lazy is None:
        yield
        return

    def cloned(x: Any, **named: Any) -> Any:
        is_plain = type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout is torch.strided
        if not is_plain or named or x.device.type != "cpu" or x.nbytes < _LEAST_BYTES:
            return clone(x, **named)
        with torch.no_grad():
            try:
                return lazy(x).requires_grad_(x.requires_grad)
            except RuntimeError:  # memory that is not PyTorch's own, such as an array's
                return clone(x, **named)

    builder.clone_input = cloned
    try:
        yield
    finally:
        builder.clone_input = clone


@contextmanager
def beside(program: Any) -> Iterator[dict[str, np.ndarray]]:
    """Have ``iree.turbine`` write an exported program without its weights: their arrays, by name.

    They are the memory of the weights themselves.  Small ones stay in the program, but for buffers
    that it updates.
    """
    from iree.turbine.aot.tensor_traits import ExternalTensorTrait

    tensors = {**getattr(program, "state_dict", {}), **getattr(program, "constants", {})}
    signature = getattr(program, "graph_signature", None)
    updated = {*getattr(signature, "buffers_to_mutate", {}).values()}
    arrays: dict[str, np.ndarray] = {}
    marked = []
    try:
        for name, tensor in tensors.items():
            array = _array(tensor, 0 if name in updated else _LEAST_BYTES)
            if array is not None and ExternalTensorTrait.get(tensor) is None:
                called = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:_MOST_NAME]
                called = called if called not in arrays else f"{called}_{len(arrays)}"
                arrays[called] = array
                ExternalTensorTrait("", called).set(tensor)
                marked.append(tensor)
        yield arrays
    finally:
        for tensor in marked:
            del tensor._turbine_external_tensor_trait


def _array(tensor: Any, least_bytes: int) -> np.ndarray | None:
    """The memory of a weight as an array; None for a small one, and for what is no such."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    if tensor.device.type != "cpu" or tensor.nbytes < least_bytes:
        return None
    name = str(tensor.dtype).removeprefix("torch.")
    if not is_dtype(name) and not tensor.is_complex():
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.is_complex():
        return plain.numpy()
    kind = numpy_dtype(name)
    word = torch.uint8 if kind.itemsize == 1 else torch.int16
    is_known = kind.type.__module__ == "numpy"
    return plain.numpy() if is_known else plain.view(word).numpy().view(kind)
