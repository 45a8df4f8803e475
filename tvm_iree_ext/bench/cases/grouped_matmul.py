"""The cases of grouped products: ``grouped_matmul_8x2048`` has 8 groups of 2048 rows in all."""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.base.checks import within_tolerance

_DEPTH, _COLUMNS = 512, 512


def grouped_matmul_cases() -> tuple[Case, ...]:
    """All of them."""
    return tuple(grouped_matmul_case(groups, rows) for groups, rows in ((8, 2048), (64, 512)))


def grouped_matmul_case(groups: int, rows: int) -> Case:
    """Groups of uneven sizes, float32."""
    op = ops.grouped_matmul((rows, _DEPTH), (groups, _DEPTH, _COLUMNS), (groups,))

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        cuts = np.sort(rng.integers(0, rows, groups, endpoint=True)).astype(np.int32)
        cuts[-1] = rows
        return {
            "lhs": rng.standard_normal((rows, _DEPTH), np.float32),
            "rhs": rng.standard_normal((groups, _DEPTH, _COLUMNS), np.float32),
            "offsets": cuts,
        }

    def check(values: Values) -> Check:
        wide = {name: value.astype(np.float64) for name, value in values.items()}
        want = _numpy_call({**wide, "offsets": values["offsets"]})().copy()
        return within_tolerance(op, values, {"result": want})

    return Case(
        name=f"grouped_matmul_{groups}x{rows}",
        op=op,
        operands=operands,
        check=check,
        peers=(Peer(NUMPY, _numpy_call), Peer(TORCH, _torch_call)),
    )


def _numpy_call(values: Values) -> Call:
    lhs, rhs, offsets = (values[name] for name in ("lhs", "rhs", "offsets"))
    out = np.empty((lhs.shape[0], rhs.shape[2]), lhs.dtype)
    rows = [slice(*pair) for pair in zip((0, *offsets[:-1]), offsets, strict=True)]

    def call() -> np.ndarray:
        for group, own in enumerate(rows):
            np.matmul(lhs[own], rhs[group], out=out[own])
        return out

    return call


def _torch_call(values: Values) -> Call:
    import torch

    lhs, rhs = (torch.from_numpy(values[name]) for name in ("lhs", "rhs"))
    offsets = values["offsets"].tolist()
    out = torch.empty((lhs.shape[0], rhs.shape[2]))
    rows = [slice(*pair) for pair in zip((0, *offsets[:-1]), offsets, strict=True)]

    def call() -> Any:
        for group, own in enumerate(rows):
            torch.matmul(lhs[own], rhs[group], out=out[own])
        return out.numpy()

    return call
