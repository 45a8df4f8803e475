"""The cases of contraction: ``matmul_minus_512`` is ``lhs @ rhs - operand0``, all 512 x 512.

``matmul_128x256x64`` is of 128 x 256 with 256 x 64; ``_at`` and ``_bt`` have lhs and rhs
transposed, ``batch8`` eight of them; ``matvec`` and ``vecmat`` have one column, one row.
``minus`` and ``bias_relu`` are epilogues; those of other types than float32 have none.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_iree_ext import ops
from tvm_iree_ext.base import dtypes
from tvm_iree_ext.bench.base.bench_case import (
    NUMPY,
    TORCH,
    Call,
    Case,
    Check,
    Peer,
    Skipped,
    Values,
)
from tvm_iree_ext.bench.base.checks import within_tolerance
from tvm_iree_ext.bench.peers.iree_peer import DATA_TILING, iree_peer
from tvm_iree_ext.bench.peers.jax_peer import jax_peer
from tvm_iree_ext.bench.peers.mlir_text import affine, filled, tensor
from tvm_iree_ext.bench.peers.onnx_runtime import ort_peer
from tvm_iree_ext.ops.families.contraction.contraction import Contraction

Shape = tuple[int, ...]

_EPILOGUES = {"minus": "arg0 - arg1", "bias_relu": "max(arg0 + arg1, 0)"}

# Sums of so small products are exact in float32, in which NumPy multiplies int8.
_LARGEST_INT8 = 15


@dataclass(frozen=True)
class Product:
    """A case: ``(..., m, k) x (..., k, n)``."""

    name: str
    m: int
    k: int
    n: int
    batch: Shape = ()
    epilogue: str = ""
    at: bool = False
    bt: bool = False
    dtype: str = "float32"

    @property
    def lhs(self) -> Shape:
        """Its shape."""
        return (*self.batch, *((self.k, self.m) if self.at else (self.m, self.k)))

    @property
    def rhs(self) -> Shape:
        """Its shape."""
        return (*self.batch, *((self.n, self.k) if self.bt else (self.k, self.n)))

    @property
    def result(self) -> Shape:
        """Its shape."""
        return (*self.batch, self.m, self.n)

    @property
    def other(self) -> Shape:
        """The shape of the epilogue's operand."""
        return (self.n,) if self.epilogue == "bias_relu" else self.result

    @property
    def op(self) -> Contraction:
        """The op."""
        return ops.matmul(
            self.lhs,
            self.rhs,
            [self.other] if self.epilogue else [],
            transpose_lhs=self.at,
            transpose_rhs=self.bt,
            epilogue=_EPILOGUES.get(self.epilogue),
            dtype=self.dtype,
        )

    def factors(self, lhs: Any, rhs: Any) -> tuple[Any, Any]:
        """As ``matmul`` takes them."""
        return (
            lhs.swapaxes(-1, -2) if self.at else lhs,
            rhs.swapaxes(-1, -2) if self.bt else rhs,
        )


def contraction_cases() -> tuple[Case, ...]:
    """All of them."""
    products = [
        *(Product(f"matmul_minus_{n}", n, n, n, epilogue="minus") for n in (512, 1024, 2048)),
        Product("matmul_minus_1021x1019x1013", 1021, 1019, 1013, epilogue="minus"),
        Product("matmul_minus_1024_at", 1024, 1024, 1024, epilogue="minus", at=True),
        Product("matmul_bias_relu_1024_bt", 1024, 1024, 1024, epilogue="bias_relu", bt=True),
        Product("matmul_minus_128x256x64", 128, 256, 64, epilogue="minus"),
        Product("matmul_minus_61x67x53", 61, 67, 53, epilogue="minus"),
        Product("matmul_minus_16x16x16", 16, 16, 16, epilogue="minus"),
        Product("matmul_16384x64x64", 16384, 64, 64),
        Product("matmul_64x16384x64", 64, 16384, 64),
        Product("matmul_minus_batch8_bt", 256, 64, 256, (8,), epilogue="minus", bt=True),
        Product("matmul_batch256_32x32x32", 32, 32, 32, (256,)),
        Product("matmul_batch4096_8x8x8", 8, 8, 8, (4096,)),
        Product("matmul_8x4096x4096", 8, 4096, 4096),
        Product("matmul_8x4096x4096_bt", 8, 4096, 4096, bt=True),
        Product("dot_1M", 1, 1 << 20, 1),
    ]
    for dtype in ("float32", "float16", "bfloat16", "int8"):
        end = "" if dtype == "float32" else f"_{dtypes.mlir_name(dtype)}"
        if end:
            products.append(Product(f"matmul_1024{end}", 1024, 1024, 1024, dtype=dtype))
        products.append(Product(f"matvec_4096{end}", 4096, 4096, 1, dtype=dtype))
        products.append(Product(f"vecmat_4096{end}", 1, 4096, 4096, dtype=dtype))
    return tuple(map(contraction_case, products))


