"""The cases of scatter and gather.

``scatter_add_rows_unique`` adds 100 000 rows of 64 to some of 1 000 000, ``_dup`` with indices that
repeat; ``scatter_set_elems`` and ``scatter_add_elems`` have a million elements in 16 million.
The result is in place of the original in every form, and each call goes on from the one before.
``gather_4096_of_50kx768`` takes 4096 rows of 50 000.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import equal
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.onnx_runtime import axes, ort_peer
from tvm_iree_ext.ops.base.op import Op

_LINE_BYTES = 64


def slices_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        gather_case(4096, 50_000, 768),
        scatter_case("rows", 100_000, 1_000_000, 64, "add", unique=True),
        scatter_case("rows", 100_000, 1_000_000, 64, "add", unique=False),
        scatter_case("elems", 1_000_000, 16_000_000, 1, "set", unique=True),
        scatter_case("elems", 1_000_000, 16_000_000, 1, "add", unique=False),
    )


def scatter_case(
    what: str, updates: int, rows: int, width: int, region: str, *, unique: bool
) -> Case:
    """Rows or single elements, set or added, with indices that are unique or repeat."""
    window = (width,) if width > 1 else ()
    op = ops.scatter(
        (updates, *window),
        (updates, 1),
        (rows, *window),
        region="arg0" if region == "set" else region,
        unique_indices=unique,
    )

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        indices = rng.permutation(rows)[:updates] if unique else rng.integers(0, rows, updates)
        # Small integers: sums in any order are exact, and a lost update shows.
        values = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((updates, *window),))
        return {
            "updates": next(values),
            "indices": indices.astype(np.int32)[:, None],
            "original": rng.integers(-8, 8, (rows, *window)).astype(np.float32),
        }

    return Case(
        name=f"scatter_{region}_{what}_{'unique' if unique else 'dup'}",
        op=op,
        operands=operands,
        check=lambda values: equal(_numpy_scatter(values, region, unique)()),
        peers=(
            Peer(NUMPY, lambda values: _numpy_scatter(values, region, unique)),
            Peer(TORCH, lambda values: _torch_scatter(values, region)),
            iree_peer(op, _scatter_mlir(op, region, unique)),
            jax_peer(lambda u, i, original: _jax_scatter(u, i, original, region, unique), 2),
        ),
        moved=updates * (width * 4 + 4) + 2 * _touched(updates, rows, width * 4),
    )


def _touched(updates: int, rows: int, size: int) -> int:
    """The bytes of the cache lines that updates of random rows hit: each is read and written."""
    unit = max(size, _LINE_BYTES)
    units = -(-rows * size // unit)
    return round(units * (1 - (1 - 1 / units) ** updates)) * unit


def _scatter_mlir(op: Op, region: str, unique: bool) -> str:
    updates, indices, original = (tensor(one.shape, one.dtype) for one in op.signature.arguments)
    combine = "%sum = arith.addf %update, %old : f32" if region == "add" else ""
    return f"""
  %result = iree_linalg_ext.scatter dimension_map = [0] unique_indices({str(unique).lower()})
    ins(%updates, %indices : {updates}, {indices}) outs(%original : {original}) {{
  ^bb0(%update: f32, %old: f32):
    {combine}
    iree_linalg_ext.yield {"%sum" if combine else "%update"} : f32
  }} -> {original}
  return %result : {original}"""


def _gather_mlir(op: Op) -> str:
    source, indices, result = (tensor(one.shape, one.dtype) for one in op.signature.operands)
    return f"""
  %empty = tensor.empty() : {result}
  %rows = iree_linalg_ext.gather dimension_map = [0]
    ins(%source, %indices : {source}, {indices}) outs(%empty : {result}) -> {result}
  return %rows : {result}"""


def _jax_scatter(updates: Any, indices: Any, original: Any, region: str, unique: bool) -> Any:
    """``original.at[indices].set`` or ``add``; in place, since the original is donated."""
    place = original.at[indices[:, 0]]
    combine = place.set if region == "set" else place.add
    return combine(updates, unique_indices=unique, mode="promise_in_bounds")


def _jax_gather(source: Any, indices: Any) -> Any:
    return source.at[indices[:, 0]].get(mode="promise_in_bounds")


def _numpy_scatter(values: Values, region: str, unique: bool) -> Call:
    """``result[indices] = updates`` or ``+=``; ``add.at`` where indices repeat."""
    updates, index = values["updates"], values["indices"][:, 0]
    result = values["original"].copy()

    def call() -> np.ndarray:
        if region == "set":
            result[index] = updates
        elif unique:
            result[index] += updates
        else:
            np.add.at(result, index, updates)
        return result

    return call


def _torch_scatter(values: Values, region: str) -> Call:
    """``index_copy_`` or ``index_add_``."""
    import torch

    updates = torch.from_numpy(values["updates"])
    index = torch.from_numpy(values["indices"])[:, 0].long()
    result = torch.from_numpy(values["original"].copy())

    def call() -> Any:
        if region == "set":
            return result.index_copy_(0, index, updates)
        return result.index_add_(0, index, updates)

    return call


def gather_case(count: int, rows: int, width: int) -> Case:
    """``count`` of ``rows`` rows."""
    op = ops.gather((rows, width), (count, 1))

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        return {
            "source": rng.standard_normal((rows, width), np.float32),
            "indices": rng.integers(0, rows, (count, 1)).astype(np.int32),
        }

    return Case(
        name=f"gather_{count}_of_{rows // 1000}kx{width}",
        op=op,
        operands=operands,
        check=lambda values: equal(values["source"][values["indices"][:, 0]]),
        peers=(
            Peer(NUMPY, _numpy_gather),
            Peer(TORCH, _torch_gather),
            iree_peer(op, _gather_mlir(op)),
            ort_peer(
                op,
                f"""{axes("last", 1)}
  places = Squeeze (indices, last)
  output = Gather (source, places)""",
            ),
            jax_peer(_jax_gather),
        ),
    )


def _numpy_gather(values: Values) -> Call:
    """``take`` into memory that stays; without a mode it would go through a copy."""
    source, index = values["source"], values["indices"][:, 0]
    output = np.empty((len(index), source.shape[1]), source.dtype)
    return lambda: np.take(source, index, axis=0, out=output, mode="clip")


def _torch_gather(values: Values) -> Call:
    """``index_select`` into memory that stays."""
    import torch

    source, index = (torch.from_numpy(values[name]) for name in ("source", "indices"))
    output = torch.empty((len(index), source.shape[1]), dtype=source.dtype)
    return lambda: torch.index_select(source, 0, index[:, 0], out=output)
