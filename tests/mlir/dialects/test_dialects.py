"""Operations of IREE's own dialects: each goes to the registry's op, and gives what NumPy gives."""

import numpy as np
import pytest

TEXT = """
func.func @sort(%a: tensor<4x9xf32>, %b: tensor<4x9xi64>) -> (tensor<4x9xf32>, tensor<4x9xi64>) {
  %0:2 = iree_linalg_ext.sort dimension(1) outs(%a, %b : tensor<4x9xf32>, tensor<4x9xi64>) {
  ^bb0(%x: f32, %y: f32, %i: i64, %j: i64):
    %c = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x9xf32>, tensor<4x9xi64>
  return %0#0, %0#1 : tensor<4x9xf32>, tensor<4x9xi64>
}
func.func @topk(%a: tensor<?x9xf32>) -> (tensor<?x3xf32>, tensor<?x3xi32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x9xf32>
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i32
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %f = tensor.empty(%n) : tensor<?x3xi32>
  %v = linalg.fill ins(%low : f32) outs(%e : tensor<?x3xf32>) -> tensor<?x3xf32>
  %i = linalg.fill ins(%zero : i32) outs(%f : tensor<?x3xi32>) -> tensor<?x3xi32>
  %0:2 = iree_linalg_ext.topk dimension(1) ins(%a : tensor<?x9xf32>)
      outs(%v, %i : tensor<?x3xf32>, tensor<?x3xi32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<?x3xf32>, tensor<?x3xi32>
  return %0#0, %0#1 : tensor<?x3xf32>, tensor<?x3xi32>
}
func.func @topk_v2(%a: tensor<4x9xf32>) -> tensor<4x3xf32> {
  %v = arith.constant dense<0xFF800000> : tensor<4x3xf32>
  %i = arith.constant dense<0> : tensor<4x3xi32>
  %0:2 = iree_linalg_ext.topk_v2 dimension(1) is_sorted ins(%a : tensor<4x9xf32>)
      outs(%v, %i : tensor<4x3xf32>, tensor<4x3xi32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4x3xf32>, tensor<4x3xi32>
  return %0#0 : tensor<4x3xf32>
}
func.func @scan(%a: tensor<4x9xi32>, %t: tensor<4xi32>) -> (tensor<4x9xi32>, tensor<4xi32>) {
  %e = tensor.empty() : tensor<4x9xi32>
  %0:2 = iree_linalg_ext.scan dimension(1) inclusive(false)
      ins(%a : tensor<4x9xi32>) outs(%e, %t : tensor<4x9xi32>, tensor<4xi32>) {
  ^bb0(%x: i32, %y: i32):
    %s = arith.addi %x, %y : i32
    iree_linalg_ext.yield %s : i32
  } -> tensor<4x9xi32>, tensor<4xi32>
  return %0#0, %0#1 : tensor<4x9xi32>, tensor<4xi32>
}
func.func @scatter(%u: tensor<3x4xf32>, %i: tensor<3x1xi32>, %o: tensor<6x4xf32>)
    -> tensor<6x4xf32> {
  %0 = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %i : tensor<3x4xf32>, tensor<3x1xi32>) outs(%o : tensor<6x4xf32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.maximumf %x, %y : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
func.func @gather(%s: tensor<6x4xcomplex<f32>>, %i: tensor<3xi32>) -> tensor<3x4xcomplex<f32>> {
  %e = tensor.empty() : tensor<3x4xcomplex<f32>>
  %0 = iree_linalg_ext.gather dimension_map = [0]
      ins(%s, %i : tensor<6x4xcomplex<f32>>, tensor<3xi32>)
      outs(%e : tensor<3x4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  return %0 : tensor<3x4xcomplex<f32>>
}
func.func @map_load(%s: tensor<4x2xf16>) -> tensor<10xf16> {
  %e = tensor.empty() : tensor<10xf16>
  %0 = iree_linalg_ext.map_load %s into %e {
  ^bb0(%i: index):
    %at:2 = affine.delinearize_index %i into (4, 2) : index, index
    %pad = arith.constant 9.0 : f16
    iree_linalg_ext.yield %at#0, %at#1, %pad : index, index, f16
  } : tensor<4x2xf16> into tensor<10xf16> -> tensor<10xf16>
  return %0 : tensor<10xf16>
}
func.func @map_store(%s: tensor<8xf32>, %o: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = iree_linalg_ext.map_store %s into %o {
  ^bb0(%i: index):
    %c7 = arith.constant 7 : index
    %mask = arith.cmpi ult, %i, %c7 : index
    %at:2 = affine.delinearize_index %i into (4, 2) : index, index
    iree_linalg_ext.yield %at#0, %at#1, %mask : index, index, i1
  } : tensor<8xf32> into tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
func.func @arg_compare(%a: tensor<4x9xf32>, %base: index) -> (tensor<4xf32>, tensor<4xi32>) {
  %v = arith.constant dense<0xFF800000> : tensor<4xf32>
  %i = arith.constant dense<0> : tensor<4xi32>
  %0:2 = iree_linalg_ext.arg_compare dimension(1) ins(%a : tensor<4x9xf32>)
      outs(%v, %i : tensor<4xf32>, tensor<4xi32>) index_base(%base : index) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf ogt, %x, %y : f32
    iree_linalg_ext.yield %c : i1
  } -> tensor<4xf32>, tensor<4xi32>
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}
func.func @exp_reduction(%s: tensor<4x9xf32>) -> tensor<4xf32> {
  %m = arith.constant dense<0xFF800000> : tensor<4xf32>
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %0:2 = iree_linalg_ext.exp_reduction {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0)>],
      iterator_types = [#iree_linalg_ext.iterator_type<parallel>,
                        #iree_linalg_ext.iterator_type<reduction>],
      exp_reduced_operands = [1]}
      ins(%s : tensor<4x9xf32>) outs(%m, %z : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x: f32, %n: f32, %o: f32):
    %t = arith.addf %x, %o : f32
    iree_linalg_ext.yield %n, %t : f32, f32
  } -> tensor<4xf32>, tensor<4xf32>
  return %0#1 : tensor<4xf32>
}
func.func @im2col(%a: tensor<2x5x6x3xf32>) -> tensor<2x12x18xf32> {
  %e = tensor.empty() : tensor<2x12x18xf32>
  %0 = iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 2] kernel_size = [3, 2]
      offsets = [0, 0, 0] output_sizes = [[2], [3, 4], [3, 2, 3]]
      batch_pos = [0] m_pos = [1, 2] k_pos = [3]
      input_k_perm = [0, 1, 2] output_perm = [0, 1, 2]
      ins(%a : tensor<2x5x6x3xf32>) outs(%e : tensor<2x12x18xf32>) -> tensor<2x12x18xf32>
  return %0 : tensor<2x12x18xf32>
}
func.func @im2col_permuted(%a: tensor<2x5x6x3xf32>) -> tensor<18x2x12xf32> {
  %e = tensor.empty() : tensor<18x2x12xf32>
  %0 = iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 2] kernel_size = [3, 2]
      offsets = [0, 0, 0] output_sizes = [[2], [3, 4], [3, 3, 2]]
      batch_pos = [0] m_pos = [1, 2] k_pos = [3]
      input_k_perm = [2, 0, 1] output_perm = [2, 0, 1]
      ins(%a : tensor<2x5x6x3xf32>) outs(%e : tensor<18x2x12xf32>) -> tensor<18x2x12xf32>
  return %0 : tensor<18x2x12xf32>
}
func.func @winograd(%a: tensor<1x10x10x2xf32>, %k: tensor<3x3x2x4xf32>)
    -> (tensor<8x8x1x2x2x2xf32>, tensor<8x8x2x4xf32>, tensor<1x12x12x2xf32>) {
  %e = tensor.empty() : tensor<8x8x1x2x2x2xf32>
  %0 = iree_linalg_ext.winograd.input_transform output_tile_size(6) kernel_size(3)
      image_dimensions([1, 2]) ins(%a : tensor<1x10x10x2xf32>)
      outs(%e : tensor<8x8x1x2x2x2xf32>) -> tensor<8x8x1x2x2x2xf32>
  %f = tensor.empty() : tensor<8x8x2x4xf32>
  %1 = iree_linalg_ext.winograd.filter_transform output_tile_size(6) kernel_size(3)
      kernel_dimensions([0, 1]) ins(%k : tensor<3x3x2x4xf32>)
      outs(%f : tensor<8x8x2x4xf32>) -> tensor<8x8x2x4xf32>
  %g = tensor.empty() : tensor<1x12x12x2xf32>
  %2 = iree_linalg_ext.winograd.output_transform output_tile_size(6) kernel_size(3)
      image_dimensions([1, 2]) ins(%0 : tensor<8x8x1x2x2x2xf32>)
      outs(%g : tensor<1x12x12x2xf32>) -> tensor<1x12x12x2xf32>
  return %0, %1, %2 : tensor<8x8x1x2x2x2xf32>, tensor<8x8x2x4xf32>, tensor<1x12x12x2xf32>
}
func.func @fft(%n: index, %re: tensor<2x8xf32>, %im: tensor<2x8xf32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %0:2 = iree_linalg_ext.fft ins(%n : index) outs(%re, %im : tensor<2x8xf32>, tensor<2x8xf32>)
      : tensor<2x8xf32>, tensor<2x8xf32>
  return %0#0, %0#1 : tensor<2x8xf32>, tensor<2x8xf32>
}
func.func @custom(%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>)
    -> tensor<4x6xf32> {
  %0 = iree_linalg_ext.custom_op {
      indexing_maps = [affine_map<(d0, d1)[s0] -> (d0, s0)>,
                       affine_map<(d0, d1)[s0] -> (s0, d1)>,
                       affine_map<(d0, d1)[s0] -> (d0, d1)>],
      iterator_types = [#iree_linalg_ext.iterator_type<parallel>,
                        #iree_linalg_ext.iterator_type<parallel>]}
      ins(%a, %b : tensor<4x5xf32>, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>) {
  ^bb0(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>, %z: tensor<?x?xf32>):
    %m = linalg.matmul ins(%x, %y : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%z : tensor<?x?xf32>) -> tensor<?x?xf32>
    iree_linalg_ext.yield %m : tensor<?x?xf32>
  } -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func @online(%q: tensor<2x4x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x8xf32>)
    -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %s = arith.constant 0.5 : f32
  %o = arith.constant dense<0.0> : tensor<2x4x8xf32>
  %m = arith.constant dense<-1.0e30> : tensor<2x4xf32>
  %t = arith.constant dense<0.0> : tensor<2x4xf32>
  %0:3 = iree_linalg_ext.online_attention <indexing_maps = [
        affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
        affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
        affine_map<(b, m, n, k1, k2) -> (b, m, n)>, affine_map<(b, m, n, k1, k2) -> (b, m)>,
        affine_map<(b, m, n, k1, k2) -> (b, m)>]>
      ins(%q, %k, %v, %s : tensor<2x4x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, f32)
      outs(%o, %m, %t : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  return %0#0, %0#1, %0#2 : tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
func.func @vectors(%s: tensor<6x4xf16>, %i: vector<3xindex>, %m: vector<3x4xi1>)
    -> (vector<3x4xf16>, tensor<6x4xf16>, vector<3x4xf16>) {
  %c0 = arith.constant 0 : index
  %pad = arith.constant 7.0 : f16
  %0 = iree_vector_ext.transfer_gather %s[%c0, %c0] [%i : vector<3xindex>], %pad, %m <
    indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>,
                     affine_map<(d0, d1)[s0] -> (d0, d1)>]
  > : tensor<6x4xf16>, vector<3x4xf16>, vector<3x4xi1>
  %one = arith.constant dense<1.0> : vector<3x4xf16>
  %1 = arith.addf %0, %one : vector<3x4xf16>
  %2 = iree_vector_ext.transfer_scatter %1 into %s[%c0, %c0] [%i : vector<3xindex>] <
    indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]
  > : vector<3x4xf16>, tensor<6x4xf16> -> tensor<6x4xf16>
  %3 = iree_vector_ext.to_layout %0 to layout(#iree_vector_ext.nested_layout<
    subgroup_tile = [1, 1], batch_tile = [1, 1], outer_tile = [1, 1], thread_tile = [3, 4],
    element_tile = [1, 1], subgroup_strides = [0, 0], thread_strides = [4, 1]>) : vector<3x4xf16>
  return %0, %2, %3 : vector<3x4xf16>, tensor<6x4xf16>, vector<3x4xf16>
}
func.func @vector_arg(%a: vector<4x9xf32>, %v: vector<4xf32>, %i: vector<4xi32>)
    -> (vector<4xf32>, vector<4xi32>) {
  %0:2 = iree_vector_ext.arg_compare dimension(1) ins(%a : vector<4x9xf32>)
      inits(%v, %i : vector<4xf32>, vector<4xi32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf olt, %x, %y : f32
    iree_vector_ext.yield %c : i1
  } -> vector<4xf32>, vector<4xi32>
  return %0#0, %0#1 : vector<4xf32>, vector<4xi32>
}
"""


