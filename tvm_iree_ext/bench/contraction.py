"""The cases of contraction: ``matmul_minus_512`` is ``lhs @ rhs - operand0``, all 512 x 512.

``matmul_128x256x64`` is of 128 x 256 with 256 x 64; ``_bt`` has rhs transposed, ``batch8`` eight of
them; ``matvec`` and ``vecmat`` have one column, one row.
"""

from typing import Any

import numpy as np

from tvm_iree_ext import ops, registry
from tvm_iree_ext.bench.case import NUMPY, TORCH, Call, Case, Check, Peer, Values
from tvm_iree_ext.bench.iree import DATA_TILING, iree_peer
from tvm_iree_ext.bench.mlir import affine, filled, tensor
from tvm_iree_ext.comparison import first_difference

Shape = tuple[int, ...]

_MINUS = "arg0 - arg1"
_RELU = "max(arg0 + arg1, 0)"


def contraction_cases() -> tuple[Case, ...]:
    """All of them."""
    squares = [
        contraction_case(f"matmul_minus_{n}", (n, n), (n, n), (n, n)) for n in (512, 1024, 2048)
    ]
    heads = (8, 256, 64)
    return (
        *squares,
        contraction_case("matmul_minus_128x256x64", (128, 256), (256, 64), (128, 64)),
        contraction_case("matmul_minus_61x67x53", (61, 67), (67, 53), (61, 53)),
        contraction_case("matmul_bias_relu_1024_bt", (1024, 1024), (1024, 1024), (1024,), bt=True),
        contraction_case("matmul_minus_batch8_bt", heads, heads, (8, 256, 256), bt=True),
        contraction_case("matvec_4096", (4096, 4096), (4096, 1), (4096, 1)),
        contraction_case("vecmat_4096", (1, 4096), (4096, 4096), (1, 4096)),
    )


def contraction_case(name: str, lhs: Shape, rhs: Shape, other: Shape, *, bt: bool = False) -> Case:
    """A product of float32 less another operand; or, of a bias, the larger of its sum and 0."""
    minus = len(other) > 1
    op = ops.matmul(lhs, rhs, [other], transpose_rhs=bt, epilogue=_MINUS if minus else _RELU)

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        shapes = {"lhs": lhs, "rhs": rhs, "operand0": other}
        return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}

    def check(values: Values) -> Check:
        wide = {name: value.astype(np.float64) for name, value in values.items()}
        want = _numpy_call(wide, bt, minus)().copy()
        allowed = registry.find(op.name).tolerance(op, values, {"result": want})["result"]

        def compared(result: Any) -> str | None:
            return first_difference("result", np.asarray(result), want, allowed) or None

        return compared

    return Case(
        name=name,
        op=op,
        operands=operands,
        check=check,
        compute_dtype="float32",
        peers=(
            Peer(NUMPY, lambda values: _numpy_call(values, bt, minus)),
            Peer(TORCH, lambda values: _torch_call(values, bt, minus)),
            iree_peer(op, _mlir(lhs, rhs, other, bt, minus), [DATA_TILING]),
        ),
    )


def _numpy_call(values: Values, bt: bool, minus: bool) -> Call:
    lhs, other = values["lhs"], values["operand0"]
    rhs = values["rhs"].swapaxes(-1, -2) if bt else values["rhs"]
    out = np.matmul(lhs, rhs)

    def call() -> np.ndarray:
        np.matmul(lhs, rhs, out=out)
        if minus:
            return np.subtract(out, other, out=out)
        np.add(out, other, out=out)
        return np.maximum(out, 0, out=out)

    return call


def _mlir(lhs: Shape, rhs: Shape, other: Shape, bt: bool, minus: bool) -> str:
    batch, rows, columns = lhs[:-2], lhs[-2], rhs[-2 if bt else -1]
    shape = (*batch, rows, columns)
    b = "".join(f"b{axis}, " for axis in range(len(batch)))
    dims = f"{b}m, n, k"
    maps = affine(dims, f"{b}m, k", f"{b}n, k" if bt else f"{b}k, n", f"{b}m, n")
    source, weights, kind = (tensor(one) for one in (lhs, rhs, shape))
    head = f"""
  {filled("start", 0.0, shape)}
  %product = linalg.contract indexing_maps = [{maps}]
    ins(%lhs, %rhs : {source}, {weights}) outs(%start : {kind}) -> {kind}"""
    if minus:
        return f"""{head}
  %difference = arith.subf %product, %operand0 : {kind}
  return %difference : {kind}"""
    dropped = ", ".join(map(str, range(len(shape) - 1)))
    return f"""{head}
  %rows = linalg.broadcast ins(%operand0 : {tensor(other)})
    outs(%start_empty : {kind}) dimensions = [{dropped}]
  %sum = arith.addf %product, %rows : {kind}
  %zeros = arith.constant dense<0.0> : {kind}
  %larger = arith.maximumf %sum, %zeros : {kind}
  return %larger : {kind}"""


def _torch_call(values: Values, bt: bool, minus: bool) -> Call:
    import torch

    lhs, rhs, other = (torch.from_numpy(values[name]) for name in ("lhs", "rhs", "operand0"))
    if bt:
        rhs = rhs.transpose(-1, -2)
    out = torch.matmul(lhs, rhs)

    def call() -> Any:
        torch.matmul(lhs, rhs, out=out)
        if minus:
            return torch.sub(out, other, out=out).numpy()
        return torch.add(out, other, out=out).clamp_(min=0).numpy()

    return call
