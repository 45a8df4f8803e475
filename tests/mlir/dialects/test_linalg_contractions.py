"""Sums of products go to the registry's ops, and give what NumPy gives."""

import ml_dtypes
import numpy as np
import pytest

from tvm_iree_ext.base import dtypes

MATMUL = """
func.func @f(%a: tensor<{a}>, %b: tensor<{b}>, %c: tensor<{c}>) -> tensor<{c}> {{
  {zero}
  %0 = linalg.{name} ins(%a, %b : tensor<{a}>, tensor<{b}>)
    outs(%{out} : tensor<{c}>) -> tensor<{c}>
  return %0 : tensor<{c}>
}}
"""

PRODUCT = """
func.func @f(%a: tensor<{a}>, %b: tensor<{b}>, %c: tensor<{c}>) -> tensor<{c}> {{
  %0 = linalg.generic {{indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
    ins(%a, %b : tensor<{a}>, tensor<{b}>) outs(%c : tensor<{c}>) {{
  ^bb0(%p: {kinds[0]}, %q: {kinds[1]}, %s: {sums}):
    %1 = arith.{widen} %p : {kinds[0]} to {sums}
    %2 = arith.{widen} %q : {kinds[1]} to {sums}
    %3 = arith.{multiply} %1, %2 : {sums}
    %4 = arith.{add} %s, %3 : {sums}
    linalg.yield %4 : {sums}
  }} -> tensor<{c}>
  return %0 : tensor<{c}>
}}
"""
ARITHMETIC = {
    "i32": {"widen": "extsi", "multiply": "muli", "add": "addi"},
    "f32": {"widen": "extf", "multiply": "mulf", "add": "addf"},
}


def random(shape, dtype="f4"):
    rng = np.random.default_rng(len(shape))
    if dtype == "i1":
        return rng.integers(-20, 20, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("name", "shapes", "equation"),
    [
        ("matmul", ((5, 7), (7, 3), (5, 3)), "mk,kn->mn"),
        ("batch_matmul", ((2, 5, 7), (2, 7, 3), (2, 5, 3)), "bmk,bkn->bmn"),
        ("matvec", ((5, 7), (7,), (5,)), "mk,k->m"),
        ("vecmat", ((7,), (7, 3), (3,)), "k,kn->n"),
        ("dot", ((7,), (7,), ()), "k,k->"),
        ("batch_matvec", ((2, 5, 7), (2, 7), (2, 5)), "bmk,bk->bm"),
    ],
)
def test_named_contractions(built, name, shapes, equation):
    a, b, c = ("x".join([*map(str, shape), "f32"]) for shape in shapes)
    text = MATMUL.format(name=name, a=a, b=b, c=c, out="c", zero="")
    program = built(text)
    assert [op.name for op in program.program.ops.values()] == ["tvm_iree_ext.contraction"]
    x, y, z = map(random, shapes)
    (result,) = program(x, y, z)
    np.testing.assert_allclose(result, z + np.einsum(equation, x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "sums", "dtype", "wide"),
    [("f16", "f32", "f2", "f4"), ("i8", "i32", "i1", "i4"), ("f64", "f64", "f8", "f8")],
)
def test_mixed_types_with_zeros_to_begin_with(built, kind, sums, dtype, wide):
    number = "0" if sums[0] == "i" else "0.0"
    zero = f"""%z = arith.constant {number} : {sums}
      %zeros = linalg.fill ins(%z : {sums}) outs(%c : tensor<5x3x{sums}>) -> tensor<5x3x{sums}>"""
    text = MATMUL.format(
        name="matmul", a=f"5x7x{kind}", b=f"7x3x{kind}", c=f"5x3x{sums}", out="zeros", zero=zero
    )
    program = built(text)
    (op,) = program.program.ops.values()
    assert [operand.name for operand in op.signature.arguments] == ["lhs", "rhs"]
    x, y = random((5, 7), dtype), random((7, 3), dtype)
    (result,) = program(x, y, np.ones((5, 3), wide))
    np.testing.assert_allclose(result, x.astype(wide) @ y.astype(wide), rtol=1e-5, atol=1e-5)


