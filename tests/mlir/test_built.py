"""What programs are rewritten to, and loops that tests of the importer have not."""

import numpy as np
import pytest

from tvm_iree_ext.programs.program_build import build_program

# Ordered as JAX orders floats, NaN last and -0 equal to 0, by integers of their bits.
BY_BITS = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xi32>) -> (tensor<?xf32>, tensor<?xi32>) {
  %most = arith.constant 2147483647 : i32
  %zero = arith.constant 0 : i32
  %0:2 = iree_linalg_ext.sort dimension(0) outs(%a, %b : tensor<?xf32>, tensor<?xi32>) {
  ^bb0(%l: f32, %r: f32, %x: i32, %y: i32):
    %1 = arith.bitcast %l : f32 to i32
    %2 = arith.cmpi slt, %1, %zero : i32
    %3 = arith.subi %most, %1 : i32
    %4 = arith.select %2, %3, %1 : i32
    %5 = arith.bitcast %r : f32 to i32
    %6 = arith.cmpi slt, %5, %zero : i32
    %7 = arith.subi %most, %5 : i32
    %8 = arith.select %6, %7, %5 : i32
    %9 = arith.cmpi slt, %4, %8 : i32
    iree_linalg_ext.yield %9 : i1
  } -> tensor<?xf32>, tensor<?xi32>
  return %0#0, %0#1 : tensor<?xf32>, tensor<?xi32>
}
"""


def test_a_sort_by_something_of_each_element(imported, tmp_path):
    built = build_program(imported(BY_BITS), folder=tmp_path / "built")
    a = np.random.default_rng(0).normal(size=200).astype("float32")
    a[[3, 77]] = np.nan
    values, places = built(a, np.arange(200, dtype="int32"))
    order = np.argsort(a, kind="stable")
    np.testing.assert_array_equal(values, a[order])
    np.testing.assert_array_equal(places, order)


ARG_MAX = """
#in = affine_map<(d0, d1) -> ({order})>
#out = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<?xf32>) {{
  %c = arith.constant {axis} : index
  %n = tensor.dim %x, %c : tensor<?x?xf32>
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %f0 = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %i = tensor.empty(%n) : tensor<?xi64>
  %a = linalg.fill ins(%low : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.fill ins(%zero : i64) outs(%i : tensor<?xi64>) -> tensor<?xi64>
  %s = linalg.fill ins(%f0 : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r:3 = linalg.generic {{indexing_maps = [#in, #out, #out, #out],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<?x?xf32>) outs(%a, %b, %s : tensor<?xf32>, tensor<?xi64>, tensor<?xf32>) {{
  ^bb0(%v: f32, %best: f32, %place: i64, %sum: f32):
    %at = linalg.index 1 : index
    %k = arith.index_cast %at : index to i64
    %wins = arith.cmpf ogt, %v, %best : f32
    %0 = arith.select %wins, %v, %best : f32
    %1 = arith.select %wins, %k, %place : i64
    %2 = arith.addf %sum, %0 : f32
    linalg.yield %0, %1, %2 : f32, i64, f32
  }} -> (tensor<?xf32>, tensor<?xi64>, tensor<?xf32>)
  return %r#0, %r#1, %r#2 : tensor<?xf32>, tensor<?xi64>, tensor<?xf32>
}}
"""


@pytest.mark.parametrize("axis", [0, 1])
def test_a_reduction_with_several_results(imported, axis, tmp_path):
    """The maximum so far, its place, and the sum of the maxima so far."""
    order = "d0, d1" if axis == 1 else "d1, d0"
    text = ARG_MAX.format(order=order, axis=1 - axis)
    built = build_program(imported(text), folder=tmp_path / "built")
    for shape in [(3, 5), (70, 40), (1, 130), (130, 1)]:
        x = np.random.default_rng(0).normal(size=shape).astype("float32")
        best, place, total = built(x)
        np.testing.assert_array_equal(best, x.max(axis))
        np.testing.assert_array_equal(place, x.argmax(axis))
        running = np.maximum.accumulate(x, axis).sum(axis)
        np.testing.assert_allclose(total, running, rtol=1e-4, atol=1e-4)
