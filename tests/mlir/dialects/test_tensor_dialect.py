"""Operations of ``tensor``: static, and with extents that only a call knows."""

import numpy as np
import pytest

from tvm_iree_ext.base.errors import CallError, MlirError

STATIC = """
func.func @collapse(%a: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %0 = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
func.func @expand(%a: tensor<2x12xi8>) -> tensor<2x3x4xi8> {
  %0 = tensor.expand_shape %a [[0], [1, 2]] output_shape [2, 3, 4]
    : tensor<2x12xi8> into tensor<2x3x4xi8>
  return %0 : tensor<2x3x4xi8>
}
func.func @slice(%a: tensor<6x9xf32>) -> tensor<3xf32> {
  %0 = tensor.extract_slice %a[4, 1] [1, 3] [1, 3] : tensor<6x9xf32> to tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @insert_slice(%a: tensor<2x3xf32>, %b: tensor<6x9xf32>) -> tensor<6x9xf32> {
  %0 = tensor.insert_slice %a into %b[1, 2] [2, 3] [3, 2] : tensor<2x3xf32> into tensor<6x9xf32>
  return %0 : tensor<6x9xf32>
}
func.func @insert_row(%a: tensor<9xbf16>, %b: tensor<6x9xbf16>) -> tensor<6x9xbf16> {
  %0 = tensor.insert_slice %a into %b[4, 0] [1, 9] [1, 1] : tensor<9xbf16> into tensor<6x9xbf16>
  return %0 : tensor<6x9xbf16>
}
func.func @pad(%a: tensor<3x2xi32>) -> tensor<6x4xi32> {
  %0 = tensor.pad %a low[1, 0] high[2, 2] {
  ^bb0(%i: index, %j: index):
    %s = arith.addi %i, %j : index
    %v = arith.index_cast %s : index to i32
    tensor.yield %v : i32
  } : tensor<3x2xi32> to tensor<6x4xi32>
  return %0 : tensor<6x4xi32>
}
func.func @concat(%a: tensor<2x3xf16>, %b: tensor<2x1xf16>) -> tensor<2x7xf16> {
  %0 = tensor.concat dim(1) %a, %b, %a
    : (tensor<2x3xf16>, tensor<2x1xf16>, tensor<2x3xf16>) -> tensor<2x7xf16>
  return %0 : tensor<2x7xf16>
}
func.func @generate() -> tensor<3x4xi64> {
  %0 = tensor.generate {
  ^bb0(%i: index, %j: index):
    %c = arith.constant 10 : index
    %t = arith.muli %i, %c : index
    %s = arith.addi %t, %j : index
    %v = arith.index_cast %s : index to i64
    tensor.yield %v : i64
  } : tensor<3x4xi64>
  return %0 : tensor<3x4xi64>
}
func.func @from_elements(%a: tensor<3xf32>) -> tensor<2x2xf32> {
  %c2 = arith.constant 2 : index
  %x = tensor.extract %a[%c2] : tensor<3xf32>
  %y = arith.negf %x : f32
  %z = arith.constant 7.5 : f32
  %0 = tensor.from_elements %x, %y, %z, %x : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
func.func @insert(%a: tensor<3xf32>, %v: f32, %i: index) -> tensor<3xf32> {
  %0 = tensor.insert %v into %a[%i] : tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @splat(%v: f32) -> tensor<2x2xf32> {
  %0 = tensor.splat %v : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
func.func @bitcast(%a: tensor<4xf32>) -> tensor<4xi32> {
  %0 = tensor.bitcast %a : tensor<4xf32> to tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func @crop(%a: tensor<5x4x6xf32>) -> tensor<5x3x2xf32> {
  %v = arith.constant 0.0 : f32
  %0 = tensor.pad %a low[-2, 1, -1] high[2, -2, -3] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %v : f32
  } : tensor<5x4x6xf32> to tensor<5x3x2xf32>
  return %0 : tensor<5x3x2xf32>
}
func.func @parts(%a: tensor<3x4xcomplex<f32>>) -> (tensor<3x4x2xf32>, tensor<24xi32>) {
  %0 = iree_tensor_ext.bitcast %a : tensor<3x4xcomplex<f32>> -> tensor<3x4x2xf32>
  %1 = iree_tensor_ext.bitcast %a : tensor<3x4xcomplex<f32>> -> tensor<24xi32>
  return %0, %1 : tensor<3x4x2xf32>, tensor<24xi32>
}
func.func @joined(%a: tensor<2x3x2xf32>) -> (tensor<2x3xcomplex<f32>>, tensor<12xi32>) {
  %0 = iree_tensor_ext.bitcast %a : tensor<2x3x2xf32> -> tensor<2x3xcomplex<f32>>
  %1 = iree_tensor_ext.bitcast %a : tensor<2x3x2xf32> -> tensor<12xi32>
  return %0, %1 : tensor<2x3xcomplex<f32>>, tensor<12xi32>
}
func.func @empty() -> tensor<2xf32> {
  %0 = tensor.empty() : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@pytest.fixture(scope="module")
def static(built):
    return built(STATIC)


def test_views(static):
    a = np.arange(24, dtype="f4")
    np.testing.assert_array_equal(
        static(a.reshape(2, 3, 4), function="collapse")[0], a.reshape(6, 4)
    )
    b = np.arange(24, dtype="i1").reshape(2, 12)
    np.testing.assert_array_equal(static(b, function="expand")[0], b.reshape(2, 3, 4))
    c = np.array([0.5, -2, np.inf, 3], "f4")
    np.testing.assert_array_equal(static(c, function="bitcast")[0], c.view("i4"))


def test_slices(static):
    import ml_dtypes

    a = np.arange(54, dtype="f4").reshape(6, 9)
    np.testing.assert_array_equal(static(a, function="slice")[0], a[4, 1:10:3])
    b = -np.ones((2, 3), "f4")
    want = a.copy()
    want[1:6:3, 2:8:2] = b
    np.testing.assert_array_equal(static(b, a, function="insert_slice")[0], want)
    half = a.astype(ml_dtypes.bfloat16)
    row = np.arange(9).astype(ml_dtypes.bfloat16)
    want = half.copy()
    want[4] = row
    np.testing.assert_array_equal(static(row, half, function="insert_row")[0], want)


def test_pads_and_joins(static):
    a = np.arange(100, 106, dtype="i4").reshape(3, 2)
    want = np.add.outer(np.arange(6), np.arange(4)).astype("i4")
    want[1:4, :2] = a
    np.testing.assert_array_equal(static(a, function="pad")[0], want)
    b, c = np.arange(6, dtype="f2").reshape(2, 3), np.array([[9], [8]], "f2")
    np.testing.assert_array_equal(static(b, c, function="concat")[0], np.hstack([b, c, b]))


def test_padding_below_zero_crops(static):
    a = np.arange(120, dtype="f4").reshape(5, 4, 6)
    want = np.pad(a[2:, :2, 1:3], [(0, 2), (1, 0), (0, 0)])
    np.testing.assert_array_equal(static(a, function="crop")[0], want)


def test_parts_of_complex_numbers_stand_along_the_last_axis(static):
    floats = np.arange(24, dtype="f4")
    numbers = floats.view("c8").reshape(3, 4)
    parts, words = static(numbers, function="parts")
    np.testing.assert_array_equal(parts, floats.reshape(3, 4, 2))
    np.testing.assert_array_equal(words, floats.view("i4"))
    joined, words = static(floats[:12].reshape(2, 3, 2), function="joined")
    np.testing.assert_array_equal(joined, numbers.reshape(4, 3)[:2])
    np.testing.assert_array_equal(words, floats[:12].view("i4"))


def test_padding_below_no_elements_is_refused(imported):
    text = """
    func.func @f(%a: tensor<?x3xf32>) -> tensor<?x?xf32> {
      %v = arith.constant 0.0 : f32
      %n = arith.constant -4 : index
      %0 = tensor.pad %a low[0, %n] high[0, 0] {
      ^bb0(%i: index, %j: index):
        tensor.yield %v : f32
      } : tensor<?x3xf32> to tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }
    """
    with pytest.raises(MlirError, match="padding by -4 and 0 of the extent 3"):
        imported(text)


def test_elements(static):
    want = np.add.outer(10 * np.arange(3), np.arange(4))
    np.testing.assert_array_equal(static(function="generate")[0], want)
    a = np.array([1, 2, 3], "f4")
    np.testing.assert_array_equal(static(a, function="from_elements")[0], [[3, -3], [7.5, 3]])
    (result,) = static(a, np.float32(9), np.int64(1), function="insert")
    np.testing.assert_array_equal(result, [1, 9, 3])
    np.testing.assert_array_equal(static(np.float32(2), function="splat")[0], np.full((2, 2), 2))
    np.testing.assert_array_equal(static(function="empty")[0], [0, 0])


DYNAMIC = """
func.func @reshape(%a: tensor<?x?x4xf32>) -> tensor<?x2x2xf32> {
  %0 = tensor.collapse_shape %a [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %0, %c0 : tensor<?x4xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [%n, 2, 2]
    : tensor<?x4xf32> into tensor<?x2x2xf32>
  return %1 : tensor<?x2x2xf32>
}
func.func @middle(%a: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %m = arith.subi %n, %c2 : index
  %0 = tensor.extract_slice %a[%c1] [%m] [1] : tensor<?xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @join(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = tensor.concat dim(0) %a, %b : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
func.func @widen(%a: tensor<?x3xf32>) -> tensor<?x5xf32> {
  %v = arith.constant 4.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x3xf32>
  %0 = tensor.pad %a low[%n, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<?x3xf32> to tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}
func.func @moved(%a: tensor<?x3xf32>) -> (tensor<?x2xf32>, tensor<?x3xf32>) {
  %v = arith.constant 0.0 : f32
  %0 = tensor.pad %a low[-1, -2] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<?x3xf32> to tensor<?x2xf32>
  %1 = tensor.pad %a low[1, 0] high[-3, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<?x3xf32> to tensor<?x3xf32>
  return %0, %1 : tensor<?x2xf32>, tensor<?x3xf32>
}
func.func @without_first(%a: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m1 = arith.constant -1 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %first = arith.minsi %n, %c1 : index
  %rest = arith.subi %n, %first : index
  %m = arith.maxsi %rest, %c0 : index
  %0 = tensor.extract_slice %a[%first] [%m] [1] : tensor<?xf32> to tensor<?xf32>
  %last = arith.addi %n, %m1 : index
  %below = arith.cmpi slt, %last, %c0 : index
  %end = arith.select %below, %m1, %last : index
  %p = arith.maxsi %end, %c0 : index
  %1 = tensor.extract_slice %a[0] [%p] [1] : tensor<?xf32> to tensor<?xf32>
  %2 = arith.subf %0, %1 : tensor<?xf32>
  return %0, %2 : tensor<?xf32>, tensor<?xf32>
}
func.func @upto_count(%a: tensor<?xi64>) -> (tensor<?xi64>, tensor<?xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = tensor.extract %a[%c0] : tensor<?xi64>
  %n = arith.index_cast %k : i64 to index
  %more = arith.addi %n, %c1 : index
  %0 = tensor.extract_slice %a[0] [%n] [1] : tensor<?xi64> to tensor<?xi64>
  %1 = tensor.pad %0 low[0] high[1] {
  ^bb0(%i: index):
    %v = arith.constant 7 : i64
    tensor.yield %v : i64
  } : tensor<?xi64> to tensor<?xi64>
  %b = tensor.extract_slice %a[1] [%n] [1] : tensor<?xi64> to tensor<?xi64>
  %2 = arith.addi %0, %b : tensor<?xi64>
  return %1, %2 : tensor<?xi64>, tensor<?xi64>
}
func.func @put(%a: tensor<3xf32>, %b: tensor<?xf32>, %at: index) -> tensor<?xf32> {
  %0 = tensor.insert_slice %a into %b[%at] [3] [1] : tensor<3xf32> into tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @take(%a: tensor<?xf32>, %at: index) -> tensor<3xf32> {
  %0 = tensor.extract_slice %a[%at] [3] [1] : tensor<?xf32> to tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func @count(%a: tensor<?x?xf32>) -> (i32, tensor<2xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a, %c0 : tensor<?x?xf32>
  %m = tensor.dim %a, %c1 : tensor<?x?xf32>
  %p = arith.muli %n, %m : index
  %0 = arith.index_cast %p : index to i32
  %x = arith.index_cast %n : index to i64
  %y = arith.index_cast %m : index to i64
  %1 = tensor.from_elements %x, %y : tensor<2xi64>
  return %0, %1 : i32, tensor<2xi64>
}
func.func @fixed(%a: tensor<?xf32>) -> tensor<4xf32> {
  %0 = tensor.cast %a : tensor<?xf32> to tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @upto(%n: index) -> tensor<?xindex> {
  %0 = tensor.generate %n {
  ^bb0(%i: index):
    tensor.yield %i : index
  } : tensor<?xindex>
  return %0 : tensor<?xindex>
}
"""


@pytest.fixture(scope="module")
def dynamic(built):
    return built(DYNAMIC)


def test_dynamic_extents(dynamic):
    a = np.arange(24, dtype="f4")
    (result,) = dynamic(a.reshape(2, 3, 4), function="reshape")
    np.testing.assert_array_equal(result, a.reshape(6, 2, 2))
    np.testing.assert_array_equal(dynamic(a, function="middle")[0], a[1:-1])
    b, c = a[:6].reshape(2, 3), a[6:12].reshape(2, 3)
    np.testing.assert_array_equal(dynamic(b, c, function="join")[0], np.vstack([b, c]))
    want = np.full((4, 5), 4, "f4")
    want[2:, 1:4] = b
    np.testing.assert_array_equal(dynamic(b, function="widen")[0], want)
    count, extents = dynamic(b, function="count")
    assert count == 6
    np.testing.assert_array_equal(extents, [2, 3])
    np.testing.assert_array_equal(dynamic(np.int64(5), function="upto")[0], np.arange(5))


def test_padding_below_zero_crops_extents_of_a_call(dynamic):
    for rows in (3, 5):
        a = np.arange(3.0 * rows, dtype="f4").reshape(rows, 3)
        shifted, cropped = dynamic(a, function="moved")
        np.testing.assert_array_equal(shifted, np.pad(a[1:, 2:], [(0, 1), (0, 1)]))
        np.testing.assert_array_equal(cropped, np.pad(a, [(1, 0), (0, 0)])[: rows - 2])
    with pytest.raises(CallError, match=r"moved: result1 axis 0 would have extent -1 \(.* - 2\)"):
        dynamic(a[:1], function="moved")


def test_a_result_may_be_shorter_than_an_argument_and_never_below_zero(dynamic):
    results = dynamic.built["without_first"].signature.results
    assert [operand.shape for operand in results] == [("max(0, (arg0_0 - 1))",)] * 2
    for count in (5, 1, 0):
        a = np.arange(count, dtype="f4") ** 2
        rest, differences = dynamic(a, function="without_first")
        np.testing.assert_array_equal(rest, a[1:])
        np.testing.assert_array_equal(differences, np.diff(a))


def test_extents_that_data_says_are_known_before_what_has_them(dynamic):
    a = np.array([3, 10, 20, 30, 40])
    results = dynamic(a, function="upto_count")
    np.testing.assert_array_equal(results[0], [3, 10, 20, 7])
    np.testing.assert_array_equal(results[1], a[:3] + a[1:4])


def test_places_that_only_data_decides_stay_inside(dynamic):
    a, b = np.arange(3, dtype="f4"), np.arange(10, 18, dtype="f4")
    want = b.copy()
    want[4:7] = a
    np.testing.assert_array_equal(dynamic(a, b, np.int64(4), function="put")[0], want)
    np.testing.assert_array_equal(dynamic(b, np.int64(2), function="take")[0], b[2:5])
    # Beyond the end nothing is read or written; what MLIR leaves undefined is the nearest.
    np.testing.assert_array_equal(dynamic(b, np.int64(2**62), function="take")[0], b[[-1] * 3])
    np.testing.assert_array_equal(dynamic(b, np.int64(-(2**62)), function="take")[0], b[[0] * 3])
    (result,) = dynamic(a, b, np.int64(2**63 - 1), function="put")
    np.testing.assert_array_equal(result, b)


def test_a_cast_to_an_extent_is_checked(dynamic):
    a = np.arange(4, dtype="f4")
    np.testing.assert_array_equal(dynamic(a, function="fixed")[0], a)
    with pytest.raises(Exception, match=r"(?i)match|shape|expect"):
        dynamic(np.arange(5, dtype="f4"), function="fixed")


def test_slices_beyond_the_end_are_refused(imported):
    text = """
    func.func @f(%a: tensor<6xf32>, %b: tensor<4xf32>) -> tensor<6xf32> {
      %0 = tensor.insert_slice %b into %a[3] [4] [1] : tensor<4xf32> into tensor<6xf32>
      return %0 : tensor<6xf32>
    }
    """
    with pytest.raises(MlirError):
        imported(text)


def test_a_reshape_to_extents_that_elements_say(run):
    """As PyTorch's exporter says shapes of any batch."""
    text = """
    func.func @f(%x: tensor<?x6xf32>) -> tensor<?x2x3xf32> {
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : i64
      %c3 = arith.constant 3 : i64
      %n = tensor.dim %x, %c0 : tensor<?x6xf32>
      %rows = arith.index_cast %n : index to i64
      %shape = tensor.from_elements %rows, %c2, %c3 : tensor<3xi64>
      %0 = tensor.reshape %x(%shape) : (tensor<?x6xf32>, tensor<3xi64>) -> tensor<?x2x3xf32>
      return %0 : tensor<?x2x3xf32>
    }
    """
    x = np.arange(30, dtype="f4").reshape(5, 6)
    np.testing.assert_array_equal(run(text, x)[0], x.reshape(5, 2, 3))


def test_a_reshape_to_a_shape_from_data_is_refused(imported):
    text = """
    func.func @f(%x: tensor<?x6xf32>, %shape: tensor<2xi64>) -> tensor<?x3xf32> {
      %0 = tensor.reshape %x(%shape) : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<?x3xf32>
      return %0 : tensor<?x3xf32>
    }
    """
    with pytest.raises(MlirError, match=r"tensor\.from_elements of it is supported"):
        imported(text)
