"""The cases of exp_reduction: attention from its scores, and sums of weights.

``expred_attn_h8_s1024_d64`` is a softmax over 1024 keys for 8 heads of 1024 rows, times values of
64 columns: maximum, sum and product, not divided.  ``expred_sum_4096x4096`` is maximum and sum of
each row, ``expred_sum_16M`` of a single row.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base.comparison import first_difference
from tvm_iree_ext.bench.base.bench_case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.catalog.base.entry import Tolerance
from tvm_iree_ext.catalog.exp_reduction import sum_error
from tvm_iree_ext.ops.families.exp_reduction.exp_reduction import ExpReduction

_CHECKED_ROWS = 16


def exp_reduction_cases() -> tuple[Case, ...]:
    """All of them."""
    return (
        attention_case(8, 1024, 1024, 64),
        attention_case(16, 2048, 2048, 128),
        sum_case((4096, 4096)),
        sum_case((2**24,)),
    )


def attention_case(heads: int, rows: int, keys: int, columns: int) -> Case:
    """Maximum, sum and product with values, of given scores."""
    op = ops.exp_reduction(
        [(heads, rows, keys), (heads, keys, columns)],
        [(heads, rows), (heads, rows), (heads, rows, columns)],
        indexing_maps=[
            "(b, m, n, k) -> (b, m, k)",
            "(b, m, n, k) -> (b, k, n)",
            "(b, m, n, k) -> (b, m)",
            "(b, m, n, k) -> (b, m)",
            "(b, m, n, k) -> (b, m, n)",
        ],
        iterator_types=["parallel", "parallel", "parallel", "reduction"],
        exp_reduced_operands=[1, 2],
        region="arg2, arg0 + arg3, arg0 * arg1 + arg4",
    )
    return _case(f"expred_attn_h{heads}_s{keys}_d{columns}", op)


def sum_case(shape: tuple[int, ...]) -> Case:
    """Maximum and sum along the last axis."""
    dims = ", ".join(f"d{axis}" for axis in range(len(shape)))
    rows = ", ".join(f"d{axis}" for axis in range(len(shape) - 1))
    op = ops.exp_reduction(
        [shape],
        [shape[:-1], shape[:-1]],
        indexing_maps=[f"({dims}) -> ({dims})", *[f"({dims}) -> ({rows})"] * 2],
        iterator_types=[*["parallel"] * (len(shape) - 1), "reduction"],
        exp_reduced_operands=[1],
        region="arg1, arg0 + arg2",
    )
    size = "16M" if shape == (2**24,) else "x".join(map(str, shape))
    return _case(f"expred_sum_{size}", op)


def _case(name: str, op: ExpReduction) -> Case:
    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        values = {}
        for one in op.signature.arguments:
            shape = [int(extent) for extent in one.shape]
            if one.name.startswith("init"):
                start = -np.inf if one.name == "init0" else 0.0
                values[one.name] = np.full(shape, start, np.float32)
            else:
                values[one.name] = rng.standard_normal(shape, np.float32)
        return values

    return Case(
        name=name,
        op=op,
        operands=operands,
        check=lambda values: _check(op, values),
        peers=(Peer(NUMPY, numpy_reduction), Peer(TORCH, torch_reduction)),
    )


def _check(op: ExpReduction, values: Values) -> Check:
    """Some rows of each head, in float64, within the tolerance of the registry."""
    scores = values["input0"]
    picked: Any = ()
    if scores.ndim > 1:
        rows = np.linspace(0, scores.shape[-2] - 1, min(scores.shape[-2], _CHECKED_ROWS))
        picked = (..., rows.astype(int), slice(None))
        scores = scores[picked]
    scores = scores.astype(np.float64)
    maximum = scores.max(axis=-1)
    weights = np.exp2(scores - maximum[..., None])
    want = [maximum, weights.sum(axis=-1)]
    largest = 0.0
    if "input1" in values:
        want.append(weights @ values["input1"].astype(np.float64))
        largest = float(np.abs(values["input1"]).max())
    # A sum of weights bounds that of weighted values, but for their size.
    error = sum_error("float32", scores.shape[-1]) * float(want[1].max())
    sizes = [0.0, 1.0, largest]

    def check(results: tuple[np.ndarray, ...]) -> str | None:
        for number, (got, one) in enumerate(zip(results, want, strict=True)):
            array = np.asarray(got)
            if picked:
                array = array[picked[:2] if array.ndim < values["input0"].ndim else picked]
            limit = Tolerance(error * sizes[number], 0.0)
            if wrong := first_difference(f"result{number}", array, one, limit):
                return wrong
        return None

    return check


def numpy_reduction(values: Values) -> Call:
    """The formula in float32, with weights in memory that stays."""
    scores, inits = values["input0"], [v for name, v in values.items() if name.startswith("init")]
    weights = np.empty_like(scores)

    def call() -> tuple[np.ndarray, ...]:
        maximum = np.maximum(inits[0], scores.max(axis=-1))
        norm = np.exp2(inits[0] - maximum)
        np.subtract(scores, maximum[..., None], out=weights)
        np.exp2(weights, out=weights)
        total = norm * inits[1] + weights.sum(axis=-1)
        if "input1" not in values:
            return maximum, total
        product = np.matmul(weights, values["input1"])
        product += norm[..., None] * inits[2]
        return maximum, total, product

    return call


def torch_reduction(values: Values) -> Call:
    """The formula with the same memory, in PyTorch's operators."""
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    scores, weights = tensors["input0"], torch.empty_like(tensors["input0"])

    def call() -> tuple[np.ndarray, ...]:
        with torch.inference_mode():
            maximum = torch.maximum(tensors["init0"], scores.amax(dim=-1))
            norm = torch.exp2(tensors["init0"] - maximum)
            torch.sub(scores, maximum.unsqueeze(-1), out=weights)
            torch.exp2(weights, out=weights)
            total = norm * tensors["init1"] + weights.sum(dim=-1)
            if "input1" not in tensors:
                return maximum.numpy(), total.numpy()
            product = torch.matmul(weights, tensors["input1"])
            product += norm.unsqueeze(-1) * tensors["init2"]
            return maximum.numpy(), total.numpy(), product.numpy()

    return call
