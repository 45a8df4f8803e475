"""Programs with extents of 0, known or found at a call: inits, empty results, sums of no terms."""

import numpy as np
import pytest

FILL = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %c = linalg.fill ins(%z : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>"""


def product(extent, operand="", fill=""):
    factors = f"tensor<3x{extent}xf32>, tensor<{extent}x4xf32>"
    one, other = factors.split(", ")
    return f"""func.func @f(%a: {one}, %b: {other}{operand}) -> tensor<3x4xf32> {{{fill}
      %r = linalg.matmul ins(%a, %b : {factors}) outs(%c : tensor<3x4xf32>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32> }}"""


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("extent", ["0", "?"])
def test_a_product_of_nothing_is_what_it_is_added_to(run, extent):
    init = numbers(3, 4)
    (result,) = run(product(extent, ", %c: tensor<3x4xf32>"), numbers(3, 0), numbers(0, 4), init)
    np.testing.assert_array_equal(result, init)
    (result,) = run(product(extent, fill=FILL), numbers(3, 0), numbers(0, 4))
    np.testing.assert_array_equal(result, 0)


@pytest.mark.parametrize("extent", ["0", "?"])
def test_an_arg_compare_of_nothing_is_its_inits(run, extent):
    text = f"""
    func.func @f(%a: tensor<3x{extent}xf32>, %v: tensor<3xf32>, %i: tensor<3xi32>)
        -> (tensor<3xf32>, tensor<3xi32>) {{
      %r:2 = iree_linalg_ext.arg_compare dimension(1) ins(%a : tensor<3x{extent}xf32>)
          outs(%v, %i : tensor<3xf32>, tensor<3xi32>) {{
      ^bb0(%x: f32, %y: f32):
        %c = arith.cmpf ogt, %x, %y : f32
        iree_linalg_ext.yield %c : i1 }} -> tensor<3xf32>, tensor<3xi32>
      return %r#0, %r#1 : tensor<3xf32>, tensor<3xi32> }}"""
    value, index = numbers(3), np.arange(3, dtype="int32")
    found = run(text, numbers(3, 0), value, index)
    np.testing.assert_array_equal(found[0], value)
    np.testing.assert_array_equal(found[1], index)


def test_a_convolution_of_no_channels_is_what_it_is_added_to(run):
    init = numbers(1, 3, 3, 4)
    text = """
    func.func @f(%a: tensor<1x5x5x0xf32>, %b: tensor<3x3x0x4xf32>, %c: tensor<1x3x3x4xf32>)
        -> tensor<1x3x3x4xf32> {
      %r = linalg.conv_2d_nhwc_hwcf ins(%a, %b : tensor<1x5x5x0xf32>, tensor<3x3x0x4xf32>)
          outs(%c : tensor<1x3x3x4xf32>) -> tensor<1x3x3x4xf32>
      return %r : tensor<1x3x3x4xf32> }"""
    (result,) = run(text, numbers(1, 5, 5, 0), numbers(3, 3, 0, 4), init)
    np.testing.assert_array_equal(result, init)


def test_a_stage_of_no_rows_is_empty(run):
    text = """
    func.func @f(%a: tensor<0x8xf32>, %b: tensor<0x8xf32>) -> (tensor<0x8xf32>, tensor<0x8xf32>) {
      %s = arith.constant 2 : index
      %r:2 = iree_linalg_ext.fft ins(%s : index) outs(%a, %b : tensor<0x8xf32>, tensor<0x8xf32>)
          : tensor<0x8xf32>, tensor<0x8xf32>
      return %r#0, %r#1 : tensor<0x8xf32>, tensor<0x8xf32> }"""
    assert [one.shape for one in run(text, numbers(0, 8), numbers(0, 8))] == [(0, 8), (0, 8)]
