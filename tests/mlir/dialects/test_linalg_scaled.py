"""Products of blocks with scales, as IREE has them, and numbers that ``arith`` scales."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base import dtypes
from tvm_iree_ext.reference import block_scaled

PRODUCT = """
#lhs = affine_map<(m, n, ko, kb) -> (m, ko, kb)>
#rhs = affine_map<(m, n, ko, kb) -> (n, ko, kb)>
#lhs_scales = affine_map<(m, n, ko, kb) -> (m, ko)>
#rhs_scales = affine_map<(m, n, ko, kb) -> (n, ko)>
#out = affine_map<(m, n, ko, kb) -> (m, n)>
func.func @f(%a: tensor<5x3x32x{0}>, %b: tensor<7x3x32x{1}>, %as: tensor<5x3x{2}>,
    %bs: tensor<7x3x{2}>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {{
  %0 = linalg.generic {{indexing_maps = [#lhs, #lhs_scales, #rhs, #rhs_scales, #out],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
    ins(%a, %as, %b, %bs : tensor<5x3x32x{0}>, tensor<5x3x{2}>, tensor<7x3x32x{1}>,
      tensor<7x3x{2}>) outs(%c : tensor<5x7xf32>) {{
  ^bb0(%p: {0}, %ps: {2}, %q: {1}, %qs: {2}, %s: f32):
    %1 = arith.scaling_extf %p, %ps : {0}, {2} to f32
    %2 = arith.scaling_extf %q, %qs : {1}, {2} to f32
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %s, %3 : f32
    linalg.yield %4 : f32
  }} -> tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}}
"""
WEIGHT = """
func.func @f(%a: tensor<?x3x16xbf16>, %b: tensor<3x16x7xf6E2M3FN>, %bs: tensor<3x7xf8E8M0FNU>)
    -> tensor<?x7xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %a, %c0 : tensor<?x3x16xbf16>
  %empty = tensor.empty(%rows) : tensor<?x7xf32>
  %c = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x7xf32>) -> tensor<?x7xf32>
  %0 = linalg.generic {indexing_maps = [
      affine_map<(m, n, ko, kb) -> (m, ko, kb)>, affine_map<(m, n, ko, kb) -> (ko, kb, n)>,
      affine_map<(m, n, ko, kb) -> (ko, n)>, affine_map<(m, n, ko, kb) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %b, %bs : tensor<?x3x16xbf16>, tensor<3x16x7xf6E2M3FN>, tensor<3x7xf8E8M0FNU>)
    outs(%c : tensor<?x7xf32>) {
  ^bb0(%p: bf16, %q: f6E2M3FN, %qs: f8E8M0FNU, %s: f32):
    %1 = arith.extf %p : bf16 to f32
    %2 = arith.scaling_extf %q, %qs : f6E2M3FN, f8E8M0FNU to f32
    %3 = arith.mulf %2, %1 : f32
    %4 = arith.addf %3, %s : f32
    linalg.yield %4 : f32
  } -> tensor<?x7xf32>
  return %0 : tensor<?x7xf32>
}
"""
EXTEND = """
func.func @f(%x: tensor<{0}x{1}>, %s: tensor<{0}x{2}>) -> tensor<{0}xf32> {{
  %0 = arith.scaling_extf %x, %s : tensor<{0}x{1}>, tensor<{0}x{2}> to tensor<{0}xf32>
  return %0 : tensor<{0}xf32>
}}
"""
TRUNCATE = """
func.func @f(%x: tensor<{0}xf32>, %s: tensor<{0}x{2}>) -> tensor<{0}x{1}> {{
  %0 = arith.scaling_truncf %x, %s : tensor<{0}xf32>, tensor<{0}x{2}> to tensor<{0}x{1}>
  return %0 : tensor<{0}x{1}>
}}
"""
KINDS = ["f8E4M3FN", "f8E5M2", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN"]
POWERS = ml_dtypes.float8_e8m0fnu


def elements(rng, shape, kind):
    return block_scaled.encoded(rng.standard_normal(shape), dtypes.canonical(kind))


def scales(rng, shape):
    return rng.integers(122, 133, shape, np.uint8).view(POWERS)


@pytest.mark.parametrize("kinds", [("f4E2M1FN", "f4E2M1FN"), ("f8E5M2", "f6E3M2FN")])
def test_a_scaled_product_is_the_registrys(built, kinds):
    program = built(PRODUCT.format(*kinds, "f8E8M0FNU"))
    (op,) = program.program.ops.values()
    assert op.name == "tvm_iree_ext.contraction"
    assert [one.name for one in op.signature.arguments][:4] == [
        "lhs", "rhs", "lhs_scales", "rhs_scales",
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    a, b = (elements(rng, (n, 3, 32), kind) for n, kind in zip((5, 7), kinds, strict=True))
    a_scales, b_scales = scales(rng, (5, 3)), scales(rng, (7, 3))
    c = rng.standard_normal((5, 7)).astype("f4")
    (result,) = program(*(one.view("u1") for one in (a, b, a_scales, b_scales)), c)
    x, y = block_scaled.dequantized(a, a_scales), block_scaled.dequantized(b, b_scales)
    np.testing.assert_allclose(result, c + x @ y.T, rtol=1e-5, atol=1e-5)


def test_what_follows_is_its_epilogue(built):
    text = PRODUCT.format("f4E2M1FN", "f8E4M3FN", "f8E8M0FNU").replace(
        "return %0 : tensor<5x7xf32>",
        "%9 = arith.mulf %0, %0 : tensor<5x7xf32>\n  return %9 : tensor<5x7xf32>",
    )
    program = built(text)
    assert program.built.resources["kernels"] == 1
    rng = np.random.default_rng(4)
    a, b = elements(rng, (5, 3, 32), "f4E2M1FN"), elements(rng, (7, 3, 32), "f8E4M3FN")
    powers = scales(rng, (5, 3)), scales(rng, (7, 3))
    (result,) = program(*(one.view("u1") for one in (a, b, *powers)), np.zeros((5, 7), "f4"))
    x, y = (block_scaled.dequantized(*one) for one in zip((a, b), powers, strict=True))
    np.testing.assert_allclose(result, (x @ y.T) ** 2, rtol=1e-4, atol=1e-4)


def test_a_weight_alone_may_have_scales(built):
    program = built(WEIGHT)
    assert [op.name for op in program.program.ops.values()] == ["tvm_iree_ext.contraction"]
    rng = np.random.default_rng(1)
    a = rng.standard_normal((4, 3, 16)).astype(ml_dtypes.bfloat16)
    b, b_scales = elements(rng, (3, 16, 7), "f6E2M3FN"), scales(rng, (3, 7))
    (result,) = program(a, b.view("u1"), b_scales.view("u1"))
    y = block_scaled.decoded(b) * block_scaled.decoded(b_scales)[:, None]
    want = a.reshape(4, 48).astype("f8") @ y.reshape(48, 7)
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)


def test_scales_that_are_no_powers_are_plain_loops_and_rounded(built):
    program = built(PRODUCT.format("f4E2M1FN", "f4E2M1FN", "bf16"))
    assert not program.program.ops
    rng = np.random.default_rng(2)
    a, b = (elements(rng, (n, 3, 32), "f4E2M1FN") for n in (5, 7))
    given = [rng.uniform(0.2, 4, (n, 3)).astype(ml_dtypes.bfloat16) for n in (5, 7)]
    powers = [one.astype("f4").astype(POWERS) for one in given]
    (result,) = program(a.view("u1"), b.view("u1"), *given, np.zeros((5, 7), "f4"))
    x, y = (block_scaled.dequantized(*one) for one in zip((a, b), powers, strict=True))
    np.testing.assert_allclose(result, x @ y.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pattern_is_extended(run, kind):
    dtype = dtypes.numpy_dtype(kind)
    count = 1 << ml_dtypes.finfo(dtype).bits
    patterns = np.arange(count, dtype="u1")
    powers = np.resize(np.array([0, 1, 127, 130, 254, 255], "u1"), count)
    (result,) = run(EXTEND.format(count, kind, "f8E8M0FNU"), patterns, powers)
    want = patterns.view(dtype).astype("f8") * powers.view(POWERS).astype("f8")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, want.astype("f4"))


@pytest.mark.parametrize("kind", KINDS)
def test_truncates_to_the_nearest_of_the_quotient(run, kind):
    dtype = dtypes.numpy_dtype(kind)
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(500) * np.exp2(rng.integers(-6, 6, 500))).astype("f4")
    powers = rng.integers(120, 135, 500, np.uint8)
    (result,) = run(TRUNCATE.format(500, kind, "f8E8M0FNU"), x, powers)
    want = (x / powers.view(POWERS).astype("f4")).astype(dtype)
    np.testing.assert_array_equal(np.asarray(result).view(dtype).astype("f4"), want.astype("f4"))
