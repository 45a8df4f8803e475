"""Representative contractions and attentions, whose kernels are compiled for every GPU."""

from collections.abc import Callable, Mapping
from typing import Any

from tvm_iree_ext import ops
from tvm_iree_ext.ops.base.op import Op


def _matmul(m: Any, n: Any, k: Any, dtype: str = "float16", **keywords: Any) -> Op:
    return ops.matmul((m, k), (n, k), dtype=dtype, transpose_rhs=True, **keywords)


def _batched(batch: Any, m: Any, n: Any, k: Any, dtype: str) -> Op:
    return ops.matmul((batch, m, k), (batch, k, n), dtype=dtype)


def _mixed(m: int, n: int, k: int, lhs: str, rhs: str, **keywords: Any) -> Op:
    return ops.matmul(ops.TensorType((m, k), lhs), ops.TensorType((k, n), rhs), **keywords)


def _fused(m: int, n: int, k: int) -> Op:
    others = [ops.TensorType((n,), "float16"), ops.TensorType((m, n), "float16")]
    epilogue = "(arg0 + arg1) * sigmoid(arg0 + arg1) + arg2"
    return ops.matmul((m, k), (k, n), others, dtype="float16", epilogue=epilogue)


def _scaled(m: int, n: int, k: int) -> Op:
    others = [ops.TensorType((m, 1), "float32"), ops.TensorType((n,), "float32")]
    return ops.matmul(
        (m, k), (k, n), others, dtype="int8", epilogue="arg0 * arg1 * arg2", result_dtype="float16"
    )