def contraction_case(one: Product) -> Case:
    """The case of a product."""
    op = one.op

    def operands() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        shapes = {"lhs": one.lhs, "rhs": one.rhs}
        if one.epilogue:
            shapes["operand0"] = one.other
        return {name: _numbers(rng, shape, one.dtype) for name, shape in shapes.items()}

    def check(values: Values) -> Check:
        wide = {name: value.astype(np.float64) for name, value in values.items()}
        want = _numpy_call(wide, one)().copy()
        return within_tolerance(op, values, {"result": want})

    return Case(
        name=one.name,
        op=op,
        operands=operands,
        check=check,
        compute_dtype=one.dtype,
        peers=(
            Peer(NUMPY, lambda values: _numpy_call(values, one)),
            Peer(TORCH, lambda values: _torch_call(values, one)),
            iree_peer(op, _mlir(one), [DATA_TILING]),
            *_ort(one),
            jax_peer(lambda *arrays: _jax_product(one, *arrays)),
        ),
    )


def _numbers(rng: np.random.Generator, shape: Shape, dtype: str) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-_LARGEST_INT8, _LARGEST_INT8, shape, np.int8, endpoint=True)
    return rng.standard_normal(shape, np.float32).astype(dtypes.numpy_dtype(dtype))


def _numpy_call(values: Values, one: Product) -> Call:
    lhs, rhs = one.factors(values["lhs"], values["rhs"])
    if lhs.dtype not in (np.float32, np.float64):
        # It has no arithmetic in these types worth timing.
        kind = dtypes.numpy_dtype(one.op.types["result"].dtype)
        return lambda: np.matmul(lhs.astype(np.float32), rhs.astype(np.float32)).astype(kind)
    other = values["operand0"] if one.epilogue else lhs
    out = np.matmul(lhs, rhs)

    def call() -> np.ndarray:
        np.matmul(lhs, rhs, out=out)
        if one.epilogue == "minus":
            np.subtract(out, other, out=out)
        elif one.epilogue:
            np.add(out, other, out=out)
            np.maximum(out, 0, out=out)
        return out

    return call


def _torch_call(values: Values, one: Product) -> Call:
    import torch

    def taken(array: np.ndarray) -> Any:
        if array.dtype == dtypes.numpy_dtype("bfloat16"):
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    tensors = {name: taken(value) for name, value in values.items()}
    lhs, rhs = one.factors(tensors["lhs"], tensors["rhs"])
    if one.dtype == "int8":
        if one.batch:
            raise Skipped("multiplies int8 without batches only")
        return lambda: torch._int_mm(lhs, rhs).numpy()
    out = torch.matmul(lhs, rhs)

    def call() -> Any:
        torch.matmul(lhs, rhs, out=out)
        if one.epilogue == "minus":
            torch.sub(out, tensors["operand0"], out=out)
        elif one.epilogue:
            torch.add(out, tensors["operand0"], out=out).clamp_(min=0)
        if one.dtype == "bfloat16":
            return out.view(torch.int16).numpy().view(dtypes.numpy_dtype("bfloat16"))
        return out.numpy()

    return call


def _ort(one: Product) -> list[Peer]:
    """A Gemm: of float32, without a batch."""
    if one.batch or one.dtype != "float32":
        return []
    names = ", ".join(operand.name for operand in one.op.signature.arguments)
    beta = -1.0 if one.epilogue == "minus" else 1.0
    gemm = f"Gemm <transA = {one.at:d}, transB = {one.bt:d}, beta = {beta}> ({names})"
    relu = "\n  result = Relu (sums)" if one.epilogue == "bias_relu" else ""
    return [ort_peer(one.op, f"  {'sums' if relu else 'result'} = {gemm}{relu}")]


def _jax_product(one: Product, lhs: Any, rhs: Any, other: Any = None) -> Any:
    import jax.numpy as jnp

    sums = jnp.matmul(*one.factors(lhs, rhs), preferred_element_type=one.op.accumulator_dtype)
    if one.epilogue == "minus":
        return sums - other
    if one.epilogue:
        return jnp.maximum(sums + other, 0)
    return sums.astype(dtypes.numpy_dtype(one.op.types["result"].dtype))


def _mlir(one: Product) -> str:
    b = "".join(f"b{axis}, " for axis in range(len(one.batch)))
    maps = affine(
        f"{b}m, n, k",
        f"{b}k, m" if one.at else f"{b}m, k",
        f"{b}n, k" if one.bt else f"{b}k, n",
        f"{b}m, n",
    )
    result, sums = one.op.types["result"].dtype, one.op.accumulator_dtype
    lhs, rhs = (tensor(shape, one.dtype) for shape in (one.lhs, one.rhs))
    kind, final = tensor(one.result, sums), tensor(one.result, result)
    head = f"""
  {filled("start", 0 if sums == "int32" else 0.0, one.result, sums)}
  %product = linalg.contract indexing_maps = [{maps}]
    ins(%lhs, %rhs : {lhs}, {rhs}) outs(%start : {kind}) -> {kind}"""
    if one.epilogue == "minus":
        return f"""{head}
  %difference = arith.subf %product, %operand0 : {kind}
  return %difference : {kind}"""
    if one.epilogue:
        dropped = ", ".join(map(str, range(len(one.result) - 1)))
        return f"""{head}
  %rows = linalg.broadcast ins(%operand0 : {tensor(one.other)})
    outs(%start_empty : {kind}) dimensions = [{dropped}]
  %sum = arith.addf %product, %rows : {kind}
  %zeros = arith.constant dense<0.0> : {kind}
  %larger = arith.maximumf %sum, %zeros : {kind}
  return %larger : {kind}"""
    if result == sums:
        return f"""{head}
  return %product : {kind}"""
    return f"""{head}
  %rounded = arith.truncf %product : {kind} to {final}
  return %rounded : {final}"""
