"""The cases of transfer_gather and transfer_scatter.

``embedding_4096_of_50kx768`` takes rows of a table; ``paged_kv`` the keys of one head, in 256 pages
of a cache; ``inner`` an element of its row for each element; ``transpose`` needs no index.
``scatter_rows`` writes rows; its time has the copy of the base in it, in every form.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base.signature import TensorType
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Peer, Values
from tvm_iree_ext.bench.base.checks import exactly
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.mlir_text import affine, tensor
from tvm_iree_ext.ops.families.transfer.transfer import Transfer

_ROWS = ("(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)")


def transfer_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        embedding_case(4096, 50_000, 768),
        paged_case(1024, 16, 8, 128, 256),
        inner_case(4096, 4096, 1024),
        transpose_case(2048, 2048),
        scatter_case(4096, 50_000, 768),
    )


def _case(
    name: str,
    op: Transfer,
    indices: Callable[[np.random.Generator], list[np.ndarray]],
    wanted: Callable[[Values], np.ndarray],
    numpy_call: Callable[[Values], Call],
    torch_call: Callable[[Values], Call],
    mlir: str = "",
) -> Case:
    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        given = {f"index{t}": one for t, one in enumerate(indices(rng))}
        return {
            o.name: given[o.name] if o.name in given else rng.standard_normal(o.shape, np.float32)  # type: ignore[arg-type]
            for o in op.signature.arguments
        }

    return Case(
        name=name,
        op=op,
        operands=operands,
        check=lambda values: exactly(wanted(values)),
        peers=(
            Peer(NUMPY, numpy_call),
            Peer(TORCH, torch_call),
            *([iree_peer(op, mlir)] if mlir else []),
        ),
    )


def embedding_case(count: int, rows: int, width: int) -> Case:
    """``count`` of ``rows`` rows."""
    op = ops.vector_ext.transfer_gather(
        (rows, width), TensorType((count,), "i64"), result=(count, width), indexing_maps=_ROWS
    )

    def numpy_call(values: Values) -> Call:
        base, index = values["base"], values["index0"]
        out = np.empty((count, width), np.float32)  # without a mode it would go through a copy
        return lambda: np.take(base, index, axis=0, out=out, mode="clip")

    def torch_call(values: Values) -> Call:
        import torch

        base, index = (torch.from_numpy(values[name]) for name in ("base", "index0"))
        out = torch.empty((count, width))
        return lambda: torch.index_select(base, 0, index, out=out)

    return _case(
        f"embedding_{count}_of_{rows // 1000}kx{width}",
        op,
        lambda rng: [rng.integers(0, rows, count)],
        lambda values: values["base"][values["index0"]],
        numpy_call,
        torch_call,
        mlir=_row_mlir(count, rows, width),
    )


def _row_mlir(count: int, rows: int, width: int) -> str:
    """A loop over the result; iree_linalg_ext.gather takes longer."""
    table, result = tensor((rows, width)), tensor((count, width))
    maps = affine("i, j", "i", "i, j")
    return f"""
  %empty = tensor.empty() : {result}
  %rows = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
    ins(%index0 : {tensor((count,), "int64")}) outs(%empty : {result}) {{
  ^bb0(%index: i64, %old: f32):
    %row = arith.index_cast %index : i64 to index
    %column = linalg.index 1 : index
    %element = tensor.extract %base[%row, %column] : {table}
    linalg.yield %element : f32
  }} -> {result}
  return %rows : {result}"""


def paged_case(pages: int, slots: int, heads: int, width: int, count: int) -> Case:
    """One head of the pages of a table."""
    head = heads // 2
    op = ops.vector_ext.transfer_gather(
        (pages, slots, heads, width),
        TensorType((count,), "i64"),
        result=(count, slots, width),
        indexing_maps=("(d0, d1, d2)[s0] -> (s0, d1, 0, d2)", "(d0, d1, d2)[s0] -> (d0)"),
        offsets=(0, 0, head, 0),
    )

    def numpy_call(values: Values) -> Call:
        base, index = values["base"][:, :, head], values["index0"]
        out = np.empty((count, slots, width), np.float32)
        return lambda: np.take(base, index, axis=0, out=out, mode="clip")

    def torch_call(values: Values) -> Call:
        import torch

        base, index = torch.from_numpy(values["base"])[:, :, head], values["index0"]
        table, out = torch.from_numpy(index), torch.empty((count, slots, width))
        return lambda: torch.index_select(base, 0, table, out=out)

    return _case(
        f"paged_kv_{count}x{slots}x{width}",
        op,
        lambda rng: [rng.permutation(pages)[:count]],
        lambda values: values["base"][values["index0"], :, head],
        numpy_call,
        torch_call,
    )


def inner_case(rows: int, width: int, count: int) -> Case:
    """``count`` elements of each row, each row's its own."""
    op = ops.vector_ext.transfer_gather(
        (rows, width),
        TensorType((rows, count), "i64"),
        result=(rows, count),
        indexing_maps=("(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (d0, d1)"),
    )

    def numpy_call(values: Values) -> Call:
        base, index = values["base"], values["index0"]
        return lambda: np.take_along_axis(base, index, axis=1)

    def torch_call(values: Values) -> Call:
        import torch

        base, index = (torch.from_numpy(values[name]) for name in ("base", "index0"))
        out = torch.empty((rows, count))
        return lambda: torch.gather(base, 1, index, out=out)

    return _case(
        f"inner_{rows}x{count}_of_{width}",
        op,
        lambda rng: [rng.integers(0, width, (rows, count))],
        lambda values: np.take_along_axis(values["base"], values["index0"], axis=1),
        numpy_call,
        torch_call,
    )


def transpose_case(rows: int, columns: int) -> Case:
    """A transpose."""
    op = ops.vector_ext.transfer_gather(
        (columns, rows), result=(rows, columns), indexing_maps=("(d0, d1)[] -> (d1, d0)",)
    )

    def numpy_call(values: Values) -> Call:
        base, out = values["base"].T, np.empty((rows, columns), np.float32)

        def call() -> np.ndarray:
            np.copyto(out, base)
            return out

        return call

    def torch_call(values: Values) -> Call:
        import torch

        base, out = torch.from_numpy(values["base"]).T, torch.empty((rows, columns))
        return lambda: out.copy_(base)

    return _case(
        f"transpose_{rows}x{columns}",
        op,
        lambda rng: [],
        lambda values: values["base"].T,
        numpy_call,
        torch_call,
    )


def scatter_case(count: int, rows: int, width: int) -> Case:
    """``count`` rows, to as many of ``rows``."""
    op = ops.vector_ext.transfer_scatter(
        (count, width), (rows, width), TensorType((count,), "i64"), indexing_maps=_ROWS
    )

    def numpy_call(values: Values) -> Call:
        vector, base, index = (values[name] for name in ("vector", "base", "index0"))
        out = np.empty_like(base)

        def call() -> np.ndarray:
            np.copyto(out, base)
            out[index] = vector
            return out

        return call

    def torch_call(values: Values) -> Call:
        import torch

        vector, base, index = (
            torch.from_numpy(values[name]) for name in ("vector", "base", "index0")
        )
        out = torch.empty_like(base)

        def call() -> Any:
            return out.copy_(base).index_copy_(0, index, vector)

        return call

    return _case(
        f"scatter_rows_{count}_of_{rows // 1000}kx{width}",
        op,
        lambda rng: [rng.permutation(rows)[:count]],
        lambda values: numpy_call(values)(),
        numpy_call,
        torch_call,
    )