def test_sums_that_no_op_takes_are_plain_loops(built):
    text = MATMUL.format(name="matmul", a="5x7xi32", b="7x3xi32", c="5x3xi32", out="c", zero="")
    program = built(text)
    assert not program.program.ops
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-(2**31), 2**31, s).astype("i4") for s in ((5, 7), (7, 3), (5, 3)))
    (result,) = program(x, y, z)
    np.testing.assert_array_equal(result, x @ y + z)  # modulo 2^32, as NumPy's


@pytest.mark.parametrize(
    ("kinds", "sums"),
    [(("i4", "i4"), "i32"), (("i8", "i4"), "i32"), (("f8E4M3FN", "f8E5M2FNUZ"), "f32")],
)
def test_narrow_factors_are_widened_for_the_registrys_product(built, kinds, sums):
    a, b, c = (
        f"{shape}x{kind}" for shape, kind in zip(("5x7", "7x3", "5x3"), (*kinds, sums), strict=True)
    )
    program = built(PRODUCT.format(a=a, b=b, c=c, kinds=kinds, sums=sums, **ARITHMETIC[sums]))
    assert [op.name for op in program.program.ops.values()] == ["tvm_iree_ext.contraction"]
    rng = np.random.default_rng(4)
    x, y = (
        rng.integers(-8, 8, shape).astype(dtypes.numpy_dtype(kind))
        for shape, kind in zip(((5, 7), (7, 3)), kinds, strict=True)
    )
    words = [one.view(np.uint8) if sums == "f32" else one.astype(np.int8) for one in (x, y)]
    wide = np.float32 if sums == "f32" else np.int32
    start = rng.integers(-9, 9, (5, 3)).astype(wide)
    (result,) = program(*words, start)
    np.testing.assert_array_equal(result, start + x.astype(wide) @ y.astype(wide))


def test_bfloat16(built):
    text = MATMUL.format(name="matmul", a="4x8xbf16", b="8x4xbf16", c="4x4xf32", out="c", zero="")
    x = random((4, 8)).astype(ml_dtypes.bfloat16)
    y = random((8, 4)).astype(ml_dtypes.bfloat16)
    (result,) = built(text)(x, y, np.zeros((4, 4), "f4"))
    np.testing.assert_allclose(result, x.astype("f4") @ y.astype("f4"), rtol=1e-5, atol=1e-5)


def test_the_first_rows_of_a_weight_are_no_operand_in_place(run):
    """As in the attention of a decoder, where one weight is sliced into three."""
    text = """
    func.func @f(%a: tensor<5x8xf32>, %w: tensor<24x8xf32>) -> tensor<5x8xf32> {
      %q = tensor.extract_slice %w[0, 0] [8, 8] [1, 1] : tensor<24x8xf32> to tensor<8x8xf32>
      %e = tensor.empty() : tensor<8x8xf32>
      %t = linalg.transpose ins(%q : tensor<8x8xf32>) outs(%e : tensor<8x8xf32>)
          permutation = [1, 0]
      %zero = arith.constant 0.0 : f32
      %o = tensor.empty() : tensor<5x8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%o : tensor<5x8xf32>) -> tensor<5x8xf32>
      %0 = linalg.matmul ins(%a, %t : tensor<5x8xf32>, tensor<8x8xf32>)
          outs(%z : tensor<5x8xf32>) -> tensor<5x8xf32>
      return %0 : tensor<5x8xf32>
    }
    """
    a, w = random((5, 8)), random((24, 8))
    np.testing.assert_allclose(run(text, a, w)[0], a @ w[:8].T, rtol=1e-5, atol=1e-5)
