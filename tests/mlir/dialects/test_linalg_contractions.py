"""Sums of products go to the registry's ops, and give what NumPy gives."""

import ml_dtypes
import numpy as np
import pytest

MATMUL = """
func.func @f(%a: tensor<{a}>, %b: tensor<{b}>, %c: tensor<{c}>) -> tensor<{c}> {{
  {zero}
  %0 = linalg.{name} ins(%a, %b : tensor<{a}>, tensor<{b}>)
    outs(%{out} : tensor<{c}>) -> tensor<{c}>
  return %0 : tensor<{c}>
}}
"""


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


CONVOLUTION = """
func.func @f(%x: tensor<{x}>, %k: tensor<{k}>) -> tensor<{y}> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{y}>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{y}>) -> tensor<{y}>
  %p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  }} : tensor<{x}> to tensor<{p}>
  %0 = linalg.{name} {{strides = dense<[2, 1]> : tensor<2xi64>,
      dilations = dense<[1, 2]> : tensor<2xi64>}}
    ins(%p, %k : tensor<{p}>, tensor<{k}>) outs(%z : tensor<{y}>) -> tensor<{y}>
  return %0 : tensor<{y}>
}}
"""


def convolved(image, taps, output):
    """Of an image (n, h, w, c) with taps (h, w, c, f), or (h, w, c, m) by channel; literal."""
    by_channel = output.ndim == 5
    for y in range(output.shape[1]):
        for x in range(output.shape[2]):
            for i in range(taps.shape[0]):
                for j in range(taps.shape[1]):
                    pixel = image[:, 2 * y + i, x + 2 * j]
                    if by_channel:
                        output[:, y, x] += pixel[:, :, None] * taps[i, j]
                    else:
                        output[:, y, x] += pixel @ taps[i, j]
    return output


@pytest.mark.parametrize(
    "name",
    [
        "conv_2d_nhwc_hwcf",
        "conv_2d_nchw_fchw",
        "depthwise_conv_2d_nhwc_hwcm",
        "depthwise_conv_2d_nhwc_hwc",
        "depthwise_conv_2d_nchw_chw",
        "conv_2d_nhwc_fhwc",
    ],
)
def test_convolutions_take_the_padding_before_them(built, name):
    image, padded = random((2, 7, 8, 3)), ((0, 0), (1, 0), (1, 2), (0, 0))
    first = name.split("_")[-2] == "nchw"
    taps = random((3, 2, 3, 4)) if "f" in name.split("_")[-1] else random((3, 2, 3, 1))
    if name.endswith("hwcm"):
        taps = random((3, 2, 3, 2))
    wide = np.pad(image, padded)
    rows, columns = (wide.shape[1] - 3) // 2 + 1, wide.shape[2] - 2
    depth = "depthwise" in name
    shape = (2, rows, columns, 3, taps.shape[3]) if depth else (2, rows, columns, 4)
    want = convolved(wide, taps, np.zeros(shape, "f4"))
    order = (0, 3, 1, 2) if first else (0, 1, 2, 3)
    if depth and not name.endswith("hwcm"):
        want, taps = want[..., 0], taps[..., 0]
        taps = taps.transpose(2, 0, 1) if first else taps
    elif first:
        taps = taps.transpose(3, 2, 0, 1)
    elif name.endswith("fhwc"):
        taps = taps.transpose(3, 0, 1, 2)
    if want.ndim == 4:
        want = want.transpose(order)
    given = image.transpose(order)

    def shaped(array):
        return "x".join([*map(str, array.shape), "f32"])

    low, high = ([padded[axis][side] for axis in order] for side in (0, 1))
    text = CONVOLUTION.format(
        name=name,
        x=shaped(given),
        k=shaped(taps),
        p=shaped(wide.transpose(order)),
        y=shaped(want),
        low=", ".join(map(str, low)),
        high=", ".join(map(str, high)),
    )
    program = built(text)
    ops = [op.name for op in program.program.ops.values()]
    assert ops == ([] if name.endswith("fhwc") else ["tvm_iree_ext.conv_2d"])
    (result,) = program(given, taps)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
