"""The cases of top-k.

``topk_ROWSxCOLUMNS_kK`` takes the K largest of each row, and where; ``topk_v2``, values alone.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.peers.iree_peer import iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import tensor
from tvm_iree_ext.bench.peers.onnx_runtime import axes, onnx_type, ort_peer

_IREE_KEEPS = 1024


def topk_cases() -> tuple[Case, ...]:
    """All of them."""
    sizes = ((1024, 32000, 8), (1024, 32000, 64), (8, 128256, 50), (1, 1 << 20, 32))
    rows = [topk_case(rows, columns, k) for rows, columns, k in sizes]
    columns, many = topk_case(32000, 1024, 8, dimension=0), topk_case(1, 1 << 20, 1 << 16)
    return (*rows, columns, many, values_case(1024, 32000, 64))


def topk_case(rows: int, columns: int, k: int, dimension: int = 1) -> Case:
    """One case."""
    shape, best = (rows, columns), (rows, k) if dimension == 1 else (k, columns)
    op = ops.topk(shape, best, dimension=dimension)

    def operands() -> dict[str, np.ndarray]:
        values = np.random.default_rng(0).standard_normal(shape, np.float32)
        return {
            "values": values,
            "output_values_init": np.full(best, -np.inf, np.float32),
            "output_indices_init": np.full(best, np.iinfo(np.int32).max, np.int32),
        }

    name = f"topk_{rows}x{columns}_k{k}"
    return Case(
        name=name if dimension == 1 else f"{name}_d0",
        op=op,
        operands=operands,
        check=lambda values: _check(values, k, dimension),
        peers=(
            Peer(NUMPY, lambda values: _numpy(values, k, dimension)),
            Peer(TORCH, lambda values: _torch(values, k, dimension)),
            ort_peer(
                op,
                f"""{axes("count", k)}
  found, places = TopK <axis = {dimension}> (values, count)""",
                f"{onnx_type(best)} found, {onnx_type(best, 'int64')} places",
            ),
            jax_peer(lambda values, *_: _jax(values, k, dimension)),
            # It takes as many steps for each element as it keeps.
            *([iree_peer(op, _mlir(shape, best, dimension))] if k <= _IREE_KEEPS else []),
        ),
    )


def values_case(rows: int, columns: int, k: int) -> Case:
    """``topk_v2_ROWSxCOLUMNS_kK``: the K largest values alone, in any order."""
    shape, best = (rows, columns), (rows, k)

    def operands() -> dict[str, np.ndarray]:
        values = np.random.default_rng(0).standard_normal(shape, np.float32)
        return {"values": values, "output_values_init": np.full(best, -np.inf, np.float32)}

    def check(values: Values) -> Check:
        want = np.sort(values["values"], axis=1)[:, -k:]

        def complaint(result: np.ndarray) -> str | None:
            same = np.array_equal(np.sort(np.asarray(result), axis=1), want)
            return None if same else "output_values are not the largest"

        return complaint

    def by_numpy(values: Values) -> Call:
        return lambda: np.partition(values["values"], columns - k, axis=1)[:, columns - k :]

    def by_torch(values: Values) -> Call:
        import torch

        given = torch.from_numpy(values["values"])

        def call() -> np.ndarray:
            with torch.inference_mode():
                return torch.topk(given, k, dim=1, sorted=False).values.numpy()

        return call

    return Case(
        name=f"topk_v2_{rows}x{columns}_k{k}",
        op=ops.topk_v2(shape, best, dimension=1),
        operands=operands,
        check=check,
        peers=(Peer(NUMPY, by_numpy), Peer(TORCH, by_torch)),
    )


def _mlir(shape: tuple[int, int], best: tuple[int, int], dimension: int) -> str:
    given, values, places = tensor(shape), tensor(best), tensor(best, "int32")
    return f"""
  %found:2 = iree_linalg_ext.topk dimension({dimension}) ins(%values : {given})
    outs(%output_values_init, %output_indices_init : {values}, {places}) {{
  ^bb0(%a: f32, %b: f32):
    %larger = arith.cmpf ogt, %a, %b : f32
    iree_linalg_ext.yield %larger : i1
  }} -> {values}, {places}
  return %found#0, %found#1 : {values}, {places}"""


def _check(values: Values, k: int, axis: int) -> Check:
    """Values as sorted by NumPy; indices by what they point at, since peers break ties at will."""
    given = values["values"]
    ascending = np.sort(given, axis=axis)
    want = np.flip(np.take(ascending, range(given.shape[axis] - k, given.shape[axis]), axis), axis)

    def check(result: tuple[np.ndarray, np.ndarray]) -> str | None:
        got, places = (np.asarray(array) for array in result)
        if not np.array_equal(got, want):
            return "output_values are not the largest"
        if not np.array_equal(np.take_along_axis(given, places.astype(np.int64), axis), got):
            return "output_indices do not point at output_values"
        return None

    return check


def _numpy(values: Values, k: int, axis: int) -> Call:
    """``numpy.argpartition``, and a sort of what it finds."""
    given = values["values"]
    rest = given.shape[axis] - k

    def call() -> tuple[np.ndarray, np.ndarray]:
        places = np.take(np.argpartition(given, rest, axis=axis), range(rest, rest + k), axis)
        best = np.take_along_axis(given, places, axis)
        order = np.argsort(-best, axis=axis)
        places = np.take_along_axis(places, order, axis)
        return np.take_along_axis(best, order, axis), places

    return call


def _jax(values: Any, k: int, axis: int) -> tuple[Any, ...]:
    """``jax.lax.top_k``."""
    import jax

    return tuple(jax.lax.top_k(values, k, axis=axis))


def _torch(values: Values, k: int, axis: int) -> Call:
    """``torch.topk``."""
    import torch

    given = torch.from_numpy(values["values"])

    def call() -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            best, places = torch.topk(given, k, dim=axis)
        return best.numpy(), places.numpy()

    return call