def _in_groups(m: int, n: int, k: int, dtype: str = "float16", *, across: bool = False) -> Op:
    """A product with bytes whose scale and zero are those of 128 steps of K."""
    shape, own = ((k // 128, 128, n), "(g, i, n)") if across else ((n, k // 128, 128), "(n, g, i)")
    beside = [tuple(extent for extent in shape if extent != 128)] * 2
    maps = [own, *[own.replace("i, ", "").replace(", i", "")] * 2, "(m, n)"]
    return ops.contraction(
        ops.TensorType((m, k // 128, 128), dtype),
        ops.TensorType(shape, "uint8"),
        prologue="(arg0 - arg2) * arg1",
        prologue_operands=[ops.TensorType(beside[0], dtype), ops.TensorType(beside[1], "uint8")],
        indexing_maps=[f"(m, n, g, i) -> {one}" for one in ("(m, g, i)", *maps)],
    )


def _blocks(
    m: int, n: int, k: int, lhs: str, rhs: str, *, block: int = 32, scales: str = "f8E8M0FNU"
) -> Op:
    """A product of blocks with scales; a 16-bit ``lhs`` has none."""
    own = ops.TensorType((m, k // block), scales) if lhs != "bfloat16" else None
    return ops.matmul(
        ops.TensorType((m, k // block, block), lhs),
        ops.TensorType((n, k // block, block), rhs),
        lhs_scales=own,
        rhs_scales=ops.TensorType((n, k // block), scales),
        transpose_rhs=True,
        result_dtype="bfloat16",
    )


def _attention(
    heads: int, rows: Any, keys: Any, width: int, dtype: str = "float16", *,
    key_heads: int = 0, columns: int = 0, batch: Any = 1, make: Any = ops.attention,
    **keywords: Any,
) -> Op:  # fmt: skip
    groups = key_heads or heads
    shapes = ((heads, rows, width), (groups, keys, width), (groups, keys, columns or width))
    given = {"layout": "bhsd", **keywords}
    return make(*((batch, *shape) for shape in shapes), dtype=dtype, **given)


def _online(*shape: Any, **keywords: Any) -> Op:
    return _attention(*shape, make=ops.online_attention, **keywords)


CASES: Mapping[str, Callable[[], Op]] = {
    # B is [N, K] where nothing else is said.
    "matmul f16 4096x4096x4096": lambda: _matmul(4096, 4096, 4096),
    "matmul bf16 4096x4096x4096": lambda: _matmul(4096, 4096, 4096, "bfloat16"),
    "matmul f32 4096x4096x4096": lambda: _matmul(4096, 4096, 4096, "float32"),
    "matmul f64 2048x2048x2048": lambda: _matmul(2048, 2048, 2048, "float64"),
    "matmul i8 4096x4096x4096": lambda: _matmul(4096, 4096, 4096, "int8"),
    "matmul f8 4096x4096x4096": lambda: _matmul(4096, 4096, 4096, "float8_e4m3fn"),
    "matmul f8 of AMD 4096x4096x4096": lambda: _matmul(4096, 4096, 4096, "float8_e4m3fnuz"),
    "matmul f16*f32 1024x1024x1024": lambda: _mixed(1024, 1024, 1024, "float16", "float32"),
    "matmul f16*i8 1024x4096x4096": lambda: _mixed(1024, 4096, 4096, "float16", "int8"),
    "matmul f16*u8 in groups 2048x4096x4096": lambda: _in_groups(2048, 4096, 4096),
    "matmul bf16*u8 in groups, [K, N] 2048x4096x4096": lambda: _in_groups(
        2048, 4096, 4096, "bfloat16", across=True
    ),
    "matmul f16*u8 in groups 16x4096x4096": lambda: _in_groups(16, 4096, 4096),
    "matmul bf16*f8 1024x4096x4096": lambda: _mixed(1024, 4096, 4096, "bfloat16", "float8_e5m2"),
    "matmul f16, A and B [K, ...] 2048x2048x2048": lambda: ops.matmul(
        (2048, 2048), (2048, 2048), transpose_lhs=True, dtype="float16"
    ),
    "matmul f16 4095x4097x4093": lambda: _matmul(4095, 4097, 4093),
    "matmul f32 1023x1025x1021": lambda: _matmul(1023, 1025, 1021, "float32"),
    "matmul i8 1023x1025x1021": lambda: _matmul(1023, 1025, 1021, "int8"),
    "matmul f16 4096x4096x16": lambda: _matmul(4096, 4096, 16),
    "matmul f16 4096x4096x64": lambda: _matmul(4096, 4096, 64),
    "matmul f16 [K, N] 4096x4096x64": lambda: ops.matmul((4096, 64), (64, 4096), dtype="float16"),
    "matmul f32 4096x4096x64": lambda: _matmul(4096, 4096, 64, "float32"),
    "matmul f16 12x2048x2048x64": lambda: ops.matmul(
        (12, 2048, 64), (12, 2048, 64), transpose_rhs=True, dtype="float16"
    ),
    "matmul f16 16x4096x4096": lambda: _matmul(16, 4096, 4096),
    "matmul f16 1x4096x16384": lambda: _matmul(1, 4096, 16384),
    "matmul f16 64x64x65536": lambda: _matmul(64, 64, 65536),
    "matmul f32 64x64x65536": lambda: _matmul(64, 64, 65536, "float32"),
    "matmul f16 Mx4096x4096": lambda: _matmul("m", 4096, 4096),
    "matmul f16 MxNxK": lambda: _matmul("m", "n", "k"),
    "matmul f16 [K, N] MxNxK": lambda: ops.matmul(("m", "k"), ("k", "n"), dtype="float16"),
    "matmul bf16 MxNxK": lambda: _matmul("m", "n", "k", "bfloat16"),
    "matmul f32 MxNxK": lambda: _matmul("m", "n", "k", "float32"),
    "matmul i8 MxNxK": lambda: _matmul("m", "n", "k", "int8"),
    "matmul f16 Bx512x512x512": lambda: _batched("b", 512, 512, 512, "float16"),
    "matmul f16 BxMxNxK": lambda: _batched("b", "m", "n", "k", "float16"),
    "matmul f32 17xNx65 with init": lambda: ops.matmul(
        (17, 65), (65, "n"), init=ops.TensorType((17, "n"), "float32")
    ),
    "matmul f16 bias, silu, residual 4096x4096x4096": lambda: _fused(4096, 4096, 4096),
    "matmul f16 bias, silu, residual 1000x1001x999": lambda: _fused(1000, 1001, 999),
    "matmul i8 scaled to f16 2048x2048x2048": lambda: _scaled(2048, 2048, 2048),
    "matmul mxfp8 4096x4096x4096": lambda: _blocks(4096, 4096, 4096, "f8E4M3FN", "f8E4M3FN"),
    "matmul mxfp6 2048x4096x4096": lambda: _blocks(2048, 4096, 4096, "f6E3M2FN", "f6E2M3FN"),
    "matmul mxfp4 4096x4096x4096": lambda: _blocks(4096, 4096, 4096, "f4E2M1FN", "f4E2M1FN"),
    "matmul mxfp8*mxfp4 16x4096x4096": lambda: _blocks(16, 4096, 4096, "f8E5M2", "f4E2M1FN"),
    "matmul nvfp4 2048x4096x4096": lambda: _blocks(
        2048, 4096, 4096, "f4E2M1FN", "f4E2M1FN", block=16, scales="f8E4M3FN"
    ),
    "matmul bf16*mxfp4 16x4096x4096": lambda: _blocks(16, 4096, 4096, "bfloat16", "f4E2M1FN"),
    "contraction f16 of eight dims": lambda: ops.contraction(
        (4, 32, 16, 64, 8),
        (4, 8, 64, 32, 24),
        dtype="float16",
        indexing_maps=[
            "(b, m0, m1, n0, n1, k0, k1) -> (b, m0, m1, k0, k1)",
            "(b, m0, m1, n0, n1, k0, k1) -> (b, k1, k0, n0, n1)",
            "(b, m0, m1, n0, n1, k0, k1) -> (b, n0, m0, n1, m1)",
        ],
    ),
    # Heads, rows, keys, width.
    "attention f16 16x4096x4096x128": lambda: _attention(16, 4096, 4096, 128),
    "attention f16 16x4096x4096x64": lambda: _attention(16, 4096, 4096, 64),
    "attention f16 16x4096x4096x128 causal": lambda: _attention(16, 4096, 4096, 128, causal=True),
    "attention f16 8x1024x1024x256": lambda: _attention(8, 1024, 1024, 256),
    "attention f16 16x512x4096x576, value 512": lambda: _attention(
        16, 512, 4096, 576, key_heads=1, columns=512
    ),
    "attention f16 8x1024x1024x80": lambda: _attention(8, 1024, 1024, 80),
    "attention f16 8x1024x1024x40, value 65": lambda: _attention(8, 1024, 1024, 40, columns=65),
    "attention bf16 16x4096x4096x128": lambda: _attention(16, 4096, 4096, 128, "bfloat16"),
    "attention f32 8x1024x1024x64": lambda: _attention(8, 1024, 1024, 64, "float32"),
    "attention f32 8x1024x1024x128": lambda: _attention(8, 1024, 1024, 128, "float32"),
    "attention f32 8x1000x999x65, value 65": lambda: _attention(8, 1000, 999, 65, "float32"),
    "attention f64 4x512x512x64": lambda: _attention(4, 512, 512, 64, "float64"),
    "attention f16 BxHxMxK, 32 heads on 8, causal": lambda: _attention(
        32, "rows", "keys", 128, batch="b", key_heads=8, causal="lower_right"
    ),
    "attention f16 8x1025x999x64": lambda: _attention(8, 1025, 999, 64),
    "attention f16 8x4096x4096x128, a window": lambda: _attention(
        8, 4096, 4096, 128, causal=True, window=(511, None)
    ),
    "attention f16 8x1024x1024x64, bool mask": lambda: _attention(
        8, 1024, 1024, 64, mask=ops.TensorType((8, 1024, 1024), "bool")
    ),
    "attention f16 8x1025x999x64, f32 mask": lambda: _attention(
        8, 1025, 999, 64, mask=ops.TensorType((1025, 999), "float32")
    ),
    "attention f16 8x1024x1024x128, soft cap": lambda: _attention(
        8, 1024, 1024, 128, region="30 * tanh(arg0 / 30)"
    ),
    "attention f16 bshd 2048x16x128": lambda: ops.attention(
        *[(2, 2048, 16, 128)] * 3, dtype="float16", layout="bshd", causal=True
    ),
    "attention f16 decode 32x1x8192x128": lambda: _attention(32, 1, 8192, 128, key_heads=8),
    "attention f16 decode 32x1xKx128": lambda: _attention(32, 1, "keys", 128, key_heads=8),
    "attention f32 decode 8x1xKx64": lambda: _attention(8, 1, "keys", 64, "float32"),
    "online_attention f16 8x1024x512x128": lambda: _online(8, 1024, 512, 128),
    "online_attention f16 8x1000x512x64, value 65": lambda: _online(8, 1000, 512, 64, columns=65),
    "online_attention f32 8x1024x512x64": lambda: _online(8, 1024, 512, 64, "float32"),
    "online_attention f32 8x200x512x17, value 65": lambda: _online(
        8, 200, 512, 17, "float32", columns=65
    ),
    "online_attention f64 2x100x200x64": lambda: _online(2, 100, 200, 64, "float64"),
}
"""Ops that stand for many: each type, odd and open extents, few rows, long sums, masks."""
