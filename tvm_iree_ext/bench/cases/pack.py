"""The cases of pack and unpack: ``pack_4096x4096_8x32`` is in tiles of 8 rows of 32 columns.

``_t`` stores each tile transposed.  The odd shape is padded, and its padding is dropped.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import exactly, normal_operands
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.torch_compile import compiled_peer
from tvm_iree_ext.ops.base.op import Op

Shape = tuple[int, int]
Move = Callable[[Any], Any]
"""A view, or a copy where there is none, of an array of NumPy, PyTorch or JAX."""


def pack_cases() -> tuple[Case, ...]:
    """All of them."""
    even, odd, tiles = (4096, 4096), (4093, 4091), (8, 32)
    return tuple(
        make(shape, tiles, transposed=transposed)
        for make in (pack_case, unpack_case)
        for shape, transposed in ((even, False), (odd, False), (even, True))
    )


def pack_case(shape: Shape, tiles: Shape, *, transposed: bool = False) -> Case:
    """Pack float32."""
    op = ops.pack(shape, **_tiling(tiles, transposed), padding_value=0.0)
    (rows, columns), (height, width) = shape, tiles

    def move(source: Any) -> Any:
        extra = (-rows % height, -columns % width)
        if any(extra):
            source = _pad(source, extra)
        split = source.reshape(-(-rows // height), height, -(-columns // width), width)
        return _ordered(split, (0, 2, 3, 1) if transposed else (0, 2, 1, 3))

    zero = "%zero = arith.constant 0.0 : f32"
    return _case(op, _name("pack", shape, tiles, transposed), move, _mlir(op, "pack", zero))


def unpack_case(shape: Shape, tiles: Shape, *, transposed: bool = False) -> Case:
    """Unpack float32."""
    counts = tuple(-(-e // t) for e, t in zip(shape, tiles, strict=True))
    packed = (*counts, *(tiles[::-1] if transposed else tiles))
    op = ops.unpack(packed, shape, **_tiling(tiles, transposed))
    (rows, columns), (height, width) = shape, tiles

    def move(source: Any) -> Any:
        split = _ordered(source, (0, 3, 1, 2) if transposed else (0, 2, 1, 3))
        return split.reshape(counts[0] * height, counts[1] * width)[:rows, :columns]

    return _case(op, _name("unpack", shape, tiles, transposed), move, _mlir(op, "unpack"))


def _name(kind: str, shape: Shape, tiles: Shape, transposed: bool) -> str:
    texts = ("x".join(map(str, pair)) for pair in (shape, tiles))
    return "_".join([kind, *texts, *(["t"] if transposed else [])])


def _tiling(tiles: Shape, transposed: bool) -> dict[str, Any]:
    if transposed:
        return {"inner_dims_pos": (1, 0), "inner_tiles": tiles[::-1]}
    return {"inner_dims_pos": (0, 1), "inner_tiles": tiles}


def _mlir(op: Op, name: str, padding: str = "") -> str:
    (source,), (result,) = op.signature.arguments, op.signature.results
    given, found = tensor(source.shape), tensor(result.shape)
    tiling = ", ".join(map(str, op.attributes["inner_tiles"]))
    positions = ", ".join(map(str, op.attributes["inner_dims_pos"]))
    fill = "padding_value(%zero : f32) " if padding else ""
    return f"""  {padding}
  %empty = tensor.empty() : {found}
  %result = linalg.{name} %input {fill}inner_dims_pos = [{positions}]
    inner_tiles = [{tiling}] into %empty : {given} -> {found}
  return %result : {found}"""


def _case(op: Op, name: str, move: Move, mlir: str) -> Case:
    (source,), (result,) = op.signature.arguments, op.signature.results

    def numpy_call(values: Values) -> Call:
        out = np.empty(tuple(map(int, result.shape)), np.float32)

        def call() -> np.ndarray:
            np.copyto(out, move(values["input"]))
            return out

        return call

    def torch_call(values: Values) -> Call:
        import torch

        taken, out = torch.from_numpy(values["input"]), torch.empty(tuple(result.shape))
        return lambda: out.copy_(move(taken))

    return Case(
        name=name,
        op=op,
        operands=normal_operands({"input": tuple(map(int, source.shape))}),
        check=lambda values: exactly(np.ascontiguousarray(move(values["input"]))),
        peers=(
            Peer(NUMPY, numpy_call),
            Peer(TORCH, torch_call),
            compiled_peer(lambda source: move(source).contiguous()),
            iree_peer(op, mlir),
            jax_peer(move),
        ),
    )


def _pad(array: Any, extra: tuple[int, int]) -> Any:
    """Zeros after the last rows and columns."""
    rows, columns = extra
    if hasattr(array, "permute"):
        import torch

        return torch.nn.functional.pad(array, (0, columns, 0, rows))
    if isinstance(array, np.ndarray):
        return np.pad(array, ((0, rows), (0, columns)))
    import jax

    return jax.numpy.pad(array, ((0, rows), (0, columns)))


def _ordered(array: Any, axes: tuple[int, ...]) -> Any:
    return array.permute(axes) if hasattr(array, "permute") else array.transpose(axes)
