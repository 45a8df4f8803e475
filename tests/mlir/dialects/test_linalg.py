"""Loops of ``linalg``: generic ones, named ones, reductions; against NumPy."""

import numpy as np
import pytest

TEXT = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
#none = affine_map<(d0, d1) -> ()>
func.func @broadcast(%a: tensor<3x4xf32>, %b: tensor<4xf32>, %s: f32) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #column, #none, #swap],
      iterator_types = ["parallel", "parallel"]}
      ins(%a, %b, %s : tensor<3x4xf32>, tensor<4xf32>, f32) outs(%e : tensor<4x3xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %q = arith.addf %p, %z : f32
    linalg.yield %q : f32
  } -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
func.func @two(%a: tensor<3x4xi32>) -> (tensor<3x4xi64>, tensor<3x4xi1>) {
  %e = tensor.empty() : tensor<3x4xi64>
  %f = tensor.empty() : tensor<3x4xi1>
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<3x4xi32>) outs(%e, %f : tensor<3x4xi64>, tensor<3x4xi1>) {
  ^bb0(%x: i32, %o: i64, %p: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.muli %i, %j : index
    %l = arith.index_cast %k : index to i64
    %w = arith.extsi %x : i32 to i64
    %s = arith.addi %l, %w : i64
    %z = arith.constant 0 : i32
    %c = arith.cmpi sgt, %x, %z : i32
    linalg.yield %s, %c : i64, i1
  } -> (tensor<3x4xi64>, tensor<3x4xi1>)
  return %0#0, %0#1 : tensor<3x4xi64>, tensor<3x4xi1>
}
func.func @in_place(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<3x4xf32>) outs(%b : tensor<3x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %p = arith.subf %o, %x : f32
    linalg.yield %p : f32
  } -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @statistics(%a: tensor<?x4xf32>, %m: tensor<?xf32>, %s: tensor<?xf32>)
    -> (tensor<?xf32>, tensor<?xf32>) {
  %0:2 = linalg.generic {indexing_maps = [#id, #row, #row],
      iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<?x4xf32>) outs(%m, %s : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%x: f32, %o: f32, %p: f32):
    %g = arith.maximumf %o, %x : f32
    %d = arith.subf %p, %o : f32
    %e = arith.addf %d, %x : f32
    linalg.yield %g, %e : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xf32>
}
func.func @both(%a: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3x4xf32>) {
  %z = arith.constant dense<0.0> : tensor<3xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %0:2 = linalg.generic {indexing_maps = [#id, #row, #id],
      iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<3x4xf32>) outs(%z, %e : tensor<3xf32>, tensor<3x4xf32>) {
  ^bb0(%x: f32, %o: f32, %p: f32):
    %s = arith.addf %o, %x : f32
    %t = arith.mulf %x, %x : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<3xf32>, tensor<3x4xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3x4xf32>
}
func.func @take(%a: tensor<5x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %0 = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<3xi64>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%x: i64, %o: f32):
    %r = arith.index_cast %x : i64 to index
    %c = linalg.index 1 : index
    %v = tensor.extract %a[%r, %c] : tensor<5x4xf32>
    linalg.yield %v : f32
  } -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
func.func @transpose(%a: tensor<2x?x4xbf16>) -> tensor<4x2x?xbf16> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a, %c1 : tensor<2x?x4xbf16>
  %e = tensor.empty(%n) : tensor<4x2x?xbf16>
  %0 = linalg.transpose ins(%a : tensor<2x?x4xbf16>) outs(%e : tensor<4x2x?xbf16>)
    permutation = [2, 0, 1]
  return %0 : tensor<4x2x?xbf16>
}
func.func @spread(%a: tensor<3xf32>) -> tensor<2x3x2xf32> {
  %e = tensor.empty() : tensor<2x3x2xf32>
  %0 = linalg.broadcast ins(%a : tensor<3xf32>) outs(%e : tensor<2x3x2xf32>) dimensions = [0, 2]
  return %0 : tensor<2x3x2xf32>
}
func.func @reduce(%a: tensor<3x4x5xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %0 = linalg.reduce {arith.maxsi} ins(%a : tensor<3x4x5xi32>) outs(%b : tensor<4xi32>)
    dimensions = [0, 2]
  return %0 : tensor<4xi32>
}
func.func @map(%a: tensor<7xf32>, %b: tensor<7xf32>) -> tensor<7xf32> {
  %e = tensor.empty() : tensor<7xf32>
  %0 = linalg.map {arith.divf} ins(%a, %b : tensor<7xf32>, tensor<7xf32>) outs(%e : tensor<7xf32>)
  return %0 : tensor<7xf32>
}
func.func @copy(%a: tensor<7xf32>, %b: tensor<7xf64>) -> tensor<7xf64> {
  %0 = linalg.copy ins(%a : tensor<7xf32>) outs(%b : tensor<7xf64>) -> tensor<7xf64>
  return %0 : tensor<7xf64>
}
func.func @elementwise(%a: tensor<7xf32>, %b: tensor<7xf32>) -> tensor<7xf32> {
  %0 = linalg.elementwise <sub> ins(%a, %b : tensor<7xf32>, tensor<7xf32>)
    outs(%a : tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
func.func @softmax(%a: tensor<3x?x4xf32>) -> tensor<3x?x4xf32> {
  %0 = linalg.softmax dimension(1) ins(%a : tensor<3x?x4xf32>) outs(%a : tensor<3x?x4xf32>)
    -> tensor<3x?x4xf32>
  return %0 : tensor<3x?x4xf32>
}
func.func @pool(%a: tensor<1x6x7x2xf32>) -> (tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>) {
  %w = tensor.empty() : tensor<3x3xf32>
  %l = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x2x5x2xf32>
  %i = linalg.fill ins(%l : f32) outs(%e : tensor<1x2x5x2xf32>) -> tensor<1x2x5x2xf32>
  %0 = linalg.pooling_nhwc_max {strides = dense<[2, 1]> : tensor<2xi64>,
      dilations = dense<1> : tensor<2xi64>}
    ins(%a, %w : tensor<1x6x7x2xf32>, tensor<3x3xf32>) outs(%i : tensor<1x2x5x2xf32>)
    -> tensor<1x2x5x2xf32>
  %z = arith.constant dense<1.0> : tensor<1x2x5x2xf32>
  %1 = linalg.pooling_nhwc_sum {strides = dense<[2, 1]> : tensor<2xi64>,
      dilations = dense<1> : tensor<2xi64>}
    ins(%a, %w : tensor<1x6x7x2xf32>, tensor<3x3xf32>) outs(%z : tensor<1x2x5x2xf32>)
    -> tensor<1x2x5x2xf32>
  return %0, %1 : tensor<1x2x5x2xf32>, tensor<1x2x5x2xf32>
}
func.func @conv_1d(%a: tensor<2x9x3xf32>, %k: tensor<4x3x5xf32>) -> tensor<2x3x5xf32> {
  %z = arith.constant dense<0.0> : tensor<2x3x5xf32>
  %0 = linalg.conv_1d_nwc_wcf {strides = dense<2> : tensor<1xi64>,
      dilations = dense<1> : tensor<1xi64>}
    ins(%a, %k : tensor<2x9x3xf32>, tensor<4x3x5xf32>) outs(%z : tensor<2x3x5xf32>)
    -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
func.func @packed(%a: tensor<5x7xf32>) -> (tensor<2x2x3x4xf32>, tensor<5x7xf32>) {
  %v = arith.constant 9.0 : f32
  %e = tensor.empty() : tensor<2x2x3x4xf32>
  %0 = linalg.pack %a padding_value(%v : f32) inner_dims_pos = [0, 1] inner_tiles = [3, 4]
    into %e : tensor<5x7xf32> -> tensor<2x2x3x4xf32>
  %f = tensor.empty() : tensor<5x7xf32>
  %1 = linalg.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [3, 4]
    into %f : tensor<2x2x3x4xf32> -> tensor<5x7xf32>
  return %0, %1 : tensor<2x2x3x4xf32>, tensor<5x7xf32>
}
func.func @chain(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%x0: f32, %o: f32):
    CHAIN
    linalg.yield %x60 : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
CHAIN = "\n    ".join(f"%x{i + 1} = arith.mulf %x{i}, %x{i} : f32" for i in range(60))


@pytest.fixture(scope="module")
def program(built):
    return built(TEXT.replace("CHAIN", CHAIN))


def random(*shape, dtype="f4"):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def test_parallel_loops(program):
    a, b = random(3, 4), random(4)
    (result,) = program(a, b, np.float32(2), function="broadcast")
    # One rounding less where multiply and add are one instruction.
    np.testing.assert_allclose(result, (a * b + np.float32(2)).T, rtol=1e-6)
    c = np.arange(-5, 7, dtype="i4").reshape(3, 4)
    sums, positive = program(c, function="two")
    np.testing.assert_array_equal(sums, np.outer(range(3), range(4)) + c)
    np.testing.assert_array_equal(positive, c > 0)
    np.testing.assert_array_equal(program(a, a * 3, function="in_place")[0], a * 3 - a)


def test_reductions(program):
    a = random(5, 4)
    largest, strange = program(a, np.zeros(5, "f4"), np.ones(5, "f4"), function="statistics")
    m, s = np.zeros(5, "f4"), np.ones(5, "f4")
    for column in a.T:  # each output sees what both were before
        m, s = np.maximum(m, column), s - m + column
    np.testing.assert_array_equal(largest, m)
    np.testing.assert_allclose(strange, s, rtol=1e-6)
    b = random(3, 4)
    sums, squares = program(b, function="both")
    np.testing.assert_allclose(sums, b.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(squares, b * b)
    c = np.arange(60, dtype="i4").reshape(3, 4, 5)
    want = np.maximum(c.max((0, 2)), [99, 0, 99, 0])
    (result,) = program(c, np.array([99, 0, 99, 0], "i4"), function="reduce")
    np.testing.assert_array_equal(result, want)


def test_gathers_stay_inside(program):
    a = random(5, 4)
    indices = np.array([4, -7, 2**62])
    np.testing.assert_array_equal(program(a, indices, function="take")[0], a[[4, 0, 4]])


def test_named_loops(program):
    import ml_dtypes

    a = random(2, 3, 4).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(program(a, function="transpose")[0], a.transpose(2, 0, 1))
    b, c = random(7), random(7) + 3
    want = np.broadcast_to(b[:3, None], (2, 3, 2))
    np.testing.assert_array_equal(program(b[:3], function="spread")[0], want)
    np.testing.assert_array_equal(program(b, c, function="map")[0], b / c)
    np.testing.assert_array_equal(program(b, c, function="elementwise")[0], b - c)
    np.testing.assert_array_equal(program(b, np.zeros(7), function="copy")[0], b.astype("f8"))
    d = random(3, 5, 4)
    powers = np.exp(d - d.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(program(d, function="softmax")[0], want, rtol=1e-5)


def test_windows(program):
    a = random(1, 6, 7, 2)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), (1, 2))[:, ::2]
    most, total = program(a, function="pool")
    np.testing.assert_array_equal(most, windows.max((-1, -2)))
    np.testing.assert_allclose(total, 1 + windows.sum((-1, -2)), rtol=1e-5, atol=1e-5)
    b, k = random(2, 9, 3), random(4, 3, 5)
    rows = np.lib.stride_tricks.sliding_window_view(b, 4, 1)[:, ::2]
    want = np.einsum("nwci,icf->nwf", rows, k)
    np.testing.assert_allclose(program(b, k, function="conv_1d")[0], want, rtol=1e-4, atol=1e-5)


def test_packs(program):
    a = random(5, 7)
    wide = np.full((6, 8), 9, "f4")
    wide[:5, :7] = a
    tiles, back = program(a, function="packed")
    np.testing.assert_array_equal(tiles, wide.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(back, a)


def test_a_value_used_twice_again_and_again_does_not_grow_the_program(program):
    a = np.array([1, -1, 0.5, 0], "f4")
    np.testing.assert_array_equal(program(a, function="chain")[0], [1, 1, 0, 0])