@pytest.fixture(scope="module")
def program(built):
    found = built(TEXT)
    names = {op.name.partition(".")[2] for op in found.program.ops.values()}
    assert len(names) >= 17, names
    return found


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def test_orders(program):
    a, b = random(4, 9), np.arange(36).reshape(4, 9)
    order = np.argsort(-a, 1, kind="stable")
    first, second = program(a, b, function="sort")
    np.testing.assert_array_equal(first, np.take_along_axis(a, order, 1))
    np.testing.assert_array_equal(second, np.take_along_axis(b, order, 1))
    values, indices = program(a, function="topk")
    np.testing.assert_array_equal(values, np.take_along_axis(a, order, 1)[:, :3])
    np.testing.assert_array_equal(indices, order[:, :3])
    np.testing.assert_array_equal(program(a, function="topk_v2")[0], values)
    best, where = program(a, np.int64(100), function="arg_compare")
    np.testing.assert_array_equal(best, a.max(1))
    np.testing.assert_array_equal(where, a.argmax(1) + 100)
    least, where = program(a, np.full(4, 9, "f4"), np.zeros(4, "i4"), function="vector_arg")
    np.testing.assert_array_equal(least, a.min(1))
    np.testing.assert_array_equal(where, a.argmin(1))


def test_scans_and_reductions(program):
    a = np.arange(36, dtype="i4").reshape(4, 9)
    start = np.array([1, 2, 3, 4], "i4")
    sums, last = program(a, start, function="scan")
    full = start[:, None] + np.cumsum(a, 1) - a
    np.testing.assert_array_equal(sums, full)
    np.testing.assert_array_equal(last, full[:, -1])
    s = random(4, 9)
    weights = np.exp2(s - s.max(1, keepdims=True))
    (result,) = program(s, function="exp_reduction")
    np.testing.assert_allclose(result, weights.sum(1), rtol=1e-5)


