import numpy as np
import pytest
from places import DATA

from tvm_iree_ext.base.errors import CallError, MlirError

FOLDER = DATA / "ir"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.mlir"))


@pytest.mark.costly
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_front_ends_compute_what_these_computed(built, name):
    program = built(str(FOLDER / f"{name}.mlir"))
    with np.load(FOLDER / f"{name}.npz") as recorded:
        inputs = [recorded[f"in{i}"] for i in range(sum(k.startswith("in") for k in recorded))]
        wanted = [recorded[f"out{i}"] for i in range(sum(k.startswith("out") for k in recorded))]
    results = program(*inputs, function="main")
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        assert result.dtype == want.dtype
        rtol, atol = (1e-2, 2e-3) if want.dtype == np.float16 else (1e-4, 2e-5)
        np.testing.assert_allclose(result, want, rtol=rtol, atol=atol)


def test_everything_unsupported_is_listed_at_once(imported):
    text = """
    func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = scf.execute_region -> tensor<4xf32> {
        scf.yield %a : tensor<4xf32>
      }
      %1 = arith.addf %0, %a : tensor<4xf32>
      %p = util.global.address @g : !util.ptr<tensor<4xf32>>
      util.global.store.indirect %1, %p : tensor<4xf32> -> !util.ptr<tensor<4xf32>>
      return %1 : tensor<4xf32>
    }
    util.global private mutable @g : tensor<4xf32>
    """
    with pytest.raises(MlirError) as caught:
        imported(text)
    assert str(caught.value).splitlines() == [
        "3:12: scf.execute_region: is not supported; instead: its operations in its place",
        "7:12: util.global.address: is not supported; the nearest that is: util.global.load",
        "8:7: util.global.store.indirect: is not supported; instead: util.global.store",
    ]


AGREEING = """
func.func @add(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = arith.addf %a, %b : tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func @rows(%a: tensor<?x?xf32>, %b: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %a, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %0 = linalg.broadcast ins(%b : tensor<?xf32>) outs(%e : tensor<?x?xf32>) dimensions = [0]
  %1 = arith.addf %0, %a : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
func.func @product(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>)
    -> tensor<?x?xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func @joined(%a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %c: tensor<?x2xf32>)
    -> tensor<?x2xf32> {
  %0 = tensor.concat dim(0) %a, %b : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %1 = arith.addf %0, %c : tensor<?x2xf32>
  return %1 : tensor<?x2xf32>
}
func.func @flat(%a: tensor<?x?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %0 = tensor.collapse_shape %a [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %1 = arith.addf %0, %b : tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func @both_flat(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?xf32> {
  %0 = tensor.collapse_shape %a [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %1 = tensor.collapse_shape %b [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
  %2 = arith.addf %0, %1 : tensor<?xf32>
  return %2 : tensor<?xf32>
}
func.func @known(%a: tensor<?x?xf32>) -> tensor<3x?xf32> {
  %0 = tensor.cast %a : tensor<?x?xf32> to tensor<3x?xf32>
  %1 = arith.addf %0, %0 : tensor<3x?xf32>
  return %1 : tensor<3x?xf32>
}
func.func @sorted(%a: tensor<?xf32>, %b: tensor<?xi32>) -> tensor<?xi32> {
  %0:2 = iree_linalg_ext.sort dimension(0) outs(%a, %b : tensor<?xf32>, tensor<?xi32>) {
  ^bb0(%l: f32, %r: f32, %x: i32, %y: i32):
    %1 = arith.cmpf olt, %l, %r : f32
    iree_linalg_ext.yield %1 : i1
  } -> tensor<?xf32>, tensor<?xi32>
  return %0#1 : tensor<?xi32>
}
"""


@pytest.fixture(scope="module")
def agreeing(built):
    return built(AGREEING)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("function", "fitting", "wrong", "said"),
    [
        ("add", ["3x4", "3x4"], ["3x4", "3x5"], "arg1 axis 1 .* 5; expected 4 .*arg0 axis 1"),
        ("rows", ["3x4", "4"], ["3x4", "3"], "arg1 axis 0 has extent 3; expected 4"),
        ("product", ["3x4", "4x5", "3x5"], ["3x4", "5x5", "3x5"], "arg1 axis 0 .* 5; expected 4"),
        ("product", ["1x1", "1x1", "1x1"], ["3x4", "4x5", "3x6"], "arg2 axis 1 .* 6; expected 5"),
        ("joined", ["1x2", "3x2", "4x2"], ["1x2", "3x2", "5x2"], r"arg2 axis 0 .* 4 \(\(arg0_0 \+"),
        ("flat", ["2x3", "6"], ["2x3", "5"], r"arg1 axis 0 .* 5; expected 6 \(\(arg0_0 \* arg0_1"),
        ("both_flat", ["2x6", "3x4"], ["2x6", "2x4"], r"within .* 8; expected 12, of \[arg0_0 \*"),
        ("known", ["3x2"], ["4x2"], "arg0 axis 0 has extent 4; expected 3"),
        ("sorted", ["3", "3xi4"], ["3", "4xi4"], "arg1 axis 0 has extent 4; expected 3"),
    ],
)
def test_dynamic_extents_that_must_agree_are_checked(agreeing, function, fitting, wrong, said):
    def arrays(shapes):
        for shape in shapes:
            extents = [int(one) for one in shape.removesuffix("xi4").split("x")]
            yield np.ones(extents, "i4" if shape.endswith("i4") else "f4")

    assert np.all(agreeing(*arrays(fitting), function=function)[0] > 0)
    with pytest.raises(CallError, match=f"^{function}: .*{said}"):
        agreeing(*arrays(wrong), function=function)


