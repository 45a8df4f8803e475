"""Results of loops that nothing uses are not computed."""

import numpy as np
import pytest

TEXT = """
func.func @f(%x: tensor<3x40xf32>) -> {type} {{
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %e = tensor.empty() : tensor<3xf32>
  %f = tensor.empty() : tensor<3xi64>
  %m = linalg.fill ins(%low : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %p = linalg.fill ins(%none : i64) outs(%f : tensor<3xi64>) -> tensor<3xi64>
  %0:2 = linalg.generic {{
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                       affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<3x40xf32>) outs(%m, %p : tensor<3xf32>, tensor<3xi64>) {{
  ^bb0(%a: f32, %most: f32, %place: i64):
    %j = linalg.index 1 : index
    %k = arith.index_cast %j : index to i64
    %1 = arith.maximumf %a, %most : f32
    %2 = arith.cmpf ogt, %a, %most : f32
    %3 = arith.select %2, %k, %place : i64
    linalg.yield %1, %3 : f32, i64
  }} -> (tensor<3xf32>, tensor<3xi64>)
  %wide = tensor.expand_shape %0#1 [[0, 1]] output_shape [3, 1] : tensor<3xi64> into tensor<3x1xi64>
  return {value} : {type}
}}
"""


@pytest.mark.parametrize(
    ("value", "kind", "results"),
    [
        ("%0#0", "tensor<3xf32>", 1),
        ("%0#1", "tensor<3xi64>", 2),  # which is computed of the largest so far
        ("%wide", "tensor<3x1xi64>", 2),
    ],
)
def test_loops_compute_what_is_used(built, value, kind, results):
    program = built(TEXT.format(type=kind, value=value))
    (loops,) = [f for v, f in program.program.module.functions.items() if "generic" in v.name_hint]
    assert len(loops.params) == 1 + results
    x = np.random.default_rng(0).standard_normal((3, 40)).astype("float32")
    want = x.max(axis=1) if value == "%0#0" else x.argmax(axis=1)
    np.testing.assert_array_equal(program(x)[0].reshape(-1), want)