def test_slices(program):
    updates, original = random(3, 4), random(6, 4)
    indices = np.array([[5], [0], [5]], "i4")
    want = original.copy()
    for row, (index,) in zip(updates, indices, strict=True):
        want[index] = np.maximum(want[index], row)
    (result,) = program(updates, indices, original, function="scatter")
    np.testing.assert_array_equal(result, want)
    source = (random(6, 4) + 1j * random(4, 6).T).astype("c8")
    (result,) = program(source, np.array([5, 0, 5], "i4"), function="gather")
    np.testing.assert_array_equal(result, source[[5, 0, 5]])


def test_maps_of_indices(program):
    a = np.arange(8, dtype="f2").reshape(4, 2)
    np.testing.assert_array_equal(program(a, function="map_load")[0], [*range(8), 9, 9])
    b, into = np.arange(1, 9, dtype="f4"), np.zeros((4, 3), "f4")
    want = np.array([[1, 2, 0], [3, 4, 0], [5, 6, 0], [7, 0, 0]])
    np.testing.assert_array_equal(program(b, into, function="map_store")[0], want)


def test_windows(program):
    a = random(2, 5, 6, 3)
    rows = np.empty((2, 3, 4, 3, 2, 3), "f4")
    for i in range(3):
        for j in range(2):
            rows[:, :, :, i, j] = a[:, i : i + 3, 2 * j : 2 * j + 4]
    (result,) = program(a, function="im2col")
    np.testing.assert_array_equal(result, rows.reshape(2, 12, 18))
    (result,) = program(a, function="im2col_permuted")
    want = rows.transpose(0, 1, 2, 5, 3, 4).reshape(2, 12, 18).transpose(2, 0, 1)
    np.testing.assert_array_equal(result, want)


