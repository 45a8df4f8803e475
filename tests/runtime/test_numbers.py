"""Numbers of Python's for tensors of rank 0 of a program, on the CPU and on a simulated GPU."""

import numpy as np
import pytest

import tvm_iree_ext as ext
from tvm_iree_ext.base.errors import CallError

TEXT = """
func.func @main(%s: f32, %n: i32, %b: i1, %x: tensor<3xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  %m = arith.sitofp %n : i32 to f32
  %t = arith.addf %m, %s : f32
  %0 = linalg.generic {
      indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]
    } ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = arith.mulf %a, %t : f32
    %z = arith.select %b, %y, %a : f32
    linalg.yield %z : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
X = np.arange(3, dtype="float32")


@pytest.fixture(scope="module")
def program():
    pytest.importorskip("iree.compiler")
    return ext.build(ext.mlir.import_program(TEXT))


@pytest.mark.parametrize(
    "numbers",
    [
        (2.5, 3, True),
        (np.float32(2.5), np.int32(3), np.bool_(True)),
        (np.array(2.5, "f4"), 3, True),
    ],
)
def test_a_number_is_a_tensor_of_rank_0(program, numbers):
    np.testing.assert_array_equal(program(*numbers, X), 5.5 * X)
    np.testing.assert_array_equal(program(numbers[0], numbers[1], False, X), X)


def test_results_are_of_the_kind_of_the_first_array_that_has_axes(program):
    torch = pytest.importorskip("torch")
    came = program(2.5, 3, True, torch.from_numpy(X))
    assert isinstance(came, torch.Tensor)
    assert isinstance(program(2.5, 3, True, X), np.ndarray)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (("2", 3, True), "arg0 is a str; expected an array"),
        ((2.5, 3.0, True), "arg1 is 3.0, a float; expected a number for int32"),
        ((2.5, 2**40, True), "arg1 is 1099511627776; int32 holds"),
        ((2.5, 3, 1), "arg2 is 1, a int; expected a number for bool"),
        ((True, 3, True), "arg0 is True, a bool; expected a number for float32"),
        ((np.float64(2.5), 3, True), "arg0 is float64; expected float32"),
    ],
)
def test_says_which_number_does_not_fit(program, numbers, says):
    with pytest.raises(CallError, match=says):
        program(*numbers, X)


def test_a_tensor_with_axes_is_no_number(program):
    with pytest.raises(CallError, match="arg3 is a float; expected an array"):
        program(2.5, 3, True, 1.0)


def test_numbers_alone_give_arrays_of_numpy():
    text = "func.func @main(%a: f32, %b: f32) -> f32 {\n  %c = arith.addf %a, %b : f32\n"
    program = ext.build(ext.mlir.import_program(f"{text}  return %c : f32\n}}"))
    came = program(1.0, 2.5)
    assert isinstance(came, np.ndarray)
    assert came == 3.5


def test_complex_numbers():
    text = """
func.func @main(%a: complex<f32>, %x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %e = tensor.empty() : tensor<2xcomplex<f32>>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
      iterator_types = ["parallel"]
    } ins(%x : tensor<2xcomplex<f32>>) outs(%e : tensor<2xcomplex<f32>>) {
  ^bb0(%b: complex<f32>, %o: complex<f32>):
    %y = complex.mul %a, %b : complex<f32>
    linalg.yield %y : complex<f32>
  } -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
"""
    x = np.array([1, 2j], "complex64")
    program = ext.build(ext.mlir.import_program(text))
    np.testing.assert_allclose(program(1 + 2j, x), (1 + 2j) * x)
    np.testing.assert_allclose(program(2, x), 2 * x)
