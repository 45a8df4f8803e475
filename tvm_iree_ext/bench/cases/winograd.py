"""The cases of the Winograd transforms of 6 x 6 tiles, each beside two matrix products."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import normal_operands, within_tolerance
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.torch_compile import compiled_peer
from tvm_iree_ext.ops.families.winograd.winograd import Winograd

_R, _I = 6, 8


def winograd_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        winograd_case("wino_input_1x58x58x64", ops.winograd_input_transform((1, 58, 58, 64))),
        winograd_case("wino_filter_3x3x64x64", ops.winograd_filter_transform((3, 3, 64, 64))),
        winograd_case(
            "wino_output_1x60x60x64", ops.winograd_output_transform((8, 8, 1, 10, 10, 64))
        ),
        winograd_case(
            "wino_input_1x64x58x58_nchw",
            ops.winograd_input_transform((1, 64, 58, 58), image_dimensions=(2, 3)),
        ),
        winograd_case(
            "wino_output_1x64x60x60_nchw",
            ops.winograd_output_transform((8, 8, 1, 10, 10, 64), image_dimensions=(2, 3)),
        ),
    )


def winograd_case(name: str, op: Winograd) -> Case:
    """The case of a transform."""
    shape = tuple(map(int, op.input.shape))

    def check(values: Values) -> Check:
        return within_tolerance(op, values, registry.find(op.name).reference(op, values))

    return Case(
        name=name,
        op=op,
        operands=normal_operands({"input": shape}),
        check=check,
        compute_dtype=op.compute_dtype,
        peers=(
            Peer(NUMPY, lambda values: _numpy_call(op, values)),
            Peer(TORCH, lambda values: _torch_call(op, values)),
            compiled_peer(lambda source: _torch_transform(op, _torch_matrix(op), source)),
            iree_peer(op, _mlir(op)),
            jax_peer(lambda source: _jax_transform(op, source)),
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

    source, matrix = torch.from_numpy(values["input"]), _torch_matrix(op)
    return lambda: _torch_transform(op, matrix, source)


def _torch_matrix(op: Winograd) -> Any:
    import torch

    return torch.tensor(op.matrix, dtype=torch.float32)


def _torch_transform(op: Winograd, matrix: Any, source: Any) -> Any:
    import torch

    result = tuple(map(int, op.output.shape))
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


def _jax_transform(op: Winograd, source: Any) -> Any:
    import jax.numpy as jnp

    matrix = jnp.array(op.matrix, jnp.float32)
    result = tuple(map(int, op.output.shape))
    if op.kind == "filter":
        return jnp.einsum("pa,abcf,qb->pqcf", matrix, source, matrix)
    if op.kind == "output":
        found = jnp.einsum("pa,abnhwc,qb->nhpwqc", matrix, source, matrix)
        return found.transpose(_order(op)).reshape(result)
    for axis, count in zip(op.dims, result[3:5], strict=True):
        source = _jax_tiles(source, axis if axis == op.dims[0] else axis + 1, count)
    path = "nhawbc" if op.channels_last else "nchawb"
    return jnp.einsum(f"pa,{path},qb->pqnhwc", matrix, source, matrix)


def _jax_tiles(source: Any, axis: int, count: int) -> Any:
    """An axis as tiles, and the elements of each: its own six, and two that the next one has."""
    import jax.numpy as jnp
    from jax.lax import slice_in_dim

    shape, pads = source.shape, [(0, 0)] * source.ndim
    pads[axis] = (0, (count + 1) * _R - shape[axis])
    padded = jnp.pad(source, pads)
    split = padded.reshape(*shape[:axis], count + 1, _R, *shape[axis + 1 :])
    own, after = (slice_in_dim(split, first, first + count, axis=axis) for first in (0, 1))
    return jnp.concatenate([own, slice_in_dim(after, 0, _I - _R, axis=axis + 1)], axis + 1)


def _mlir(op: Winograd) -> str:
    given, found = tensor(op.input.shape), tensor(op.output.shape)
    dims = ", ".join(map(str, op.dims))
    which = "kernel_dimensions" if op.kind == "filter" else "image_dimensions"
    return f"""
  %empty = tensor.empty() : {found}
  %result = iree_linalg_ext.winograd.{op.kind}_transform output_tile_size({_R}) kernel_size(3)
    {which}([{dims}]) ins(%input : {given}) outs(%empty : {found}) -> {found}
  return %result : {found}"""