def test_transforms(program):
    from tvm_iree_ext.reference import winograd

    a, k = random(1, 10, 10, 2), random(3, 3, 2, 4)
    tiles, taps, image = program(a, k, function="winograd")
    want = winograd.input_transform(a, r=6, channels_last=True)
    np.testing.assert_allclose(tiles, want, rtol=1e-4, atol=1e-3)
    filters = winograd.filter_transform(k, r=6, channels_last=True)
    np.testing.assert_allclose(taps, filters, rtol=1e-4, atol=1e-4)
    want = winograd.output_transform(want, r=6, channels_last=True)
    np.testing.assert_allclose(image, want, rtol=1e-3, atol=1e-1)
    x = random(2, 8).astype("f8") + 1j * random(8, 2).T
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    y = x[:, order]
    for stage in (1, 2, 3):
        parts = program(np.int64(stage), y.real.astype("f4"), y.imag.astype("f4"), function="fft")
        y = parts[0] + 1j * parts[1]
    np.testing.assert_allclose(y, np.fft.fft(x), rtol=1e-4, atol=1e-4)


def test_attention_in_parts_and_custom_ops(program):
    q, k, v = random(2, 4, 8), random(2, 6, 8), random(2, 8, 6).transpose(0, 2, 1).copy()
    out, most, total = program(q, k, v, function="online")
    scores = 0.5 * q @ k.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(
        out / total[..., None], weights @ v / weights.sum(-1)[..., None], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(most, np.log2(np.e) * scores.max(-1), rtol=1e-4)
    a, b, c = random(4, 5), random(5, 6), random(4, 6)
    np.testing.assert_allclose(
        program(a, b, c, function="custom")[0], a @ b + c, rtol=1e-4, atol=1e-5
    )


def test_vectors(program):
    source = np.arange(24, dtype="f2").reshape(6, 4)
    mask = np.ones((3, 4), bool)
    mask[1, 2] = False
    indices = np.array([5, 0, 3])
    taken, base, laid = program(source, indices, mask, function="vectors")
    want = np.where(mask, source[indices], np.float16(7))
    np.testing.assert_array_equal(taken, want)
    np.testing.assert_array_equal(laid, want)
    written = source.copy()
    written[indices] = want + 1
    np.testing.assert_array_equal(base, written)


TRANSFERS = """
func.func @gather(%base: tensor<6x4xf32>, %at: vector<3xindex>, %start: index) -> vector<3x4xf32> {
  %c0 = arith.constant 0 : index
  %pad = arith.constant -1.0 : f32
  %0 = iree_vector_ext.transfer_gather %base[%start, %c0] [%at : vector<3xindex>], %pad <
    indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]>
    : tensor<6x4xf32>, vector<3x4xf32>
  return %0 : vector<3x4xf32>
}
func.func @window(%base: tensor<?x4xf32>, %start: index) -> vector<3x4xf32> {
  %c0 = arith.constant 0 : index
  %pad = arith.constant -1.0 : f32
  %0 = iree_vector_ext.transfer_gather %base[%start, %c0], %pad <
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>]> : tensor<?x4xf32>, vector<3x4xf32>
  return %0 : vector<3x4xf32>
}
func.func @scatter(%v: vector<3x4xf32>, %base: tensor<6x4xf32>, %at: vector<3xindex>)
    -> tensor<6x4xf32> {
  %c0 = arith.constant 0 : index
  %0 = iree_vector_ext.transfer_scatter %v into %base[%c0, %c0] [%at : vector<3xindex>] <
    indexing_maps = [affine_map<(d0, d1)[s0] -> (s0, d1)>, affine_map<(d0, d1)[s0] -> (d0)>]>
    : vector<3x4xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
"""


def test_transfers_touch_nothing_outside_whatever_the_indices(built):
    program = built(TRANSFERS)
    base = np.arange(24, dtype="f4").reshape(6, 4)
    vector = -np.arange(12, dtype="f4").reshape(3, 4)
    for far in (-(2**63), -(2**62), -1, 6, 10**8, 2**62, 2**63 - 1):
        indices = np.array([5, far, 0])
        (taken,) = program(base, indices, 0, function="gather")
        np.testing.assert_array_equal(taken, [base[5], [-1] * 4, base[0]])
        (taken,) = program(base, np.array([5, 1, 0]), far, function="gather")
        want = [base[far + i] if 0 <= far + i < 6 else [-1] * 4 for i in (5, 1, 0)]
        np.testing.assert_array_equal(taken, want)
        (taken,) = program(base, far, function="window")
        want = [base[far + i] if 0 <= far + i < 6 else [-1] * 4 for i in range(3)]
        np.testing.assert_array_equal(taken, want)
        (written,) = program(vector, base, indices, function="scatter")
        want = base.copy()
        want[[5, 0]] = vector[[0, 2]]
        np.testing.assert_array_equal(written, want)
    (taken,) = program(np.zeros((0, 4), "f4"), 0, function="window")
    np.testing.assert_array_equal(taken, np.full((3, 4), -1))


@pytest.mark.costly
@pytest.mark.parametrize("predicate", ["sgt", "sge", "uge", "slt", "sle", "ule"])
def test_topk_selects_the_first_of_equal_integers(run, predicate):
    text = f"""
func.func @f(%a: tensor<3x40xi32>, %v: tensor<3x5xi32>, %i: tensor<3x5xi32>)
    -> (tensor<3x5xi32>, tensor<3x5xi32>) {{
  %0:2 = iree_linalg_ext.topk dimension(1) ins(%a : tensor<3x40xi32>)
      outs(%v, %i : tensor<3x5xi32>, tensor<3x5xi32>) {{
  ^bb0(%x: i32, %y: i32):
    %c = arith.cmpi {predicate}, %x, %y : i32
    iree_linalg_ext.yield %c : i1
  }} -> tensor<3x5xi32>, tensor<3x5xi32>
  return %0#0, %0#1 : tensor<3x5xi32>, tensor<3x5xi32>
}}
"""
    a = np.random.default_rng(0).integers(-4, 5, (3, 40), "int32")
    seen = a.view("uint32") if predicate[0] == "u" else a
    limits = np.iinfo(seen.dtype)
    is_largest = predicate[1] == "g"
    worst = np.full((3, 5), limits.min if is_largest else limits.max, seen.dtype).view("int32")
    values, indices = run(text, a, worst, np.full((3, 5), 2**31 - 1, "int32"))
    keys = seen.astype("int64")
    order = np.argsort(-keys if is_largest else keys, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(a, order, 1))


ONLINE = """
func.func @NAME(%q: tensor<2x5x8xf32>, %k: tensor<2x7x8xf32>, %v: tensor<2x7x4xf32>,
    %o: tensor<2x5x4xf32>, %m: tensor<2x5xf32>, %t: tensor<2x5xf32>)
    -> (tensor<2x5x4xf32>, tensor<2x5xf32>, tensor<2x5xf32>) {
  %s = arith.constant 0.5 : f32
  %0:3 = "iree_linalg_ext.online_attention"(%q, %k, %v, %s, %o, %m, %t) <{indexing_maps = [
        affine_map<(b, m, n, k1, k2) -> (b, m, k1)>, affine_map<(b, m, n, k1, k2) -> (b, k2, k1)>,
        affine_map<(b, m, n, k1, k2) -> (b, k2, n)>, affine_map<(b, m, n, k1, k2) -> ()>,
        affine_map<(b, m, n, k1, k2) -> (b, m, n)>, affine_map<(b, m, n, k1, k2) -> (b, m)>,
        affine_map<(b, m, n, k1, k2) -> (b, m)>] CONFIG,
        operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 1, 1>}> ({
  ^bb0(%x: f32):
    %one = arith.constant 1.0 : f32
    BODY
    iree_linalg_ext.yield %y : f32
  }) : (tensor<2x5x8xf32>, tensor<2x7x8xf32>, tensor<2x7x4xf32>, f32, tensor<2x5x4xf32>,
        tensor<2x5xf32>, tensor<2x5xf32>)
    -> (tensor<2x5x4xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x5x4xf32>, tensor<2x5xf32>, tensor<2x5xf32>
}
"""
BASES = {"": 2.0, ", decomposition_config = {use_exp2 = true}": 2.0} | {
    ", decomposition_config = {use_exp2 = false}": np.e
}


def test_online_attention_has_the_base_of_its_config_whatever_the_region(built):
    texts, wanted = [], []
    for config, base in BASES.items():
        for body in ("%y = arith.mulf %x, %one : f32", ""):
            text = ONLINE.replace("CONFIG", config).replace("NAME", f"f{len(texts)}")
            text = text.replace("BODY", body)
            texts.append(text if body else text.replace("yield %y", "yield %x"))
            wanted.append(base)
    program = built("".join(texts))
    q, k, v, o = (random(2, *shape) for shape in ((5, 8), (7, 8), (7, 4), (5, 4)))
    m, t = random(2, 5), np.abs(random(2, 5))
    for number, base in enumerate(wanted):
        scores = 0.5 * q @ k.transpose(0, 2, 1) / np.log(base)
        most = np.maximum(m, scores.max(-1))
        weights, kept = base ** (scores - most[..., None]), base ** (m - most)
        want = kept[..., None] * o + weights @ v, most, kept * t + weights.sum(-1)
        for got, right in zip(program(q, k, v, o, m, t, function=f"f{number}"), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