def test_calls_are_imported_in_their_place(run):
    text = """
    func.func private @two(%a: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
      %0 = arith.addi %a, %a : tensor<3xi32>
      %1 = arith.muli %a, %a : tensor<3xi32>
      return %1, %0 : tensor<3xi32>, tensor<3xi32>
    }
    func.func @f(%a: tensor<3xi32>) -> tensor<3xi32> {
      %0:2 = call @two(%a) : (tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
      %1:2 = call @two(%0#1) : (tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
      %2 = arith.subi %1#0, %0#0 : tensor<3xi32>
      return %2 : tensor<3xi32>
    }
    """
    (result,) = run(text, np.array([1, -2, 3], "i4"))
    np.testing.assert_array_equal(result, [3, 12, 27])


def test_a_function_that_calls_itself_is_refused(imported):
    text = """
    func.func @f(%a: tensor<3xi32>) -> tensor<3xi32> {
      %0 = call @f(%a) : (tensor<3xi32>) -> tensor<3xi32>
      return %0 : tensor<3xi32>
    }
    """
    with pytest.raises(MlirError, match="calls @f, which calls itself"):
        imported(text)


def test_loops_over_nothing_leave_what_there_was(built):
    text = """
    func.func @f(%x: tensor<0x4xf32>) -> (tensor<4xf32>, tensor<0x2x2xf32>) {
      %start = arith.constant dense<1.5> : tensor<4xf32>
      %0 = linalg.reduce ins(%x : tensor<0x4xf32>) outs(%start : tensor<4xf32>) dimensions = [0]
        (%in: f32, %init: f32) {
          %1 = arith.addf %in, %init : f32
          linalg.yield %1 : f32
        }
      %2 = math.exp %x : tensor<0x4xf32>
      %3 = tensor.expand_shape %2 [[0], [1, 2]] output_shape [0, 2, 2]
          : tensor<0x4xf32> into tensor<0x2x2xf32>
      return %0, %3 : tensor<4xf32>, tensor<0x2x2xf32>
    }
    """
    sums, none = built(text)(np.zeros((0, 4), "f4"))
    assert sums.tolist() == [1.5] * 4
    assert none.shape == (0, 2, 2)


def test_asserts_of_a_front_end_are_passed_over(built):
    text = """
    func.func @f(%table: tensor<4xf32>, %at: tensor<3xi64>) -> tensor<3xf32> {
      %0 = tensor.empty() : tensor<3xf32>
      %four = arith.constant 4 : i64
      %1 = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%at : tensor<3xi64>) outs(%0 : tensor<3xf32>) {
      ^bb0(%in: i64, %out: f32):
        %2 = arith.cmpi slt, %in, %four : i64
        cf.assert %2, "index must be smaller than dim size"
        %3 = arith.index_cast %in : i64 to index
        %4 = tensor.extract %table[%3] : tensor<4xf32>
        linalg.yield %4 : f32
      } -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }
    """
    (found,) = built(text)(np.arange(4, dtype="f4") * 2, np.array([3, 0, 1]))
    assert found.tolist() == [6, 0, 2]


def test_one_element_gets_axes_and_loses_them(built):
    text = """
    func.func @f(%x: tensor<f32>) -> (tensor<1x1xf32>, tensor<f32>) {
      %0 = tensor.expand_shape %x [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
      %1 = tensor.collapse_shape %0 [] : tensor<1x1xf32> into tensor<f32>
      return %0, %1 : tensor<1x1xf32>, tensor<f32>
    }
    """
    expanded, collapsed = built(text)(np.float32(3))
    assert expanded.tolist() == [[3]]
    assert collapsed.tolist() == 3


def test_a_convolution_of_a_larger_image_than_its_result_needs(built):
    text = """
    func.func @f(%x: tensor<1x5x5x1xf32>, %w: tensor<2x2x1x1xf32>) -> tensor<1x3x3x1xf32> {
      %zero = arith.constant dense<0.0> : tensor<1x3x3x1xf32>
      %0 = linalg.conv_2d_nhwc_hwcf
          {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
          ins(%x, %w : tensor<1x5x5x1xf32>, tensor<2x2x1x1xf32>)
          outs(%zero : tensor<1x3x3x1xf32>) -> tensor<1x3x3x1xf32>
      return %0 : tensor<1x3x3x1xf32>
    }
    """
    x = np.arange(25, dtype="f4").reshape(1, 5, 5, 1)
    (found,) = built(text)(x, np.ones((2, 2, 1, 1), "f4"))
    image = x[0, :, :, 0]
    want = image[:3, :3] + image[1:4, :3] + image[:3, 1:4] + image[1:4, 1:4]
    np.testing.assert_array_equal(found[0, :, :, 0], want)
