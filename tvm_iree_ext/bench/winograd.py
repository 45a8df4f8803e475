"""The cases of the Winograd transforms of 6 x 6 tiles, each beside two matrix products."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.bench.case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.comparison import first_difference
from tvm_iree_ext.ops.winograd import Winograd

_R, _I = 6, 8


def winograd_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        _case("wino_input_1x58x58x64", ops.winograd_input_transform((1, 58, 58, 64))),
        _case("wino_filter_3x3x64x64", ops.winograd_filter_transform((3, 3, 64, 64))),
        _case("wino_output_1x60x60x64", ops.winograd_output_transform((8, 8, 1, 10, 10, 64))),
        _case(
            "wino_input_1x64x58x58_nchw",
            ops.winograd_input_transform((1, 64, 58, 58), image_dimensions=(2, 3)),
        ),
        _case(
            "wino_output_1x64x60x60_nchw",
            ops.winograd_output_transform((8, 8, 1, 10, 10, 64), image_dimensions=(2, 3)),
        ),
    )


def _case(name: str, op: Winograd) -> Case:
    shape = tuple(map(int, op.input.shape))

    def operands() -> dict[str, np.ndarray]:
        return {"input": np.random.default_rng(0).standard_normal(shape, np.float32)}

    def check(values: Values) -> Check:
        entry = registry.find(op.name)
        want = entry.reference(op, values)
        allowed = entry.tolerance(op, values, want)["result"]

        def compared(result: Any) -> str | None:
            return first_difference("result", np.asarray(result), want["result"], allowed) or None

        return compared

    return Case(
        name=name,
        op=op,
        operands=operands,
        check=check,
        compute_dtype=op.compute_dtype,
        peers=(
            Peer(NUMPY, lambda values: _numpy_call(op, values)),
            Peer(TORCH, lambda values: _torch_call(op, values)),
        ),
    )


def _order(op: Winograd) -> tuple[int, ...]:
    """The axes (n, h, p, w, q, c) of tiles, in the order of the output image."""
    return (0, 1, 2, 3, 4, 5) if op.channels_last else (0, 5, 1, 2, 3, 4)


def _numpy_call(op: Winograd, values: Values) -> Call:
    matrix = np.array(op.matrix, np.float32)
    source = values["input"]
    result = tuple(map(int, op.output.shape))
    if op.kind == "filter":
        path = "pa,abcf,qb->pqcf"
    elif op.kind == "output":
        path = "pa,abnhwc,qb->nhpwqc"
    else:
        path = "pa,nhwcab,qb->pqnhwc" if op.channels_last else "pa,nchwab,qb->pqnhwc"

    def call() -> np.ndarray:
        tiles = source
        if op.kind == "input":
            rows, columns = op.dims
            extents = (result[3] * _R + 2, result[4] * _R + 2)
            pads = [(0, 0)] * 4
            for dim, extent in zip((rows, columns), extents, strict=True):
                pads[dim] = (0, extent - source.shape[dim])
            # Its type in NumPy 2.2 has no tuple of axes.
            windows: Callable[..., np.ndarray] = np.lib.stride_tricks.sliding_window_view
            view = windows(np.pad(source, pads), (_I, _I), (rows, columns))
            index = [slice(None)] * 4
            index[rows] = index[columns] = slice(None, None, _R)
            tiles = view[tuple(index)]
        found = np.einsum(path, matrix, tiles, matrix, optimize=True)
        if op.kind == "output":
            found = found.transpose(_order(op))
        return np.ascontiguousarray(found).reshape(result)

    return call


def _torch_call(op: Winograd, values: Values) -> Call:
    import torch

    matrix = torch.tensor(np.array(op.matrix, np.float32))
    source = torch.from_numpy(values["input"])
    result = tuple(map(int, op.output.shape))

    def call() -> Any:
        if op.kind == "filter":
            return torch.einsum("pa,abcf,qb->pqcf", matrix, source, matrix).contiguous()
        if op.kind == "output":
            found = torch.einsum("pa,abnhwc,qb->nhpwqc", matrix, source, matrix)
            return found.permute(_order(op)).reshape(result)
        rows, columns = op.dims
        extra = [0] * 8  # from the last dim to the first
        for dim, extent in zip(op.dims, (result[3] * _R + 2, result[4] * _R + 2), strict=True):
            extra[2 * (3 - dim) + 1] = extent - source.shape[dim]
        padded = torch.nn.functional.pad(source, extra)
        tiles = padded.unfold(rows, _I, _R).unfold(columns, _I, _R)
        path = "pa,nhwcab,qb->pqnhwc" if op.channels_last else "pa,nchwab,qb->pqnhwc"
        return torch.einsum(path, matrix, tiles, matrix).contiguous()

    return call
